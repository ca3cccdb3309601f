#!/bin/bash
# messages.sh BUILD - error messages, which name the request, the fault and the remedy; also graphs from pipes, files of
# other graph tools, versions.
. "$(dirname "$0")/common.sh"
xk=$build/xk

# ---- graphs from pipes --------------------------------------------------------------------------------------------------

# piped NAME COMMAND...: checks that it reads the graph on standard input, from a pipe.
piped() {
	local name=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	expect "$name" 0 '' bash -c 'set -o pipefail; cat "$0" | "$@"' "$graph" "$@"
}
graph=graphs/udptest.dot
piped "a graph on standard input" "$xk" check -
check "... by its name" "$(cat "$work/out")" grep -q '^/dev/stdin: ok, 7 protocols' "$work/out"
piped "/dev/stdin, too" "$xk" check /dev/stdin
piped "a picture of it" "$xk" draw - -o "$work/piped.dot"
piped "round trips, two processes" "$udptest" --graph - --rounds 10 --mode ipp
piped "a benchmark" "$xk" bench echo --graph - --rounds 100
piped "dissectors" "$xk" dissectors - -o "$work/piped.lua"
graph=graphs/chantest.dot
piped "calls" "$build/chantest" --graph - --rounds 10 --mode regular
graph=graphs/icmptest.dot
piped "pings" "$build/icmptest" --graph - --count 2 --interval 1ms
graph=graphs/net/pair-ethernet10.dot
piped "a network, its files from the working directory" env -C graphs/net "$xk" run - --link sim --quiet \
	--set client.udptest.rounds=1
expect "a graph from process substitution" 0 '' "$udptest" --graph <(cat graphs/udptest.dot) --rounds 10 --mode ipp
expect "... is refused with its line" 1 '^/dev/fd/[0-9]+:1: .*digraph' "$xk" check <(echo nonsense)
mkfifo "$work/fifo"
cat graphs/udptest.dot >"$work/fifo" &
expect "a named pipe" 0 '' "$udptest" --graph="$work/fifo" --rounds 10 --mode ipp
# shellcheck disable=SC2016 # for the inner shell
expect "a pipe without a graph" 1 '^/dev/stdin:1: there is no graph' bash -c ': | "$@"' empty "$xk" check -
# shellcheck disable=SC2016
expect "a pipe without an end" 1 '^/dev/stdin: is longer than' bash -c 'yes | "$@"' endless "$xk" check -
# shellcheck disable=SC2016
expect "no standard input" 1 '^/dev/stdin: cannot be read' bash -c 'exec "$@" <&-' closed "$xk" check -

# ---- graphs of other tools ----------------------------------------------------------------------------------------------

# drawn NAME FILE: checks that a tool's file is accepted.
drawn() {
	expect "$1" 0 '' "$xk" check "$2"
}
if command -v dot >/dev/null; then
	tools=('dot -Tdot' 'dot -Txdot' 'neato -Txdot')
	turn=0
	for graph in graphs/*.dot; do
		turn=$(((turn + 1) % 3))
		[ "${XK_TEST_LONG:-0}" = 1 ] && by=("${tools[@]}") || by=("${tools[turn]}")
		for tool in "${by[@]}"; do
			$tool "$graph" -o "$work/laid.dot" 2>/dev/null
			drawn "$tool $graph" "$work/laid.dot"
		done
	done
else
	ok "graphs of dot (not tried: graphviz is not installed)"
fi
cat >"$work/networkx.dot" <<'END'
digraph "udptest" {
	graph [name=udptest];
"\n";
udptest -> udp  [key=0];
udp -> ip  [key=0];
ip [ttl=32];
ip -> vnet  [key=0];
vnet -> eth  [key=0];
vnet -> arp  [key=0];
eth -> port  [key=0];
arp -> eth  [key=0];
"\n" [pos="1,2"];
}
END
drawn "a graph read and written by networkx" "$work/networkx.dot"
expect "... but no edge to a line's end" 1 '"\\n" has characters other than letters' \
	"$xk" check <(sed '3s/.*/udp -> "\\n";/' "$work/networkx.dot")

