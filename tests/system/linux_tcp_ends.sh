#!/bin/bash
# linux_tcp_ends.sh BUILD - ends of TCP connections with Linux that die: either end's process is killed, or its host falls silent,
# while connections are in every state of TCP. What remains ends within its timers, and keeps nothing.
#
#     k0 (Linux's host, 10.88.0.1) --- m0  gate.py  m1 --- x0 (ours, 10.88.0.2)
. "$(dirname "$0")/common.sh"

port=5001
bytes=300000

unshown="connections with Linux end when an end dies"
. "$root/tests/system/networks.sh"
. "$root/tests/system/linux/host.sh"

wire
for setting in retries2=5 orphan_retries=3 syn_retries=2 synack_retries=1 fin_timeout=4; do
	at "$linux" sh -c "echo ${setting#*=} >/proc/sys/net/ipv4/tcp_${setting%=*}"
done

# gate RULE...: starts the wire.
gate() {
	spawn gate nsenter -t "$middle" -n "$here/gate.py" m0 m1 "$@"
	gate=$pid
	within 10 printed gate.out ready || fail gate "$(tail -n 3 "$work/gate.err")"
}

end_gate() {
	kill -TERM "$gate"
	await_end "$gate" 10
}

# Linux as the client: FLOW BYTES [TIMES]
stream=(nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port)

sent_by_linux() {
	at "$linux" ip -j -s link show dev k0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["tx"]["packets"])'
}

has_sent() {
	[ "$(sent_by_linux)" -gt "$1" ]
}

# await_segments: waits until Linux has sent some more.
await_segments() {
	within 20 has_sent $(($(sent_by_linux) + 500)) || fail await_segments "there is no traffic"
}

# ---- every state ---------------------------------------------------------------------------------------------------------

# traced COUNT WHAT: our host's TCP has said so COUNT times.
traced() {
	[ "$(grep -c " $2" "$work/host.err")" -eq "$1" ]
}

# moved: our host's connections are in their states (ends.py).
moved() {
	traced 9 established && traced 5 "ESTABLISHED to FIN-WAIT-1" && traced 3 "FIN-WAIT-1 to FIN-WAIT-2" &&
		traced 1 "FIN-WAIT-1 to CLOSING" && traced 3 "ESTABLISHED to CLOSE-WAIT" && traced 2 "CLOSE-WAIT to LAST-ACK" &&
		traced 1 "FIN-WAIT-2 to TIME-WAIT" && traced 1 "connection of tcptest has ended"
}

settled() {
	printed holder.out ready || gone "$holder"
}

# hold FIRST: brings connections into every state; Linux's process is $holder. On a busy machine, some may end before others are
# there: another attempt.
hold() {
	local first
	for first in "$1" $(($1 + 100)) $(($1 + 200)); do
		# shellcheck disable=SC2046 # words
		gate $("$here/ends.py" rules "$first")
		stand graphs/tcptest.dot --set tcp.trace=events --set tcp.patience=6s --set tcp.keep_alive=2s --set tcp.time_wait=2s \
			--set tcp.synack_retries=2
		spawn holder nsenter -t "$linux" -n "$here/ends.py" hold "$first" "$our_host" $port
		holder=$pid
		within 10 settled
		! printed holder.out ready || ! within 1 moved || return
		echo "# another attempt: $(tail -n 1 "$work/holder.err")"
		kill -KILL "$holder" 2>/dev/null
		wait "$holder" 2>/dev/null
		fall
		end_gate
	done
	fail hold "our moves: $(grep -o '[A-Z].* to .*' "$work/host.err" | sort | uniq -c | tr '\n' ';')"
	exit
}

# ends NAME EXPRESSION: each of our connections ends, and nothing is kept; c: counters.
ends() {
	check "$1: each of our connections ends" "$(grep -o 'tcp: .*' "$work/host.err" | tail -n 20 | tr '\n' ';')" \
		within 20 traced 9 "connection of tcptest has ended"
	at "$ours" "$xk" stats --once --json "$work/stats.json" >"$work/stats.out" 2>&1 || fail "$1: xk stats" "$(cat "$work/stats.out")"
	document "$1: nothing is kept" "$work/stats.json" 'all(p["kept"] == 0 for p in d["protocols"])'
	fall
	document "$1: the counters say why" "$work/host.json" \
		"(lambda c: $2)({name: count for name, count in d['host']['counters'].items()})"
}

# errors NAME WANTED...: the errors of Linux's ends, in the order of ends.py.
errors() {
	local name=$1
	shift
	await_end "$holder" 30
	check "$name: each of Linux's ends ends" "status $status: $(tail -n 3 "$work/holder.err")" [ "$status" -eq 0 ]
	check "$name: their errors" "$(tr '\n' ';' <"$work/holder.out")" \
		[ "$(awk 'NR > 1 { print $2 }' "$work/holder.out" | xargs)" = "$*" ]
}

hold 6000
kill -USR1 "$gate"
errors "each end falls silent" ETIMEDOUT ETIMEDOUT ETIMEDOUT ETIMEDOUT ETIMEDOUT ETIMEDOUT ETIMEDOUT none none ETIMEDOUT ETIMEDOUT
ends "each end falls silent" "c['tcp.timed_out'] == 8 and c['tcp.reset'] == 0"
end_gate

