#!/bin/bash
# input.sh BUILD - invalid options, graphs, addresses and environments: each is refused in a sentence, with status 2 for
# mistakes in the command line and 1 for all others.
. "$(dirname "$0")/common.sh"
xk=$build/xk

# misuse PATTERN OPTION...: checks that udptest refuses the options with status 2.
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
misuse '"both" is not one of regular, ipp' --mode both
misuse '"sleep" is not one of poll, interrupt, adaptive' --driver sleep
misuse 'needs --driver adaptive' --driver poll --spin 20us
misuse '"20" is not a time such as' --driver adaptive --spin 20
misuse '"all" is not one of none, client, server, both' --handoff all
misuse 'may not use core 900' --cores 900,0
misuse '--cores takes two' --cores 0,0,0
misuse 'wire is not available.*virtio' --link wire
misuse 'interrupt is refused.*--driver poll' --link ring --driver interrupt
misuse 'neither end can run alone' --link ring --server
misuse 'need --link sim' --costs modern
misuse 'expected one of none, decstation, alpha, modern' --link sim --costs fast
misuse '"thread=5us": expected NAME=TIME' --link sim --costs modern,thread=5us
misuse 'exclude each other' --server --client 10.77.0.2
misuse 'not an address' --client 10.77.0
misuse 'not an address' --client 10.77.0.256
misuse 'not an address' --client localhost
misuse 'one --mode' --server --mode regular,ipp
misuse "the file name is missing" --pcap ''
misuse 'not of the form node.attribute=value' --set nonsense
misuse 'not of the form node.attribute=value' --set server:vnet.address
misuse 'more than' --size 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40,41,42,43,44,45,46,47,48,49,50,51,52,53,54,55,56,57,58,59,60,61,62,63,64,65
expect "udptest --help" 0 '' "$udptest" --help
check "--help is on standard output" "it is not" grep -q -- '--handoff' "$work/out"

# ---- settings and addresses ---------------------------------------------------------------------------------------------

# refused PATTERN OPTION...: checks that udptest refuses them with status 1.
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
refused 'has .* characters' --set port.dev=/tmp/"$(printf 'x%.0s' {1..200})"
refused 'has .* characters' --set port.dev=/tmp/"$(printf 'x%.0s' {1..100})"
expect "a long path of a socket" 0 '' "$udptest" --rounds 10 --mode ipp --set port.dev="$work/$(printf 'x%.0s' {1..60})"
refused 'comma, bracket or quote' --set port.dev=a,b
refused 'no socket can be created at /nowhere/at/all/socket: No such file' --set port.dev=/nowhere/at/all/socket
refused '--json .*/none/x cannot be written' --json "$work/none/x"
refused 'cannot be written' --json /dev/full

# ---- graphs ---------------------------------------------------------------------------------------------------------------

# graph NAME PATTERN TEXT: checks that udptest and xk check refuse the graph alike.
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
cp graphs/udptest.dot "$work/drawn.dot"
expect "a picture over the graph" 1 'would be overwritten' "$xk" draw "$work/drawn.dot" -o "$work/../${work##*/}/drawn.dot"
check "the graph file survives" "it has changed" cmp -s graphs/udptest.dot "$work/drawn.dot"
sed '/udptest -> udp/d' graphs/udptest.dot >"$work/without.dot"
expect "a picture of unknown kind" 2 'a picture is NAME.svg' "$xk" draw graphs/udptest.dot -o "$work/picture.gif"
check "a picture of unknown kind" "it is there" test ! -e "$work/picture.gif"
expect "a picture as PNG" 0 '' "$xk" draw graphs/udptest.dot -o "$work/picture.png"
check "a picture as PNG" "it is none" grep -qa '^.PNG' "$work/picture.png"
# Every message prints control characters, which a terminal would obey, as text.
escape=$'\033'
cp graphs/udptest.dot "$work/${escape}[31m.dot"
for command in "$xk check" "$xk run --until 1s" "$xk run --link sim" "$xk bench echo --rounds 10 --graph" "$udptest --client 1.2.3 --graph"; do
	# shellcheck disable=SC2086 # a command and its words
	run 30 $command "$work/${escape}[31m.dot"
	check "$command: a name with an escape character" "$(cat -v "$work/out" "$work/err")" \
		[ "$(cat "$work/out" "$work/err" | grep -c "$escape")" -eq 0 ]
done
# shellcheck disable=SC2086
expect "... is reported" 1 '/.x1b.31m.none: cannot be read' "$xk" check "$work/${escape}[31m.none"

