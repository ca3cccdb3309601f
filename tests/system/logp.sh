#!/bin/bash
# logp.sh BUILD - logp: on virtual time, measured LogP parameters equal the configured costs within 2 %, and bursts are predicted
# within 10 %; on real links, it runs between processes and within one, with lone ends and with --far.
. "$(dirname "$0")/common.sh"

logp=$build/logp
# Results on virtual time do not depend on the build, so the faster release build is used.
fast=$root/build/logp
[ -x "$fast" ] || fast=$logp

if [ "${2:-}" = inside ]; then
	ip link add xkt-near type veth peer name xkt-far && ip link set xkt-near up && ip link set xkt-far up || exit 1
	run 120 "$logp" --link af_packet --far 'sh -c' --set client:port.dev=xkt-near --set server:port.dev=xkt-far --rounds 3 \
		--repeats 1 --mode ipp --json "$work/far.json"
	check "--far" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	document "--far: its document" "$work/far.json" 'len(runs) == 2 and all(r["g_ns"]["median"] != 0 for r in runs)'
	exit
fi

# ---- on virtual time -----------------------------------------------------------------------------------------------------

# is NAME EXPRESSION OPTION...: checks EXPRESSION for each run (r: medians by key), and each run's bursts against the prediction.
# near(key, value): within 2 %; frame(bytes): the time for which a UDP/IP frame occupies a link of 10 Gb/s.
is() {
	local name=$1 expression=$2 why
	shift 2
	run 120 "$fast" --link sim --repeats 1 --rounds 5 --json "$work/is.json" "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	elif why=$(PYTHONPATH=$root/tests/system PYTHONDONTWRITEBYTECODE=1 python3 - "$work/is.json" "$expression" 2>&1 <<'END'
import json, sys

from documents import figures

runs = json.load(open(sys.argv[1]))["runs"]
for run in runs:
    r = {key: value["median"] if isinstance(value, dict) else value for key, value in run.items()}
    near = lambda key, value: abs(r[key] - value) <= 0.02 * value or sys.exit(f"{key} is {r[key]}, not {value}, at size {r['size']}, {r['mode']}")
    frame = lambda size: -(-8 * (max(60, size + 42) + 12) // 10)
    if not eval(f"({sys.argv[2]})", {"r": r, "near": near, "frame": frame, "max": max, "abs": abs}):
        sys.exit(f"{figures(sys.argv[2], r)}: not so: {sys.argv[2]}")
    for burst in r["bursts"]:
        predicted, measured = burst["predicted_ns"], burst["measured_ns"]["median"]
        if abs(predicted - measured) > 0.1 * measured:
            sys.exit(f"a burst of {burst['messages']} takes {measured}, not {predicted}, at size {r['size']}, {r['mode']}")
if not runs or len(runs[0]["bursts"]) != 3:
    sys.exit("no bursts")
END
	); then ok "$name"; else fail "$name" "$why"; fi
}

cat >"$work/udp.dot" <<'END'
digraph g { work [protocol=vwork, up="3us", down="2us"]; logptest -> work -> udp -> ip -> vnet -> eth -> port; vnet -> arp -> eth; }
END
cat >"$work/bytes.dot" <<'END'
digraph g { work [protocol=vwork, up="400ns", down="860ns", down_kb="6250ns"]; logptest -> work -> udp -> ip -> vnet -> eth -> port; vnet -> arp -> eth; }
END
cat >"$work/stopwait.dot" <<'END'
digraph g { work [protocol=vwork, up="3us", down="2us"]; logptest -> stopwait; stopwait -> work [number=253];
	work -> ip -> vnet -> eth -> port; vnet -> arp -> eth; }
END
free='r["os_ns"] == 0 and r["or_ns"] == 0'
wire='near("l_ns", 2 * frame(r["size"]) + 500)'

is "a link's latency, gap and bandwidth" "$free and $wire and near('g_ns', frame(r['size']) + 10) and
	(r['size'] == 64 or near('byte_gap_ns', 0.8)) and near('one_way', 1e9 * r['size'] / r['g_ns']) and
	near('ping_pong', 1e9 * r['size'] / r['half_rtt_ns']) and near('both_ways', 2 * r['one_way'])" \
	--preset rack10g --costs none --size 64,1024
