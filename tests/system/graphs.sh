#!/bin/bash
# graphs.sh BUILD - every file of graphs/ with paths and without: in the simulator, where both cost the same virtual time, they send,
# count, trace and report the same, to the byte. A graph that udptest or chantest can run between two hosts is run so, in both modes
# and with every policy; and each graph is run in a network, with hosts of both modes, that loses, duplicates, reorders and corrupts.
#
# A graph that the test does not know how to run is a failure that reports what to add here.
. "$(dirname "$0")/common.sh"

# Protocols that originate messages, with settings for a host whose peer is PEER.
sources='
traffic.peers=10.9.0.1-10.9.0.4 traffic.rate=300 traffic.size_max=3000
blasttest.to=PEER blasttest.count=20 blasttest.size=4000 blasttest.timeout=100ms
icmptest.to=PEER icmptest.count=20 icmptest.interval=5ms
udptest.peer=PEER udptest.rounds=20 udptest.size=LONGEST
tcptest.peer=PEER tcptest.strict=no tcp.timeout=50ms tcptest.flow=both tcptest.bytes=40k tcptest.size=LONGEST
chantest.peer=PEER chantest.rounds=20 chantest.size=LONGEST
logptest.peer=PEER logptest.rounds=20 logptest.sends=2 logptest.size=LONGEST logptest.timeout=20ms
pingpong.peer=PEER pingpong.rounds=20 pingpong.size=LONGEST
'

# between NAME: prints a network for a graph whose messages come from other graphs' hosts.
between() {
	case $1 in
	router) echo graphs/net/routed.dot ;;
	esac
}

# longest GRAPH: prints the length of its longest messages here: several frames, if the graph can send them.
longest() {
	case $1 in
	*llp* | *bip* | *pingpong* | *direct* | am | */am.dot) echo 1000 ;;
	*) echo 4000 ;;
	esac
}

# The release build is faster than one with sanitizers.
fast=$root/build
[ -x "$fast/xk" ] || fast=$build

# Removes the measured cache-line times, which vary.
comparable() {
	grep -vE '"(before|after)": ' "$1"
}

# same NAME PROGRAM ARGUMENT...: checks that PROGRAM (`run`: xk run) prints and reports the same with paths as without.
same() {
	local name=$1 paths
	local command=("$fast/$2")
	[ "$2" != run ] || command=("$fast/xk" run)
	shift 2
	for paths in yes no; do
		run 120 "${command[@]}" "$@" --paths $paths --json "$work/$paths.json"
		if [ "$status" -ne 0 ]; then
			fail "$name: paths=$paths" "status $status: $(tail -n 3 "$work/err")"
			return
		fi
		comparable "$work/$paths.json" | cat "$work/out" "$work/err" - >"$work/$paths.all"
	done
	check "$name" "$(diff "$work/yes.all" "$work/no.all" | head -n 6)" cmp -s "$work/yes.all" "$work/no.all"
}

# ---- networks ------------------------------------------------------------------------------------------------------------

