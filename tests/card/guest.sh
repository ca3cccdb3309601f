#!/bin/sh
# guest.sh - the first and only program of the emulated machine that run.sh starts: hosts on its two cards, of the kind $CARD.
# Prints `ok NAME` or `FAIL NAME: why`.
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

# told NAME WORDS COMMAND...: what it prints has these words.
told() {
	local name=$1 words=$2
	shift 2
	timeout 120 "$@" >/tmp/out 2>&1
	if grep -q "$words" /tmp/out; then
		echo "ok $name"
	else
		echo "FAIL $name: $(tail -n 3 /tmp/out | tr '\r\n' '  ')"
	fi
}

# take CARD: from whatever driver has it, for vfio-pci.
take() {
	[ ! -e "/sys/bus/pci/devices/$1/driver" ] || echo "$1" >"/sys/bus/pci/devices/$1/driver/unbind"
	echo vfio-pci >"/sys/bus/pci/devices/$1/driver_override"
	echo "$1" >/sys/bus/pci/drivers_probe
}

# serve COMMAND...: in the background, as $server, once it serves.
serve() {
	"$@" >/tmp/server 2>&1 &
	server=$!
	for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
		! grep -qE 'serving|stands' /tmp/server || return 0
		sleep 1
	done
	echo "FAIL $*: $(tail -n 3 /tmp/server | tr '\r\n' '  ')"
}

end_server() {
	kill -INT $server
	wait $server
}

near=0000:00:03.0 far=0000:00:04.0
for module in irqbypass vfio_virqfd vfio vfio_iommu_type1 vfio-pci-core vfio-pci; do
	insmod /modules/$module.ko
done
told "a card without a driver is refused" "belongs to no driver" ./udptest --server --link $near --driver poll
take $near
told "xk doctor finds it" "PCI address *yes" ./xk doctor

# The far card is Linux's.
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net e1000e; do
	insmod /modules/$module.ko
done
sleep 1
interface=$(ls /sys/bus/pci/devices/$far/net /sys/bus/pci/devices/$far/virtio*/net 2>/dev/null | grep -v : | tail -n 1)
ip link set dev "$interface" up
ip addr add 10.77.0.9/24 dev "$interface"
told "a card of Linux's is refused" "belongs to the kernel's driver" ./udptest --server --link $far --driver poll
serve ./xk run graphs/host.dot --link $near --driver poll
told "Linux pings a host that polls" " 0% packet loss" ping -c 5 -i 1 10.77.0.2
echo cable off
sleep 5
told "a pulled cable carries nothing" "100% packet loss" ping -c 3 -W 2 10.77.0.2
echo cable on
sleep 8
told "the host is there again when it is plugged in" " 0% packet loss" ping -c 3 -W 5 10.77.0.2
echo $near >/sys/bus/pci/drivers/vfio-pci/unbind &
unbinder=$!
sleep 3
told "a host keeps a card that root takes away, until it ends" " 0% packet loss" ping -c 3 -W 5 10.77.0.2
end_server
wait $unbinder
told "... and then the card is free" "No such file" ls /sys/bus/pci/devices/$near/driver/

take $near
take $far
serve ./udptest --server --link $near --driver poll --cores 1
told "two hosts that poll" " 1 .*ipp.* 0$" ./udptest --client 10.77.0.2 --link $far --driver poll --cores 0 --rounds 200 --mode ipp
end_server
case $CARD in
e1000e)
	told "interrupts that never come are refused" "cannot wake a sleeping driver" ./udptest --server --link $near --driver interrupt
	;;
*)
	serve ./udptest --server --link $near --driver interrupt --cores 1
	told "two hosts that sleep" " 1 .*ipp.* 0$" ./udptest --client 10.77.0.2 --link $far --driver interrupt --cores 0 --rounds 200 --mode ipp
	end_server
	;;
esac
echo ok the end
poweroff -f
