#!/bin/bash
# interfaces.sh BUILD - hosts on interfaces that change while they run, with a default Linux at the other end, which
# offloads checksums, coalesces segments and sends long frames. Each change is a line on standard error and a counter; each
# lost frame is counted by name.
#
#     linux: vb, 10.77.0.1 --- va, ours, 10.77.0.2
. "$(dirname "$0")/common.sh"

peer=$root/tests/system/linux/peer.py
xk=$build/xk

unshown="hosts follow their interfaces"
. "$root/tests/system/networks.sh"

# cable: makes va in our namespace and vb, with an address, in Linux's.
cable() {
	at "$ours" ip link add va type veth peer name vb netns "$linux" && at "$ours" ip link set va up &&
		at "$linux" ip link set vb up && at "$linux" ip addr add 10.77.0.1/24 dev vb
}

# stand LINK DEV [OPTION]...: starts our host; its messages go to $work/host.err, its counts to $work/host.json at its end.
stand() {
	at "$linux" ip neigh flush dev vb
	spawn host nsenter -t "$ours" -n "$xk" run graphs/host.dot --link "$1" --set port.dev="$2" \
		--set vnet.address=10.77.0.2/24 --json "$work/host.json" "${@:3}"
	host=$pid
	within 30 printed host.err 'stands at|xk run: host'
	printed host.err 'stands at'
}

fall() {
	kill -TERM "$host"
	await_end "$host" 20
	check "$1: the host ends well" "status $status: $(tail -n 3 "$work/host.err")" [ "$status" -eq 0 ]
}

# counted NAME EXPRESSION: checks an expression of c, the host's counters and drops; missing ones are 0.
counted() {
	document "$1" "$work/host.json" "[c for c in [__import__('collections').Counter({**d['host']['counters'], \
		**d['host']['drops']})] if $2]"
}

# reports NAME TEXT: checks that the host prints TEXT on standard error.
reports() {
	check "$1: it is reported" "$(tail -n 3 "$work/host.err")" within 20 printed host.err "$2"
}

# answers NAME [SIZE]...: checks that Linux's echo requests and datagrams are answered.
answers() {
	check "$1: Linux's pings are answered" "see above" at "$linux" "$peer" ping 10.77.0.2 1 "${@:2}" 56
	check "$1: Linux's datagrams come back" "see above" at "$linux" "$peer" udp 10.77.0.2 2001 1 "${@:2}" 56
}

# sends PORT COUNT SIZE: Linux sends datagrams without waiting for answers.
sends() {
	at "$linux" python3 -c '
import socket, sys
port, count, size = map(int, sys.argv[1:])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(count):
    s.sendto(b"x" * size, ("10.77.0.2", port))' "$@"
}

namespace linux
namespace ours
namespace elsewhere
cable 2>"$work/veth" || skip "no veth devices here ($(cat "$work/veth"))"

# ---- a kernel that offloads checksums ------------------------------------------------------------------------------------

stand af_packet va --pcap "$work/left.pcap" || skip "$(tail -n 1 "$work/host.err")"
answers "offloaded checksums" 1472 1473 8000
fall "offloaded checksums"
counted "none of them is bad" "c['udp.bad_checksum'] == c['udp.unsummed'] == 0"
check "a capture has them completed" "see above" python3 - "$work/left.pcap" <<'END'
import struct, sys

