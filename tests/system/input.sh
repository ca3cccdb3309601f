#!/bin/bash
# input.sh BUILD - wrong options, graphs, addresses and surroundings: each is refused in a sentence, with the status
# that says whose mistake it was (2: the command line's, 1: anything else's).
. "$(dirname "$0")/common.sh"
xk=$build/xk

# misuse PATTERN OPTION...
misuse() {
	local pattern=$1
	shift
	expect "udptest $*" 2 "$pattern" "$udptest" "$@"
}

# ---- options -----------------------------------------------------------------------------------------------------------

misuse 'no option --nonsense.*--help' --nonsense
misuse '"word" is not an option' word
misuse '--size needs a value' --size
misuse '"65508" is not a number between 1 and 65507' --size 65508
misuse '"0" is not a number between 1 and 65507' --size 0
misuse '"-1" is not a number' --size -1
misuse '"" is not a number' --size 1,,2
misuse '"" is not a number' --size ''
misuse '"99999999999999999999" is not a number' --rounds 99999999999999999999
misuse '"0" is not a number' --rounds 0
misuse '"1e3" is not a number' --rounds 1e3
misuse '"0" is not a number' --threads 0
misuse '"both" is none of regular, ipp' --mode both
misuse '"sleep" is none of poll, interrupt, adaptive' --driver sleep
misuse '"all" is none of none, client, server, both' --handoff all
misuse 'may not use core 900' --cores 900,0
misuse '--cores takes two' --cores 0,0,0
misuse 'wire is not available.*virtio' --link wire
misuse 'interrupt is refused.*--driver poll' --link ring --driver interrupt
misuse 'no lone end' --link ring --server
misuse 'exclude each other' --server --client 10.77.0.2
misuse 'not an address' --client 10.77.0
misuse 'not an address' --client 10.77.0.256
misuse 'not an address' --client localhost
misuse 'one --mode' --server --mode regular,ipp
misuse 'not of the form node.attribute=value' --set nonsense
misuse 'not of the form node.attribute=value' --set server:vnet.address
misuse 'more than' --size 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65
expect "udptest --help" 0 '' "$udptest" --help
check "--help is on standard output" "it is not" grep -q -- '--handoff' "$work/out"

# ---- settings and addresses ---------------------------------------------------------------------------------------------

# refused PATTERN OPTION...
refused() {
	local pattern=$1
	shift
	expect "udptest $*" 1 "$pattern" "$udptest" --rounds 5 "$@"
}

refused 'no node "nowhere"' --set nowhere.address=10.0.0.1/24
refused 'unknown attribute "colour" of vnet' --set vnet.colour=blue
refused 'address of vnet is "10.77.0/24"' --set vnet.address=10.77.0/24
refused 'address of vnet is "10.77.0.2/33"' --set vnet.address=10.77.0.2/33
refused 'leaves no address for the client' --set vnet.address=10.77.0.2/31
refused 'on no network of this host' --set client:vnet.address=10.1.0.1/24
refused 'timeout of udptest is "soon"' --set udptest.timeout=soon
refused 'socket.s path has .* characters' --set port.dev=/tmp/"$(printf 'x%.0s' {1..200})"
refused 'comma, bracket or quote' --set port.dev=a,b
refused 'no socket can be made at /nowhere/at/all/socket: No such file' --set port.dev=/nowhere/at/all/socket
refused '--json .*/none/x cannot be written' --json "$work/none/x"
refused 'cannot be written' --json /dev/full

# ---- graphs ---------------------------------------------------------------------------------------------------------------

# graph NAME PATTERN TEXT: refused by udptest and by xk check alike.
graph() {
	printf '%s\n' "$3" >"$work/$1.dot"
	expect "graph: $1" 1 "^$work/$1.dot:[0-9]+: .*$2" "$udptest" --rounds 5 --graph "$work/$1.dot"
	expect "xk check: $1" 1 "^$work/$1.dot:[0-9]+: .*$2" "$xk" check "$work/$1.dot"
}

refused 'graphs/none.dot: cannot be read: No such file' --graph graphs/none.dot
refused "$work: is a directory" --graph "$work"
refused '/dev/null:1: ' --graph /dev/null
graph syntax 'syntax' 'digraph x { udptest -> ; }'
graph undirected 'directed' 'graph x { udptest -- udp; }'
graph protocol 'tcp' 'digraph x { udptest -> tcp; }'
graph attribute 'colour' 'digraph x { udptest [colour=1]; udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth;
	vnet -> arp; arp -> eth; eth -> port; }'
