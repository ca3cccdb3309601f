#!/bin/bash
# linux_tcp.sh BUILD - TCP between our host and Linux, each as client and as server: streams each way and both ways, round trips,
# many connections one after the other; over a good network and, with XK_TEST_LONG=1, one that loses, duplicates and reorders (vdrop,
# below our end).
#
#     k0 (Linux's host, 10.88.0.1) --- x0 (ours, 10.88.0.2)
. "$(dirname "$0")/common.sh"

here=$root/tests/system/linux
xk=$build/xk
kernel_host=10.88.0.1
our_host=10.88.0.2
port=5001
faults=(vdrop.loss=1% vdrop.duplicate=2% vdrop.reorder=2%)
bytes=$((${XK_TEST_LONG:-0} ? 8388608 : 300000))

unshown="Linux understands our TCP"
. "$root/tests/system/networks.sh"

namespace linux
namespace ours
at "$linux" ip link add k0 type veth peer name x0 netns "$ours" 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"
at "$linux" "$here/peer.py" quiet k0
at "$ours" "$here/peer.py" quiet x0
at "$linux" ip link set k0 up
at "$ours" ip link set x0 up
at "$linux" ip addr add "$kernel_host/24" dev k0

# stand GRAPH [SETTING]...: starts our host and waits until it is up; its messages are in $work/host.err.
stand() {
	local graph=$1 setting
	shift
	set -- "$graph" "${@/#/--set=}"
	spawn host nsenter -t "$ours" -n "$xk" run "$graph" --link af_packet --set port.dev=x0 \
		--set "vnet.address=$our_host/24" --json "$work/host.json" "${@:2}"
	host=$pid
	within 30 printed host.err "$our_host" || fail stand "our host is not up: $(tail -n 3 "$work/host.err")"
}

fall() {
	kill -TERM "$host"
	await_end "$host" 30
	[ "$status" -eq 0 ] || fail fall "status $status: $(tail -n 3 "$work/host.err")"
}

# linux_opens NAME: Linux is the client.
linux_opens() {
	local flow
	for flow in send receive both echo; do
		limit=120 expect "$1: Linux opens, $flow" 0 '' nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port "$flow" "$bytes"
	done
	limit=120 expect "$1: Linux opens 50 times" 0 '' nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port both 3000 50
}

# we_open NAME GRAPH [SETTING]...: our host is the client.
we_open() {
	local name=$1 graph=$2 flow
	shift 2
	spawn server nsenter -t "$linux" -n "$here/stream.py" server $port
	local server=$pid
	within 10 printed server.out ready || fail server "$(tail -n 3 "$work/server.err")"
	for flow in send receive both echo; do
		limit=120 expect "$name: we open, $flow" 0 '' nsenter -t "$ours" -n "$xk" run "$graph" --link af_packet \
			--set port.dev=x0 --set "vnet.address=$our_host/24" --set tcptest.peer=$kernel_host --set "tcptest.flow=$flow" \
			--set "tcptest.bytes=$bytes" --set tcptest.serve=no "${@/#/--set=}"
	done
	kill -TERM "$server"
	await_end "$server" 20
	check "$name: Linux got the right bytes" "$(tail -n 3 "$work/server.err")" [ "$status" -eq 0 ]
}

stand graphs/tcptest.dot
linux_opens "good network"
fall
document "good network: no byte was wrong" "$work/host.json" \
	"d['host']['counters']['tcptest.accepted'] == 54 and d['host']['counters']['tcptest.wrong'] == 0"
we_open "good network" graphs/tcptest.dot

[ "${XK_TEST_LONG:-0}" -ne 0 ] || exit 0
stand "$here/tcptest-faults.dot" "${faults[@]}"
linux_opens "bad network"
fall
we_open "bad network" "$here/tcptest-faults.dot" "${faults[@]}"
we_open "without options" "$here/tcptest-faults.dot" "${faults[@]}" tcp.sack=no tcp.stamps=no tcp.scale=no
