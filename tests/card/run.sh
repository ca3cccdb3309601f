#!/bin/bash
# run.sh BUILD - hosts on network cards, in two emulated machines: qemu without KVM, Debian's kernel with an emulated IOMMU, and a
# card of one kind in each. The machines run guest.sh. Takes some minutes; for ./run test --long.
# shellcheck source=tests/system/common.sh
. "$(dirname "$0")/../system/common.sh"

cards='virtio-net-pci e1000e'
modules='virtio virtio_ring virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net e1000e
	irqbypass vfio_virqfd vfio vfio_iommu_type1 vfio-pci-core vfio-pci'
devices='bus_pci bus_vdev mempool_ring mempool_stack net_e1000 net_virtio net_vhost'
words='sh stty mount mkdir cat echo insmod sleep ip poweroff grep ping kill timeout ls tr tail'
kernel=$root/build/card
image=$work/image

skip() {
	echo "skipped: $1"
	exit 0
}

[ "$(uname -m)" = x86_64 ] || skip "the emulated machine is an x86-64"
for tool in qemu-system-x86_64 busybox cpio apt-get dpkg unshare nsenter ip; do
	command -v $tool >/dev/null || skip "$tool is not installed"
done

# Debian's kernel, unpacked but not installed.
if ! ls "$kernel"/boot/vmlinuz-* >/dev/null 2>&1; then
	package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ { print $2 }')
	mkdir -p "$kernel"
	(cd "$work" && apt-get download "$package" >/dev/null 2>&1) || skip "Debian's kernel cannot be downloaded"
	dpkg -x "$work"/linux-image-*.deb "$kernel"
fi

# put FILE: copies it, and the targets of its links, to the image.
put() {
	local real
	real=$(realpath "$1")
	mkdir -p "$image$(dirname "$1")" "$image$(dirname "$real")"
	cp "$real" "$image$real"
	[ "$1" = "$real" ] || ln -sf "$real" "$image$1"
}

put_libraries() {
	local library
	for library in $(ldd "$1" | awk '/=> \// { print $3 } /^\t\/lib/ { print $1 }'); do
		put "$library"
	done
}

mkdir -p "$image"/bin "$image"/proc "$image"/sys "$image"/dev "$image"/tmp "$image"/run "$image"/modules "$image"/hosts/graphs
cp "$(command -v busybox)" "$image/bin/busybox"
for word in $words; do
	ln -s busybox "$image/bin/$word"
done
for module in $modules; do
	find "$kernel/lib/modules" -name "$module.ko" -exec cp {} "$image/modules/" \;
done
for program in udptest xk; do
	cp "$root/build/$program" "$image/hosts/"
	put_libraries "$root/build/$program"
done
for device in $devices; do
	for file in /usr/lib/*/dpdk/pmds-*/librte_"$device".so*; do
		put "$file"
		put_libraries "$file"
	done
done
cp graphs/udptest.dot graphs/host.dot "$image/hosts/graphs/"
cp tests/card/guest.sh "$image/init"
(cd "$image" && find . | cpio -o -H newc 2>/dev/null | gzip -1 >"$work/image.gz")

# obey LOG: pulls the near card's cable and plugs it in again when LOG requests it.
obey() {
	local word
	for word in off on; do
		until grep -aq "^cable $word" "$1" 2>/dev/null; do
			sleep 0.5
		done
		python3 -c 'import socket, sys, time
monitor = socket.socket(socket.AF_UNIX)
monitor.connect(sys.argv[1])
monitor.sendall(f"set_link card {sys.argv[2]}\n".encode())
time.sleep(1)' "$work/monitor" $word
	done
}

# machine HOST CARD SERIAL [OPTION]...: starts the machine, as $pid, with the card on the tap of its name.
machine() {
	local host=$1 device=$2 serial=$3
	shift 3
	spawn "$card-$host" timeout 900 nsenter --preserve-credentials -U -n -t "$network" \
		qemu-system-x86_64 -machine q35,accel=tcg,kernel-irqchip=split -cpu max -smp 2 -m 1024 -nodefaults -display none \
		-no-reboot -serial "file:$work/$card-$host.log" -serial "unix:$work/serial,$serial" "$@" \
		-device intel-iommu,intremap=on,caching-mode=on -netdev "tap,id=tap,ifname=$host,queues=2,script=no,downscript=no" \
		-device "$device,id=card,netdev=tap,romfile=,bus=pcie.0,addr=3" \
		-kernel "$(ls "$kernel"/boot/vmlinuz-*)" -initrd "$work/image.gz" \
		-append "console=ttyS0 intel_iommu=on panic=-1 quiet no_timer_check CARD=$card HOST=$host"
}

inside() {
	nsenter --preserve-credentials -U -n -t "$network" "$@" 2>/dev/null
}

# The network between the machines: taps, because an emulated card on a hub or a socket has only one queue.
spawn network unshare -rn sleep infinity
network=$pid
within 10 inside ip link add cable up type bridge || skip "a network namespace cannot be made"
for host in near far; do
	inside ip tuntap add dev $host mode tap multi_queue && inside ip link set $host up master cable ||
		skip "a tap cannot be made"
done

for card in $cards; do
	options=
	[ "$card" != virtio-net-pci ] || options=,disable-legacy=on,iommu_platform=on,mq=on,rss=on
	obey "$work/$card-near.log" &
	obeyer=$!
	machine near "$card,mac=02:00:00:00:00:10$options" server=on -monitor "unix:$work/monitor,server=on,wait=off"
	near=$pid
	machine far "$card,mac=02:00:00:00:00:11$options" reconnect=1
	wait "$near" "$pid"
	kill $obeyer 2>/dev/null
	wait $obeyer 2>/dev/null
	for host in near far; do
		tr -d '\r' <"$work/$card-$host.log" | grep -aE '^(ok|FAIL) ' >"$work/told"
		sed "s/^\(ok\|FAIL\) /\1 $card: /" "$work/told"
		failures=$((failures + $(grep -c '^FAIL' "$work/told")))
		check "$card: the $host machine got to its end" "$(tail -n 5 "$work/$card-$host.log" "$work/$card-$host.err")" \
			grep -q '^ok the end' "$work/told"
	done
done
