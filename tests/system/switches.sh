#!/bin/bash
# switches.sh BUILD - context switches that IPP saves, by the operating system's count, and the cost of an idle server. The
# bounds are wide because other work on the machine changes the counts: a thread that finds its next message waiting does
# not switch.
. "$(dirname "$0")/common.sh"

# Voluntary switches of both processes per datagram, over the runs for which the expression is true.
switches='sum(sum(r["process_switches"].values()) / r["messages"] for r in runs if %s)'
threads='sum(sum(r["context_switches"].values()) / r["messages"] for r in runs if %s)'

# per_datagram FORMAT EXPRESSION
per_datagram() {
	# shellcheck disable=SC2059 # the format is one of the two above
	printf "($1)" "$2"
}

regular=$(per_datagram "$switches" 'r["mode"] == "regular"')
ipp=$(per_datagram "$switches" 'r["mode"] == "ipp"')
saved="$regular - $ipp"

# figures FILE EXPRESSION: prints a figure for the log.
figures() {
	python3 -c 'import json, sys; runs = json.load(open(sys.argv[1]))["runs"]; print(f"{eval(sys.argv[2]):.2f}")' "$@"
}

if [ "$(nproc)" -lt 2 ]; then
	cores=0,0
else
	cores=0,1
fi
file=$work/switches.json
# Benchmarks of the release build.
fast=$root/build
[ -x "$fast/xk" ] || fast=$build

run 120 "$udptest" --cores $cores --rounds 2000 --handoff none --json "$file"
echo "# switches per datagram: regular $(figures "$file" "$regular"), ipp $(figures "$file" "$ipp")"
runs_are "one thread" "$file" 2000 2
document "one thread: regular takes about one switch per datagram more" "$file" "0.5 <= $saved <= 1.5"
document "ipp adds none to the driver's own" "$file" "$(per_datagram "$threads" 'r["mode"] == "ipp"') < 0.1"
document "ipp: the driver sleeps once per datagram at most" "$file" "$ipp <= 1.3"

# Three fragments: up to three threads are woken for them.
run 120 "$udptest" --cores $cores --rounds 1000 --size 4000 --threads 3 --handoff none --json "$file"
echo "# with 3 threads and 3 fragments: regular $(figures "$file" "$regular"), ipp $(figures "$file" "$ipp")"
runs_are "three threads" "$file" 1000 2
document "three threads: up to min(threads, fragments) more" "$file" "0.5 <= $saved <= 3.5"
document "three threads: ipp adds none" "$file" "$(per_datagram "$threads" 'r["mode"] == "ipp"') < 0.1"

# If a thread carries the message all the way, both modes cost the same.
run 120 "$udptest" --cores $cores --rounds 1000 --handoff both --json "$file"
echo "# with handoff at both ends: regular $(figures "$file" "$regular"), ipp $(figures "$file" "$ipp")"
document "a handoff costs the switch that it saved" "$file" "-0.5 <= $saved <= 0.5"

# ---- the handoff by itself -----------------------------------------------------------------------------------------

run 120 "$fast/xk" bench handoff --rounds 400 --block 100 --json "$work/handoff.json"
check "xk bench handoff" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
each='4 * (d["counts"]["warm"] + 100)'
document "each message that had to leave the driver has left it" "$work/handoff.json" \
	"d['counts']['handoffs_explicit'] == $each and d['counts']['fallbacks'] == 0"
document "each wait has ended as intended" "$work/handoff.json" \
	"d['counts']['resumes_driver'] == $each and $each <= d['counts']['resumes_thread'] <= 2 * $each"
document "every method has its times" "$work/handoff.json" \
	'len(d["ways"]) == 8 and all(w["min"] <= w["p50"] <= w["p99"] <= w["max"] for w in d["ways"].values())'
expect "a core that may not be used" 1 'core 900 may not be used' "$fast/xk" bench handoff --core 900
expect "too many blocks" 2 'one to 10000 blocks' "$fast/xk" bench handoff --rounds 10 --block 20

