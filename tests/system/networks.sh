# shellcheck shell=bash
# networks.sh - network namespaces. Sourced after common.sh and after setting unshown: the claim that a skipped test leaves
# unproved.

# skip WHY: prints SKIPPED and ends the test.
skip() {
	echo "SKIPPED: $1: nothing shows that $unshown"
	exit 0
}

command -v ip >/dev/null || skip "no ip (package iproute2)"
command -v nsenter >/dev/null || skip "no nsenter (package util-linux)"
unshare -n true 2>/dev/null || skip "this user may not make network namespaces"

# namespace NAME: makes a network namespace that lives as long as its holder process, whose pid goes to $NAME.
namespace() {
	spawn "$1" unshare -n sleep 3600
	printf -v "$1" '%s' "$pid"
	within 10 other_network "$pid"
	at "$pid" ip link set lo up
	at "$pid" sh -c 'for f in all default; do echo 1 >/proc/sys/net/ipv6/conf/$f/disable_ipv6; done' 2>/dev/null
}

other_network() {
	[ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/$$/ns/net)" ]
}

# at NAMESPACE COMMAND...: runs it in the namespace.
at() {
	local holder=$1
	shift
	nsenter -t "$holder" -n "$@"
}
