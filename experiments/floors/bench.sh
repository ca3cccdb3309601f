#!/bin/sh
# bench.sh BUILD CORES - the cost of layers, as ratios of figures within one run: the graph against the same work in one
# function, udptest against the same frame sent with bare DPDK, and calls against datagrams. Run it from the checkout's root.
set -eu
export LC_ALL=C

build=$1
cores=$2
rounds=${XK_BENCH_ROUNDS:-1000000}
trips=${XK_BENCH_TRIPS:-100000}
blocks=40
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 130' INT TERM

die() {
	printf 'bench: %s\n' "$*" >&2
	exit 1
}

# number KEY: the first number under "KEY": in the JSON on standard input.
number() {
	sed -n "s/.*\"$1\": *\\([0-9.][0-9.e+]*\\).*/\\1/p" | head -n 1
}

# per_round COMMAND...: instructions of one round, from the difference of two runs. Most conversations get their paths only
# after several rounds.
per_round() {
	case $* in
	*65536*) few=1000000 ;;
	*4096*) few=100000 ;;
	*) few=20000 ;;
	esac
	many=$(collected "$@" --rounds $((few + 20000)))
	few=$(collected "$@" --rounds $few)
	echo $(((many - few) / 20000))
}

collected() {
	valgrind --tool=callgrind --callgrind-out-file=/dev/null "$@" >"$scratch/collected" 2>&1 ||
		{ tail -n 5 "$scratch/collected" >&2; die "failed under callgrind: $*"; }
	sed -n 's/.*Collected : *//p' "$scratch/collected"
}

# The least and the median of the numbers on standard input.
least() {
	sort -n | head -n 1
}

median() {
	sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'
}

# ratio A B [TIMES]
ratio() {
	awk -v a="$1" -v b="$2" -v times="${3:-1}" 'BEGIN { printf "%.2f", times * a / b }'
}

minus() {
	awk -v a="$1" -v b="$2" 'BEGIN { printf "%.1f", a - b }'
}

# choose_rig OPTION...: the rig of a row with these options. All rows with the same size and burst share one rig and
# its least time, because other programs disturb only some rows.
choose_rig() {
	case $* in
	*--burst*) rig=rig-burst ;;
	*--size*) rig=rig${*##*--size } ;;
	*) rig=rig-single ;;
	esac
}

# note NAME COMMAND...: runs a block and records the nanoseconds of one round and the rig's part of them.
note() {
	name=$1
	shift
	case $* in
	*65536*) "$@" --rounds "$rounds" ;;
	*) "$@" --rounds "$((rounds / 20))" ;;
	esac >"$scratch/json"
	number echo_ns <"$scratch/json" >>"$scratch/$name.echo"
	number rig_ns <"$scratch/json" >>"$scratch/$rig.rig"
}

# row NAME LABEL FLOOR-NS FLOOR-INSTRUCTIONS: prints totals, the benchmark's own part, the rest, and the ratios.
row() {
	echo_ns=$(least <"$scratch/$1.echo")
	rig_ns=$(least <"$scratch/$rig.rig")
	net_ns=$(minus "$echo_ns" "$rig_ns")
	instructions=$(cat "$scratch/$1.instructions")
	net=$((instructions - rig_instructions))
	printf '%-26s %8.1f %8.1f %8.1f %6s   %6d %6d %6d %6s\n' "$2" "$echo_ns" "$rig_ns" "$net_ns" \
		"$(ratio "$net_ns" "${3:-$net_ns}")" "$instructions" "$rig_instructions" "$net" \
		"$(ratio "$net" "${4:-$net}")"
}

# down_in_null ROUNDS: instructions of ROUNDS rounds that ten layers of null execute on send.
down_in_null() {
	valgrind --tool=callgrind --callgrind-out-file="$scratch/layers" "$build/xk" bench echo \
		--graph experiments/floors/null10.dot --paths no --rounds "$1" >"$scratch/collected" 2>&1 || die "failed under callgrind"
	callgrind_annotate --auto=no --threshold=100 "$scratch/layers" | sed -n 's/^ *\([0-9,]*\) .*:null_push.*/\1/p' |
		tr -d , | awk '{ sum += $1 } END { print sum }'
}

# Prints the cost of one of the last row's ten layers, in each direction.
for_each_layer() {
	both=$(awk -v a="$instructions" -v b="$(cat "$scratch/layers.instructions")" 'BEGIN { printf "%.1f", (a - b) / 10 }')
	few=$(down_in_null 20000)
	many=$(down_in_null 40000)
	awk -v both="$both" -v down="$((many - few))" 'BEGIN { down /= 200000
		printf "    each of them: %.1f instructions on receive, %.1f on send\n", both - down, down }'
}

