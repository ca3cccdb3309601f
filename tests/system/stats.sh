#!/bin/bash
# stats.sh BUILD - `xk stats` of running hosts, `xk draw --stats`, and DPDK's telemetry: reports are correct, several clients
# may query at once, bogus clients and killed hosts do no harm, and nothing is counted without a client.
. "$(dirname "$0")/common.sh"
xk=$build/xk
icmptest=$build/icmptest
echoes=graphs/icmptest.dot
clients=$root/tests/system/stats.py

# stand NAME GRAPH [OPTION]...: starts a standing host, as $standing; its messages are in $work/NAME.err.
stand() {
	local name=$1
	shift
	spawn "$name" "$xk" run "$@"
	standing=$pid
	within 20 printed "$name.err" 'stands at .* ctrl-C ends it' || fail stand "no host: $(tail -n 3 "$work/$name.err")"
}

# ended NAME PID: sends SIGTERM and checks that the process ends successfully.
ended() {
	kill -TERM "$2"
	await_end "$2" 20
	check "$1" "status $status" [ "$status" -eq 0 ]
}

socket_of() {
	echo "$XDG_RUNTIME_DIR/xkstats-$1.sock"
}

# ask NAME HOST SECONDS: writes HOST's document to $work/NAME.json.
ask() {
	python3 "$clients" ask "$(socket_of "$2")" "$3" >"$work/$1.json" || fail "ask $1" "no answer"
}

# both NAME A B EXPRESSION: checks an expression of the documents a and b.
both() {
	check "$1" "not so" python3 -c 'import json, sys
a, b = (json.load(open(sys.argv[1] + "/" + name + ".json")) for name in sys.argv[2:4])
def up(d, upper, lower):
    return next(e["up"]["messages"] for e in d["edges"] if (e["upper"], e["lower"]) == (upper, lower))
way = (("ip", "vnet"), ("vnet", "eth"), ("eth", "port"))
def frames(d):
    return sum(driver["frames"] for driver in d["drivers"])
sys.exit(0 if eval(sys.argv[4]) else 1)' "$work" "$2" "$3" "$4"
}

# ---- no host, and the list of hosts ----------------------------------------------------------------------------------

expect "no host runs" 1 'no host runs here' "$xk" stats
expect "... which --list also shows" 0 '' "$xk" stats --list
expect "an unknown host" 1 'no host runs here' "$xk" stats nobody
expect "no interval" 2 'is not a time from 100ms to 50s' "$xk" stats --interval 1ms
expect "--list excludes everything else" 2 'excludes everything else' "$xk" stats --list udptest
expect "two hosts" 2 'one argument too many' "$xk" stats a b
expect "--telemetry is of hosts" 2 'are for a host' "$xk" run graphs/net/pair-ethernet10.dot --link sim --telemetry
expect "--help" 0 '' "$xk" stats --help

stand virtio $echoes
first=$standing
host=icmptest-$first
run 20 "$xk" stats --once --interval 200ms
check "the only host needs no name" "$(cat "$work/err")" grep -q "^$host: $echoes on virtio, driver interrupt, mode ipp" "$work/out"

cp graphs/udptest.dot "$work/"$'te\033st;.dot'
stand memif "$work/"$'te\033st;.dot' --link memif --mode regular --set port.dev=other
second=$standing
run 20 "$xk" stats
check "several are listed" "$(cat "$work/out" "$work/err")" [ "$(grep -c -e "^$host  *$first  virtio" -e " $second  memif  *poll  *regular" "$work/out")" -eq 2 ]
check "... by plain names" "$(cat -v "$work/out")" grep -q "^te_st_-$second " "$work/out"
expect "... and one must be chosen" 1 '2 hosts match' "$xk" stats --json -
run 20 "$xk" stats "$second" --once --interval 100ms
check "a process's number is a name" "$(cat "$work/err")" grep -q 'mode regular' "$work/out"
expect "another name is none" 1 'no host is called none' "$xk" stats none
ended "a host ends while it offers its counts" "$second"
check "... and takes its socket along" "$(ls "$XDG_RUNTIME_DIR")" [ ! -e "$(socket_of "te_st_-$second")" ]

