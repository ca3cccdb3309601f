#!/bin/bash
# once.sh BUILD [SECONDS] - at most once, over DPDK and with processes that are killed: for SECONDS (6, or 300 if
# XK_TEST_LONG is 1) a client calls over four channels, and client and server are killed in turn, or stopped for a while, and
# start again. Each client numbers its calls differently, and each server prints those that it runs. In the end, no call was
# run twice, by one boot of the server or by two, and every reply belonged to its call.
#
#     c0 (the clients', 10.77.0.1) --- s0 (the servers', 10.77.0.2)
#
# A veth pair in its own network namespace outlives its ends, so the surviving end continues with the other's next boot.
. "$(dirname "$0")/common.sh"

chantest=$build/chantest
seconds=${2:-$([ "${XK_TEST_LONG:-0}" = 1 ] && echo 300 || echo 6)}

unshown="calls are run once where processes are killed"
. "$root/tests/system/networks.sh"

namespace wire
at=(nsenter -t "$wire" -n)
"${at[@]}" ip link add c0 type veth peer name s0 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"
"${at[@]}" ip link set c0 up
"${at[@]}" ip link set s0 up

# ---- the two ends ----------------------------------------------------------------------------------------------------

clients=0
servers=0

# start_client MODE SIZE: its calls' numbers begin with the client's number.
start_client() {
	clients=$((clients + 1))
	spawn "client-$clients" "${at[@]}" "$chantest" --client 10.77.0.2 --link af_packet --set port.dev=c0 --mode "$1" \
		--channels 4 --size "$2" --rounds 1000000000 --set chantest.first=$((clients << 32)) \
		--set chantest.silence=60s --set chantest.trace=errors --set chantest.work=100us
	client=$pid
}

# start_server MODE
start_server() {
	servers=$((servers + 1))
	spawn "server-$servers" "${at[@]}" "$chantest" --server --link af_packet --set port.dev=s0 --mode "$1" \
		--set chantest.trace=events --set chantest.work=100us
	server=$pid
	within 20 printed "server-$servers.err" 'serving at' || fail "server $servers" "$(tail -n 3 "$work/server-$servers.err")"
}

served() {
	grep -c ' serves ' "$work/server-$servers.err" 2>/dev/null
}

has_served() {
	[ "$(served)" -ge "$1" ]
}

# Waits until calls of the current client reach the current server.
await_calls() {
	within 30 has_served $(($(served) + 100)) ||
		fail "calls, after $clients clients and $servers servers" "none: $(tail -n 2 "$work/client-$clients.err")"
}

start_server ipp
start_client ipp 40
until=$(($(milliseconds) + seconds * 1000))
modes=(ipp regular)
sizes=(40 4000 8 20000)
for ((turn = 0; ; turn++)); do
	await_calls
	[ "$(milliseconds)" -lt $until ] && [ $failures -eq 0 ] || break
	sleep "0.$((turn * 7 % 10))"
	case $((turn % 4)) in
	0 | 3)
		kill -KILL "$client"
		wait "$client" 2>/dev/null
		start_client "${modes[turn / 2 % 2]}" "${sizes[turn / 3 % 4]}"
		;;
	1)
		runs "$client" || fail "client $clients" "it has ended: $(tail -n 2 "$work/client-$clients.err")"
		kill -KILL "$server"
		wait "$server" 2>/dev/null
		start_server "${modes[turn / 4 % 2]}"
		;;
	2) # meanwhile the client retransmits, which the server finds when it continues
		kill -STOP "$server"
		sleep 0.7
		kill -CONT "$server"
		;;
	esac
done
kill -TERM "$client" "$server"
await_end "$client" 20
await_end "$server" 20

# ---- results ---------------------------------------------------------------------------------------------------------

cat "$work"/server-*.err | sed -n 's/.* serves \([0-9]*\)$/\1/p' | sort >"$work/served"
echo "# $clients clients, $servers servers, $(wc -l <"$work/served") calls run"
check "calls were run" "$(wc -l <"$work/served")" [ "$(wc -l <"$work/served")" -gt 500 ]
twice=$(uniq -d "$work/served")
check "no call was run twice" "$(head -n 5 <<<"$twice")" [ -z "$twice" ]
wrong=$(grep -l 'a reply is wrong' "$work"/client-*.err)
check "every reply belongs to its call" "$wrong" [ -z "$wrong" ]
reopened=$(grep -c . <<<"$(grep -l 'a call has failed: Connection reset by peer' "$work"/client-*.err)")
check "clients have continued with another boot of the server" "no client's call has failed because of a reboot" [ "$reopened" -gt 0 ]
