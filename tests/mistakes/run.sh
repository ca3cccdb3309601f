#!/bin/bash
# run.sh BUILD - mistakes of first protocols with messages, waits and locks: each report names the protocol. Uses a build
# without sanitizers, which would report first.
. "$(dirname "$0")/../system/common.sh"
xk=$build/tests/xk_mistake
udptest=$build/tests/udptest_mistake
net=tests/mistakes/net.dot
graph=tests/mistakes/mistake.dot

# made MISTAKE PATTERN: the server makes the mistake, in a simulated network and in udptest with --trace.
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

# lost COMMAND...: checks that messages never freed are reported with their protocol and counted at the end.
lost() {
	local said
	said=$(timeout 60 "$@" 2>&1)
	check "never_freed in ${1##*/}" "$said" [ $? -eq 1 ]
	check "never_freed in ${1##*/}: it is named" "$said" \
		grep -q 'host "server", protocol "mistake" was handed 1 message that it has neither passed on nor freed, one of 1 bytes' <<<"$said"
	check "never_freed in ${1##*/}: it is counted" "$said" grep -q ': 1 buffers were not returned' <<<"$said"
}

none() {
	! grep -q "$1" "$work/err"
}

made freed_and_pushed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in mistake_push'
made dropped_and_pushed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in xk_drop'
made kept_and_pushed 'pushes to "udp" a message that it no longer owns: "port" had it last, and has freed it'
made kept_and_freed 'pushes to "udp" a message that it has freed or dropped itself.*it was freed in mistake_push'
made freed_twice 'frees a message that it has already freed.*it was freed in mistake_pop'
made freed_and_delivered 'delivers to "udptest" a message that it has freed or dropped itself.*it was freed in mistake_pop'
made popped_too_much 'has taken more bytes off a message than there were'
made delivered_twice 'delivers to "udptest" a message that it no longer owns'
lost "$xk" run "$net" --link sim --quiet --set server.mistake.makes=never_freed
lost "$udptest" --graph "$graph" --link sim --mode ipp --rounds 20 --trace --set server:mistake.makes=never_freed

expect "keeps in xk run" 0 'host "server", protocol "mistake" counts 3 buffers as kept at its end [(]xk_keep[)]' \
	"$xk" run "$net" --link sim --quiet --set server.mistake.makes=keeps

untraced freed_and_pushed 'crossing "udptest" -> "mistake" -> "udp".*it was freed in mistake_push'
untraced dropped_and_pushed 'puts a header on a message that was already freed.*: "mistake" had it last'
untraced kept_and_freed 'it was freed in mistake_push'
untraced freed_twice 'it was freed in mistake_pop'
untraced freed_and_delivered 'it was freed in mistake_pop'
untraced delivered_twice 'a message that was already freed, crossing "mistake" -> "udptest" upward'

# ---- waiting, and locks ------------------------------------------------------------------------------------------------

# waits MISTAKE STATUS PATTERN: both hosts make the mistake, in a simulated network.
waits() {
	expect "$1 in xk run" "$2" "$3" "$xk" run "$net" --link sim --quiet --until 2s --watchdog 500ms \
		--set "server.mistake.makes=$1" --set "client.mistake.makes=$1"
}

waits waits_forever 1 'host "server", protocol "mistake": 1 arriving message waits in mistake_pop, for 2 s, without a timeout: demux and pop must not wait'
check "waits_forever in xk run: it is in the table" "$(cat "$work/out" "$work/err")" \
	grep -q '^mistake.messages_parked  *1  *1$' "$work/err"
waits waits_long 0 'host "server", protocol "mistake": 1 arriving message waits in mistake_pop, for 2 s, with a timeout'
waits refuses_to_end 1 'watchdog: host "server", protocol "mistake" has computed for 0.5 s.*in its operation pop [(]mistake_pop'
waits unset_semaphore 134 'host "server", protocol "mistake" waits, crossing "udp" -> "mistake" upward.*; the semaphore was never initialized'
waits static_semaphore 134 'host "client", protocol "mistake" waits.*; the semaphore of host "server", protocol "mistake" is another host.s'
waits set_again 134 'the semaphore of host "server", protocol "mistake" was initialized again while shepherds waited on it'
waits waits_in_init 134 'the semaphore of host "server", protocol "mistake" is waited for in an init, before anything runs'
waits sleeps 1 'watchdog: host "server", protocol "mistake" has been blocked in a system call for 0.5 s, crossing "udp" -> "mistake" upward'
waits locked_wait 134 'host "server", protocol "mistake" waits, crossing "udp" -> "mistake" upward.*, and holds a lock'
waits locked_push 134 'a lock is held for too long: host "server"'
waits locked_end 134 'a lock is held for too long: host "server": a message has ended and left a lock taken'

