#!/bin/bash
# compiled_graphs.sh BUILD - every file of graphs/, compiled: in the simulator, where everything costs the same on virtual time,
# it does what the file does, to the byte of what is sent, counted, traced and reported. A graph that udptest or chantest can run
# between two hosts is, in both modes, with every policy; and each is in a network, of hosts of both modes, that loses,
# doubles, reorders and corrupts.
#
# A graph that the test does not know how to run is a failure, which says what to add here.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/compiling.sh"

# What begins messages in a graph that has a node of this name: settings for a host whose peer is PEER.
sources='
traffic.peers=10.9.0.1-10.9.0.4 traffic.rate=300 traffic.size_max=3000
blasttest.to=PEER blasttest.count=20 blasttest.size=4000 blasttest.timeout=100ms
icmptest.to=PEER icmptest.count=20 icmptest.interval=5ms
udptest.peer=PEER udptest.rounds=20 udptest.size=2000
chantest.peer=PEER chantest.rounds=20 chantest.size=2000
'

# Those whose messages come from other graphs' hosts: a network that has them.
between() {
	case $1 in
	router) echo graphs/net/routed.dot ;;
	esac
}

programs=$work/programs
mkdir "$programs"

# compile GRAPH: what is said is in $programs/NAME.log. One has sanitizers, and one, the largest, is as people get it.
compile() {
	local name build=$fast
	name=$(basename "$1" .dot)
	case $name in
	chantest) build=$sanitized ;;
	chantest-full) XK_CFLAGS=-g0 ;;
	esac
	timeout -k 5 120 "$build/xk" compile "$1" -o "$programs/$name" >"$programs/$name.log" 2>&1 </dev/null
}

# How long a cache line took, and what program it was, is no part of what is compared.
comparable() {
	grep -vE '"(before|after|sanitized|compiled)": ' "$1"
}

# same NAME PROGRAM WORD ARGUMENT...: the compiled program prints, says and reports what the table-driven one does.
same() {
	local name=$1 program=$2 word=$3 which
	rm -f "$work"/{table,compiled}.*
	shift 3
	for which in table compiled; do
		case $which,$word in
		table,run) run 120 "$fast/xk" run "$@" --json "$work/$which.json" ;;
		table,*) run 120 "$fast/$word" "$@" --json "$work/$which.json" ;;
		*) run 120 "$program" "$word" "$@" --json "$work/$which.json" ;;
		esac
		if [ "$status" -ne 0 ]; then
			fail "$name: $which" "status $status: $(tail -n 3 "$work/err")"
			return
		fi
		cp "$work/out" "$work/$which.out"
		cp "$work/err" "$work/$which.err"
		comparable "$work/$which.json" >"$work/$which.document"
	done
	for which in out err document; do
		if ! cmp -s "$work/table.$which" "$work/compiled.$which"; then
			fail "$name" "$which: $(diff "$work/table.$which" "$work/compiled.$which" | head -n 6)"
			return
		fi
	done
	ok "$name"
}

# ---- networks ------------------------------------------------------------------------------------------------------------

# settings GRAPH: all that begin messages in it.
settings() {
	local line
	while read -r line; do
		[ -z "$line" ] || ! "$fast/xk" check "$1" --set "${line%% *}" >/dev/null 2>&1 || printf '%s ' "$line"
	done <<<"${sources//PEER/10.9.0.1}"
}

# network GRAPH LINKS SETTINGS: two hosts in regular mode and two in ipp on as many links; the first two send over the last.
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

