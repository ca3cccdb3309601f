#!/bin/bash
# threads.sh BUILD - udptest on every link that needs no privileges, with each driver, both modes, with and without
# handoffs; chantest on several channels, likewise; and clients that are killed. For a build with the thread sanitizer,
# which ends a program that has a race.
. "$(dirname "$0")/../system/common.sh"

# pair NAME OPTION...: checks that the run reports no error and loses nothing.
pair() {
	local name=$1
	shift
	run 150 "$udptest" --set udptest.timeout=20s --rounds 20 --threads 2 --handoff none,both --size 1,4000 "$@" \
		--json "$work/pair.json"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(grep -hE 'SUMMARY|udptest:' "$work/err" | sort | uniq -c)"
	else
		document "$name" "$work/pair.json" 'all(r["rounds"] == 20 and r["lost"] == 0 for r in runs) and len(runs) >= 6'
	fi
}

pair "virtio, interrupt" --link virtio --driver interrupt
pair "virtio, poll, a budget" --link virtio --driver poll --graph graphs/udptest-budget.dot
pair "virtio, adaptive, two links" --link virtio --driver adaptive --graph graphs/udptest-multihomed.dot
pair "memif" --link memif --driver poll
pair "ring" --link ring --driver poll
for driver in interrupt adaptive; do
	pair "memory, $driver" --link memory --driver $driver
done

# calls NAME OPTION...: the same for chantest on eight channels, which are opened and closed again and again.
calls() {
	local name=$1
	shift
	run 100 "$build/chantest" --set chan.deadline=60s --rounds 50 --channels 8 --handoff none,both "$@" --json "$work/calls.json"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(grep -hE 'SUMMARY|chantest:' "$work/err" | sort | uniq -c)"
	else
		document "$name" "$work/calls.json" 'all(r["rounds"] == 50 and r["lost"] == 0 and r["bad"] == 0 for r in runs) and len(runs) >= 3'
	fi
}

calls "calls, virtio, interrupt" --link virtio --driver interrupt --size 1,4000 --threads 2
calls "calls, memory" --link memory --threads 2

client=("$udptest" --client 10.77.0.2 --set udptest.timeout=20s)
for mode in ipp regular; do
	serve --mode $mode --threads 2 --handoff server
	spawn dying "${client[@]}" --mode $mode --rounds 1000000000 --size 4000
	await_traffic "$pid" || fail "kill -9 of a client, $mode" "there is no traffic"
	kill -KILL "$pid"
	wait "$pid" 2>/dev/null
	run 60 "${client[@]}" --mode $mode --rounds 50
	check "kill -9 of a client, $mode: the next one is served" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	end_server
done
