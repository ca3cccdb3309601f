#!/bin/bash
# calls.sh BUILD - calls over the whole RPC stack on simulated networks (graphs/net/calls.dot): neighbours and hosts beyond a
# router, short messages and long ones, each by its intended way; in both modes, with losses, and repeated identically.
. "$(dirname "$0")/common.sh"

# run NAME OPTION...
run() {
	simulated graphs/net/calls.dot 20s "$@"
}

for mode in ipp regular; do
	run "$mode" --set "graph.mode=$mode"
	holds "$mode" "every call has its reply" \
		'all(h[c]["chantest.rounds"] == 20 and h[c]["chantest.failed"] == 0 for c in ("near", "nearlong", "far", "farlong"))'
	holds "$mode" "the server has run each once" 'h["server"]["chantest.requests"] == 80'
	holds "$mode" "calls to neighbours bypass IP, others use it" \
		'h["near"]["vmux.later"] == 0 and h["nearlong"]["vmux.later"] == 0 and h["far"]["vmux.later"] == 3 and h["farlong"]["vmux.later"] == 3'
	holds "$mode" "short messages bypass BLAST, long ones use it" \
		'h["near"]["blast.long_out"] + h["far"]["blast.long_out"] == 0 and h["nearlong"]["vsize.long"] >= 20 <= h["farlong"]["blast.long_out"]'
	holds "$mode" "the server answers by the same way" 'h["server"]["blast.long_out"] >= 40 and h["server"]["vsize.opened"] > 0'
	holds "$mode" "every message has a way" 'sum(h[c]["vsize.no_way"] + h[c]["vmux.nowhere"] for c in h) == 0'
done

for seed in 1 2 3; do
	run "losses $seed" --seed "$seed" --set left.loss=2% --set right.loss=2%
	holds "losses $seed" "short calls end, and none is run twice" \
		'all(h[c]["chantest.rounds"] + h[c]["chantest.failed"] == 20 for c in ("near", "far")) and h["server"]["chantest.requests"] <= 80'
done

run again --set graph.mode=regular
check "the same again" "the two runs differ" cmp -s "$work/again.json" "$work/regular.json"

[ "$failures" -eq 0 ]