data, at, seen = open(sys.argv[1], "rb").read(), 0, 0
while at < len(data):
    kind, size = struct.unpack_from("<II", data, at)
    block, at = data[at:at + size], at + size
    if kind != 6:
        continue
    frame = block[28:28 + struct.unpack_from("<I", block, 20)[0]]
    if frame[12:14] != b"\x08\x00" or frame[23] != 17 or struct.unpack_from(">H", frame, 20)[0] & 0x3FFF:
        continue
    datagram = frame[34:14 + struct.unpack_from(">H", frame, 16)[0]]
    covered = frame[26:34] + struct.pack(">HH", 17, len(datagram)) + datagram + b"\0" * (len(datagram) % 2)
    total = sum(struct.unpack(">%dH" % (len(covered) // 2), covered))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF, frame.hex()
    seen += 1
assert seen >= 4, seen
END

if stand af_xdp va; then
	check "af_xdp: Linux's pings are answered" "see above" at "$linux" "$peer" ping 10.77.0.2 1 56
	sends 2001 1 56
	reports "af_xdp: an offloaded checksum" 'ethtool -K NAME tx off'
	fall "af_xdp"
	counted "it is counted" "c['udp.unsummed'] == 1 and c['udp.bad_checksum'] == 0"
else
	echo "SKIPPED: af_xdp: $(tail -n 1 "$work/host.err")"
fi

# ---- an interface that changes -------------------------------------------------------------------------------------------

stand af_packet va --mode ipp || fail stand "$(tail -n 3 "$work/host.err")"
answers "before"
at "$ours" sh -c 'ip link set va down; ip link set va name vz; ip link set vz up'
reports "renamed" 'va is now called vz'
answers "renamed"
at "$ours" ip link set vz mtu 1400
at "$linux" ip link set vb mtu 1400
reports "another MTU" 'MTU of 1400 \(1500 before\)'
answers "another MTU" 1372 1373 3000
at "$ours" ip link set vz mtu 1500
at "$linux" ip link set vb mtu 1500
reports "the first MTU again" "the port's is 1500"
answers "the first MTU again" 1472 3000
at "$linux" ip link set vb down
reports "no carrier" 'vz is without a carrier'
at "$linux" ip link set vb up
reports "a carrier again" 'vz is up'
at "$ours" ip link set vz address 02:00:00:00:77:78
reports "another address" 'now has the link address 02:00:00:00:77:78'
at "$linux" ip neigh flush dev vb
answers "another address"
at "$ours" ip link set vz netns "$elsewhere"
reports "moved away" 'vz was moved to another network namespace'
at "$elsewhere" ip link set vz netns "$ours"
at "$ours" ip link set vz up
reports "moved back" 'vz is back'
within 20 printed host.err 'vz is up$'
answers "moved back"
at "$ours" ip link del vz
reports "deleted" 'vz was deleted'
cable
reports "made again" 'va is back'
answers "made again"
run 10 "$xk" stats --json -
check "xk stats shows the port's counts" "$(tail -n 3 "$work/err")" grep -q '"moved": 1' "$work/out"
fall "all that"
counted "each is counted" "c['port.renamed'] == 1 and c['port.mtu_changed'] == 2 and c['port.moved'] == 1 and \
	c['port.deleted'] == 1 and c['port.returned'] == 2 and c['port.address_changed'] == 1 and c['port.downs'] >= 2"

# ---- interfaces that are refused -------------------------------------------------------------------------------------

at "$ours" ip link set va mtu 9000
at "$linux" ip link set vb mtu 9000
stand af_packet va
at "$linux" "$peer" ping 10.77.0.2 1 56
sends 9 1 4000
at "$linux" "$peer" ping 10.77.0.2 1 56 # its answer shows that the previous datagram has arrived
fall "a frame longer than a buffer"
counted "a frame longer than a buffer is counted" "c['port.rx_too_long'] == 1 and c['ip.bad_length'] == 0"
at "$ours" ip link set va mtu 1500
at "$linux" ip link set vb mtu 1500

# A stopped host is sent more datagrams than the ring holds: arrived and missed ones add up to those sent.
stand af_packet va
at "$linux" "$peer" ping 10.77.0.2 1 56
kill -STOP "$host"
sends 9 5000 100
kill -CONT "$host"
at "$linux" "$peer" ping 10.77.0.2 1 56
fall "a slow host"
counted "a slow host: received and lost datagrams add up to those sent" \
	"c['port.rx_missed'] > 0 and c['port.rx_missed'] + c['port.interface_rx_dropped'] + d['host']['fragments'] - \
	c['icmp.requests'] - c['arp.requests_in'] - c['arp.replies_in'] == 5000"

if [ -e /dev/net/tun ]; then
	at "$ours" ip tuntap add dev tn0 mode tun
	at "$ours" ip link set tn0 up
	for device in tn0 lo; do
		expect "$device is no Ethernet" 1 "$device is (a tun|the loopback device).*link (tap|virtio)" \
			nsenter -t "$ours" -n "$xk" run graphs/host.dot --link af_packet --set port.dev=$device
	done

	# ---- taps: with one queue, moved while the host runs, and their addresses --------------------------------------

	at "$ours" ip tuntap add dev tp0 mode tap
	stand tap tp0 || fail "a tap of one queue" "$(tail -n 3 "$work/host.err")"
	at "$ours" ip link set tp0 netns "$linux" name tp1
	reports "a tap is moved" 'moved to another network namespace: the port continues there'
	at "$linux" ip link set vb down
	at "$linux" ip addr add 10.77.0.1/24 dev tp1
	at "$linux" ip link set tp1 up
	reports "a tap is up there" 'tp[01] is up'
	answers "a tap that was moved" 1472 3000
	fall "a tap that was moved"

	# address DIRECTORY NAMESPACE: prints the link address of a host on tap0 there.
	address() {
		spawn addressed nsenter -t "$1" -n "$xk" run graphs/host.dot --link tap --set port.dev=tap0 "${@:2}"
		within 30 printed addressed.err 'stands at'
		kill -TERM "$pid"
		await_end "$pid" 20
		sed -n 's/.*(\(..:..:..:..:..:..\)).*/\1/p' "$work/addressed.err"
	}
	first=$(address "$linux")
	check "a tap has the same address at each start" "$first" [ "$(address "$linux")" = "$first" ]
	check "... and another one elsewhere" "$first" [ "$(address "$elsewhere")" != "$first" ]
	check "... or the given one" "see above" \
		[ "$(address "$linux" --set port.address=02:00:00:00:00:07)" = 02:00:00:00:00:07 ]
	expect "a group is no port's address" 1 'names a group' nsenter -t "$linux" -n "$xk" run graphs/host.dot --link tap \
		--set port.dev=tap0 --set port.address=03:00:00:00:00:07
fi