hold 7000
kill -KILL "$holder"
wait "$holder" 2>/dev/null
ends "Linux's process is killed" "c['tcp.timed_out'] + c['tcp.reset'] == 8"
end_gate

hold 8000
kill -KILL "$host"
wait "$host" 2>/dev/null
kill -USR2 "$gate"
stand graphs/tcptest.dot
errors "our host dies and comes back" ECONNRESET ECONNRESET ECONNRESET EPIPE ECONNRESET ECONNRESET ECONNRESET none none \
	ECONNRESET none
limit=120 expect "... and an honest client is served" 0 '' "${stream[@]}" both "$bytes"
fall
end_gate

# ---- opens of ours -------------------------------------------------------------------------------------------------------

# half_open COUNT: so many of Linux's connections are in SYN-RECEIVED.
half_open() {
	[ "$(at "$linux" awk '$4 == "03"' /proc/net/tcp | wc -l)" -eq "$1" ]
}

# our_open STATE LOST: our client opens a connection, and stays in the state because such segments are lost; then it dies, or
# gives up.
our_open() {
	local client=(nsenter -t "$ours" -n "$xk" run graphs/tcptest.dot "${alone[@]}" --set tcptest.peer=$kernel_host
		--set tcptest.serve=no --set tcptest.port=7001 --set tcptest.flow=receive
		--set tcp.open_patience=2s --set tcp.patience=2s)
	gate "7001:$2"
	spawn victim "${client[@]}"
	victim=$pid
	within 10 half_open 1 || fail "our end in $1" "Linux has heard of no open"
	kill -KILL "$victim"
	wait "$victim" 2>/dev/null
	check "our host is killed in $1: Linux forgets it" "$(at "$linux" cat /proc/net/tcp)" within 10 half_open 0
	expect "our end in $1 gives up" 1 '' "${client[@]}" --json "$work/given_up.json"
	document "... and says why" "$work/given_up.json" \
		"d['host']['counters']['tcp.timed_out'] == 1 and d['host']['counters']['tcptest.failed'] == 1"
	check "Linux's end in SYN-RECEIVED ends" "$(at "$linux" cat /proc/net/tcp)" within 10 half_open 0
	end_gate
}

spawn listener nsenter -t "$linux" -n "$here/stream.py" server 7001
listener=$pid
within 10 printed listener.out ready || fail listener "$(tail -n 3 "$work/listener.err")"
our_open SYN-SENT linux:S
our_open "ESTABLISHED, Linux's in SYN-RECEIVED" ours:-
kill -TERM "$listener"
await_end "$listener" 20

# ---- processes that die ----------------------------------------------------------------------------------------------------

gate
stand graphs/tcptest.dot --set tcp.time_wait=1s
deaths=0
for how in close reset; do
	for state in opened asking sending receiving ended; do
		expect "Linux dies by a $how: $state" 0 '' nsenter -t "$linux" -n "$here/stream.py" die "$our_host" $port $state $how
		deaths=$((deaths + 1))
	done
done
for flow in send receive both; do
	spawn victim "${stream[@]}" "$flow" 1000000000000
	victim=$pid
	await_segments
	kill -KILL "$(children_of "$victim")" "$victim" 2>/dev/null
	wait "$victim" 2>/dev/null
	deaths=$((deaths + 1))
done
limit=120 expect "... and an honest client is served" 0 '' "${stream[@]}" both "$bytes"
fall
# a client that only receives has sent its whole stream, which is nothing
document "... each of $deaths dead ones was noticed" "$work/host.json" "d['host']['counters']['tcptest.accepted'] == $deaths + 1 and \
	d['host']['counters']['tcptest.cut'] + d['host']['counters']['tcptest.ended'] == $deaths + 1 and \
	d['host']['counters']['tcptest.cut'] > $deaths / 2 and d['host']['counters']['tcptest.wrong'] == 0"

# Linux notices once it sends.
for flow in send both; do
	stand graphs/tcptest.dot
	spawn orphan "${stream[@]}" "$flow" 1000000000000
	orphan=$pid
	await_segments
	kill -KILL "$host"
	wait "$host" 2>/dev/null
	stand graphs/tcptest.dot
	await_end "$orphan" 60
	check "our host dies and comes back: Linux's client is reset, $flow" "status $status: $(tail -n 1 "$work/orphan.err")" \
		eval '[ $status -eq 1 ] && printed orphan.err "reset by peer"'
	fall
done

stand graphs/tcptest.dot --set tcp.patience=2s
spawn orphan "${stream[@]}" both 1000000000000
await_segments
at "$linux" ip link set k0 down
sleep 4
at "$linux" ip link set k0 up
{ kill -KILL "$pid" && wait "$pid"; } 2>/dev/null
fall
document "a cable is cut: our host gives the connection up" "$work/host.json" \
	"d['host']['counters']['tcp.timed_out'] == 1 and d['host']['counters']['tcptest.cut'] == 1"
