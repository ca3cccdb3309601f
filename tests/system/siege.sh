#!/bin/bash
# siege.sh BUILD - a confirmed neighbour attacks a host's protocols in turn, over a real link (siege.c): the host still
# answers Linux's ARP requests and pings and an honest client's calls or connections, and counts every frame. With --long,
# every protocol is attacked for a minute.
#
#     linux: br0, 10.77.0.3 -+- x0, ours, 10.77.0.1
#                            +- c0, client, 10.77.0.2
#                            +- a0, enemy, 10.77.0.10
. "$(dirname "$0")/common.sh"

siege=$build/tests/siege
graph=$root/tests/system/siege.dot
# attacks that take buffers, each with a drop it causes
attacks='gm (pieces):gm.no_room
gm (long):gm.no_room
gm (echoes):gm.too_many
blast:blast.evicted
chan:chan.too_many
tcp (SYNs):
tcp (crowd):tcp.no_buffer
all at once:gm.too_many'
seconds=0
if [ "${XK_TEST_LONG:-0}" = 1 ]; then
	seconds=60
	attacks="$attacks
$("$siege" | grep -vE '^(gm .*|blast|chan|tcp \((SYNs|crowd)\)|all at once)$')"
fi

unshown="a host on a real link withstands its neighbours"
. "$root/tests/system/networks.sh"

# join NAMESPACE DEVICE ADDRESS: adds a port to the bridge.
join() {
	at "$linux" ip link add "b$2" type veth peer name "$2" address "$3" netns "$1" &&
		at "$linux" ip link set "b$2" master br0 up && at "$1" ip link set "$2" up
}

# attack NAME DROP: attacks a freshly started host.
attack() {
	local host prober attacker before until honest=(chantest --size 1,20000)
	[[ $1 != tcp* ]] || honest=(tcptest --size 1,2000 --flow short,echo)
	at "$linux" ip neigh flush dev br0 # otherwise it queries later, perhaps after the host has ended
	before=$(received)
	spawn host nsenter -t "$ours" -n "$build/xk" run "$graph" --link af_packet --set port.dev=x0 \
		--set vnet.address=10.77.0.1/24 --json "$work/host.json"
	host=$pid
	within 30 printed host.err 'stands at' || fail "$1" "no host: $(tail -n 3 "$work/host.err")"
	spawn prober nsenter -t "$linux" -n "$root/tests/system/linux/peer.py" probe br0 10.77.0.1
	prober=$pid
	spawn attacker nsenter -t "$enemy" -n "$siege" a0 "$1"
	attacker=$pid
	within 60 printed attacker.err confirmed || fail "$1" "no attack: $(tail -n 3 "$work/attacker.err")"
	until=$(($(milliseconds) + 1000 * seconds))
	while
		run 60 nsenter -t "$client" -n "$build/${honest[0]}" --client 10.77.0.1 --graph "$graph" --link af_packet \
			--set port.dev=c0 --set vnet.address=10.77.0.2/24 --mode ipp --rounds 100 "${honest[@]:1}"
		[ "$status" -eq 0 ] && [ "$(milliseconds)" -lt "$until" ]
	do :; done
	check "$1: an honest client's ${honest[0]}" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	kill -TERM "$attacker"
	await_end "$attacker" 20
	check "$1: $(cat "$work/attacker.out") frames" "status $status: $(tail -n 3 "$work/attacker.err")" [ "$status" -eq 0 ]
	kill -TERM "$prober"
	await_end "$prober" 200
	check "$1: Linux's questions" "status $status: $(tail -n 3 "$work/prober.err")" [ "$status" -eq 0 ]
	echo "# $1: $(cat "$work/prober.out")"
	kill -TERM "$host"
	await_end "$host" 60
	check "$1: the host ends well" "status $status: $(tail -n 3 "$work/host.err")" [ "$status" -eq 0 ]
	counted "$1: each frame is counted" "d['host']['fragments'] + c['port.rx_missed'] + c['port.no_buffer'] == \
		$(($(received) - before))"
	[ -z "$2" ] || counted "$1: $2" "c['$2'] > 100"
}

# counted NAME EXPRESSION: checks an expression of c, the host's counters and drops; missing ones are 0.
counted() {
	document "$1" "$work/host.json" "[c for c in [__import__('collections').Counter({**d['host']['counters'], \
		**d['host']['drops']})] if $2]"
}

# Prints the number of frames that the host's interface has received.
received() {
	at "$ours" ip -j -s link show dev x0 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["stats64"]["rx"]["packets"])'
}

namespace linux
namespace ours
namespace client
namespace enemy
at "$linux" ip link add br0 type bridge mcast_snooping 0 2>"$work/bridge" || skip "no bridges here ($(cat "$work/bridge"))"
join "$ours" x0 02:00:00:00:00:01 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"
join "$client" c0 02:00:00:00:00:02
join "$enemy" a0 02:00:00:00:00:a0
at "$linux" ip addr add 10.77.0.3/24 dev br0
at "$linux" ip link set br0 up

while IFS=: read -r name drop; do
	attack "$name" "$drop"
done <<<"$attacks"