# The counts of a network: a column for each host, and the rows that --show selects.
pair=graphs/net/pair-ethernet10.dot
run 30 "$xk" run $pair --link sim --quiet --set client.udptest.rounds=1
check "xk run prints a table" "$(cat "$work/err")" grep -Eq '^ +client +server$' "$work/err"
check "... with a row for each count" "$(cat "$work/err")" grep -Eq '^udptest.messages +1 +1$' "$work/err"
check "... and one of links" "$(cat "$work/err")" grep -Eq '^delivered +4$' "$work/err"
run 30 "$xk" run $pair --link sim --quiet --set client.udptest.rounds=1 --show udptest,link
check "--show chooses" "$(cat "$work/err")" grep -Eq '^udptest.rounds +1 +0$' "$work/err"
check "... by node" "$(cat "$work/err")" [ "$(grep -Ec '^(arp|frames_in|boots)' "$work/err")" -eq 0 ]
check "... and the links" "$(cat "$work/err")" grep -Eq '^sent +4$' "$work/err"

# A client that gets no answer says so and fails; another succeeds.
cat >"$work/absent.dot" <<'END'
graph absent {
	graph [network="10.77.0.0/24"];
	client; server; cable [link=ethernet10];
	client -- cable; server -- cable;
}
END
for user in udptest chantest blasttest pingpong; do
	case $user in blasttest) setting=to ;; *) setting=peer ;; esac
	set -- run "$work/absent.dot" --link sim --quiet --until 30s --set "graph.protocols=graphs/$user.dot"
	expect "$user without a server" 1 'client: one of its protocols has reported a failure' \
		"$xk" "$@" --set "client.$user.$setting=10.77.0.9"
	check "... says why" "$(cat "$work/out")" grep -Eq "client $user: the run has failed: (No route|Connection timed out)" "$work/out"
	expect "$user with its server" 0 '' "$xk" "$@" --set "client.$user.$setting=10.77.0.2"
done

# A host that is its own peer has no run; an address that no host can have fails.
for user in udptest chantest blasttest pingpong; do
	case $user in blasttest) setting=to ;; *) setting=peer ;; esac
	set -- run "$work/absent.dot" --link sim --quiet --until 30s --set "graph.protocols=graphs/$user.dot"
	expect "$user with itself" 0 '' "$xk" "$@" --set "client.$user.$setting=10.77.0.1"
	expect "$user with a multicast address" 1 'client: one of its protocols has reported a failure' \
		"$xk" "$@" --set "client.$user.$setting=224.0.0.1"
done

expect "blasttest without an answer" 1 'client: one of its protocols has reported a failure' \
	"$xk" run "$work/absent.dot" --link sim --quiet --until 30s --set client.protocols=graphs/blasttest.dot \
	--set server.protocols=graphs/udptest.dot --set client.blasttest.to=10.77.0.2 --set client.blasttest.count=3
expect "logptest with too many answers" 1 'client: one of its protocols has reported a failure' \
	"$xk" run "$work/absent.dot" --link sim --quiet --until 30s --set graph.protocols=graphs/logp.dot \
	--set client.logptest.peer=10.77.0.2 --set client.logptest.first_answers=1024

expect "--show of an unknown node" 1 'has a node "nobody"' "$xk" run $pair --link sim --quiet --show udptest,nobody
expect "--show is of networks" 2 'are for network files' "$xk" run graphs/udptest.dot --show udptest
run 60 "$xk" run graphs/net/crash.dot --link sim --until 2500ms --quiet
check "a host that is down" "$(cat "$work/err")" grep -Eq '\(down\)' "$work/err"

# `-` is standard output, which then carries nothing else.
run 30 "$xk" draw graphs/udptest.dot -o -
check "draw -o -" "$(cat "$work/err")" grep -q '^<svg' "$work/out"
check "... makes no file" "it does" test ! -e -
run 30 "$xk" draw graphs/udptest-two.dot -o -
check "a row is centred on its node" "$(cat "$work/out")" python3 - "$work/out" <<'END'
import re, sys

nodes = re.findall(r'<g id="node\d+" class="node">(.*?)</g>', open(sys.argv[1]).read(), flags=re.S)
assert len(nodes) == 8 and any("<tspan" in node for node in nodes)
for node in nodes:
    x = [float(x) for x in re.findall(r"(-?[\d.]+),-?[\d.]+", re.search(r' (?:d|points)="([^"]*)"', node)[1])]
    rows = re.findall(r'<text text-anchor="(\w+)" x="(-?[\d.]+)"', node)
    assert rows and all(how == "middle" and abs(float(at) - (min(x) + max(x)) / 2) < 0.01 for how, at in rows), node
