#!/bin/sh
# packages.sh - for ./run, which defines info, die and quietly: lists the Debian packages that its commands need, and
# installs them; or, for build --sim on any Linux, reports missing tools.

# Packages of each command in addition to those of the build; recommended packages are not installed.
build_packages='gcc libc6-dev meson ninja-build pkg-config libdpdk-dev libevent-dev libjansson-dev graphviz'
test_packages='libcunit1-dev libgraphviz-dev cppcheck clang-format gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user musl-tools tshark iproute2 curl'
web_packages='python3 iproute2'
measure_packages='valgrind python3'
peers_packages='xz-utils'
card_packages='qemu-system-x86 busybox-static cpio'
report_packages='python3 python3-matplotlib iproute2 clang valgrind'
grade_packages='bubblewrap python3 libcunit1-dev'

# Prints the packages among "$@" that are not installed.
missing_packages() {
	installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | sed -n 's/ installed$//p')
	for package; do
		printf '%s\n' "$installed" | grep -qxF -- "$package" || printf '%s ' "$package"
	done
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		env DEBIAN_FRONTEND=noninteractive "$@"
	elif [ -t 2 ]; then
		sudo env DEBIAN_FRONTEND=noninteractive "$@"
	else
		sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
	fi
}

install_packages() {
	command -v dpkg-query >/dev/null || die "this is not a Debian system; install these packages: $*"
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	if [ "$(id -u)" -ne 0 ] && ! { command -v sudo >/dev/null && { [ -t 2 ] || sudo -n true 2>/dev/null; }; }; then
		die "neither root nor sudo is available; as root, run: apt-get install --no-install-recommends $missing"
	fi
	info "installing $missing"
	[ ! -t 2 ] || [ "$(id -u)" -eq 0 ] || sudo true || die "sudo refused"
	quietly apt-update as_root apt-get -o DPkg::Lock::Timeout=300 update
	# shellcheck disable=SC2086 # a list of words
	quietly apt-install as_root apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
}

# lacks TOOL DEBIAN FEDORA ARCH: reports a missing tool, and the packages of each distribution that have it.
lacks() {
	info "missing: $1 (package $2 of Debian, $3 of Fedora, $4 of Arch)"
	debian="$debian $2"
	fedora="$fedora $3"
	arch="$arch $4"
}

# has COMMAND...: succeeds if one of the commands is installed.
has() {
	for tool; do
		! command -v "$tool" >/dev/null || return 0
	done
	return 1
}

# need_tools [tests]: reports all missing tools at once, including those for tests, by tool and by package, and exits.
need_tools() {
	debian=
	fedora=
	arch=
	# shellcheck disable=SC2086 # CC may have options
	has ${CC:-cc} || lacks "a C compiler (${CC:-cc})" gcc gcc gcc
	has meson || lacks meson meson meson meson
	has ninja samu || lacks ninja ninja-build ninja-build ninja
	has dot || lacks "dot of graphviz" graphviz graphviz graphviz
	# shellcheck disable=SC2086 # likewise
	pkg-config --exists jansson 2>/dev/null || echo '#include <jansson.h>' | ${CC:-cc} -E - >/dev/null 2>&1 ||
		lacks jansson libjansson-dev jansson-devel jansson
	# shellcheck disable=SC2086 # likewise
	[ $# -eq 0 ] || echo '#include <CUnit/CUnit.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || lacks CUnit libcunit1-dev CUnit-devel cunit
	[ -n "$debian" ] || return 0
	info "as root, one of:  apt-get install$debian   |   dnf install$fedora   |   pacman -S$arch"
	exit 1
}