run 120 "$fast/xk" bench copy --size 64,1000000 --rounds 96 --json "$work/copy.json"
check "xk bench copy" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
document "every size has its times for every method" "$work/copy.json" '([r["size"] for r in d["runs"]] == [64, 1000000] and
	all(set(r) == {"size", "send-copy", "send-reference", "receive-copy", "receive-reference"} for r in d["runs"]))'
prints "... and one method alone" ' 64 +0\.0 +[0-9.]+ +0\.0 ' "$fast/xk" bench copy --size 64 --rounds 96 --way send-reference

for set in gm.flow=yes gm.reliable=no gm.small=unreliable; do
	run 120 "$fast/xk" bench message --rounds 2000 --set $set --json "$work/message.json"
	check "xk bench message $set" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	kept=$([ $set = gm.flow=yes ] && echo 4 || echo 0)
	document "... keeps what must be acknowledged" "$work/message.json" \
		"d['under_way'] == 4 and d['buffers'] == {'sender': $kept, 'receiver': 0} and d['per_message']['turns'] < 2.2"
done
run 120 "$fast/xk" bench message --rounds 200 --size 16000 --json "$work/message.json"
document "... and its receiver what is incomplete" "$work/message.json" 'd["buffers"]["receiver"] == 11'
run 120 "$fast/xk" bench message --rounds 200 --graph graphs/bip.dot --json "$work/message.json"
document "... but nothing by bip" "$work/message.json" 'd["buffers"] == {"sender": 0, "receiver": 0}'
expect "a message that bip cannot carry" 1 'message' "$fast/xk" bench message --graph graphs/bip.dot --size 4000

# Many sessions, each with its path; prefetching works on a burst at a time.
run 120 "$fast/xk" bench echo --rounds 50000 --sessions 300 --burst 32 --json "$work/echo.json"
document "many sessions use paths" "$work/echo.json" 'd["per_echo"]["by_path"] > 0.9'
run 120 "$fast/xk" bench echo --rounds 1000 --turns --json "$work/echo.json"
document "by a program's turns, too" "$work/echo.json" 'd["per_echo"]["by_path"] > 0.9 and d["per_echo"]["turns"] >= 1'
run 120 "$fast/xk" bench echo --rounds 5000 --drivers 2 --sessions 20 --json "$work/echo.json"
# Counting begins when the first driver's warm-up ends; the other driver may have finished all its rounds by then.
document "and by two drivers side by side" "$work/echo.json" 'd["drivers"] == 2 and d["per_echo"]["by_path"] > 0.3'
expect "turns of two drivers" 2 'allows only one driver' "$fast/xk" bench echo --drivers 2 --turns

# ---- idle ----------------------------------------------------------------------------------------------------------

ticks_of() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# idle NAME PID: prints its processor time over 5 s in percent of one core, and checks it.
idle() {
	local before after percent
	before=$(ticks_of "$2")
	sleep 5
	after=$(ticks_of "$2")
	percent=$(awk -v ticks=$((after - before)) -v hz="$(getconf CLK_TCK)" 'BEGIN { printf "%.2f", ticks * 100 / hz / 5 }')
	echo "# $1: $percent % of a core"
	check "$1: less than 2 % of a core" "$percent %" awk -v p="$percent" 'BEGIN { exit !(p < 2) }'
}

serve --driver interrupt
idle "idle, nobody came" "$server"
run 30 "$udptest" --client 10.77.0.2 --rounds 500 --mode ipp
check "a client" "status $status" [ "$status" -eq 0 ]
idle "idle, the client has gone" "$server"
spawn client "$udptest" --client 10.77.0.2 --rounds 1000000000 --mode ipp --set udptest.silence=60s
client=$pid
await_traffic "$server" || fail "idle, the client is silent" "there was no traffic"
kill -STOP "$client"
sleep 0.2
idle "idle, the client is silent" "$server"
kill -CONT "$client"
kill -TERM "$client"
await_end "$client" 20
end_server

serve --driver adaptive --mode regular
idle "idle, driver adaptive, regular mode" "$server"
end_server