END
run 30 "$xk" run graphs/net/pair-ethernet10.dot --link sim --until 10ms --pcap -
check "run NETWORK --pcap -" "$(cat "$work/err")" [ "$(head -c 4 "$work/out" | od -An -tx1)" = " 0a 0d 0d 0a" ]
check "... prints frames elsewhere" "it does not" grep -q ' sent ' "$work/err"
spawn capture "$xk" run graphs/udptest.dot --pcap -
within 20 printed capture.err 'stands at'
kill -TERM "$pid"
await_end "$pid" 20
check "run GRAPH --pcap -" "$(cat "$work/capture.err")" [ "$(head -c 4 "$work/capture.out" | od -An -tx1)" = " 0a 0d 0d 0a" ]
check "... and nothing else" "there is text" [ "$(grep -ca 'counted\|frames_' "$work/capture.out")" -eq 0 ]
expect "a pair --pcap -" 2 'there is only one standard output' "$udptest" --rounds 10 --pcap -
expect "--json - --pcap -" 2 'cannot both use standard output' "$xk" run graphs/udptest.dot --json - --pcap -
expect "compile -o -" 2 'specify a file' "$xk" compile graphs/udptest.dot -o -
check "no file is named -" "one is" test ! -e -
expect "a graph without udptest" 1 'no udptest in' "$udptest" --rounds 5 --graph "$work/without.dot"
head -c 100000 /dev/urandom >"$work/random.dot"
expect "a graph of random bytes" 1 "^$work/random.dot:[0-9]+: " "$udptest" --graph "$work/random.dot"

# ---- networks in the simulator -------------------------------------------------------------------------------------------

# network STATUS PATTERN OPTION...: checks how xk run of this network ends.
cp graphs/traffic.dot graphs/udptest.dot "$work"
cat >"$work/net.dot" <<'END'
graph n {
	graph [network="10.9.0.0/16", protocols="traffic.dot",
		set="traffic.peers=10.9.0.1-10.9.0.3 traffic.rate=500 traffic.size_max=4000"];
	a [count=3];
	lan [link=rack10g, loss="1%"];
	a -- lan;
}
END
network() {
	local status=$1 pattern=$2
	shift 2
	expect "xk run $*" "$status" "$pattern" "$xk" run "$work/net.dot" --link sim --quiet "$@"
}

sed 's/network="10.9.0.0\/16", //' "$work/net.dot" >"$work/addressless.dot"
expect "xk run of hosts without addresses" 1 'a2: it cannot be booted' "$xk" run "$work/addressless.dot" --link sim
check "xk run of hosts without addresses reports the reason" "it does not" grep -q 'a2 vnet: interface 1 has no address' "$work/out"
expect "xk run without a network" 2 'xk run' "$xk" run --link sim
expect "xk run without --link" 2 'link sim' "$xk" run "$work/net.dot"
expect "xk run of a protocol graph" 1 'directed' "$xk" run graphs/udptest.dot --link sim
expect "xk run of no file" 1 'none.dot: cannot be read' "$xk" run "$work/none.dot" --link sim
expect "xk run of random bytes" 1 "^$work/random.dot:[0-9]+: " "$xk" run "$work/random.dot" --link sim
network 2 '"soon" is not a time' --until soon
network 2 '"-1s" is not a time' --until -1s
network 2 '"-1" is not a number' --seed -1
network 2 '"18446744073709551616" is not a number' --seed 18446744073709551616
network 2 'takes one' --seed 1,2
expect "xk run --json - without --quiet" 2 'needs --quiet' "$xk" run "$work/net.dot" --link sim --json -
network 1 'no node|nowhere' --set nowhere.loss=1%
network 1 '"101%"' --set lan.loss=101%
network 1 'expects a number from 1 to 10000' --set a.count=10001
network 1 'expects a time from' --set lan.latency=3601s
network 1 'threads of a.* is "65"' --set a.threads=65
network 1 'stacks of a.* is "1"' --set a.stacks=1
network 1 'is not after the host was booted' --set a.crash=0s
network 1 'boot number 1 is not after crash' --set a.crash=1s --set a.boot=1s
network 1 'a wire: it joins two hosts, not 3' --set lan.kind=wire
network 1 'a1: it cannot be booted' --set graph.traffic.peers=nobody
network 0 'hash' --until 0s
network 0 'until 18446744073.000000 s' --until 18446744073s --set graph.traffic.count=5 --set lan.loss=0%
network 0 'hash' --seed 18446744073709551615
network 1 '--json /dev/full cannot be written: No space left' --json /dev/full
network 1 '--pcap /dev/full cannot be written: No space left' --pcap /dev/full
network 1 '--json .*/none/x cannot be written' --json "$work/none/x"
network 1 '--pcap .*/none/x cannot be written' --pcap "$work/none/x"
# shellcheck disable=SC2016 # for the inner shell
for program in "udptest --link ring --rounds 10" "chantest --link ring --rounds 10" \
	"icmptest --link ring --count 1" "udptest --help"; do
	# shellcheck disable=SC2016,SC2086 # for the shell that is called; a command
	expect "${program%% *} onto a full disk" 1 'standard output cannot be written' \
		bash -c '"$0" "$@" >/dev/full' "$build/"$program