# The table of echoes after the row of the single function: name, label and options of `xk bench echo`.
echo_rows="
graph|the graph|
turns|  embedded, by turns|--turns
layers|  without paths|--paths no
null|  ten layers of null|--graph experiments/floors/null10.dot
nulls|  ... without paths|--graph experiments/floors/null10.dot --paths no
graph4096|  4096 sessions|--sessions 4096
graph65536|  65536 sessions|--sessions 65536
neighbours|  4096, each its own link|--sessions 4096 --neighbours
burst|32 frames a turn|--burst 32
layers32|  without paths|--burst 32 --paths no
burst4096|  4096 sessions|--burst 32 --sessions 4096
burst65536|  65536 sessions|--burst 32 --sessions 65536
"

heading() {
	printf '%-26s %8s %8s %8s %6s   %6s %6s %6s %6s\n' '' 'ns' 'rig' 'net' 'ratio' 'instr.' 'rig' 'net' 'ratio'
}

# each_row COMMAND...: runs COMMAND with each row's name, label and options.
each_row() {
	printf '%s' "$echo_rows" | while IFS='|' read -r name label options; do
		# shellcheck disable=SC2086 # a list of options
		[ -z "$name" ] || "$@" "$name" "$label" $options
	done
}

echo_block() {
	name=$1
	shift 2
	choose_rig "$@"
	note "$name" "$build/xk" bench echo --json - "$@"
}

echo_row() {
	name=$1 label=$2
	shift 2
	per_round "$build/xk" bench echo "$@" >"$scratch/$name.instructions"
	choose_rig "$@"
	rig_instructions=$(cat "$scratch/$rig.instructions")
	row "$name" "$label" "$floor_ns" "$floor"
	case $name in
	nulls) for_each_layer ;;
	esac
}

echo_table() {
	block=0
	while [ $((block += 1)) -le $blocks ]; do
		choose_rig
		note fused "$build/experiments/floors/fused" --json
		each_row echo_block
	done
	per_round "$build/xk" bench echo --alone >"$scratch/rig-single.instructions"
	per_round "$build/xk" bench echo --alone --burst 32 >"$scratch/rig-burst.instructions"
	per_round "$build/experiments/floors/fused" --json >"$scratch/fused.instructions"
	echo "UDP echo of 1 byte in one process, per echo: the least of $blocks blocks in turn. \`rig' is the benchmark's own:"
	echo "making and checking frames."
	heading
	choose_rig
	rig_instructions=$(cat "$scratch/rig-single.instructions")
	row fused 'one function'
	floor_ns=$net_ns
	floor=$net
	each_row echo_row
}

# of_size BYTES: rows of the single function and the graph for messages of that size, each against a rig of the same size.
of_size() {
	choose_rig --size "$1"
	block=0
	while [ $((block += 1)) -le $blocks ]; do
		note "fused.$1" "$build/experiments/floors/fused" --json --size "$1"
		note "graph.$1" "$build/xk" bench echo --json - --size "$1"
		note "layers.$1" "$build/xk" bench echo --json - --size "$1" --paths no
	done
	per_round "$build/experiments/floors/fused" --json --size "$1" >"$scratch/fused.$1.instructions"
	per_round "$build/xk" bench echo --json - --size "$1" >"$scratch/graph.$1.instructions"
	per_round "$build/xk" bench echo --json - --size "$1" --paths no >"$scratch/layers.$1.instructions"
	rig_instructions=$(per_round "$build/xk" bench echo --alone --size "$1")
	row "fused.$1" "one function, $1 bytes"
	floor_ns=$net_ns
	floor=$net
	row "graph.$1" "the graph, $1 bytes" "$floor_ns" "$floor"
	row "layers.$1" "  without paths" "$floor_ns" "$floor"
}

size_table() {
	echo "Longer messages: in one frame, and in three fragments in each direction, which have no paths."
	heading
	rounds=$(((rounds + 1) / 2))
	of_size 1472
	of_size 4000
}

# Alternates the bare echo and udptest, so that both meet the same states of the machine.
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

# window_row NAME SERVER: records the echoes per second of a server of this kind.
window_row() {
	"$build/experiments/floors/bare_dpdk_echo" --cores "$cores" --window 128 --server "$2" --rounds $((trips * 10)) --json |
		number echoes_s >>"$scratch/window.$1"
}

