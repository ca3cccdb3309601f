#!/bin/sh
# bench.sh BUILD CORES - what layers cost, as ratios of figures of one run: the graph against the same work written as
# one function, udptest against the same frame sent with bare DPDK, and calls against datagrams. From the checkout's root.
set -eu
export LC_ALL=C

build=$1
cores=$2
rounds=${XK_BENCH_ROUNDS:-1000000}
trips=${XK_BENCH_TRIPS:-100000}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

die() {
	printf 'bench: %s\n' "$*" >&2
	exit 1
}

# The number under "KEY": in JSON on standard input, the first if there are several.
number() {
	sed -n "s/.*\"$1\": *\\([0-9.][0-9.e+]*\\).*/\\1/p" | head -n 1
}

# per_round COMMAND...: instructions of one round, by the difference of two runs.
per_round() {
	few=$(collected "$@" --rounds 20000)
	many=$(collected "$@" --rounds 40000)
	echo $(((many - few) / 20000))
}

collected() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" >"$scratch/collected" 2>&1 ||
		{ tail -n 5 "$scratch/collected" >&2; die "failed under callgrind: $*"; }
	sed -n 's/.*Collected : *//p' "$scratch/collected"
}

# The median of the numbers on standard input.
median() {
	sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

ratio() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'
}

minus() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a - b }'
}

# note NAME COMMAND...: notes the nanoseconds of one round, and how many of them are the rig's.
note() {
	name=$1
	shift
	"$@" --rounds "$rounds" >"$scratch/json"
	number echo_ns <"$scratch/json" >>"$scratch/$name.echo"
	number rig_ns <"$scratch/json" >>"$scratch/$name.rig"
}

# row NAME LABEL FLOOR-NS FLOOR-INSTRUCTIONS: totals, what the benchmark itself takes, what is left, and the ratios.
row() {
	echo_ns=$(median <"$scratch/$1.echo")
	rig_ns=$(median <"$scratch/$1.rig")
	net_ns=$(minus "$echo_ns" "$rig_ns")
	instructions=$(cat "$scratch/$1.instructions")
	net=$((instructions - rig_instructions))
	printf '%-26s %8.1f %8.1f %8.1f %6s   %6d %6d %6d %6s\n' "$2" "$echo_ns" "$rig_ns" "$net_ns" \
		"$(ratio "$net_ns" "${3:-$net_ns}")" "$instructions" "$rig_instructions" "$net" \
		"$(ratio "$net" "${4:-$net}")"
}

# Of the row that was printed last: what the graph itself takes, against one session.
against_one() {
	echo "    against one session: $(ratio "$net_ns" "$one_ns") of the time, $(ratio "$net" "$one") of the instructions"
}

# down_in_null ROUNDS: instructions on the way down through ten layers of null, in so many rounds.
down_in_null() {
	valgrind --tool=callgrind --callgrind-out-file="$scratch/layers" "$build/xk" bench echo \
		--graph experiments/floors/null10.dot --rounds "$1" >"$scratch/collected" 2>&1 || die "failed under callgrind"
	callgrind_annotate --auto=no --threshold=100 "$scratch/layers" | sed -n 's/^ *\([0-9,]*\) .*:null_push.*/\1/p' |
		tr -d , | awk '{ sum += $1 } END { print sum }'
}

# Of the row that was printed last: what one of its ten layers takes, both ways and each of them.
for_each_layer() {
	both=$(awk -v a="$net" -v b="$one" 'BEGIN { printf "%.1f", (a - b) / 10 }')
	few=$(down_in_null 20000)
	many=$(down_in_null 40000)
	awk -v both="$both" -v down="$((many - few))" 'BEGIN { down /= 200000
		printf "    each of them: %.1f instructions on the way up, %.1f on the way down\n", both - down, down }'
}

# compile GRAPH NAME: makes $scratch/NAME, and notes how many seconds that took.
compile() {
	began=$(date +%s%N)
	"$build/xk" compile "$1" -o "$scratch/$2" || die "$1 is not compiled"
	awk -v name="$1" -v ns=$(($(date +%s%N) - began)) \
		'BEGIN { printf "%s %.1f s\n", name, ns / 1e9 }' >>"$scratch/seconds"
}

# Prints null10.dot with ten more layers below its own.
twenty_layers() {
	awk '/null1 -> udp/ {
		print "\tnull1 [protocol=null]; null1 -> more10;"
		for (i = 10; i > 0; i--) {
			below = i > 1 ? sprintf("more%d", i - 1) : "udp"
			printf "\tmore%d [protocol=null]; more%d -> %s;\n", i, i, below
		}
		next
	} { print }' experiments/floors/null10.dot
}

