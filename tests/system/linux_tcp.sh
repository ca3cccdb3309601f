#!/bin/bash
# linux_tcp.sh BUILD - TCP between our host and Linux, each as client and as server: streams each way and both ways, round trips,
# many connections; a network that loses, duplicates, reorders and delays (vdrop and vdelay below our end); peers without options;
# a path MTU that changes. With XK_TEST_LONG=1, over both links, and long streams over each kind of network (linux/streams.sh).
# XK_TEST_LINK: the link, af_packet or tap.
#
#     k0 (Linux's host, 10.88.0.1) --- x0 (ours, 10.88.0.2)
. "$(dirname "$0")/common.sh"

port=5001
bytes=300000
long=${XK_TEST_LONG:-0}

if [ "$long" -ne 0 ] && [ -z "${XK_TEST_LINK:-}" ]; then
	for link in af_packet tap; do
		echo "# link $link"
		XK_TEST_LINK=$link "$0" "$@" || failures=$((failures + 1))
	done
	exit
fi

unshown="Linux understands our TCP"
. "$root/tests/system/networks.sh"
. "$root/tests/system/linux/host.sh"

link=${XK_TEST_LINK:-tap}
[ -e /dev/net/tun ] || link=af_packet
namespace linux
namespace ours
cable "$linux" k0 x0 2>"$work/cable" || skip "no link $link here ($(cat "$work/cable"))"
at "$linux" ip addr add "$kernel_host/24" dev k0
alone=(--link "$link" --set port.dev="$our_device" --set "vnet.address=$our_host/24")

faulty=$here/tcptest-faults.dot

# with SETTING...: makes options of settings, as $options.
with() {
	options=("${@/#/--set=}")
}

# Linux as the client: FLOW BYTES [TIMES]
stream=(nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port)

# linux_opens NAME FLOW...
linux_opens() {
	local flow
	for flow in "${@:2}"; do
		limit=120 expect "$1: Linux opens, $flow" 0 '' "${stream[@]}" "$flow" "$bytes"
	done
}

# we_open FLOW BYTES GRAPH [OPTION]...: makes the command of our host as the client, as $client.
we_open() {
	client=(nsenter -t "$ours" -n "$xk" run "$3" "${alone[@]}" --set tcptest.peer=$kernel_host --set "tcptest.flow=$1"
		--set "tcptest.bytes=$2" --set tcptest.serve=no "${@:4}")
}

serve_linux() {
	spawn server nsenter -t "$linux" -n "$here/stream.py" server $port
	server=$pid
	within 10 printed server.out ready || fail server "$(tail -n 3 "$work/server.err")"
}

# end_linux NAME
end_linux() {
	kill -TERM "$server"
	await_end "$server" 20
	check "$1: Linux got the right bytes" "$(tail -n 3 "$work/server.err")" [ "$status" -eq 0 ]
}

# both_ways NAME GRAPH FLOWS [OPTION]...: each end is the client.
both_ways() {
	local name=$1 graph=$2 flows=$3 flow
	shift 3
	stand "$graph" "$@"
	# shellcheck disable=SC2086 # a list of words
	linux_opens "$name" $flows
	fall
	document "$name: no byte was wrong" "$work/host.json" \
		"d['host']['counters']['tcptest.accepted'] == $(wc -w <<<"$flows") and d['host']['counters']['tcptest.wrong'] == 0"
	serve_linux
	for flow in $flows; do
		we_open "$flow" "$bytes" "$graph" "$@"
		limit=120 expect "$name: we open, $flow" 0 '' "${client[@]}"
	done
	end_linux "$name"
}

# ---- networks --------------------------------------------------------------------------------------------------------

both_ways "good network" graphs/tcptest.dot "send receive both echo"
stand graphs/tcptest.dot
limit=120 expect "Linux opens 50 times" 0 '' "${stream[@]}" both 3000 50
fall
with vdrop.loss=1% vdrop.duplicate=2% vdrop.reorder=2% vdrop.seed=3
both_ways "bad network" "$faulty" "send receive" "${options[@]}"
for overtake in 3 30; do
	with vdrop.reorder=2% vdrop.overtake=$overtake vdrop.seed=3
	both_ways "reordered by $overtake" "$faulty" "send receive" "${options[@]}"
done
with vdrop.duplicate=20% vdrop.seed=3
both_ways "duplicates" "$faulty" "both" "${options[@]}"
with vdelay.down=50ms vdelay.up=50ms
both_ways "delay of 100 ms" "$faulty" "send receive" "${options[@]}"

# ---- many connections ----------------------------------------------------------------------------------------------------

