#!/bin/bash
# links.sh BUILD - udptest over memif, tap, af_packet and af_xdp: as pairs, which make their own network, and as ends started
# separately; requests beyond a link's or user's abilities are refused in words. Skips what this machine forbids.
. "$(dirname "$0")/common.sh"

# Polling ends on a busy machine wait long for their turn.
patient=(--set udptest.timeout=8s --set udptest.silence=20s)
forbidden='may not create a network|cannot be created|CAP_BPF|af_xdp device|does not start'

# forbids NAME: succeeds, and prints SKIPPED, if the last run failed because of a restriction of this machine.
forbids() {
	[ "$status" -eq 1 ] && grep -qE -- "$forbidden" "$work/err" || return 1
	echo "SKIPPED: $1: $(grep -E -m 1 -- "$forbidden" "$work/err")"
}

# pair NAME ROUNDS RUNS EXPRESSION OPTION...
pair() {
	local name=$1 rounds=$2 count=$3 expression=$4
	shift 4
	run 60 "$udptest" --rounds "$rounds" --json "$work/pair.json" "${patient[@]}" "$@"
	if [ "$status" -eq 0 ]; then
		runs_are "$name" "$work/pair.json" "$rounds" "$count" "$expression"
	elif ! forbids "$name"; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	fi
}

interfaces() {
	ls /sys/class/net
}

# ---- ends started separately, on this test's own cable ----------------------------------------------------------------

# lone LINK OPTION...: runs a server and a client; kills the server and starts another in its place.
lone() {
	local link=$1 round
	shift
	for round in 1 2; do
		serve --link "$link" "$@" --set port.dev="$near"
		run 30 "$udptest" --client 10.77.0.2 --link "$link" "$@" --set port.dev="$far" --mode ipp --rounds 30 \
			"${patient[@]}" --size 1,4000 --json "$work/lone.json"
		if [ "$status" -eq 0 ]; then
			runs_are "$link: server $round and its client" "$work/lone.json" 30 2
		else
			fail "$link: server $round and its client" "status $status: $(tail -n 3 "$work/err")"
		fi
		[ "$round" -eq 2 ] || kill -KILL "$server"
		[ "$round" -eq 2 ] || await_end "$server" 10
	done
	expect "$link: a second server" 1 'another (program of this kind uses|server has)' \
		"$udptest" --server --link "$link" "$@" --set port.dev="$near"
	end_server
}

if [ "${2:-}" = inside ]; then
	near=xkt-near far=xkt-far
	for name in all default; do
		[ ! -e /proc/sys/net/ipv6/conf/$name ] || echo 1 >/proc/sys/net/ipv6/conf/$name/disable_ipv6
	done
	ip link add "$near" type veth peer name "$far" && ip link set "$near" up && ip link set "$far" up || exit 1
	lone af_packet
	serve --link af_packet --set port.dev="$near"
	spawn client "$udptest" --client 10.77.0.2 --link af_packet --set port.dev="$far" --rounds 1000000000 --mode ipp \
		--set udptest.silence=2s --set udptest.timeout=100ms
	client=$pid
	await_traffic "$server" || fail "af_packet: traffic" "there is none"
	ip link del "$near"
	await_end "$client" 20
	check "an interface vanishes: the client gives up" "status $status" [ "$status" -eq 1 ]
	check "... and reports it" "$(tail -n 3 "$work/client.err")" printed client.err 'has not answered'
	end_server
	if [ -e /dev/net/tun ]; then
		ip link add xkt-bridge type bridge mcast_snooping 0 && ip link set xkt-bridge up
		for name in bridge-nf-call-arptables bridge-nf-call-iptables; do
			[ ! -e /proc/sys/net/bridge/$name ] || echo 0 >/proc/sys/net/bridge/$name
		done
		for tap in "$near" "$far"; do
			ip tuntap add dev "$tap" mode tap multi_queue && ip link set "$tap" master xkt-bridge up
		done
		lone tap
	fi
	exit
fi

before=$(interfaces)
near=xkt far=xkt
lone memif --driver poll
if ! command -v ip >/dev/null; then
	echo "SKIPPED: ends on interfaces: ip (package iproute2) is not installed"
elif ! unshare -n true 2>/dev/null; then
	echo "SKIPPED: ends on interfaces: this user may not make network namespaces"
else
	unshare -n "$0" "$build" inside || failures=$((failures + 1))
fi

# ---- pairs ---------------------------------------------------------------------------------------------------------------

asleep='d["driver"] == "poll" or min(r["driver_switches"].values()) > 0'
sizes=(--size 1,1472,4000)
pair "memif, the driver not chosen" 40 6 'd["link"] == "memif" and d["driver"] == "poll"' --link memif "${sizes[@]}"
for link in tap af_packet af_xdp; do
	pair "$link, interrupt" 40 6 "$asleep" --link $link --driver interrupt "${sizes[@]}"
	pair "$link, poll" 20 3 "$asleep" --link $link --driver poll --mode ipp "${sizes[@]}"
done
pair "af_packet, two links" 20 2 True --link af_packet --graph graphs/udptest-multihomed.dot

# A driver that waits on a descriptor sleeps, by the system's count of its switches.
run 60 "$udptest" --link af_packet --rounds 200 --mode ipp --cores 0,0 --json "$work/asleep.json"
if [ "$status" -eq 0 ]; then
	document "af_packet: the driver sleeps" "$work/asleep.json" \
		'min(d["runs"][0]["driver_switches"].values()) > 10'
elif ! forbids "af_packet: the driver sleeps"; then
	fail "af_packet: the driver sleeps" "status $status"
fi
check "no interface is left" "$(interfaces)" [ "$before" = "$(interfaces)" ]

# ---- refusals ----------------------------------------------------------------------------------------------------------

for link in memif ring; do
	for driver in interrupt adaptive; do
		expect "$link, $driver" 2 "$link cannot wake a sleeping driver" "$udptest" --link $link --driver $driver
	done
done
expect "an unknown link" 2 'virtio, memif, ring, tap, af_packet, af_xdp, a PCI address' "$udptest" --link pigeon
expect "no such interface" 1 'there is no network interface "nosuch"' \
	"$udptest" --server --link af_packet --set port.dev=nosuch
expect "no interface named" 1 'set port.dev= to one of' "$udptest" --server --link af_xdp
expect "no such card" 1 'there is no PCI device 0000:ff:1f.7.*dpdk-devbind' "$udptest" --server --link 0000:ff:1f.7
expect "no such card, in short" 1 'there is no PCI device 0000:ff:1f.7' "$udptest" --client 10.77.0.2 --link ff:1f.7
expect "a pair on one card" 2 'two network cards' "$udptest" --link 0000:ff:1f.7
expect "no memif server" 1 'no server on .*: start the server' "$udptest" --client 10.77.0.2 --link memif
if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	bare=(setpriv --bounding-set=-net_raw,-net_admin,-sys_admin --inh-caps=-all)
	expect "no right to packet sockets" 1 'af_packet needs CAP_NET_RAW' "${bare[@]}" \
		"$udptest" --server --link af_packet --set port.dev=lo
	expect "no right to interfaces" 1 '(tap needs CAP_NET_ADMIN|net/tun)' "${bare[@]}" \
		"$udptest" --server --link tap --set port.dev=xkt
fi
