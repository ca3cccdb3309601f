#!/bin/bash
# hostile.sh BUILD [SEED] - a hostile peer sends a server all kinds of bad frames (hostile.c): the server keeps serving,
# counts each frame by name and its memory stays bounded. In every mode; with --long, also with a polling driver.
. "$(dirname "$0")/common.sh"

hostile=$build/tests/hostile
# A small quarantine: memory that AddressSanitizer keeps after free would distort the measurement.
export ASAN_OPTIONS="$ASAN_OPTIONS:quarantine_size_mb=8"

resident_kb() {
	awk '/^VmRSS/ { print $2 }' "/proc/$1/status"
}

# abuse NAME OPTION...: abuses a server with these options.
abuse() {
	local name=$1 before after
	shift
	serve --set vnet.address=10.77.0.2/16 --set ip.reassembly_timeout=2s --json "$work/server.json" "$@"
	before=$(resident_kb "$server")
	run 200 "$hostile" port "$seed"
	cp "$work/out" "$work/out.hostile"
	grep '^FAIL\|^ok' "$work/out" | sed "s/^\(ok\|FAIL\) /&$name: /"
	failures=$((failures + $(grep -c '^FAIL' "$work/out")))
	check "$name: the peer completes" "status $status, seed $seed: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	after=$(resident_kb "$server")
	echo "# $name: the server's memory went from $before to $after KiB; seed $seed"
	check "$name: memory is bounded" "$before KiB before, $after KiB after" [ $((after - before)) -lt 65536 ]
	run 30 "$udptest" --client 10.77.0.2 --mode ipp --rounds 200 --size 1,20000
	check "$name: the next client is served" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	end_server
	while read -r _ _ drop count; do
		case $count in
		*+) document "$name: $drop" "$work/server.json" "drops['$drop'] >= ${count%+}" ;;
		*) document "$name: $drop" "$work/server.json" "drops['$drop'] $exactly $count" ;;
		esac
	done < <(grep '^# drop' "$work/out.hostile")
	document "$name: neighbours make room" "$work/server.json" 's["counters"]["arp.replaced"] >= 700'
}

given=${2:-$(date +%N)}

# Without random damage and with messages in order, the counts are exact.
seed=0
exactly='=='
abuse "ipp" --mode ipp
abuse "regular" --mode regular

seed=$given
exactly='>='
abuse "ipp, handoff" --mode ipp --handoff server --threads 2
[ "${XK_TEST_LONG:-0}" != 1 ] || abuse "ipp, poll" --mode ipp --driver poll

# Threads overtake each other: a duplicate may arrive after the datagram is complete, or the end before an overlap.
exactly='>= 0.5 *'
abuse "regular, threads" --mode regular --threads 3