# ---- metrics -----------------------------------------------------------------------------------------------------------

metrics=$root/tests/system/metrics.py
run 20 "$xk" stats --prometheus - --interval 100ms
check "metrics are in Prometheus' format, and those of the alerts" "$(cat "$work/out" "$work/err")" "$metrics" docs/examples/alerts.yml <"$work/out"
check "... and name their host, which stands beside others" "$(cat "$work/out")" \
	grep -q "^xk_drops_total{host=\"$host\",protocol=\"ip\",type=\"ip\",reason=\"[a-z_]*\"} 0" "$work/out"
stand exported $echoes --set port.dev=exported
spawn exporter "$xk" stats "$standing" --prometheus "$work/host.prom" --interval 100ms
exporter=$pid
within 20 test -e "$work/host.prom" || fail "metrics are exported" "no file"
first_inode=$(stat -c %i "$work/host.prom")
renewed() {
	[ "$(stat -c %i "$work/host.prom")" != "$first_inode" ]
}
within 20 renewed || fail "metrics are renewed" "the file stays as it is"
check "a file of metrics is whole at any time" "see above" "$metrics" <"$work/host.prom"
ended "a host ends while its metrics are exported" "$standing"
await_end "$exporter" 20
check "... and the export with it" "status $status" [ "$status" -eq 1 ]
check "... and the file, whose counts would not change any more" "it is there" [ ! -e "$work/host.prom" ]
check "... and nothing is left beside it" "$(ls "$work")" [ ! -e "$work/host.prom.new" ]
expect "metrics nowhere" 1 'cannot be written' "$xk" stats --prometheus "$work/absent/host.prom" --interval 100ms
expect "metrics and JSON" 2 'exclude each other' "$xk" stats --prometheus - --json -

# ---- counts ------------------------------------------------------------------------------------------------------------

is_over() {
	ask counting "$host" 0
	ask counted "$host" 0
	cmp -s <(grep -o '"counted_ns": [0-9]*' "$work/counting.json") <(grep -o '"counted_ns": [0-9]*' "$work/counted.json")
}
spawn pings "$icmptest" 10.77.0.2 --count 0 --interval 1ms --quiet
pings=$pid
await_traffic "$pings" || fail traffic "there is none"
check "counting ends when nobody asks any more" "it does not" within 20 is_over
ask before "$host" 0
sleep 0.3
ask unasked "$host" 0
both "nothing crosses edges that nobody asks about" before unasked \
	'frames(b) > frames(a) > 0 and b["counted_ns"] == a["counted_ns"] and up(b, "eth", "port") == up(a, "eth", "port")'
run 20 "$xk" stats icmp --json "$work/asked.json" --interval 500ms
check "--json" "$(cat "$work/err")" [ "$status" -eq 0 ]
both "messages are counted and timed while a client asks" unasked asked \
	'(frames(b) > frames(a) and b["counted_ns"] >= a["counted_ns"] + 500000000
	and max(up(b, *edge) for edge in way) - min(up(b, *edge) for edge in way) < 50 < up(b, "ip", "vnet")
	and all(e["up"]["timed"] > 0 and e["up"]["ns"] > 0 for e in b["edges"] if (e["upper"], e["lower"]) in way))'
document "... with what is counted always" "$work/asked.json" '(d["host"] == "'"$host"'" and d["pid"] == '"$first"'
	and [p["counters"]["requests"] for p in d["protocols"] if p["name"] == "icmp"][0] > 0
	and len(d["drivers"]) == 1 and {"turns", "sleeps", "overruns", "fallbacks"} <= set(d["drivers"][0])
	and d["ports"][0]["frames_in"] > 0)'