echo_table() {
	compile graphs/udptest.dot udptest
	compile experiments/floors/null10.dot null10
	twenty_layers >"$scratch/null20.dot"
	"$build/xk" compile "$scratch/null20.dot" -o "$scratch/null20" || die "twenty layers are not compiled"
	for run in 1 2 3; do
		note fused "$build/experiments/floors/fused" --json
		for sessions in 1 4096 65536; do
			note "graph$sessions" "$build/xk" bench echo --json - --sessions "$sessions"
		done
		note neighbours "$build/xk" bench echo --json - --sessions 4096 --neighbours
		note burst "$build/xk" bench echo --json - --burst 32
		note layers "$build/xk" bench echo --json - --graph experiments/floors/null10.dot
		note compiled "$scratch/udptest" bench echo --json -
		note layers_compiled "$scratch/null10" bench echo --json -
	done
	per_round "$build/experiments/floors/fused" --json >"$scratch/fused.instructions"
	per_round "$scratch/udptest" bench echo >"$scratch/compiled.instructions"
	per_round "$scratch/null10" bench echo >"$scratch/layers_compiled.instructions"
	for sessions in 1 4096 65536; do
		per_round "$build/xk" bench echo --json - --sessions "$sessions" >"$scratch/graph$sessions.instructions"
	done
	per_round "$build/xk" bench echo --json - --sessions 4096 --neighbours >"$scratch/neighbours.instructions"
	per_round "$build/xk" bench echo --json - --burst 32 >"$scratch/burst.instructions"
	per_round "$build/xk" bench echo --json - --graph experiments/floors/null10.dot >"$scratch/layers.instructions"
	rig_instructions=$(per_round "$build/xk" bench echo --alone)

	echo "UDP echo of 1 byte in one process, per echo. \`rig' is the benchmark's own: making and checking frames."
	printf '%-26s %8s %8s %8s %6s   %6s %6s %6s %6s\n' '' 'ns' 'rig' 'net' 'ratio' 'instr.' 'rig' 'net' 'ratio'
	row fused 'one function'
	floor_ns=$net_ns
	floor=$net
	row graph1 'the graph' "$floor_ns" "$floor"
	one_ns=$net_ns
	one=$net
	row compiled '  compiled' "$floor_ns" "$floor"
	row layers_compiled '  ... and ten layers of null' "$floor_ns" "$floor"
	awk -v few="$instructions" -v many="$(per_round "$scratch/null20" bench echo)" \
		'BEGIN { printf "    each of ten more: %.1f instructions, up and down together\n", (many - few) / 10 }'
	row burst '  32 frames a turn' "$floor_ns" "$floor"
	row layers '  ten layers of null more' "$floor_ns" "$floor"
	for_each_layer
	for sessions in 4096 65536; do
		row "graph$sessions" "  $sessions sessions" "$floor_ns" "$floor"
		against_one
	done
	row neighbours '  4096, each its own link' "$floor_ns" "$floor"
	against_one
}

# of_size BYTES: rows of the one function and the graph for messages of that size, each against a rig that is as large.
of_size() {
	for run in 1 2 3 4 5; do
		note "fused.$1" "$build/experiments/floors/fused" --json --size "$1"
		note "graph.$1" "$build/xk" bench echo --json - --size "$1"
		note "compiled.$1" "$scratch/udptest" bench echo --json - --size "$1"
	done
	per_round "$build/experiments/floors/fused" --json --size "$1" >"$scratch/fused.$1.instructions"
	per_round "$build/xk" bench echo --json - --size "$1" >"$scratch/graph.$1.instructions"
	per_round "$scratch/udptest" bench echo --size "$1" >"$scratch/compiled.$1.instructions"
	rig_instructions=$(per_round "$build/xk" bench echo --alone --size "$1")
	row "fused.$1" "one function, $1 bytes"
	floor_ns=$net_ns
	floor=$net
	row "graph.$1" "the graph, $1 bytes" "$floor_ns" "$floor"
	row "compiled.$1" "  compiled" "$floor_ns" "$floor"
}

size_table() {
	echo "Longer messages: in one frame, and in three fragments each way."
	printf '%-26s %8s %8s %8s %6s   %6s %6s %6s %6s\n' '' 'ns' 'rig' 'net' 'ratio' 'instr.' 'rig' 'net' 'ratio'
	rounds=$(((rounds + 4) / 5))
	of_size 1472
	of_size 4000
}

