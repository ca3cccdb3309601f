#!/bin/sh
# bench.sh BUILD CORE - echoes, calls and streams by lwIP and by the x-kernel, each embedded in one program (peers.c). Fetches
# Debian's source of lwIP into build/peers/ with apt-get, which needs neither root nor a change to the system's sources.
# Run it from the checkout's root.
set -eu
export LC_ALL=C

build=$1
core=$2
here=$PWD/experiments/peers
work=$PWD/build/peers

die() {
	printf 'bench: %s\n' "$*" >&2
	exit 1
}

# apt WORD...: apt-get with its own sources and lists.
apt() {
	apt-get -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$work/parts" -o Dir::State::Lists="$work/lists" \
		-o Dir::Cache="$work/cache" -o Dir::State::status=/var/lib/dpkg/status -o APT::Sandbox::User="$(id -un)" "$@"
}

fetch() {
	mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)
	mkdir -p "$work/parts" "$work/lists/partial" "$work/cache/archives/partial"
	printf 'Types: deb-src\nURIs: %s\nSuites: bookworm\nComponents: main\nSigned-By: %s\n' "${mirror:-http://deb.debian.org/debian/}" \
		/usr/share/keyrings/debian-archive-keyring.gpg >"$work/parts/peers.sources"
	{ apt update && cd "$work" && apt source --download-only lwip; } >"$work/fetch.log" 2>&1 ||
		die "cannot fetch lwIP's source: $(tail -n 3 "$work/fetch.log")"
	tar -xf "$work"/lwip_*.orig.tar.xz -C "$work"
}

[ -d "$(echo "$work"/lwip-*/src)" ] || (fetch)
lwip=$(echo "$work"/lwip-*/src)
version=${lwip%/src}

# lwIP's checksums: by its three algorithms, and by the x-kernel's. Both stacks have a function tcp_output.
checksums='1 2 3 4'
for checksum in $checksums; do
	# shellcheck disable=SC2046 # lists of options
	cc -O3 -w -DPEERS_CHECKSUM="$checksum" -Dtcp_output=lwip_tcp_output -o "$work/peers-$checksum" -I"$here" -I"$lwip/include" "$here/peers.c" "$lwip"/core/*.c \
		"$lwip"/core/ipv4/*.c "$lwip/netif/ethernet.c" $(PKG_CONFIG_PATH=$build/meson-uninstalled pkg-config --cflags xkernel) \
		"$build/tools/libtools.a" $(PKG_CONFIG_PATH=$build/meson-uninstalled pkg-config --libs xkernel) || die "cannot compile peers.c"
done

echo "Messages through two stacks in one process, ns: the least of 400 blocks in turn. Each stack is embedded in the program's own loop, copies"
echo "received frames into its own buffers, and generates and verifies all checksums. lwIP (gcc -O3) is built with each of its three checksum"
echo "algorithms, and with the x-kernel's; the fastest is shown, beside the x-kernel in the same run. Echoes and calls are UDP's; a stream is TCP's,"
echo "of messages that are lent to it, in segments of 1460 bytes: ns for each segment, sender and receiver together."
printf '%-14s %6s %10s %12s %7s   %s\n' '' bytes x-kernel "${version##*/}" ratio 'checksum of lwIP'
for kind in echo call stream; do
	case $kind in
	echo) name='an echo' sizes='1 64 1472 4000' ;;
	call) name='a call' sizes='1 64 1472 4000' ;;
	*) name='a stream' sizes='1460 16384 60000' ;;
	esac
	for size in $sizes; do
		: >"$work/result"
		for checksum in $checksums; do
			printf '%s ' "$checksum" >>"$work/result"
			taskset -c "$core" "$work/peers-$checksum" $kind "$size" >>"$work/result" || die "peers $kind $size failed"
		done
		sort -k 6,6n "$work/result" | awk -v kind="$name" \
			'NR == 1 { printf "%-14s %6d %10.1f %12.1f %7.2f   %s\n", kind, $3, $4, $6, $6 / $4, $1 == 4 ? "the x-kernel" "\047" "s" : "its algorithm " $1 }'
	done
done