many=$(few_or 10000)
stand graphs/tcptest.dot
limit=120 expect "Linux opens $many at once" 0 '' nsenter -t "$linux" -n "$here/many.py" client "$our_host" $port "$many"
echo "# Linux opens: $(cat "$work/out")"
document "... and a round trip on the last takes as long as on the first" "$work/out" \
	"d['connections'] == $many and d['trip_us'][1] <= 3 * d['trip_us'][0]"
within 20 at "$linux" sh -c "! grep -q ':$(printf %04X $port) 0[^6]' /proc/net/tcp" # but TIME-WAIT
fall
document "... all of which end" "$work/host.json" \
	"d['host']['counters']['tcp.accepted'] == d['host']['counters']['tcptest.cut'] == $many and \
	d['host']['counters']['tcptest.wrong'] == 0"
if [ "$link" = tap ]; then
	namespace crowd
	at "$crowd" ip tuntap add dev t0 mode tap
	at "$crowd" ip link set t0 up
	at "$crowd" ip addr add 10.0.0.2/8 dev t0
	spawn echo nsenter -t "$crowd" -n "$here/many.py" server $port
	echo=$pid
	within 10 printed echo.out ready || fail echo "$(tail -n 3 "$work/echo.err")"
	limit=120 expect "we open $many at once" 0 '' nsenter -t "$crowd" -n "$build/experiments/crowd/connections" --tap t0 \
		--connections "$many"
	sed 's/^/# /' "$work/out"
	check "... and a round trip on the last takes as long as on the first" "see above" awk '/round trip/ { good = $NF <= 3 }
		END { exit !good }' "$work/out"
	kill -KILL "$echo"
	wait "$echo" 2>/dev/null
fi

# ---- options -----------------------------------------------------------------------------------------------------------

with vdrop.loss=1% vdrop.seed=3
for option in sack timestamps window_scaling; do
	at "$linux" sh -c "echo 0 >/proc/sys/net/ipv4/tcp_$option"
	both_ways "Linux without $option" "$faulty" "both" "${options[@]}"
done
both_ways "neither has any option" "$faulty" "both" "${options[@]}" --set tcp.sack=no --set tcp.stamps=no --set tcp.scale=no
for option in sack timestamps window_scaling; do
	at "$linux" sh -c "echo 1 >/proc/sys/net/ipv4/tcp_$option"
done
both_ways "ours without options" "$faulty" "both" "${options[@]}" --set tcp.sack=no --set tcp.stamps=no --set tcp.scale=no

# ---- long streams ----------------------------------------------------------------------------------------------------------

[ "$long" -eq 0 ] || . "$here/streams.sh"

# ---- a path whose MTU changes ----------------------------------------------------------------------------------------------
#
#     k1 (Linux's host, 10.91.0.1) --- m1, middle, Linux's router, m0 --- x1 (ours, 10.89.0.2)

namespace middle
at "$middle" ip link add m1 type veth peer name k1 netns "$linux"
cable "$middle" m0 x1
for end in "$linux k1" "$middle m1"; do
	at "${end% *}" "$here/peer.py" quiet "${end#* }"
	at "${end% *}" ip link set "${end#* }" up
done
at "$linux" ip addr add 10.91.0.1/24 dev k1
at "$middle" ip addr add 10.91.0.254/24 dev m1
at "$middle" ip addr add 10.89.0.254/24 dev m0
at "$middle" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'
at "$linux" ip route add 10.89.0.0/24 via 10.91.0.254
alone=(--link "$link" --set port.dev="$our_device" --set vnet.address=10.89.0.2/24 --set ip.gateway=10.89.0.254)
our_host=10.89.0.2
kernel_host=10.91.0.1
stream=(nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port)

# shrinks NAME PID: while the process streams, the path's MTU falls, and rises again.
shrinks() {
	local mtu
	for mtu in 1000 700 1500; do
		sleep 0.3
		at "$middle" ip link set m1 mtu $mtu
		at "$linux" ip link set k1 mtu $mtu
	done
	await_end "$2" 100
	check "the path's MTU changes: $1" "status $status: $(tail -n 2 "$work/shrunk.err")" [ "$status" -eq 0 ]
}

with vdelay.down=50ms vdelay.up=50ms ip.pmtu=yes # so that the streams last until it has changed
stand "$faulty" "${options[@]}"
spawn shrunk "${stream[@]}" both 12000000
shrinks "Linux opens" "$pid"
fall
document "... and our host has heard of it, and sent again only what was lost" "$work/host.json" \
	"d['host']['counters']['ip.path_lowered'] >= 1 and d['host']['counters']['tcp.retransmitted'] < 2000"
serve_linux
we_open both 12000000 "$faulty" "${options[@]}"
spawn shrunk "${client[@]}"
shrinks "we open" "$pid"
end_linux "the path's MTU changes"