# make_network GRAPH: $work/net-NAME.dot, with as many links as the graph has ports. Their number in $links; 0: none will do,
# and $why says so.
make_network() {
	local file=$work/net-${1##*/} given
	links=0
	why="nothing is known to begin messages in it: add its protocol to sources, or a network with it to between"
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

# same_network NAME NETWORK NAMES UNTIL TRACED_UNTIL: hosts whose names begin so, a list for Python, are compiled, and hear.
same_network() {
	same "$1 in a network" "$programs/$1" run "$2" --link sim --seed 7 --until "$4"
	holds compiled "$1: its hosts are compiled, and hear" "len([c for n, c in h.items() if n.startswith($3)]) > 1 \
and all(c['compiled'] and c['frames_in'] > 5 for n, c in h.items() if n.startswith($3))"
	same "$1 in a network, traced" "$programs/$1" run "$2" --link sim --seed 8 --until "$5" --trace
}

# ---- pairs ---------------------------------------------------------------------------------------------------------------

# has_pair GRAPH WORD: the program called so can run the graph between two hosts.
has_pair() {
	"$fast/xk" check "$1" --set "$2.peer=10.9.0.1" >/dev/null 2>&1
}

# same_pair NAME WORD OPTION...
same_pair() {
	local name=$1 word=$2
	local pair="--graph graphs/$name.dot --link sim"
	shift 2
	# shellcheck disable=SC2086 # options
	{
		same "$name, all policies" "$programs/$name" "$word" $pair --mode regular,ipp --handoff none,client,server,both \
			--rounds 10 --size 1,4000 "$@"
		same "$name, traced" "$programs/$name" "$word" $pair --rounds 3 --size 4000 --trace
		same "$name with a budget" "$programs/$name" "$word" $pair --rounds 10 --mode ipp --size 1,4000 \
			--set graph.budget=150us
	}
}

# ---- every graph ---------------------------------------------------------------------------------------------------------

try_graph() {
	local name others
	name=$(basename "$1" .dot)
	if [ ! -x "$programs/$name" ]; then
		fail "$1 is compiled" "$(tail -n 5 "$programs/$name.log")"
		return
	fi
	others=$(between "$name")
	if [ -n "$others" ]; then
		same_network "$name" "$others" "('west', 'east')" 1s 100ms
		return
	fi
	make_network "$1"
	if [ "$links" -eq 0 ]; then
		fail "$1 is run" "$why"
		return
	fi
	same_network "$name" "$work/net-$name.dot" "('regular', 'ipp')" 1s 100ms
	[ "$links" -eq 1 ] || return 0
	! has_pair "$1" udptest || same_pair "$name" udptest
	! has_pair "$1" chantest || same_pair "$name" chantest --channels 1,4
}

# Network files look for graphs beside them.
cp graphs/*.dot "$work"
# A mark above a protocol that lends out its lowers' sessions. So few protocols stand on these that calls are direct.
lent=$work/lent.dot
sed -e '/vsize ->/d; s/bid -> vsize;/bid -> blast;/; s/blast -> vmux;/blast -> vmux [handoff=explicit];/' \
	graphs/chantest-full.dot >"$lent"
sanitized=$build
export -f compile
export programs fast sanitized
printf '%s\0' graphs/*.dot experiments/floors/null10.dot "$lent" | xargs -0 -n 1 -P 2 bash -c 'compile "$1"' compile
for graph in graphs/*.dot; do
	try_graph "$graph"
done

# ---- some more -----------------------------------------------------------------------------------------------------------

same "a network with reboots" "$programs/stopwait" run graphs/net/bad.dot --link sim --seed 7 --until 2s
same "calls through a router" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 3 --until 500ms
same "... in regular mode" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 4 --until 500ms \
	--set graph.mode=regular
same "... traced" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 5 --until 50ms --trace
all="--link sim --mode regular,ipp --handoff none,client,server,both --rounds 10 --size 1,4000"
# shellcheck disable=SC2086 # a list of options
{
	same "a pair, by the number of threads" "$programs/udptest" udptest $all --threads 1,3
	same "a pair, in order" "$programs/udptest" udptest $all --set udp.order=session
	same "ten layers of one type" "$programs/null10" udptest --graph experiments/floors/null10.dot $all
}

same "a mark above vmux" "$programs/lent" chantest --graph "$lent" --link sim --mode ipp --rounds 10
check "... hands off" "$(grep explicit "$work/compiled.json")" grep -q '"explicit": [1-9]' "$work/compiled.json"

# Hosts of another graph with the same nodes: what their file marks counts, not what the program's does.
sed 's/udptest\.dot/udptest-explicit.dot/' "$work/net-udptest.dot" >"$work/marked.dot"
same "another graph of the same nodes" "$programs/udptest" run "$work/marked.dot" --link sim --seed 7 --until 1s
holds compiled "its hosts hand off" "all(h[n]['handoffs_explicit'] > 0 for n in ('ipp1', 'ipp2'))"