within 20 is_over
ask over "$host" 0
sleep 0.3
ask later "$host" 0
both "... and no longer" over later '(frames(b) > frames(a) and a["counted_ns"] == b["counted_ns"] > 0
	and up(a, "eth", "port") == up(b, "eth", "port"))'

# Two clients at once, at different intervals.
spawn slow "$xk" stats "$host" --interval 400ms
slow=$pid
spawn fast "$xk" stats "$host" --interval 100ms
fast=$pid
shown_often() {
	[ "$(grep -c '^eth -> port .*[1-9]' "$work/$1.out")" -ge 5 ]
}
check "two clients at once" "$(tail -n 3 "$work/fast.out" "$work/fast.err")" within 20 shown_often fast
check "... both" "$(tail -n 3 "$work/slow.out" "$work/slow.err")" within 20 shown_often slow
kill -INT "$slow" "$fast" 2>/dev/null
kill -TERM "$slow" "$fast" 2>/dev/null
check "plain text without a terminal" "escapes" [ "$(grep -c $'\033' "$work/fast.out")" -eq 0 ]
timeout 40 python3 "$clients" terminal "$xk" stats "$host" --interval 100ms >"$work/out" 2>&1
check "a terminal is refreshed" "$(tail -n 3 "$work/out")" grep -q $'^\033\\[H\033\\[2J'"$host" "$work/out"

# ---- bogus clients and hosts ---------------------------------------------------------------------------------------------

check "only the user may connect" "$(stat -c %a "$(socket_of "$host")")" [ "$(stat -c %a "$(socket_of "$host")")" = 600 ]
timeout 60 python3 "$clients" hostile "$(socket_of "$host")" 2>"$work/hostile.err"
status=$?
check "hostile requests" "$(tail -n 3 "$work/hostile.err")" [ $status -eq 0 ]
check "... do not disturb the host" "it has gone" runs "$first"
check "... nor its traffic" "it has gone" runs "$pings"

# A host that ends while it answers; others that send terminal escapes, and too much.
head -c 1000 "$work/asked.json" >"$work/half.told"
printf 'a\033[2Jb\302\233c\n\0' >"$work/escapes.told"
head -c 30000000 /dev/zero >"$work/endless.told"
tellers=()
for name in half escapes endless; do
	spawn "$name" python3 "$clients" serve "$(socket_of "$name-1")" "$work/$name.told"
	tellers+=("$pid")
	within 20 test -S "$(socket_of "$name-1")"
done
run 20 "$xk" stats escapes --once --interval 100ms
check "control characters are shown" "$(cat -v "$work/out")" grep -qF 'a\x1b[2Jb\x9bc' "$work/out"
expect "an answer without end" 1 'endless-1: Message too long' "$xk" stats endless --once --interval 100ms
for words in "--json $work/half.json" --once "--json -"; do
	# shellcheck disable=SC2086 # two words
	expect "half a document ($words)" 1 'half-1: ' "$xk" stats half-1 --interval 100ms $words
	check "... is none" "it is" test ! -s "$work/out" -a ! -e "$work/half.json"
done
expect "half a document (draw)" 1 'half-1: ' "$xk" draw $echoes --stats half-1 -o "$work/half.dot"
kill -KILL "${tellers[@]}"
wait "${tellers[@]}" 2>/dev/null
expect "an ended host is not listed" 0 '' "$xk" stats --list
check "... and leaves no socket" "$(ls "$XDG_RUNTIME_DIR")" [ ! -e "$(socket_of half-1)" ]

# ---- pictures --------------------------------------------------------------------------------------------------------------

