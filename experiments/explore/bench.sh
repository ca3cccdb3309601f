#!/bin/bash
# bench.sh BUILD A,B [SECONDS] - `xk explore` on core A: runs and events a second for each network under graphs/explore, with two
# faults, and the memory of a search; then, for graphs/explore/stopwait.dot, how much faster two processes on A and B are. Each
# search takes at most SECONDS (20). From the checkout's root.
set -eu
export LC_ALL=C

build=$1
cores=$2
seconds=${3:-20}

# searched CORES NETWORK OPTION...: prints "RUNS EVENTS SECONDS" of a search with two faults.
searched() {
	local on=$1 network=$2
	shift 2
	# shellcheck disable=SC2046
	taskset -c "$on" "$build/xk" explore $(sed -n 's|^// *build/xk explore \(.* --faults 2\)$|\1|p' "$network") --quiet "$@" |
		sed -n 's/^\([0-9]*\) runs, \([0-9]*\) events, .*, \([0-9.]*\) s$/\1 \2 \3/p'
}

# median: of the numbers on standard input.
median() {
	sort -n | awk '{ n[NR] = $1 } END { print NR % 2 == 1 ? n[(NR + 1) / 2] : (n[NR / 2] + n[NR / 2 + 1]) / 2 }'
}

printf 'xk explore: all runs with at most two of loss, double, delay and crash (at most %s s), on one core.\n\n' "$seconds"
printf '  %-34s %10s %12s %12s\n' '' runs 'runs/s' 'events/s'
for network in graphs/explore/*.dot; do
	grep -q '^// *build/xk explore ' "$network" || continue # the graph of a network's hosts
	searched "${cores%,*}" "$network" --time "${seconds}s" |
		awk -v name="$network" '{ printf "  %-34s %10d %12.0f %12.0f\n", name, $1, $1 / $3, $2 / $3 }'
done

# Memory: the searching process, early and late.
taskset -c "${cores%,*}" "$build/xk" explore graphs/explore/stopwait.dot --faults 4 --time "${seconds}s" --quiet >/dev/null &
searcher=$!
resident() {
	awk '/^RssAnon/ { print $2 }' "/proc/$(cat "/proc/$searcher/task/$searcher/children" | tr -d ' ')/status"
}
sleep 2
early=$(resident)
sleep "$((seconds > 6 ? seconds - 4 : 1))"
late=$(resident)
wait "$searcher" || true
printf '\n  %-46s %10s\n' "memory of a search, KiB: after 2 s" "$early"
printf '  %-46s %10s\n' "after $((seconds > 6 ? seconds - 2 : 3)) s" "$late"

# Alternately, so that both suffer alike from whatever else the machine does.
for _ in 1 2 3 4 5; do
	one=$(searched "$cores" graphs/explore/stopwait.dot --jobs 1 | cut -d' ' -f3)
	two=$(searched "$cores" graphs/explore/stopwait.dot --jobs 2 | cut -d' ' -f3)
	awk -v one="$one" -v two="$two" 'BEGIN { print one / two }'
done | median | awk '{ printf "  %-46s %10.2f\n", "--jobs 2: times as fast (median of 5)", $1 }'