graph cycle 'a cycle: ' 'digraph x { udptest -> udp; udp -> ip; ip -> udp; }'
graph lower 'vnet .*lacks its lower resolver' 'digraph x { udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth; eth -> port; }'
graph portless 'has no port' 'digraph x { udptest -> udp; udp -> ip; }'
graph budget 'budget' 'digraph x { graph [budget="soon"]; udptest -> udp; udp -> ip; ip -> vnet; vnet -> eth;
	vnet -> arp; arp -> eth; eth -> port; }'
sed '/udptest -> udp/d' graphs/udptest.dot >"$work/without.dot"
expect "a graph without udptest" 1 'no udptest in' "$udptest" --rounds 5 --graph "$work/without.dot"
head -c 100000 /dev/urandom >"$work/random.dot"
expect "a graph of random bytes" 1 "^$work/random.dot:[0-9]+: " "$udptest" --graph "$work/random.dot"

# ---- surroundings ----------------------------------------------------------------------------------------------------------

mkdir -p "$work/copy/build" "$work/copy/elsewhere"
cp "$udptest" "$work/copy/build/"
cp -r graphs "$work/copy/"
chmod -R a+rX "$work/copy"
(cd "$work/copy/elsewhere" && exec timeout 30 ../build/udptest --rounds 10) >"$work/out" 2>"$work/err" </dev/null
status=$?
check "build/ and graphs/ copied elsewhere" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
(cd / && exec timeout 30 "$work/copy/build/udptest" --rounds 10) >"$work/out" 2>"$work/err" </dev/null
status=$?
check "... and run from another directory" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]

expect "no XDG_RUNTIME_DIR" 0 '' env -u XDG_RUNTIME_DIR "$udptest" --rounds 10
expect "XDG_RUNTIME_DIR that is not there" 0 '' env XDG_RUNTIME_DIR=/nowhere "$udptest" --rounds 10
# shellcheck disable=SC2016 # for the inner shell
expect "few descriptors" 1 'may open 24 files, and needs .*ulimit -n' bash -c 'ulimit -n 24; exec "$@"' few "$udptest" --rounds 10

if [ "$(id -u)" -eq 0 ]; then
	nobody="setpriv --reuid=65534 --regid=65534 --clear-groups"
	mkdir -m 700 "$work/nobody"
	chown 65534:65534 "$work/nobody"
	# shellcheck disable=SC2086 # a command and its options
	expect "an unprivileged user" 0 '' env -C "$work/copy" XDG_RUNTIME_DIR="$work/nobody" $nobody \
		"$work/copy/build/udptest" --rounds 100 --size 1,4000
	# shellcheck disable=SC2086
	expect "an unprivileged user in another's XDG_RUNTIME_DIR" 0 '' env -C "$work/copy" $nobody \
		"$work/copy/build/udptest" --rounds 100

	# A directory in /tmp that another user has put where ours would be.
	mkdir -m 777 /tmp/xk-4077
	expect "another's /tmp/xk-UID" 1 '/tmp/xk-4077 is not a directory of yours alone.*remove it, or give a path' \
		env -u XDG_RUNTIME_DIR -C "$work/copy" setpriv --reuid=4077 --regid=4077 --clear-groups \
		"$work/copy/build/udptest" --rounds 10
	rmdir /tmp/xk-4077
fi

if unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	expect "a read-only /tmp" 1 '/tmp/xk-4077 cannot be made \(Read-only file system\).*XDG_RUNTIME_DIR' \
		unshare -m sh -c 'mount --bind /tmp /tmp && mount -o remount,ro,bind /tmp && shift &&
			exec env -u XDG_RUNTIME_DIR setpriv --reuid=4077 --regid=4077 --clear-groups "$@"' sh - \
		env -C "$work/copy" "$work/copy/build/udptest" --rounds 10
	mkdir "$work/full"
	# shellcheck disable=SC2016
	expect "a full directory for sockets" 1 'No space left' \
		unshare -m sh -c 'mount -t tmpfs -o nr_inodes=1,mode=700 none "$1" && shift && exec "$@"' sh "$work/full" \
		env XDG_RUNTIME_DIR="$work/full" "$udptest" --rounds 10
else
	ok "a read-only /tmp (not tried: no mount namespaces here)"
fi
