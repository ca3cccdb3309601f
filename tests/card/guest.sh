#!/bin/sh
# guest.sh - init of the two emulated machines that run.sh starts, $HOST near and far, each with a card of the kind $CARD. Prints
# `ok NAME` or `FAIL NAME: why`.
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/hugepages
for place in /dev/shm /run /tmp; do
	mount -t tmpfs tmp $place
done
mount -t hugetlbfs huge /dev/hugepages
echo 128 >/proc/sys/vm/nr_hugepages
cd /hosts || exit

# ---- steps of two machines in turn ----

# The second serial port leads to the other machine. Bytes sent before it reads are lost: far repeats its word until answered.
stty -F /dev/ttyS1 raw -echo
exec 3<>/dev/ttyS1
step=0
case $HOST in
near)
	read -r word <&3
	echo here >&3
	;;
far)
	while echo here; do sleep 1; done >&3 &
	read -r word <&3
	kill $!
	;;
esac

# at HOST COMMAND...: runs it on this machine while the other waits.
at() {
	local host=$1
	shift
	step=$((step + 1))
	if [ "$host" = "$HOST" ]; then
		"$@"
		echo $step >&3
	else
		until [ "$word" = $step ]; do
			read -r word <&3
		done
	fi
}

# ---- the steps ----

# prints NAME WORDS COMMAND...: checks that its output contains these words.
prints() {
	local name=$1 words=$2
	shift 2
	timeout 120 "$@" >/tmp/out 2>&1
	if grep -q "$words" /tmp/out; then
		echo "ok $name"
	else
		echo "FAIL $name: $(tail -n 3 /tmp/out | tr '\r\n' '  ')"
	fi
}

load() {
	local module
	for module in "$@"; do
		insmod "/modules/$module.ko"
	done
}

# take: moves the card from its driver to vfio-pci.
take() {
	[ ! -e $device/driver ] || echo $card >$device/driver/unbind
	echo vfio-pci >$device/driver_override
	echo $card >/sys/bus/pci/drivers_probe
}

# give: gives the card to Linux.
give() {
	load virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net e1000e
	sleep 1
	interface=$(ls $device/net $device/virtio*/net 2>/dev/null | grep -v : | tail -n 1)
	ip link set dev "$interface" up
	ip addr add 10.77.0.9/24 dev "$interface"
}

# begin_unbinding: starts unbinding, which the kernel completes when the host has ended.
begin_unbinding() {
	echo $card >/sys/bus/pci/drivers/vfio-pci/unbind &
	unbinder=$!
	sleep 3
}

# cable on|off: asks run.sh to plug or pull the card's cable.
cable() {
	echo "cable $1"
	sleep 8
}

# serve COMMAND...: runs it in the background, as $server, and waits until it serves.
serve() {
	"$@" >/tmp/server 2>&1 &
	server=$!
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		! grep -qE 'serving|stands at' /tmp/server || return 0
		sleep 1
	done
	echo "FAIL $*: $(tail -n 3 /tmp/server | tr '\r\n' '  ')"
}

end_server() {
	kill -INT $server
	wait $server
}

card=0000:00:03.0
device=/sys/bus/pci/devices/$card
load irqbypass vfio_virqfd vfio vfio_iommu_type1 vfio-pci-core vfio-pci
at near prints "a card without a driver is refused" "belongs to no driver" ./udptest --server --link $card --driver poll
at near take
at near prints "xk doctor finds it" "PCI address *yes" ./xk doctor
at far give
at far prints "a card in use by Linux is refused" "belongs to the kernel's driver" ./udptest --server --link $card --driver poll

at near serve ./xk run graphs/host.dot --link $card --driver poll
at far prints "Linux pings a host that polls" " 0% packet loss" ping -c 5 -i 1 10.77.0.2
at near cable off
at far prints "a pulled cable carries nothing" "100% packet loss" ping -c 3 -W 2 10.77.0.2
at near cable on
at far prints "the host is reachable again once plugged in" " 0% packet loss" ping -c 3 -W 5 10.77.0.2
at near begin_unbinding
at far prints "a host keeps a card that root unbinds, until it ends" " 0% packet loss" ping -c 3 -W 5 10.77.0.2
at near end_server
at near wait $unbinder
at near prints "... and then the card is free" "No such file" ls $device/driver/

at near take
at far take
at near serve ./udptest --server --link $card --driver poll
at far prints "two hosts that poll" " 1 .*ipp.* 0$" ./udptest --client 10.77.0.2 --link $card --driver poll --rounds 200 --mode ipp
at near end_server
case $CARD in
e1000e)
	at near prints "interrupts that never come are refused" "cannot wake a sleeping driver" ./udptest --server --link $card --driver interrupt
	at near prints "two drivers are refused, because frames are not spread" "does not spread frames" \
		./udptest --server --link $card --driver poll --drivers 2
	;;
*)
	at near serve ./udptest --server --link $card --driver interrupt --drivers 2 --json /tmp/json
	# The seed determines the client's port, and so the queue, because DPDK gives the card a fixed key.
	for seed in 1 2; do
		at far prints "two hosts that sleep, flow $seed" " 1 .*ipp.* 0$" ./udptest --client 10.77.0.2 --link $card --driver interrupt \
			--drivers 2 --rounds 200 --mode ipp --set udp.seed=$seed
	done
	at near end_server
	at near prints "... and each of the server's two drivers has received one flow" \
		'"drivers":\[{"fragments":[0-9]\{3,\},[^}]*},{"fragments":[0-9]\{3,\},' sh -c "tr -d ' \n' </tmp/json"
	at near prints "more drivers than queues are refused" "has at most 2 queues" \
		./udptest --server --link $card --driver poll --drivers 3
	;;
esac
exec 3>&- # waits until the last word is sent
echo ok the end
poweroff -f
