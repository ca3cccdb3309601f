#!/bin/bash
# neighbours.sh BUILD - neighbours that change, with our host or Linux at each end: restarted, with another card, behind
# another port of a bridge, with two addresses, another prefix, a virtual router, a proxy, a gateway outside the prefix. After
# each change, requests are answered again; the time is printed. Our hosts' ARP entries last an hour, so they recover by
# advice and announcements, not by age. With --long, Linux keeps its default timers, and Linux also queries Linux.
#
#     asking: a0 --- br0 --- br1 --- b0 :changing
#                     +----- br2 --- c0 :another
. "$(dirname "$0")/common.sh"

peer=$root/tests/system/linux/peer.py
first=02:00:00:00:77:01
second=02:00:00:00:77:02
third=02:00:00:00:77:03
virtual=00:00:5e:00:01:01
far=10.88.0.1 # of routers

unshown="hosts follow their neighbours"
. "$root/tests/system/networks.sh"

# ---- the network -------------------------------------------------------------------------------------------------------

namespace middle
namespace asking
namespace changing
namespace another
at "$middle" ip link add br0 type bridge 2>"$work/bridge" || skip "no bridges here ($(cat "$work/bridge"))"
at "$middle" ip link set br0 up
for i in 1 2 3; do # the last one stands alone
	at "$middle" ip link add br$i type bridge
	at "$middle" ip link set br$i up
	[ $i -lt 3 ] || continue
	at "$middle" ip link add t$i type veth peer name u$i 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"
	at "$middle" ip link set t$i master br0 up
	at "$middle" ip link set u$i master br$i up
done

# cable NAMESPACE DEVICE BRIDGE [LINK]: makes a new device, replacing one of the same name.
cable() {
	at "$middle" ip link del "p$2" 2>/dev/null
	at "$middle" ip link add "p$2" type veth peer name "$2" ${4:+address "$4"} netns "$1"
	at "$middle" ip link set "p$2" master "$3" up
	at "$1" ip link set "$2" up
}

# has NAMESPACE DEVICE ADDRESS...
has() {
	local address
	for address in "${@:3}"; do
		at "$1" ip addr add "$address" dev "$2"
	done
}

# sets NAMESPACE VALUE NAME...: writes VALUE to names in /proc/sys/net/ipv4.
sets() {
	local name
	for name in "${@:3}"; do
		at "$1" sh -c "echo $2 >/proc/sys/net/ipv4/$name"
	done
}

# impatient NAMESPACE DEVICE: shortens Linux's neighbour timers; the defaults are 30 s and 5 s.
impatient() {
	[ "${XK_TEST_LONG:-0}" = 1 ] || {
		sets "$1" 500 "neigh/$2/base_reachable_time_ms"
		sets "$1" 1 "neigh/$2/delay_first_probe_time"
		sets "$1" 300 "neigh/$2/retrans_time_ms"
	}
}

# ---- hosts -------------------------------------------------------------------------------------------------------------

of_ours() {
	echo "--link af_packet --set port.dev=$1 --set arp.age=3600s"
}

# stand NAMESPACE DEVICE ADDRESS [OPTION]...: starts our host, which answers.
stand() {
	# shellcheck disable=SC2046 # words
	spawn host nsenter -t "$1" -n "$build/xk" run graphs/host.dot $(of_ours "$2") --set "vnet.address=$3" "${@:4}"
	host=$pid
	within 30 printed host.err 'stands at' || fail stand "$(tail -n 3 "$work/host.err")"
}

fall() {
	kill -TERM "$host"
	await_end "$host" 20
	[ "$status" -eq 0 ] || fail fall "status $status: $(tail -n 3 "$work/host.err")"
}

# ask WHO NAMESPACE DEVICE OWN ADDRESS [OPTION]...: sends requests until `hush`; WHO is `ours` (with options) or `linux`.
ask() {
	if [ "$1" = ours ]; then
		# shellcheck disable=SC2046 # words
		spawn asker nsenter -t "$2" -n "$build/icmptest" "$5" $(of_ours "$3") --set "vnet.address=$4" --count 0 \
			--interval 50ms --timeout 500ms "${@:6}"
	else
		spawn asker nsenter -t "$2" -n "$peer" watch "$5" "${4%/*}"
	fi
	asker=$pid
}

hush() {
	kill -TERM "$asker"
	await_end "$asker" 20
}

answers() {
	grep -cE '^seq|bytes from' "$work/asker.out"
}