# On threads of the operating system, waits are reported when the host stops, and by `xk run --json`; a host that sleeps
# in a pop is reported while it sleeps, and a second signal ends it.
for mode in ipp regular; do
	expect "waits_forever in udptest, mode $mode" 1 \
		'host "server", protocol "mistake": 1 arriving message waits in mistake_pop, for [0-9.]* s, without a timeout' \
		"$udptest" --graph "$graph" --link memory --mode "$mode" --rounds 20 --set server:mistake.makes=waits_forever \
		--set udptest.timeout=20ms
	spawn "$mode" "$udptest" --graph "$graph" --link memory --mode "$mode" --rounds 100 --watchdog 300ms \
		--set server:mistake.makes=sleeps --set udptest.timeout=60s
	within 60 grep -q watchdog "$work/$mode.err"
	check "sleeps in udptest, mode $mode: it is named" "$(tail -n 2 "$work/$mode.err")" \
		grep -q 'watchdog: host "server", protocol "mistake" has been blocked in a system call for 0.3 s, crossing "udp" -> "mistake" upward' \
		"$work/$mode.err"
	ended_by_two "sleeps in udptest, mode $mode" TERM 143
done

# ---- crashes, in a simulated network and on threads of the operating system ------------------------------------------

# crashes MISTAKE WHERE: checks that the crash report names the protocol and the place.
crashes() {
	expect "$1 in xk run" 139 "crash: host \"server\", protocol \"mistake\" has used an invalid address.*$2" \
		"$xk" run "$net" --link sim --quiet --set "server.mistake.makes=$1"
}

crashes null_session 'in its operation push [(]mistake_push'
crashes pushes_to_itself 'in its operation push [(]mistake_push < mistake_push'
crashes null_message 'in its operation pop [(]mistake_pop'
expect "null_message in udptest" 139 'crash: host "server", protocol "mistake" has used an invalid address' \
	"$udptest" --graph "$graph" --link memory --mode ipp --rounds 20 --set server:mistake.makes=null_message

for list in drops settings lowers fields values; do
	expect "a list without its end: $list" 1 'protocol "mistake": its list `'$list'` does not end with ' \
		"$build/tests/xk_unended_$list" protocols
done
expect "no open" 1 'protocol "mistake": it offers XK_ASYNC, but its `ops` have no `open`' "$build/tests/xk_lacks_open" protocols
expect "no demux" 1 'protocol "mistake": it has lowers, but its `ops` have neither `demux` nor `call_demux`' \
	"$build/tests/xk_lacks_demux" protocols

# control OPERATION POINTER: an argument of another type than the operation's does not compile.
control() {
	local source="$work/control.c"
	printf '#include "protocols/%s"\nint f(struct xk_session *s, %s *argument) { return xk_control(s, %s, argument); }\n' \
		"$1" "$3" "$2" >"$source"
	expect "$2 with a $3" "$4" "$5" "${CC:-cc}" -std=gnu11 -Werror -Wno-missing-prototypes -I. -fsyntax-only "$source"
}

for type in uint8_t uint32_t; do
	for op in 'ticket.h XK_GET_MY_HOST' 'chan/chan.h XK_CHAN_SET_DEADLINE' 'chan/chan.h XK_CHAN_GET_DEADLINE' 'ticket.h XK_RELEASE' \
		'virtual/vnet.h XK_VNET_GET_INTERFACES' 'virtual/vnet.h XK_VNET_FOLLOW' 'papers/am.h XK_AM_REGISTER' \
		'papers/am.h XK_AM_SET_TAG' 'region.h XK_REGION_REGISTER' 'post.h XK_POST_BUFFERS'; do
		# shellcheck disable=SC2086 # two words
		control $op $type 1 'incompatible'
	done
done
control ticket.h XK_GET_MAX_PACKET uint8_t 1 'incompatible'
control ticket.h XK_GET_PEER_HOST 'const uint64_t' 1 'discards'
control ticket.h XK_GET_PEER_HOST uint64_t 0 ''
control chan/chan.h XK_CHAN_SET_DEADLINE 'const uint64_t' 0 ''
expect "no mistake" 0 '' "$xk" run "$net" --link sim --quiet