# The bare echo and udptest in turn, so that both see the machine in the same states.
wire_table() {
	for run in 1 2 3 4 5; do
		"$build/experiments/floors/bare_dpdk_echo" --cores "$cores" --rounds "$trips" --json >"$scratch/bare"
		number p50 <"$scratch/bare" >>"$scratch/bare.p50"
		number p99 <"$scratch/bare" >>"$scratch/bare.p99"
		number before <"$scratch/bare" >>"$scratch/line"
		"$build/udptest" --cores "$cores" --driver poll --mode ipp --handoff none --size 1 --rounds "$trips" \
			--json "$scratch/udptest" >"$scratch/udptest.out"
		number p50 <"$scratch/udptest" >>"$scratch/udptest.p50"
		number p99 <"$scratch/udptest" >>"$scratch/udptest.p99"
		number after <"$scratch/bare" >>"$scratch/line"
	done
	echo "Round trips of 1 byte between two polling processes on cores $cores, ns; the median of 5 runs in turn"
	printf '%-26s %8s %8s\n' '' median p99
	bare=$(median <"$scratch/bare.p50")
	ours=$(median <"$scratch/udptest.p50")
	printf '%-26s %8d %8d\n' 'bare DPDK' "$bare" "$(median <"$scratch/bare.p99")"
	printf '%-26s %8d %8d\n' 'udptest, IPP' "$ours" "$(median <"$scratch/udptest.p99")"
	echo "udptest adds $((ours - bare)) ns: $(ratio "$ours" "$bare") of bare DPDK"
	[ ! -s "$scratch/line" ] || echo "cache line between the cores, before and after each: $(tr '\n' ' ' <"$scratch/line")ns"
}

# of_polling PROGRAM OPTION...: round trips of PROGRAM's between two polling processes, IPP, no handoff; JSON in $scratch/PROGRAM.
of_polling() {
	program=$1
	shift
	"$build/$program" --cores "$cores" --driver poll --mode ipp --handoff none --size 1 --json "$scratch/$program" "$@" \
		>"$scratch/$program.out"
}

# A call and its reply against a datagram and its echo, in turn; and calls in a second, the more channels the more at once.
call_table() {
	for run in 1 2 3 4 5; do
		for program in udptest chantest; do
			of_polling $program --rounds "$trips"
			number p50 <"$scratch/$program" >>"$scratch/$program.call50"
			number p99 <"$scratch/$program" >>"$scratch/$program.call99"
		done
		for channels in 1 8 64 512; do
			# each block opens its channels, and the server remembers those of the blocks before
			of_polling chantest --rounds "$trips" --channels $channels --set chan.peer_channels=65536
			awk -v rounds="$trips" -v ns="$(number elapsed_ns <"$scratch/chantest")" \
				'BEGIN { printf "%.0f\n", 1e9 * rounds / ns }' >>"$scratch/calls$channels"
			number lost <"$scratch/chantest" >>"$scratch/lost$channels"
		done
	done
	datagram=$(median <"$scratch/udptest.call50")
	call=$(median <"$scratch/chantest.call50")
	echo "Calls of 1 byte between two polling processes on cores $cores, IPP; the median of 5 runs in turn"
	printf '%-26s %8s %8s\n' '' 'median' 'p99, ns'
	printf '%-26s %8d %8d\n' 'udptest' "$datagram" "$(median <"$scratch/udptest.call99")"
	printf '%-26s %8d %8d\n' 'chantest' "$call" "$(median <"$scratch/chantest.call99")"
	echo "a call takes $(ratio "$call" "$datagram") of the time of a datagram and its echo"
	for channels in 1 8 64 512; do
		printf '%-26s %8d a second, %d lost\n' "$channels channel(s)" "$(median <"$scratch/calls$channels")" \
			"$(awk '{ sum += $1 } END { print sum }' "$scratch/lost$channels")"
	done
}

# call_row LABEL COMMAND...: instructions of a call whose caller waits, and whose caller is told, without the benchmark's own.
call_row() {
	label=$1
	shift
	printf '%-26s %8d %8d\n' "$label" "$(($(per_round "$@" bench call) - call_rig))" \
		"$(($(per_round "$@" bench call --async) - call_rig))"
}

call_instructions() {
	compile graphs/chantest.dot chantest-compiled
	call_rig=$(per_round "$build/xk" bench call --async --alone)
	echo "Instructions of a call of 1 byte and its reply through two hosts, without the benchmark's own ($call_rig)"
	printf '%-26s %8s %8s\n' '' 'waits' 'is told'
	call_row 'the graph' "$build/xk"
	call_row '  compiled' "$scratch/chantest-compiled"
}

echo_table
echo
size_table
echo
call_instructions
echo
compile graphs/chantest-full.dot chantest-full
echo "Compiling takes: $(paste -s -d, "$scratch/seconds" | sed 's/,/, /g')"
echo
if [ -x "$build/experiments/floors/bare_dpdk_echo" ]; then
	wire_table
	echo
	call_table
else
	echo "Without DPDK there are no round trips to measure."
fi