answered() {
	[ "$(answers)" -ge "$1" ]
}

# recovers NAME: waits for new answers and prints the time.
recovers() {
	local before from
	before=$(answers)
	from=$(milliseconds)
	within 12 answered $((before + 1))
	printf '# %6d ms: %s\n' $(($(milliseconds) - from)) "$1"
	check "$1" "$(tail -n 2 "$work/asker.out" "$work/asker.err")" within 12 answered $((before + 5))
}

# ---- a neighbour that comes back or moves -------------------------------------------------------------------------------

# come WHO LINK: starts the neighbour 10.77.0.1 with a new card.
come() {
	cable "$changing" b0 br1 "$2"
	if [ "$1" = ours ]; then
		stand "$changing" b0 10.77.0.1/24
	else
		has "$changing" b0 10.77.0.1/24
	fi
}

leave() {
	at "$middle" ip link del pb0
	[ "$1" != ours ] || {
		kill -KILL "$host"
		await_end "$host" 20 2>/dev/null
	}
}

# changes ASKING CHANGING
changes() {
	local name="$1 asks $2"
	cable "$asking" a0 br0
	[ "$1" = ours ] || has "$asking" a0 10.77.0.2/24
	impatient "$asking" a0
	come "$2" $first
	ask "$1" "$asking" a0 10.77.0.2/24 10.77.0.1
	recovers "$name"
	leave "$2"
	come "$2" $first
	recovers "$name: restarted"
	leave "$2"
	come "$2" $second
	recovers "$name: restarted with another link address"
	at "$middle" ip link set pb0 nomaster
	at "$middle" ip link set pb0 master br2
	recovers "$name: at another port of a bridge, unnoticed by the host"
	at "$middle" ip link set pb0 down
	at "$middle" ip link set pb0 master br1 up
	recovers "$name: at another port of a bridge"
	cable "$changing" b0 br1 $third
	[ "$2" = ours ] || has "$changing" b0 10.77.0.1/24
	recovers "$name: with another card"
	hush
	[ "$2" != ours ] || fall
}

changes ours linux
changes linux ours
changes ours ours
[ "${XK_TEST_LONG:-0}" = 0 ] || changes linux linux

# ---- several addresses, another prefix ----------------------------------------------------------------------------------

cable "$asking" a0 br0
cable "$changing" b0 br1 $first
cable "$another" c0 br2 $second
has "$changing" b0 10.77.0.1/24 10.77.0.3/24 10.99.0.1/24 10.77.5.1/16
at "$changing" ip route add 10.77.0.2 dev b0
stand "$asking" a0 10.77.0.2/24
for own in 10.77.0.1 10.77.0.3 10.99.0.1 10.77.5.1; do
	ask linux "$changing" b0 $own/24 10.77.0.2
	recovers "Linux asks with one of its addresses, $own"
	hush
	at "$changing" ip neigh flush dev b0
done
fall
ask ours "$asking" a0 10.77.0.2/24 10.77.5.1 --set vnet.onlink=10.77.5.1
recovers "ours asks a neighbour with a wider prefix"
hush
ask ours "$asking" a0 10.77.0.2/24 10.77.0.3
recovers "ours asks Linux at its second address"
at "$changing" ip addr del 10.77.0.3/24 dev b0
has "$another" c0 10.77.0.3/24
recovers "... which another station now has"
hush
at "$changing" ip addr flush dev b0
at "$another" ip addr flush dev c0

# ---- a virtual router ---------------------------------------------------------------------------------------------------

# A router may have a device with the virtual link address; another program answers ARP for it. `master NAMESPACE DEVICE`
# takes over the virtual address, `resign NAMESPACE DEVICE` gives it up.
master() {
	at "$1" ip link set "$2" up
	at "$1" ip link add link "$2" name v0 address $virtual type macvlan mode bridge
	at "$1" ip link set v0 up
	sets "$1" 0 conf/all/rp_filter
	sets "$1" 8 conf/all/arp_ignore
	spawn virtual nsenter -t "$1" -n "$peer" virtual "$2" 10.77.0.254 $virtual
	virtual_router=$pid
	within 10 printed virtual.out ready
}

resign() {
	kill -TERM "$virtual_router"
	await_end "$virtual_router" 10
	at "$1" ip link del v0
	sets "$1" 0 conf/all/arp_ignore
	at "$1" ip link set "$2" down
}