# ---- addresses ----------------------------------------------------------------------------------------------------------

# Each address that no host can have, and its kind.
while read -r address what; do
	expect "ping of $address" 2 "\"$address\" is not an address.* but $what" "$build/icmptest" "$address" --count 1
	expect "round trips with $address" 2 "\"$address\" is not an address.* but $what" "$udptest" --client "$address" --rounds 1
	expect "calls of $address" 2 "\"$address\" is not an address.* but $what" "$build/chantest" --client "$address" --rounds 1
	expect "a host at $address" 1 "address of vnet is \"$address/24\": .*not $what" "$xk" run graphs/host.dot \
		--set vnet.address="$address/24"
done <<'END'
127.0.0.1 a loopback address
0.0.0.0 an address of no host
0.1.2.3 an address of no host
224.0.0.1 a group's address
239.1.2.3 a group's address
240.0.0.1 a reserved address
255.255.255.255 the broadcast address
END
while read -r address what; do
	for client in "icmptest $address" "udptest --client $address" "chantest --client $address"; do
		# shellcheck disable=SC2086 # a program and its options
		expect "$client" 1 "$address is (the )?$what.*vnet.address is 10.77.0.1.24" $build/$client
	done
done <<'END'
10.77.0.1 this host's own address
10.77.0.0 network's own address
10.77.0.255 network's broadcast address
END
expect "a host at its network's address" 1 '10.77.0.0/24": .*not the network.s own' "$udptest" --set vnet.address=10.77.0.0/24
expect "a host at its broadcast address" 1 '10.77.3.255/22": .*not the network.s broadcast' "$udptest" \
	--set vnet.address=10.77.3.255/22
same=(--set client:vnet.address=10.1.0.1/24 --set server:vnet.address=10.1.0.1/16)
for link in virtio ring sim; do
	expect "both ends at one address, $link" 1 "10.1.0.1 is this host's own address" "$udptest" --link $link "${same[@]}"
done
for link in virtio ring; do
	expect "both ends of pings, $link" 1 "10.1.0.1 is this host's own address" "$build/icmptest" --link $link "${same[@]}"
done
expect "two interfaces at one address" 1 'address2 of vnet is "10.1.0.1/24", and so is address of vnet' \
	"$xk" check graphs/udptest-two.dot --set vnet.address=10.1.0.1/24 --set vnet.address2=10.1.0.1/24
pair=graphs/net/pair-ethernet10.dot
expect "two hosts of a network at one address" 1 'client and server both have the address 10.9.0.9' "$xk" run $pair \
	--link sim --set client.vnet.address=10.9.0.9/24 --set server.vnet.address=10.9.0.9/24

# Two hosts with one address on a cable, and one with Linux's: each reports the conflict while it runs.
# shellcheck disable=SC2016 # for the inner shell
if unshare -n ip link add va type veth peer name vb 2>/dev/null; then
	spawn pair unshare -n bash -c 'ip link add va type veth peer name vb && ip link set va up && ip link set vb up || exit
		for end in va vb; do
			"$0" run graphs/host.dot --link af_packet --set port.dev=$end --set vnet.address=10.77.0.2/24 2>"$1/$end.err" &
		done
		trap "kill -TERM \$(jobs -p); wait; exit" TERM
		wait' "$xk" "$work"
	for end in va vb; do
		check "a host at $end reports another with its address" "$(tail -n 2 "$work/$end.err")" within 20 printed $end.err \
			'address conflict: 10.77.0.2 is also used by the station .*give one of the two another address'
	done
	kill -TERM "$pid"
	await_end "$pid" 20
	spawn beside unshare -n bash -c 'ip link add va type veth peer name vb && ip link set va up && ip link set vb up &&
		ip addr add 10.77.0.2/24 dev vb || exit
		exec "$0" run graphs/host.dot --link af_packet --set port.dev=va --set vnet.address=10.77.0.2/24' "$xk"
	check "a host reports Linux with its address" "$(tail -n 2 "$work/beside.err")" within 20 printed beside.err \
		'address conflict: 10.77.0.2 is also used by the station'
	kill -TERM "$pid" 2>/dev/null
	await_end "$pid" 20
