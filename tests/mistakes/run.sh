#!/bin/bash
# run.sh BUILD - mistakes of first protocols with messages: each report names the protocol. In a build without
# sanitizers, which would report first.
. "$(dirname "$0")/../system/common.sh"
xk=$build/tests/xk_mistake
udptest=$build/tests/udptest_mistake
net=tests/mistakes/net.dot
graph=tests/mistakes/mistake.dot

# made MISTAKE PATTERN: the server makes it, in a simulated network and in udptest with --trace.
made() {
	local how="host \"server\", protocol \"mistake\" $2"
	expect "$1 in xk run" 134 "$how" "$xk" run "$net" --link sim --quiet --set "server.mistake.makes=$1"
	check "$1 in xk run: no count that is too large" "$(cat "$work/err")" none '42949'
	expect "$1 in udptest --trace" 134 "$how" "$udptest" --graph "$graph" --link sim --mode ipp --rounds 20 --trace \
		--set "server:mistake.makes=$1"
}

# untraced MISTAKE PATTERN: in udptest, which does not track owners.
untraced() {
	expect "$1 in udptest" 134 "$2" "$udptest" --graph "$graph" --link sim --mode ipp --rounds 20 \
		--set "server:mistake.makes=$1"
}

# lost COMMAND...: messages that are never freed are reported with their protocol, and counted at the end.
lost() {
	local said
	said=$(timeout 60 "$@" 2>&1)
	check "never_freed in ${1##*/}" "$said" [ $? -eq 1 ]
	check "never_freed in ${1##*/}: it is named" "$said" \
		grep -q 'host "server", protocol "mistake" was handed 1 message that it has neither passed on nor freed, one of 1 bytes' <<<"$said"
	check "never_freed in ${1##*/}: it is counted" "$said" grep -q ': 1 buffers have not come back' <<<"$said"
}

none() {
	! grep -q "$1" "$work/err"
}

made freed_and_pushed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in mistake_push'
made dropped_and_pushed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in xk_drop'
made kept_and_pushed 'pushes to "udp" a message that it gave away before: "port" had it last, and has given it up'
made kept_and_freed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in mistake_push'
made freed_twice 'gives up a message that it has given up already.*it was freed in mistake_pop'
made freed_and_delivered 'delivers to "udptest" a message that it has freed or dropped itself.*it was freed in mistake_pop'
made delivered_twice 'delivers to "udptest" a message that it gave away before'
lost "$xk" run "$net" --link sim --quiet --set server.mistake.makes=never_freed
lost "$udptest" --graph "$graph" --link sim --mode ipp --rounds 20 --trace --set server:mistake.makes=never_freed

untraced freed_and_pushed 'crossing "udptest" -> "mistake" -> "udp".*it was freed in mistake_push'
untraced dropped_and_pushed 'protocol "mistake" puts a header on a message that it has given up already'
untraced kept_and_freed 'it was freed in mistake_push'
untraced freed_twice 'it was freed in mistake_pop'
untraced freed_and_delivered 'it was freed in mistake_pop'
untraced delivered_twice 'a message that was given up already, crossing "mistake" -> "udptest" upward'

expect "a list without its end" 1 'protocol "mistake": its list `drops` does not end with NULL' "$build/tests/xk_unended" protocols
expect "no mistake" 0 '' "$xk" run "$net" --link sim --quiet