run 30 "$xk" draw $echoes --stats "$host" -o "$work/live.dot"
check "a picture of a running host" "$(cat "$work/err")" grep -q '% of the time' "$work/live.dot"
run 30 "$xk" draw $echoes --stats "$work/asked.json" -o "$work/saved.svg"
check "... of its document" "$(cat "$work/err")" grep -q '% of the time' "$work/saved.svg"
expect "no picture of a network" 2 'is for a graph' "$xk" draw graphs/net/pair-ethernet10.dot --stats "$host" -o "$work/x.dot"
expect "... of an unknown host" 1 'no host is called nobody' "$xk" draw $echoes --stats nobody -o "$work/x.dot"
expect "... of a missing file" 1 'none.json cannot be read' "$xk" draw $echoes --stats "$work/none.json" -o "$work/x.dot"
echo '{"protocols": [' >"$work/broken.json"
expect "... of a broken document" 1 'broken.json cannot be read: ' "$xk" draw $echoes --stats "$work/broken.json" -o "$work/x.dot"
echo '{"program": "udptest", "runs": []}' >"$work/other.json"
expect "... of another document" 1 'not an output of' "$xk" draw $echoes --stats "$work/other.json" -o "$work/x.dot"
expect "--json into nowhere" 1 'cannot be written' "$xk" stats "$host" --interval 100ms --json /nowhere/file

# ---- ends ------------------------------------------------------------------------------------------------------------------

kill -INT "$pings"
await_end "$pings" 20
check "pings have continued all the time" "status $status: $(tail -n 3 "$work/pings.err")" [ "$status" -eq 0 ]
spawn watcher "$xk" stats "$host" --interval 100ms
watcher=$pid
within 20 shown_often watcher || printed watcher.out 'edge' || fail watcher "it shows nothing"
kill -KILL "$first"
wait "$first" 2>/dev/null
await_end "$watcher" 20
check "the watcher of a killed host is notified" "status $status: $(cat "$work/watcher.err")" [ "$status" -eq 1 ]
check "a killed host leaves its socket" "it has gone" [ -S "$(socket_of "$host")" ]
stand third $echoes
third=$standing
check "... until the next one comes" "$(ls "$XDG_RUNTIME_DIR")" [ ! -e "$(socket_of "$host")" ]
expect "... and is no host" 1 "no host is called $host" "$xk" stats "$host"
check "a host offers nothing to DPDK's clients unless asked to" "$(cat "$work/out")" \
	bash -c '! python3 "$1" telemetry "$2" /xkernel/protocols >/dev/null 2>&1' x "$clients" "$third"
ended "it ends" "$third"

# ---- DPDK's telemetry --------------------------------------------------------------------------------------------------------

left_before=$(ls -d /var/run/dpdk/rte 2>/dev/null)
stand asked $echoes --telemetry
asked=$standing
run 40 "$icmptest" 10.77.0.2 --count 20 --interval 2ms --quiet
timeout 30 python3 "$clients" telemetry "$asked" /xkernel/protocols /xkernel/protocol,icmp /xkernel/edges \
	/xkernel/edges,9999 /xkernel/drivers /xkernel/protocol,nobody /xkernel/protocol "/xkernel/edges,%s%n-1" \
	>"$work/first" 2>"$work/telemetry.err"
run 40 "$icmptest" 10.77.0.2 --count 20 --interval 2ms --quiet
timeout 30 python3 "$clients" telemetry "$asked" /xkernel/edges >"$work/second" 2>>"$work/telemetry.err"
check "DPDK's clients are answered" "$(cat "$work/telemetry.err" "$work/first")" python3 -c 'import json, sys
first, second = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
protocols, icmp, edges, none, drivers, nobody, nameless, strange = first
assert protocols[0] == "port" and "icmp" in protocols
assert icmp["counters/requests"] == 20 and icmp["drops/short"] == 0 and icmp["name"] == "icmp"
assert edges["eth/port/port"]["up"] == 0 and none in (None, {}) and nobody is None and nameless is None
assert drivers["0"]["frames"] >= 20
assert second[0]["eth/port/port"]["up"] >= 20 and second[0]["eth/port/port"]["up_ns"] > 0' "$work/first" "$work/second"
ended "a host that DPDK's clients have asked ends" "$asked"
check "... and leaves no directory that was not there" "$(ls -d /var/run/dpdk/rte)" \
	[ "$left_before" = "$(ls -d /var/run/dpdk/rte 2>/dev/null)" ]
