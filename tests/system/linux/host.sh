# shellcheck shell=bash
# host.sh - our host beside Linux's. Sourced after networks.sh; the caller makes the namespaces `linux` and `ours`, and in the
# latter the device x0, or has cable or wire do so.

here=$root/tests/system/linux
xk=$build/xk
kernel_host=10.88.0.1
our_host=10.88.0.2
link=af_packet
alone=(--link $link --set port.dev=x0 --set "vnet.address=$our_host/24")

# cable NAMESPACE DEVICE OURS: makes Linux's device, which is up, and joins it with ours by $link: by a pair of devices, of which
# OURS is in the namespace `ours`, or by a tap, which our host opens itself, so that `ours` is then NAMESPACE. The device of our
# port is $our_device.
cable() {
	if [ "$link" = tap ]; then
		ours=$1
		our_device=$2
		at "$1" ip tuntap add dev "$2" mode tap || return 1
	else
		our_device=$3
		at "$1" ip link add "$2" type veth peer name "$3" netns "$ours" || return 1
		at "$ours" "$here/peer.py" quiet "$3"
		at "$ours" ip link set "$3" up
	fi
	at "$1" "$here/peer.py" quiet "$2"
	at "$1" ip link set "$2" up
}

# wire: makes the namespaces, and the devices of a wire from Linux's k0 to our x0 that a program between m0 and m1 is.
wire() {
	namespace linux
	namespace middle
	namespace ours
	at "$middle" ip link add m0 type veth peer name k0 netns "$linux" 2>"$work/veth" ||
		skip "no veth devices here ($(cat "$work/veth"))"
	at "$middle" ip link add m1 type veth peer name x0 netns "$ours"
	for end in "$linux k0" "$middle m0" "$middle m1" "$ours x0"; do
		at "${end% *}" "$here/peer.py" quiet "${end#* }"
		at "${end% *}" ip link set "${end#* }" up
	done
	at "$linux" ip addr add "$kernel_host/24" dev k0
}

# stand GRAPH [OPTION]...: starts our host and waits until it is up, as $host; its messages are in $work/host.err.
stand() {
	spawn host nsenter -t "$ours" -n "$xk" run "$1" "${alone[@]}" --json "$work/host.json" "${@:2}"
	host=$pid
	within 30 printed host.err "$our_host" || fail stand "our host is not up: $(tail -n 3 "$work/host.err")"
}

# fall: ends it.
fall() {
	kill -TERM "$host"
	await_end "$host" 30
	[ "$status" -eq 0 ] || fail fall "status $status: $(tail -n 3 "$work/host.err")"
}