# settings GRAPH: prints the settings of all its protocols that originate messages.
settings() {
	local line all=${sources//PEER/10.9.0.1}
	all=${all//LONGEST/$(longest "$1")}
	while read -r line; do
		[ -z "$line" ] || ! "$fast/xk" check "$1" --set "${line%% *}" >/dev/null 2>&1 || printf '%s ' "$line"
	done <<<"$all"
}

# network GRAPH LINKS SETTINGS: prints a network of two hosts in regular mode and two in ipp on LINKS links; they use the last.
network() {
	local i far=${3//10.9.0./10.9.$(($2 - 1)).}
	printf 'graph n {\n\tgraph [protocols="%s", costs=decstation];\n' "$(basename "$1")"
	printf '\tregular [count=2, mode=regular, threads=2, set="%s"];\n\tipp [count=2, set="%s"];\n' "$far" "$3"
	for ((i = 0; i < $2; i++)); do
		printf '\tlan%d [link=ethernet10, network="10.9.%d.0/24", loss="3%%", duplicate="3%%", reorder="4%%", ' "$i" "$i"
		printf 'reorder_delay="800us", corrupt="2%%"];\n\tregular -- lan%d;\n\tipp -- lan%d;\n' "$i" "$i"
	done
	printf '}\n'
}

# make_network GRAPH: writes $work/net-NAME.dot with a link for each port of the graph. Sets $links to their number; 0: no
# network works, and $why has the reason.
make_network() {
	local file=$work/net-${1##*/} given
	links=0
	why="no known protocol originates messages in it: add its protocol to sources, or a network with it to between"
	given=$(settings "$1")
	[ -n "$given" ] || return
	for links in 1 2 3; do
		network "$1" "$links" "$given" >"$file"
		run 30 "$fast/xk" check "$file"
		[ "$status" -ne 0 ] || return
	done
	links=0
	why="it needs another network: add that to between ($(tail -n 1 "$work/err"))"
}

# same_network NAME NETWORK NAMES: also checks that hosts whose names begin with NAMES, a Python tuple, receive frames.
same_network() {
	same "$1 in a network" run "$2" --link sim --seed 7 --until 1s
	holds yes "$1: its hosts receive" "len([c for n, c in h.items() if n.startswith($3)]) > 1 \
and all(c['frames_in'] > 5 for n, c in h.items() if n.startswith($3))"
	same "$1 in a network, traced" run "$2" --link sim --seed 8 --until 100ms --trace
}

# ---- pairs ---------------------------------------------------------------------------------------------------------------

# has_pair GRAPH PROGRAM: succeeds if the program can run the graph between two hosts.
has_pair() {
	"$fast/xk" check "$1" --set "$2.peer=10.9.0.1" >/dev/null 2>&1
}

# same_pair NAME PROGRAM OPTION...: compares the graph between two hosts.
same_pair() {
	local name=$1 word=$2
	local pair="--graph graphs/$name.dot --link sim" longest
	longest=$(longest "$name")
	shift 2
	# shellcheck disable=SC2086 # options
	{
		same "$name, all policies" "$word" $pair --mode regular,ipp --handoff none,client,server,both \
			--rounds 10 --size 1,"$longest" "$@"
		same "$name, traced" "$word" $pair --rounds 3 --size "$longest" --trace
		same "$name with a budget" "$word" $pair --rounds 10 --mode ipp --size 1,"$longest" \
			--set graph.budget=150us
	}
}

# ---- every graph ---------------------------------------------------------------------------------------------------------

try_graph() {
	local name others
	name=$(basename "$1" .dot)
	others=$(between "$name")
	if [ -n "$others" ]; then
		same_network "$name" "$others" "('west', 'east')"
		return
	fi
	make_network "$1"
	if [ "$links" -eq 0 ]; then
		fail "$1 is run" "$why"
		return
	fi
	same_network "$name" "$work/net-$name.dot" "('regular', 'ipp')"
	[ "$links" -eq 1 ] || return 0
	! has_pair "$1" udptest || same_pair "$name" udptest
	! has_pair "$1" chantest || same_pair "$name" chantest --channels 1,4
}

# Network files look for graphs beside them.
cp graphs/*.dot "$work"
for graph in graphs/*.dot; do
	try_graph "$graph"
done

# ---- some more -----------------------------------------------------------------------------------------------------------

same "a network with reboots" run graphs/net/bad.dot --link sim --seed 7 --until 2s
same "calls through a router" run graphs/net/calls.dot --link sim --seed 3 --until 500ms
same "... in regular mode" run graphs/net/calls.dot --link sim --seed 4 --until 500ms \
	--set graph.mode=regular
same "... traced" run graphs/net/calls.dot --link sim --seed 5 --until 50ms --trace
same "a peer whose link address ARP doubts" run graphs/net/pair-ethernet10.dot --link sim --set client.udptest.rounds=300 \
	--set client.udptest.size=1 --set graph.arp.age=20ms
check "... is asked for again" "$(grep arp.polls "$work/yes.json")" grep -q '"arp.polls": [1-9]' "$work/yes.json"
all="--link sim --mode regular,ipp --handoff none,client,server,both --rounds 10 --size 1,4000"
# shellcheck disable=SC2086 # a list of options
{
	same "a pair, by the number of threads" udptest $all --threads 1,3
	same "a pair, in order" udptest $all --set udp.order=session
	same "ten layers of one type" udptest --graph experiments/floors/null10.dot $all
}