done
expect "an unused address" 2 'not an address' "$build/icmptest" 0.0.0.0
expect "xk run onto a full disk" 1 'standard output cannot be written' \
	bash -c 'exec "$@" >/dev/full' full "$xk" run "$work/net.dot" --link sim
# shellcheck disable=SC2016
expect "xk run without standard output" 1 'standard output cannot be written' \
	bash -c 'exec "$@" >&-' closed "$xk" run "$work/net.dot" --link sim

# Extremes: hosts that are too slow, too small or too many, links at their limits, everything at once.
mode=regular
for set in lan.rate=1kb/s lan.rate=0 lan.latency=3600s lan.queue=1 lan.mtu=68 lan.mtu=65000 lan.loss=100% lan.corrupt=100% \
	lan.duplicate=100% lan.overhead=65535 lan.burst=65536 a.stacks=2 a.threads=64 a.buffers=1 a.buffers=7 a.frame_in=60s \
	a.thread_switch=60s a.interrupt=60s graph.traffic.rate=10000000 graph.traffic.rate=0 graph.traffic.size_max=65507 \
	a1.start=1000000s a.count=60; do
	[ "$mode" = ipp ] && mode=regular || mode=ipp # alternate
	network 0 'hash' --until 15ms --set "$set" --set "graph.mode=$mode" --set a2.crash=6ms --set a2.boot=9ms
done

# A signal ends a run that would never end, and its counts are reported; also on a link without delay.
endless() {
	spawn endless "$xk" run "$@" --link sim --quiet --json "$work/endless.json" --until 1000000s
	within 20 takes_signals "$pid"
	sleep 0.1 # usually enough for part of the run
	kill -"$signal" "$pid"
	await_end "$pid" 20
	[ "$status" -eq 0 ] && printed endless.err 'hash' && [ -s "$work/endless.json" ]
}
for signal in INT TERM; do
	check "xk run ends with SIG$signal" "$(tail -n 1 "$work/endless.err" 2>/dev/null)" endless "$work/net.dot"
	check "... also where no time passes" "$(tail -n 1 "$work/endless.err" 2>/dev/null)" \
		endless graphs/net/pair-ethernet10.dot --set cable.link=ideal --set client.udptest.rounds=1000000000
done

# ---- environment -----------------------------------------------------------------------------------------------------------

mkdir -p "$work/copy/build" "$work/copy/elsewhere"
cp "$udptest" "$work/copy/build/"
cp -r graphs "$work/copy/"
chmod -R a+rX "$work/copy"
(cd "$work/copy/elsewhere" && limited 30 ../build/udptest --rounds 10) >"$work/out" 2>"$work/err" </dev/null
status=$?
check "build/ and graphs/ copied elsewhere" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
(cd / && limited 30 "$work/copy/build/udptest" --rounds 10) >"$work/out" 2>"$work/err" </dev/null
status=$?
check "... and run from another directory" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]

expect "no XDG_RUNTIME_DIR" 0 '' env -u XDG_RUNTIME_DIR "$udptest" --rounds 10
expect "a missing XDG_RUNTIME_DIR" 0 '' env XDG_RUNTIME_DIR=/nowhere "$udptest" --rounds 10
# shellcheck disable=SC2016 # for the inner shell
expect "few descriptors" 1 'may open 24 files and needs .*ulimit -n' bash -c 'ulimit -n 24; exec "$@"' few "$udptest" --rounds 10

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

	# Another user's directory in /tmp in the place of ours.
	mkdir -m 777 /tmp/xk-4077
	expect "another's /tmp/xk-UID" 1 '/tmp/xk-4077 is not a directory of yours alone.*remove it, or specify a path' \
		env -u XDG_RUNTIME_DIR -C "$work/copy" setpriv --reuid=4077 --regid=4077 --clear-groups \
		"$work/copy/build/udptest" --rounds 10
	rmdir /tmp/xk-4077
fi

if unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	expect "a read-only /tmp" 1 '/tmp/xk-4077 cannot be created \(Read-only file system.*\).*XDG_RUNTIME_DIR' \
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