# routed WHO
routed() {
	local name="$1 asks beyond a virtual router"
	for i in 0 1 2; do # bridges remember the port where the virtual link address was last
		at "$middle" ip link set br$i type bridge fdb_flush
	done
	cable "$asking" a0 br0
	cable "$changing" b0 br1 $first
	cable "$another" c0 br2 $second
	[ "$1" = ours ] || {
		has "$asking" a0 10.77.0.2/24
		at "$asking" ip route add $far via 10.77.0.254
	}
	impatient "$asking" a0
	has "$changing" b0 10.77.0.11/24 10.77.0.254/32
	has "$another" c0 10.77.0.12/24
	ask "$1" "$asking" a0 10.77.0.2/24 $far --set ip.gateway=10.77.0.254
	recovers "$name"
	at "$changing" ip link set b0 down
	has "$another" c0 10.77.0.254/32
	at "$another" "$peer" announce c0 10.77.0.254 $second
	recovers "$name: another station announces that it is the router"
	at "$another" ip link set c0 down
	master "$changing" b0
	recovers "$name: a virtual link address, which no frame comes from"
	resign "$changing" b0
	master "$another" c0
	at "$another" "$peer" announce c0 10.77.0.254 $virtual
	recovers "$name: the same link address at another port"
	resign "$another" c0
	hush
}

for namespace in "$changing" "$another"; do
	has "$namespace" lo $far/32
	sets "$namespace" 1 ip_forward
done
if at "$changing" ip link add link b0 name v0 type macvlan 2>"$work/macvlan"; then
	at "$changing" ip link del v0
	routed ours
	[ "${XK_TEST_LONG:-0}" = 0 ] || routed linux
else
	echo "SKIPPED: $(cat "$work/macvlan"): nothing shows that hosts follow a virtual router"
fi

# ---- a proxy ------------------------------------------------------------------------------------------------------------

# proxied ASKING CHANGING: a router between two segments of one network answers ARP for the hosts of the other segment.
proxied() {
	local name="$1 asks $2 through a proxy"
	cable "$asking" a0 br0
	cable "$another" c0 br2
	cable "$another" d0 br3
	has "$another" c0 10.77.0.11/32
	has "$another" d0 10.77.0.11/32
	sets "$another" 1 conf/c0/proxy_arp conf/d0/proxy_arp
	sets "$another" 0 neigh/c0/proxy_delay neigh/d0/proxy_delay
	at "$another" ip route replace 10.77.0.2 dev c0
	at "$another" ip route replace 10.77.0.1 dev d0
	[ "$1" = ours ] || has "$asking" a0 10.77.0.2/24
	impatient "$asking" a0
	come "$2" $first
	at "$middle" ip link set pb0 master br3
	ask "$1" "$asking" a0 10.77.0.2/24 10.77.0.1
	recovers "$name"
	at "$middle" ip link set pc0 down
	at "$middle" ip link set pb0 master br1
	recovers "$name: it has moved to this segment"
	hush
	[ "$2" != ours ] || fall
}

proxied ours linux
proxied linux ours
[ "${XK_TEST_LONG:-0}" = 0 ] || proxied linux linux
at "$middle" ip link del pc0

# ---- a gateway outside the prefix ---------------------------------------------------------------------------------------

# gateway LINK
gateway() {
	cable "$changing" b0 br1 "$1"
	has "$changing" b0 172.31.1.1/32
	at "$changing" ip route add 10.9.9.9 dev b0
}

# beyond WHO
beyond() {
	local name="$1 asks beyond a gateway outside its prefix"
	cable "$asking" a0 br0
	gateway $first
	[ "$1" = ours ] || {
		has "$asking" a0 10.9.9.9/32
		at "$asking" ip route add default via 172.31.1.1 dev a0 onlink
	}
	impatient "$asking" a0
	ask "$1" "$asking" a0 10.9.9.9/32 $far --set ip.gateway=172.31.1.1 --set vnet.onlink=172.31.1.1
	recovers "$name"
	gateway $second
	recovers "$name: with another card"
	hush
}

beyond ours
[ "${XK_TEST_LONG:-0}" = 0 ] || beyond linux
cable "$asking" a0 br0
stand "$asking" a0 10.9.9.9/32 --set ip.gateway=172.31.1.1 --set vnet.onlink=172.31.1.1
ask linux "$changing" b0 $far/32 10.9.9.9
recovers "Linux asks ours through that gateway"
hush
fall
