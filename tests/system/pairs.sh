#!/bin/bash
# pairs.sh BUILD - udptest starts both ends itself: every driver, mode, handoff, graph and link.
. "$(dirname "$0")/common.sh"

# pair NAME ROUNDS RUNS EXPRESSION OPTION...
pair() {
	local name=$1 rounds=$2 count=$3 expression=$4
	shift 4
	# No message is lost here: a long timeout, so that a delay on a busy machine is not taken for a loss.
	run 120 "$udptest" --rounds "$rounds" --json "$work/pair.json" --set udptest.timeout=5s "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	else
		runs_are "$name" "$work/pair.json" "$rounds" "$count" "$expression"
	fi
}

many=$(few_or 100)
for driver in poll interrupt adaptive; do
	pair "$driver" "$many" 20 'd["driver"] == "'$driver'"' --driver $driver --size 1,1000,4000,65507 \
		--mode regular,ipp --handoff none,client,server,both
	pair "$driver, threads" "$many" 27 True --driver $driver --size 1,4000,65507 --handoff none,both --threads 1,2,3
	pair "$driver, one core" "$many" 4 True --driver $driver --size 1,4000 --handoff none --cores 0,0
done

# Tests that do not depend on the link.
over=(--link memory)
pair "one mode" 30 1 'r["mode"] == "ipp"' --mode ipp "${over[@]}"
pair "rounds that do not divide" 1013 2 True "${over[@]}"
pair "many sizes" 20 16 True --size 7,8,9,1472,1473,2952,2953,32768 "${over[@]}"
pair "--set for both ends" 20 2 True --set vnet.address=10.99.1.2/30 "${over[@]}"
pair "--set for either end" 20 2 True --set client:vnet.address=10.98.0.7/16 --set server:vnet.address=10.98.0.9/16 \
	"${over[@]}"

# The graph decides where messages leave the driver unless --handoff does.
everywhere='r["mode"] == "regular" or r["handoffs"]["explicit"] == 2 * r["rounds"]'
nowhere='sum(r["handoffs"].values()) == 0'
pair "udptest.dot" 50 4 "$nowhere" --size 1,65507 "${over[@]}"
pair "udptest-explicit.dot" 50 4 "$everywhere" --size 1,65507 --graph graphs/udptest-explicit.dot "${over[@]}"
pair "udptest-explicit.dot, overridden" 50 2 "$nowhere" --graph graphs/udptest-explicit.dot --handoff none "${over[@]}"
pair "udptest-budget.dot" 50 4 True --size 1,65507 --graph graphs/udptest-budget.dot "${over[@]}"
pair "udptest-reassembly.dot" 50 4 True --size 1,65507 --graph graphs/udptest-reassembly.dot "${over[@]}"
pair "udptest-multihomed.dot" 50 4 "$nowhere" --size 1,65507 --graph graphs/udptest-multihomed.dot "${over[@]}"
pair "udptest-two.dot" 50 4 "$nowhere" --size 1,65507 --graph graphs/udptest-two.dot "${over[@]}"

# A budget that every message exceeds: for all messages, and for reassembled ones.
always='r["mode"] == "regular" or r["handoffs"]["time"] >= r["rounds"] and r["handoffs"]["explicit"] == 0'
sed 's/budget="20us", carry=8/budget="10ns"/' graphs/udptest-budget.dot >"$work/budget.dot"
pair "a budget that is too small" 50 4 "$always" --size 1,65507 --graph "$work/budget.dot" "${over[@]}"
sed 's/budget="20us"/budget="10ns"/' graphs/udptest-reassembly.dot >"$work/reassembly.dot"
pair "a budget that is too small, above ip" 50 4 "$always" --size 1,65507 --graph "$work/reassembly.dot" "${over[@]}"

# Policies: how a shepherd waits, and which thread resumes it.
for policy in 'implicit=fail' 'implicit="spin(20us)"' 'resume=driver' 'resume=thread'; do
	sed "s/^digraph udptest {/&\n\tgraph [$policy];/" graphs/udptest.dot >"$work/policy.dot"
	pair "$policy" 50 4 "$nowhere" --size 1,4000 --graph "$work/policy.dot" "${over[@]}"
done

pair "ring" "$many" 10 'd["link"] == "ring"' --link ring --driver poll --size 1,65507 --handoff none,client,server,both
pair "ring, the driver not chosen" 50 2 'd["driver"] == "poll"' --link ring
for driver in poll interrupt adaptive; do
	pair "memory, $driver" "$many" 6 True --link memory --driver $driver --size 1,4000 --handoff none,both
done

echo kept >"$work/kept.json"
expect "a graph that is refused" 1 'there is no udptest' "$udptest" --link memory --graph graphs/icmptest.dot \
	--json "$work/kept.json"
check "... leaves the results of another run" "$(cat "$work/kept.json")" grep -q kept "$work/kept.json"

pair "--set of a port" 20 2 True --set port.dev=elsewhere
expect "--set at the server alone" 1 'client: .*10\.77\.0\.2 has not answered' "$udptest" --rounds 10 \
	--set server:udptest.serve=no --set client:udptest.silence=1s --set client:udptest.timeout=100ms

# Ends that end at the same moment, each with two links: one finds the other gone while it closes.
times=$(few_or 25)
for ((i = 0; i < times; i++)); do
	run 30 "$udptest" --graph graphs/udptest-multihomed.dot --driver poll --cores 0,0 --mode ipp --rounds 20
	[ "$status" -eq 0 ] || break
done
check "$times pairs that end together" "status $status: $(tail -n 3 "$work/err")" [ $i -eq "$times" ]

# The trace shows every crossing, and where a message left the driver.
run 30 "$udptest" --mode ipp --rounds 2 --trace --handoff server
for words in 'client .*down udptest -> udp 1 bytes' 'server .*up +port -> eth 43 bytes .*\(driver, stack' \
	'server handoff: explicit, between udp and udptest, now on thread' \
	'server .*up +udp -> udptest 1 bytes \[0[12]\] \(thread' 'client .*up +udp -> udptest .*\(driver, stack'; do
	check "--trace: $words" "not in the trace, status $status" grep -qE -- "$words" "$work/err"
done
run 30 "$udptest" --mode ipp --rounds 2 --trace --size 2000 --graph "$work/reassembly.dot"
check "--trace: handoff by time" "not in the trace, status $status" \
	grep -qE 'handoff: time, between ip and udp, now on thread' "$work/err"