# Runs the same client with three servers: one that only swaps addresses, one that does all in one function, and udptest.
window_table() {
	for run in 1 2 3 4 5; do
		window_row swap swap
		window_row fused fused
		"$build/udptest" --server --link virtio --set port.dev="$scratch/socket" --set vnet.address=10.0.0.2/8 \
			--cores "${cores#*,}" --driver poll --mode ipp --handoff none >"$scratch/server" 2>&1 &
		server=$!
		while [ ! -S "$scratch/socket" ] && kill -0 $server; do sleep 0.1; done
		window_row udptest "$scratch/socket"
		kill $server
		wait $server || true
	done
	fused=$(median <"$scratch/window.fused")
	echo "Echoes of 1 byte per second over virtio, 128 requests in flight; the median of 5 runs in turn"
	for name in swap fused udptest; do
		each=$(median <"$scratch/window.$name")
		printf '%-26s %8.0f per second, %s of the one function\n' "$name" "$each" "$(ratio "$each" "$fused")"
	done
}

# of_polling PROGRAM OPTION...: round trips of PROGRAM between two polling processes, IPP, no handoff; JSON in $scratch/PROGRAM.
of_polling() {
	program=$1
	shift
	"$build/$program" --cores "$cores" --driver poll --mode ipp --handoff none --size 1 --json "$scratch/$program" "$@" \
		>"$scratch/$program.out"
}

# A call and its reply against a datagram and its echo, in turn; and calls per second by the number of channels.
call_table() {
	for run in 1 2 3 4 5; do
		for program in udptest chantest; do
			of_polling $program --rounds "$trips"
			number p50 <"$scratch/$program" >>"$scratch/$program.call50"
			number p99 <"$scratch/$program" >>"$scratch/$program.call99"
		done
		for channels in 1 8 64 512; do
			# each block opens new channels, and the server remembers those of earlier blocks
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
		printf '%-26s %8d per second, %d lost\n' "$channels channel(s)" "$(median <"$scratch/calls$channels")" \
			"$(awk '{ sum += $1 } END { print sum }' "$scratch/lost$channels")"
	done
}

# call_row BYTES: instructions of a call with a waiting caller, and with a callback, without the benchmark's own.
call_row() {
	call_rig=$(per_round "$build/xk" bench call --async --alone --size "$1")
	printf '%-26s %8d %8d\n' "$1 byte(s)" "$(($(per_round "$build/xk" bench call --size "$1") - call_rig))" \
		"$(($(per_round "$build/xk" bench call --async --size "$1") - call_rig))"
}

# A message of 1472 bytes takes two fragments; one of 1000 bytes is kept by reference, and one of 1 byte by copy.
call_instructions() {
	echo "Instructions of a call and its reply through two hosts, without the benchmark's own"
	printf '%-26s %8s %8s\n' '' 'waiting' 'callback'
	call_row 1
	call_row 1000
	call_row 1472
}

# echo_of CORES FILE OPTION...: appends the nanoseconds of an echo on those cores to FILE.
echo_of() {
	on=$1
	file=$2
	shift 2
	taskset -c "$on" "$build/xk" bench echo --rounds $((rounds / 2)) --json - "$@" | number echo_ns >>"$scratch/$file"
}

# One driver; two drivers side by side, each with its own core, lane of the port and peers; and two programs with a driver
# each, which share only the machine.
drivers_table() {
	for block in $(seq $blocks); do
		echo_of "${cores%,*}" one
		echo_of "$cores" two --drivers 2
		echo_of "${cores%,*}" first &
		echo_of "${cores#*,}" second
		wait
	done
	paste "$scratch/first" "$scratch/second" | awk '{ print ($1 + $2) / 2 }' >"$scratch/apart"
	one=$(least <"$scratch/one")
	two=$(least <"$scratch/two")
	apart=$(least <"$scratch/apart")
	echo "Drivers side by side, each on a core: ns of an echo, the least of $blocks blocks in turn, and echoes per echo of one driver"
	printf '%-26s %8s %8s\n' '' 'ns' 'echoes'
	printf '%-26s %8.1f %8.2f\n' 'one driver' "$one" 1 'two drivers of one host' "$two" "$(ratio "$one" "$two" 2)" \
		'two programs' "$apart" "$(ratio "$one" "$apart" 2)"
}

echo_table
echo
if [ "$(nproc)" -gt 1 ]; then
	drivers_table
	echo
fi
size_table
echo
call_instructions
echo
if [ -x "$build/experiments/floors/bare_dpdk_echo" ]; then
	wire_table
	echo
	window_table
	echo
	call_table
else
	echo "Without DPDK there are no round trips to measure."
fi