else
	ok "one address twice on a cable (not tried: it takes root and veth)"
fi

# ---- limits and files ---------------------------------------------------------------------------------------------------

# at_limit NAME PATTERN ULIMIT COMMAND...: checks that it fails with PATTERN under the limit.
at_limit() {
	local name=$1 pattern=$2 amount=$3
	shift 3
	# shellcheck disable=SC2016 # for the inner shell; the test's own output is a file, too
	expect "$name" 1 "$pattern" bash -c "set -o pipefail; (ulimit $amount; \"\$@\" 2>&1) | cat >&2" at_limit "$@"
}
bad="run graphs/net/bad.dot --link sim --quiet --until 20s"
# shellcheck disable=SC2086 # a command
at_limit "a capture at the limit of files" '--pcap .*/big cannot be written: File too large.*ulimit -f' '-f 40' \
	"$xk" $bad --pcap "$work/big"
# shellcheck disable=SC2086
at_limit "a document at the limit of files" '--json .*/big cannot be written: File too large' '-f 1' "$xk" $bad --json "$work/big"
at_limit "a page at the limit of files" '--journey .*/big cannot be written: File too large' '-f 1' \
	"$xk" run graphs/net/pair-ethernet10.dot --link sim --quiet --journey "$work/big"
at_limit "dissectors at the limit of files" '/big cannot be written: File too large' '-f 1' "$xk" dissectors -o "$work/big"
at_limit "a picture at the limit of files" 'no memory for dot.s input: File too large' '-f 1' \
	"$xk" draw graphs/chantest.dot -o "$work/big.svg"

expect "xk new in a missing directory" 1 'none/two cannot be written: No such file or directory; first run: mkdir -p .*/none$' \
	"$xk" new mine -o "$work/none/two"
if "$xk" --version | grep -q 'without DPDK'; then
	ok "no pkg-config (not tried: this build needs none)"
else
	expect "no pkg-config" 1 'pkg-config cannot be run: No such file or directory: install it' \
		env PATH=/nonexistent "$xk" compile graphs/udptest.dot -o "$work/compiled"
	check "... and packages are not mentioned" "$(cat "$work/err")" [ "$(wc -l <"$work/err")" -eq 1 ]
	expect "a package that pkg-config lacks" 1 'libdpdk' env PKG_CONFIG_LIBDIR=/nonexistent PKG_CONFIG_PATH= \
		"$xk" compile graphs/udptest.dot -o "$work/compiled"
fi

# ---- versions -----------------------------------------------------------------------------------------------------------

for program in xk udptest chantest tcptest icmptest logp 'xk check' 'xk run'; do
	# shellcheck disable=SC2086 # a program and its word
	run 20 $build/$program --version
	check "$program --version" "status $status: $(cat "$work/out")" \
		grep -qE '^[a-z]+ \(x-kernel\) [0-9]+\.[0-9.]+, (DPDK [0-9.]+|without DPDK)$' "$work/out"
	check "... has the licence" "$(cat "$work/out")" grep -q 'BSD 3-Clause' "$work/out"
done
for word in --version help; do
	run 20 ./run $word
	check "./run $word" "status $status: $(tail -n 2 "$work/err")" [ "$status" -eq 0 ]
done

# ---- refusals before anything is built, and workarounds -----------------------------------------------------------------

mkdir "$work/a tree, its 50% and ümlaut"
cp --parents run tools/packages.sh tests/build.sh "$work/a tree, its 50% and ümlaut"
for flags in 'CC=gcc -m32' 'CFLAGS=-m32' 'CFLAGS=-O2 -mx32'; do
	expect "$flags" 1 '32-bit pointers; supported are .*: remove -m' env "$flags" "$work/a tree, its 50% and ümlaut/run" build --sim
done
long=$work/run/$(printf 'd%.0s' {1..100})
mkdir -m 700 "$long"
for link in virtio memif; do
	expect "a run-time directory that is too long for a socket, $link" 0 '' env XDG_RUNTIME_DIR="$long" "$udptest" --rounds 10 \
		--mode ipp --link $link
done
rmdir "$long"