is "a shared link" "$free and (r['size'] == 64 or near('byte_gap_ns', 800)) and near('g_ns', 800 * (r['size'] + 66)) and
	near('both_ways', r['one_way'])" --preset ethernet10 --costs none --size 64,1024
is "protocols' costs" "near('os_ns', 2000) and near('or_ns', 3000) and near('g_ns', 3000) and $wire and
	r['acknowledgements'] < 0.01" --graph "$work/udp.dot" --preset rack10g --costs none --size 64,1024
is "protocols' costs for bytes" "near('os_ns', 860 + 6.25 * r['size']) and near('or_ns', 400) and
	near('g_ns', 860 + 6.25 * r['size']) and $wire and (r['size'] == 64 or near('byte_gap_ns', 6.25))" \
	--graph "$work/bytes.dot" --preset rack10g --costs none --size 64,1024
is "a machine's costs" "near('or_ns', 3600) and r['os_ns'] == 0 and near('l_ns', 10060) and near('g_ns', 6060)" \
	--preset atm140 --costs decstation --mode ipp --size 8
is "frames' costs" "near('os_ns', 1000) and near('or_ns', 2000) and near('g_ns', 2000)" \
	--preset rack10g --costs none,frame_in=2us,frame_out=1us --size 8
is "cards" "$free and near('l_ns', 2 * frame(r['size']) + 500 + 2 * 3000) and near('g_ns', 3000)" \
	--preset rack10g,card=3us --costs none --size 64
is "receivers that sleep" "near('os_ns', 40) and near('or_ns', 40) and near('half_rtt_ns', 2 * frame(8) + 540 + 1500)" \
	--preset rack10g --costs modern --mode ipp --size 8
is "threads" "True" --preset rack10g --costs modern --mode regular --size 8,1024
is "acknowledgements" "near('os_ns', 2000) and near('or_ns', 3000) and near('acknowledgements', 1)" \
	--graph "$work/stopwait.dot" --preset rack10g --costs none --mode ipp --size 64
is "more messages" "r['messages'] == 200 and near('or_ns', 3000)" --graph "$work/udp.dot" --preset rack10g --costs none \
	--messages 200 --size 8

run 60 "$fast" --link sim --preset rack10g --size 60000,65507 --repeats 2 --mode ipp --json "$work/long.json"
document "long messages: few in a batch" "$work/long.json" \
	'[r["messages"] for r in runs] == [2, 2] and all(len(r["bursts"]) == 1 and r["repeats"] == 2 for r in runs)'
run 60 "$fast" --link sim --preset rack10g --costs none --mode ipp --size 64,4000 --repeats 1 --rounds 3 \
	--copies sender,nobody,both --json "$work/copies.json"
document "copying makes no difference on virtual time" "$work/copies.json" '([r["copies"] for r in runs] ==
	2 * ["sender", "nobody", "both"] and len({r["g_ns"]["median"] for r in runs[:3]}) == 1 and
	len({r["byte_gap_ns"]["median"] for r in runs[3:]}) == 1 and all(r["lost"] == 0 for r in runs))'
check "... and the tables show it" "$(head -n 8 "$work/out")" grep -qE '^    4000  ipp +1 graph    nobody ' "$work/out"
expect "a way to copy that there is not" 2 'copies' "$logp" --copies all
for paths in yes no; do
	"$fast" --link sim --size 8 --repeats 1 --paths $paths --json - 2>"$work/$paths.err" | grep -v '"\(before\|after\)"' \
		>"$work/$paths.json"
done
check "virtual time: the same with paths as without" "$(diff "$work/yes.json" "$work/no.json" | head -n 6)" \
	cmp -s "$work/yes.json" "$work/no.json"

# ---- graphs --------------------------------------------------------------------------------------------------------------

