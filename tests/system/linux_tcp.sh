#!/bin/bash
# linux_tcp.sh BUILD - TCP between our host and Linux, each as client and as server: streams each way and both ways, round trips,
# many connections; a network that loses, duplicates, reorders and delays (vdrop and vdelay below our end); peers without options;
# a path MTU that changes; ends that die. With XK_TEST_LONG=1, long streams over each kind of network, as medians of nine seeds,
# beside Linux and Linux joined by our router.
#
#     k0 (Linux's host, 10.88.0.1) --- x0 (ours, 10.88.0.2)
. "$(dirname "$0")/common.sh"

port=5001
bytes=300000
long=${XK_TEST_LONG:-0}

unshown="Linux understands our TCP"
. "$root/tests/system/networks.sh"
. "$root/tests/system/linux/host.sh"

namespace linux
namespace ours
at "$linux" ip link add k0 type veth peer name x0 netns "$ours" 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"
at "$linux" "$here/peer.py" quiet k0
at "$ours" "$here/peer.py" quiet x0
at "$linux" ip link set k0 up
at "$ours" ip link set x0 up
at "$linux" ip addr add "$kernel_host/24" dev k0

faulty=$here/tcptest-faults.dot

# with SETTING...: makes options of settings, as $options.
with() {
	options=("${@/#/--set=}")
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

# ---- ends that die -------------------------------------------------------------------------------------------------------

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
kill -KILL "$(children_of "$pid")" "$pid" 2>/dev/null
fall
document "a cable is cut: our host gives the connection up" "$work/host.json" \
	"d['host']['counters']['tcp.timed_out'] == 1 and d['host']['counters']['tcptest.cut'] == 1"

# ---- a path whose MTU changes ----------------------------------------------------------------------------------------------
#
#     k1 (Linux's host, 10.91.0.1) --- m1, middle, Linux's router, m0 --- x1 (ours, 10.89.0.2)

namespace middle
at "$middle" ip link add m1 type veth peer name k1 netns "$linux"
at "$middle" ip link add m0 type veth peer name x1 netns "$ours"
for end in "$linux k1" "$middle m1" "$middle m0" "$ours x1"; do
	at "${end% *}" "$here/peer.py" quiet "${end#* }"
	at "${end% *}" ip link set "${end#* }" up
done
at "$linux" ip addr add 10.91.0.1/24 dev k1
at "$middle" ip addr add 10.91.0.254/24 dev m1
at "$middle" ip addr add 10.89.0.254/24 dev m0
at "$middle" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'
at "$linux" ip route add 10.89.0.0/24 via 10.91.0.254
alone=(--link af_packet --set port.dev=x1 --set vnet.address=10.89.0.2/24 --set ip.gateway=10.89.0.254)
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

with vdelay.down=20ms vdelay.up=20ms ip.pmtu=yes
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

# ---- long streams ----------------------------------------------------------------------------------------------------------

[ "$long" -ne 0 ] || exit 0
seeds=${XK_TEST_SEEDS:-9}
alone=(--link af_packet --set port.dev=x0 --set "vnet.address=10.88.0.2/24")
our_host=10.88.0.2
kernel_host=10.88.0.1
stream=(nsenter -t "$linux" -n "$here/stream.py" client "$our_host" $port)

# median SECONDS...
median() {
	printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# figure NAME BYTES SECONDS...: prints the median and the rate, which goes to $rate, in bytes per second; the median is at most 60.
figure() {
	local middle_s
	middle_s=$(median "${@:3}")
	rate=$(python3 -c "print(int($2 / $middle_s))")
	echo "# $1: $(($2 / 1024)) KiB in $middle_s s, $(python3 -c "print('%.2f' % ($rate / 1e6))") MB/s, median of $(($# - 2)), $(median_last "${@:3}") at most"
	check "$1: under 60 s" "$middle_s s" python3 -c "import sys; sys.exit($middle_s > 60)"
}

median_last() {
	printf '%s\n' "$@" | sort -n | tail -n 1
}

# long_streams NAME BYTES SETTING...: each way, with both as client: the rates go to the array rates.
long_streams() {
	local name=$1 count=$2 flow seed begun seconds
	shift 2
	rates=()
	for flow in send receive; do
		seconds=()
		for ((seed = 1; seed <= (${#} > 0 ? seeds : 1); seed++)); do
			with "$@" vdrop.seed=$seed
			stand "$faulty" "${options[@]}"
			run 200 "${stream[@]}" "$flow" "$count"
			[ "$status" -eq 0 ] || fail "$name: Linux opens, $flow, seed $seed" "status $status: $(tail -n 2 "$work/err")"
			seconds+=("$(tail -n 1 "$work/out")")
			fall
		done
		figure "$name: Linux opens, $flow" "$count" "${seconds[@]}"
		rates+=("$rate")
	done
	serve_linux
	for flow in send receive; do
		seconds=()
		for ((seed = 1; seed <= (${#} > 0 ? seeds : 1); seed++)); do
			with "$@" vdrop.seed=$seed
			we_open "$flow" "$count" "$faulty" "${options[@]}"
			begun=$(milliseconds)
			run 200 "${client[@]}"
			[ "$status" -eq 0 ] || fail "$name: we open, $flow, seed $seed" "status $status: $(tail -n 2 "$work/err")"
			seconds+=("$(python3 -c "print($(($(milliseconds) - begun)) / 1000)")")
		done
		figure "$name: we open, $flow" "$count" "${seconds[@]}"
		rates+=("$rate")
	done
	end_linux "$name"
}

# reference NAME BYTES SETTING...: the same between two of Linux's hosts, joined by our router.
reference() {
	local name=$1 count=$2 seed seconds=() forwarder listener
	shift 2
	for ((seed = 1; seed <= (${#} > 0 ? seeds : 1); seed++)); do
		with "$@" vdrop.seed=$seed
		spawn forwarder nsenter -t "$ours" -n "$xk" run "$here/forwarder.dot" --link af_packet --set port1.dev=x0 --set port2.dev=x2 \
			--set vnet.address=10.88.0.2/24 --set vnet.address2=10.92.0.2/24 "${options[@]}"
		forwarder=$pid
		within 30 printed forwarder.err 10.88.0.2 || fail reference "$(tail -n 3 "$work/forwarder.err")"
		spawn listener nsenter -t "$beyond" -n "$here/stream.py" server $port
		listener=$pid
		within 10 printed listener.out ready || fail reference "$(tail -n 3 "$work/listener.err")"
		run 200 nsenter -t "$linux" -n "$here/stream.py" client 10.92.0.1 $port send "$count"
		[ "$status" -eq 0 ] || fail "$name: Linux to Linux, seed $seed" "status $status: $(tail -n 2 "$work/err")"
		seconds+=("$(tail -n 1 "$work/out")")
		kill -TERM "$listener" "$forwarder"
		await_end "$listener" 20
		await_end "$forwarder" 20
	done
	echo "# $name: Linux to Linux: $((count / 1024)) KiB in $(median "${seconds[@]}") s, median of ${#seconds[@]}, $(median_last "${seconds[@]}") at most"
}

namespace beyond
at "$beyond" ip link add p0 type veth peer name x2 netns "$ours"
for end in "$beyond p0" "$ours x2"; do
	at "${end% *}" "$here/peer.py" quiet "${end#* }"
	at "${end% *}" ip link set "${end#* }" up
done
at "$beyond" ip addr add 10.92.0.1/24 dev p0
at "$beyond" ip route add 10.88.0.0/24 via 10.92.0.2
at "$linux" ip route add 10.92.0.0/24 via 10.88.0.2

long_streams "no loss" $((1 << 30))
reference "no loss" $((1 << 30))
while read -r loss count; do
	long_streams "loss of $loss" "$count" vdrop.loss="$loss"
	reference "loss of $loss" "$count" vdrop.loss="$loss"
done <<END
1% $((64 << 20))
5% $((8 << 20))
20% $((256 << 10))
END
for overtake in 0 3 30; do
	more=(vdrop.reorder=1% vdrop.overtake=$overtake)
	[ $overtake -ne 0 ] || more=(vdrop.reorder=0)
	long_streams "reordered by $overtake" $((64 << 20)) "${more[@]}"
	reference "reordered by $overtake" $((64 << 20)) "${more[@]}"
	[ $overtake -ne 0 ] || in_order=("${rates[@]}")
	for i in "${!rates[@]}"; do
		check "reordered by $overtake: at least half of the rate in order" "${rates[i]} of ${in_order[i]} bytes per second" \
			[ $((2 * rates[i])) -ge "${in_order[i]}" ]
	done
done
