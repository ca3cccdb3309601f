#!/bin/bash
# watchdog.sh BUILD - a protocol that computes for ever is reported with its host and the message's path through the graph.
# A second signal ends any program.
. "$(dirname "$0")/common.sh"
xk=$build/tests/xk_mistake
udptest=$build/tests/udptest_mistake
net=tests/mistakes/net.dot
graph=tests/mistakes/mistake.dot

# ---- the report, which ends a simulated run ----------------------------------------------------------------------------

# named MISTAKE PATTERN: the server makes the mistake in the simulator, and the report matches.
named() {
	expect "$1 in the simulator" 1 "$2" "$xk" run "$net" --link sim --quiet --watchdog 200ms --set "server.mistake.makes=$1"
}

named loop_pop 'xk run: watchdog: host "server", protocol "mistake" has computed for 0.2 s, crossing "udp" -> "mistake" upward, in its operation pop [(]mistake_spin < mistake_pop'
named loop_push 'xk run: watchdog: host "server", protocol "mistake" has computed for 0.2 s, crossing "udptest" -> "mistake", in its operation push [(]mistake_spin < mistake_push'
named loop_event 'xk run: watchdog: host "server", protocol "mistake" has computed for 0.2 s, in an event of its own [(]mistake_spin'
named loop_init 'xk run: watchdog: host "server" boots: protocol "mistake" has computed for 0.2 s, in its operation init [(]mistake_spin < mistake_init'
expect "loop_pop under udptest in the simulator" 1 'udptest: watchdog: host "server", protocol "mistake" has computed for 0.2 s' \
	"$udptest" --graph "$graph" --link sim --rounds 10 --watchdog 200ms --set server:mistake.makes=loop_pop
expect "an invalid --watchdog time" 2 '--watchdog: "soon" is not a time' "$xk" run "$net" --link sim --watchdog soon

# ---- a second signal ends any program ----------------------------------------------------------------------------------

# Succeeds once the process has computed for a second: by then it is in the loop.
computes() {
	local fields
	read -r -a fields <<<"$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null)"
	[ "${fields[11]:-0}" -ge 100 ]
}

for signal in HUP:129 INT:130 TERM:143; do
	# Background processes of a shell ignore SIGINT.
	spawn net env --default-signal=INT "$xk" run "$net" --link sim --quiet --watchdog 0 --set server.mistake.makes=loop_pop
	within 60 computes
	ended_by_two "xk run in the simulator" "${signal%:*}" "${signal#*:}"
done

# ---- threads of the operating system: the report, after which the host continues ---------------------------------------

for mode in ipp regular; do
	spawn "$mode" "$udptest" --graph "$graph" --link memory --mode "$mode" --rounds 100 --watchdog 200ms \
		--set server:mistake.makes=loop_pop --set udptest.timeout=60s
	within 60 grep -q watchdog "$work/$mode.err"
	check "udptest in mode $mode: it is named" "$(tail -n 2 "$work/$mode.err")" \
		grep -q 'udptest: watchdog: host "server", protocol "mistake" has computed for 0.2 s, crossing "udp" -> "mistake" upward' \
		"$work/$mode.err"
	ended_by_two "udptest in mode $mode" TERM 143
	check "udptest in mode $mode: it is named once" "$(cat "$work/$mode.err")" \
		[ "$(grep -c watchdog "$work/$mode.err")" -eq 1 ]
done