for graph in udptest llp blasttest bid-ip stopwait traffic pingpong udptest-two udptest-multihomed; do
	prints "graphs/$graph.dot" ' 32 .* (0\.9|1\.0).$' "$fast" --graph graphs/$graph.dot --link sim --size 8 --repeats 1 --rounds 3 \
		--mode ipp
done
# Graphs in which the last answer follows acknowledgements.
for graph in gm am am-udp; do
	prints "graphs/$graph.dot, on a fast link" ' 32 .* (0\.9|1\.0).$' "$fast" --graph graphs/$graph.dot --link sim --preset myrinet \
		--size 8 --repeats 1 --rounds 3 --mode ipp
done
# In regular mode, a sender that polls for room must not keep its host from receiving the acknowledgements.
for options in gm.dot am.dot "gm.dot --set gm.flow=no" "gm.dot --set gm.reliable=no"; do
	# shellcheck disable=SC2086 # a list of words
	run 120 "$fast" --link sim --size 8,1000 --repeats 1 --rounds 3 --json "$work/both.json" --graph graphs/$options
	document "graphs/$options: no batch is lost" "$work/both.json" \
		'[r["mode"] for r in runs] == 2 * ["regular", "ipp"] and all(r["lost"] == 0 for r in runs)'
done
prints "losses" '[0-9]+ batches were lost' "$fast" --graph graphs/udptest-faults.dot --link sim --size 8 --repeats 1 --mode ipp
expect "an unknown link name" 2 'there is no link "token"' "$logp" --link sim --preset token
expect "an unknown link setting" 2 '"speed": expected SETTING=VALUE' "$logp" --link sim --preset myrinet,speed=1
expect "calls" 1 'chantest.dot has no test protocol over messages' "$logp" --graph graphs/chantest.dot --link sim
expect "echoes" 1 'Operation not supported' "$logp" --graph graphs/icmptest.dot --link sim
expect "too long" 1 'sends at most 1494 bytes in a message, not 1495' "$logp" --graph graphs/llp.dot --link sim --size 1495
expect "too short" 2 '7' "$logp" --size 7
run 60 "$build/xk" compile graphs/logp.dot -o "$work/compiled"
prints "compiled" ' 32 .* (0\.9|1\.0).$' "$work/compiled" logp --link sim --size 8 --repeats 1 --mode ipp

# ---- real links ------------------------------------------------------------------------------------------------------------

# A busy machine may stop a process for longer than a batch usually takes.
few=(--rounds 3 --repeats 2 --size 8,4000 --set logptest.timeout=8s --set logptest.silence=20s)
# Every link and every copying method; with --long, every method over every link.
for pair in 'virtio sender,nobody,both' 'ring sender' 'memory nobody' 'memif both'; do
	read -r link copies <<<"$pair"
	[ "${XK_TEST_LONG:-0}" != 1 ] || copies=sender,nobody,both
	run 120 "$logp" --link "$link" "${few[@]}" --copies "$copies" --json "$work/$link.json"
	check "$link" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	document "$link: its document" "$work/$link.json" "[(r['size'], r['mode'], r['copies']) for r in runs] == [(size, mode, copies)
		for size in (8, 4000) for copies in '$copies'.split(',') for mode in ('regular', 'ipp')] and all(r['repeats'] == 2 and
		r['half_rtt_ns']['min'] > 0 and r['bursts'][1]['measured_ns']['min'] > 0 for r in runs)"
done
spawn server "$logp" --server --json "$work/server.json"
server=$pid
within 20 printed server.err 'serving at' || fail serve "no server: $(tail -n 3 "$work/server.err")"
run 120 "$logp" --client 10.77.0.2 "${few[@]}" --mode ipp --json "$work/lone.json"
check "a lone client" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
end_server
document "a lone server's counts" "$work/server.json" \
	's["messages"] == s["counters"]["logptest.messages"] > 1000 and d["program"] == "logp"'
if ! command -v ip >/dev/null || ! unshare -n true 2>/dev/null; then
	echo "SKIPPED: --far: this user may not make network namespaces, or ip (package iproute2) is not installed"
else
	unshare -n "$0" "$build" inside || failures=$((failures + 1))
fi
