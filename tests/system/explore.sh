#!/bin/bash
# explore.sh BUILD - `xk explore`: a reliable protocol keeps its promises in all runs; an unreliable one breaks them, and what is
# found can be replayed, with BUILD and with build, by paths and layer by layer; several processes, and searches without
# pruning, find the same.
. "$(dirname "$0")/common.sh"

xk=$build/xk

# explored NAME STATUS PATTERN OPTION...: searches; the output goes to $work/NAME.out.
explored() {
	local name=$1 status=$2 pattern=$3
	shift 3
	limited 120 "$xk" explore "$@" --quiet >"$work/$name.out" 2>"$work/$name.err"
	local got=$?
	check "$name: status $status" "status $got: $(tail -n 3 "$work/$name.err" "$work/$name.out")" [ $got -eq "$status" ]
	check "$name: $pattern" "$(cat "$work/$name.out")" printed "$name.out" "$pattern"
}

# ends NAME: prints how many runs there were, and their different ends.
ends() {
	grep -oE '^[0-9]+ runs, [0-9]+ events, [0-9]+ different ends \([0-9a-f]+\)' "$work/$1.out"
}

# run_case FILE: makes the run of a case.
run_case() {
	local command
	command=$(sed '/^#/d; s/^xk explore //' "$1")
	eval "limited 120 \"\$xk\" explore $command"
}

# ---- promises that hold ----

# Each network names its searches: one of the usual kinds, with as many choices as its promises hold for, and some of a single
# kind: damage, if checksums cover all of its frames. The long form makes all of their runs.
found=0
for file in graphs/explore/*.dot; do
	name=$(basename "$file" .dot)
	while read -r search; do
		found=$((found + 1))
		set -- --choose loss,double,delay,crash,order,memory,handoff --faults 1
		case $search in *--choose*) set -- ;; esac
		# shellcheck disable=SC2086
		explored "$name" 0 'all promises hold with at most [13] unusual choices?' $search "$@"
		[ "${XK_TEST_LONG:-0}" -eq 0 ] || [ $# -eq 0 ] ||
			explored "$name" 0 'all promises hold with at most 2 unusual choices?' $search
	done < <(sed -n 's|^// *build/xk explore ||p' "$file") # none: the graph of a network's hosts
done
check "there are searches" "$found" [ "$found" -ge 20 ]
explored 'two faults' 0 'all promises hold with at most 2 unusual choices?' graphs/explore/stopwait.dot --faults 2 --choose loss,double
explored alone 0 '^1 runs, .* 1 different ends' graphs/explore/stopwait.dot --faults 0
explored 'one process' 0 'all promises hold' graphs/explore/stopwait.dot --choose loss,double --faults 2
explored 'three processes' 0 'all promises hold' graphs/explore/stopwait.dot --choose loss,double --faults 2 --jobs 3
check "three processes make the same runs" "$(ends 'one process'), $(ends 'three processes')" \
	[ "$(ends 'one process')" = "$(ends 'three processes')" ]

# ---- pruning: three networks in which events of one moment are frequent ----

cat >"$work/wire.dot" <<'END'
graph wire {
	graph [network="10.77.0.0/24", protocols="udptest.dot", set="udptest.rounds=2"];
	a [set="udptest.peer=10.77.0.2", stacks=4];
	b [set="udptest.peer=10.77.0.1", stacks=4];
	a -- b [link=ethernet10, kind=wire];
}
END
cat >"$work/chain.dot" <<'END'
graph chain {
	graph [network="10.77.0.0/24", protocols="traffic.dot", set="traffic.count=1 traffic.rate=1000"];
	a [set="traffic.peers=10.77.0.2", stacks=4];
	b [stacks=4];
	c [set="traffic.peers=10.77.0.4", stacks=4];
	d [stacks=4];
	lan [link=ethernet10];
	a -- lan; b -- lan; c -- lan; d -- lan;
}
END
cp graphs/explore/stopwait.dot "$work/reliable.dot"
cp graphs/traffic.dot graphs/stopwait.dot graphs/udptest.dot "$work"
sed -i 's|\.\./||' "$work/reliable.dot"
for network in wire chain reliable; do
	for all in '' --all-orders; do
		# shellcheck disable=SC2086
		explored "$network $all" 0 'all promises hold' "$work/$network.dot" --choose order,loss --faults 2 --until 3s $all
	done
	check "$network: the ends of all orders are those of the pruned search" "$(ends "$network "), $(ends "$network --all-orders")" \
		[ "$(ends "$network " | cut -d, -f3)" = "$(ends "$network --all-orders" | cut -d, -f3)" ]
done
check "wire: pruning leaves orders out" "$(ends "wire "), $(ends "wire --all-orders")" \
	[ "$(ends "wire " | cut -d' ' -f1)" -lt "$(ends "wire --all-orders" | cut -d' ' -f1)" ]

# ---- a promise that does not hold: UDP's messages arrive once ----

unreliable=(graphs/explore/stopwait.dot --set graph.protocols=traffic.dot --set graph.promise=)
explored duplicate 1 'broken: server.traffic: duplicate: from 10.77.0.1' "${unreliable[@]}" --set graph.traffic.promise=once --faults 2
check "duplicate: its story" "$(cat "$work/duplicate.out")" printed duplicate.out \
	'^  event +9 +0\.001344400  server: frame 3 arrives a second time \(traffic; 106 bytes\)$'
explored gap 1 "^replay: .*--choices 'frame 3 at server lose'" "${unreliable[@]}" --set graph.traffic.promise=ordered --faults 2
choices=$(sed -n "s/^replay: .*--choices '\(.*\)'/\1/p" "$work/duplicate.out")
for each in "$build" build; do
	for paths in '' '--paths no'; do
		# shellcheck disable=SC2086
		limited 60 "$each/xk" run "${unreliable[@]}" --link sim --until 10s --choices "$choices" $paths >"$work/replay.out" 2>"$work/replay.err"
		check "$(basename "$each") $paths: the replay has the duplicate" "$(tail -n 5 "$work/replay.err")" \
			grep -qE '^traffic.duplicate +0 +1$|^traffic.duplicate +- +1$' "$work/replay.err"
		sed 's/ [0-9a-f]\{12\} .*//' "$work/replay.out" >"$work/story-$(basename "$each")${paths// /}"
		check "... and the same story" "$(diff "$work/story-$(basename "$each")${paths// /}" "$work/story-$(basename "$build")")" \
			cmp -s "$work/story-$(basename "$each")${paths// /}" "$work/story-$(basename "$build")"
	done
done
limited 60 "$xk" run graphs/explore/stopwait.dot --link sim --quiet --choices 'event 5 boot server, frame 9 at server lose' \
	>"$work/two.out" 2>"$work/two.err"
check "choices of a list are made: a boot" "$(cat "$work/two.err")" printed two.err '^boots +1 +2$'
check "... and a loss" "$(cat "$work/two.err")" printed two.err '^sent +1[1-9]$'

# ---- what is found: shrunk, as a case, as a page; where it happens ----

explored shrunk 1 "--choices 'frame 3 at server double'" "${unreliable[@]}" --set graph.traffic.promise=once --save "$work/found.case" \
	--journey "$work/found.html" --choices 'frame 2 at client delay, frame 3 at server double, frame 4 at server lose'
check "--save: the story" "$(cat "$work/found.case")" printed found.case '^#   event +9 .* server: frame 3 arrives a second time'
run_case "$work/found.case" >"$work/again.out" 2>&1
check "... and the command" "$(cat "$work/found.case" "$work/again.out")" printed again.out '^broken: server.traffic: duplicate'
check "--journey: a page of both hosts" "$(ls -l "$work/found.html")" grep -q '"name":"server"' "$work/found.html"
check "... whose title names the promise" "$(grep -o '"title":"[^"]*"' "$work/found.html")" \
	grep -q '"title":"stopwait.dot: broken: server.traffic: duplicate' "$work/found.html"
explored 'a list that holds' 0 '^all promises hold in this run: [0-9]+ events' graphs/explore/stopwait.dot \
	--choices 'frame 3 at server lose, event 12 boot server'
explored 'words' 1 'server: frame 3 is lost \(traffic; ip: flags more; 1514 bytes\)' graphs/explore/fragments.dot --until 120s \
	--set 'graph.promise=server.traffic.received == 2' --choose loss
explored 'refused' 1 'client gets no buffer' graphs/explore/stopwait.dot --choose memory \
	--set 'graph.promise=client.stopwait.retransmitted == 0'
cat >"$work/a 'name'.dot" <<'END'
graph named {
	graph [network="10.77.0.0/24", protocols="traffic.dot"];
	"a-b" [set="traffic.peers=10.77.0.2 traffic.count=2", stacks=4];
	"a.b" [count=17, stacks=4];
	lan [link=ethernet10];
	"a-b" -- lan; "a.b" -- lan;
}
END
named=("$work/a 'name'.dot" --set $'graph.promise=a-b.traffic.sent-1 == a.b1.boots;\n a-b.traffic.sent\n\t== a.b1.traffic.received + 1')
explored 'names and lines' 1 'broken: not a-b\.traffic\.sent \([0-9]+\) == a\.b1\.traffic\.received \([0-9]+\) \+ 1$' "${named[@]}" --faults 0 --save "$work/named.case"
run_case "$work/named.case" >"$work/again.out" 2>&1
check "... are quoted in the case" "$(cat "$work/named.case" "$work/again.out")" printed again.out '^broken: not a-b'
expect "--journey of many hosts" 2 'shows up to 16 hosts, but .* has 18' "$xk" explore "${named[@]}" --journey "$work/found.html"
expect "--journey to standard output" 2 'journey: the file name is missing' "$xk" explore "${named[@]}" --journey -
# stopped OPTION...: runs xk as a debugger does, under which leaks cannot be looked for.
stopped() {
	ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=0" tests/system/stopped.py "$xk" "$@"
}
stops=(run "${unreliable[@]}" --link sim --until 10s --choices 'frame 3 at server double' --set graph.traffic.promise=once)
stopped "${stops[@]}" --stop-at 9 >"$work/stopped.out" 2>"$work/stopped.err"
check "--stop-at: before event 9" "$(cat "$work/stopped.err")" printed stopped.err 'stops before event 9, after 0\.001344400 s'
check "... the frame has arrived once" "$(cat "$work/stopped.out")" \
	[ "$(sed '/^stopped/,$d' "$work/stopped.out" | grep -c 'server arrived .* 106 bytes')" -eq 1 ]
stopped "${stops[@]}" --quiet --back 2 >"$work/back.out" 2>"$work/back.err"
check "--back: before what breaks the promise" "$(cat "$work/back.err")" printed back.err 'stops before event 7,'
stopped "${stops[@]}" --quiet --stop-at 6 --back 50 >"$work/back.out" 2>"$work/back.err"
check "--back: not before the first event" "$(cat "$work/back.err")" printed back.err 'stops before event 1,'
expect "no debugger" 1 'need a debugger: gdb --args' "$xk" "${stops[@]}" --stop-at 9

# ---- cases: runs that once broke a promise ----

for file in tests/explore/*.case; do
	run_case "$file" >"$work/case.out" 2>&1
	check "$(basename "$file")" "status $?: $(cat "$work/case.out")" printed case.out '^all promises hold in this run'
done

# ---- a seed's run as a list ----

cat >"$work/lossy.dot" <<'END'
graph lossy {
	graph [network="10.77.0.0/24", protocols="stopwait.dot", set="traffic.count=20 traffic.rate=1000"];
	client [set="traffic.peers=10.77.0.2", stacks=4];
	server [stacks=4];
	client -- server [link=ethernet10, loss=0.1, duplicate=0.1, reorder=0.1, corrupt=0.1, reorder_delay="3ms"];
}
END
hash_of() {
	limited 60 "$xk" run "$work/lossy.dot" --link sim --until 3s --quiet "$@" 2>&1 | grep -o 'hash .*'
}
for seed in 1 2 3 4 5 6 7 8; do
	hash=$(hash_of --seed $seed --write-choices "$work/list")
	replayed=$(hash_of --seed $seed --choices "$(cat "$work/list")")
	check "seed $seed: its list is the same run" "$hash, $replayed: $(cat "$work/list")" [ -n "$hash" -a "$hash" = "$replayed" ]
done
check "a list names faults and their amounts" "$(cat "$work/list")" \
	grep -qE '^links good, .*frame [0-9]+ at (client|server) (delay [0-9]+(ns|us)|damage [0-9]+:[0-9a-f]{4})' "$work/list"

# ---- mistakes of a protocol, made with the fourth message: only if one comes twice ----

cat >"$work/mistake.dot" <<'END'
digraph mistaken {
	traffic [promise=intact]; mistake [at=4];
	traffic -> mistake; mistake -> udp; udp -> ip; ip -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;
}
END
for made in 'never_freed=server holds 1 buffers at the end' 'waits_forever=(server has 1 shepherds that wait at the end|the program ended)' \
	'null_message=the program ended'; do
	xk=$build/tests/xk_mistake
	name=${made%%=*}
	explored "$name" 1 "broken: ${made#*=}" graphs/explore/stopwait.dot --set "graph.protocols=$work/mistake.dot" --set graph.promise= \
		--set "graph.mistake.makes=$name"
	check "$name: at the fourth message" "$(cat "$work/$name.out")" printed "$name.out" "--choices 'frame [0-9]+ at server double'"
	rm "$work/$name.err" # what the program says when it is broken is expected
	explored "$name, without faults" 0 'all promises hold' graphs/explore/stopwait.dot --faults 0 --set graph.promise= \
		--set "graph.protocols=$work/mistake.dot" --set "graph.mistake.makes=$name"
done
mistaken=(explore graphs/explore/stopwait.dot --set "graph.protocols=$work/mistake.dot" --set graph.promise= --set graph.mistake.at=3)
run 60 "$xk" "${mistaken[@]}" --set graph.mistake.makes=prints --quiet
check "what a protocol prints is not shown" "status $status: $(cat "$work/out")" \
	[ "$status" -eq 0 -a "$(grep -c '^a line$' "$work/out")" -eq 0 ]
spawn hangs "$xk" "${mistaken[@]}" --set graph.mistake.makes=sleeps --choices 'frame 1 at server delay'
within 10 grep -q . "/proc/$pid/task/$pid/children"
kill "$pid"
await_end "$pid" 10
check "a signal ends a run that does not end" "status $status: $(cat "$work/hangs.out")" [ "$status" -eq 143 ]
xk=$build/xk

# ---- promises of a network ----

explored 'all arrive' 1 "broken: not client.traffic.sent \(3\) == server.traffic.received \([0-2]\)" graphs/explore/stopwait.dot \
	--set 'graph.promise=client.traffic.sent == server.traffic.received'
explored 'two promises' 1 "broken: not client.traffic.sent \(3\) < 2 \+ 1" graphs/explore/stopwait.dot --faults 0 \
	--set 'graph.promise=client.traffic.sent - 1 >= 2; client.traffic.sent < 2 + 1'
explored 'an alternative' 0 'all promises hold' graphs/explore/stopwait.dot --faults 0 \
	--set 'graph.promise=client.traffic.sent != 3 or server.traffic.broken > 0 or server.boots == 1;'
for wrong in 'client.traffic.sent=promise: expected a comparison' 'client.traffic.sended > 0=traffic has no counter sended' \
	'other.traffic.sent > 0=there is no host called other' 'client.udp.sent > 0=client has no protocol udp' \
	'client.traffic > 0=expected client.PROTOCOL.COUNTER' '3 > 2 and 2 > 1=expected "or", a semicolon or the end' \
	'3 > =expected a number or HOST.PROTOCOL.COUNTER' '1234567890123456 > 1=has more than 15 digits'; do
	expect "promise ${wrong%%=*}" 1 "${wrong#*=}" "$xk" explore graphs/explore/stopwait.dot --quiet --set "graph.promise=${wrong%%=*}"
done

# ---- limits, and mistakes ----

limited 60 "$xk" explore graphs/explore/stopwait.dot --faults 5 --time 1s --quiet >"$work/time.out" 2>"$work/time.err"
check "--time ends the search" "status $?: $(cat "$work/time.out" "$work/time.err")" printed time.out '^ended before all runs were made: [0-9.]+ %'
spawn interrupted "$xk" explore graphs/explore/stopwait.dot --faults 5
searcher=$pid
within 20 printed interrupted.err ' runs, '
kill -INT "$searcher"
await_end "$searcher" 20
check "ctrl-C ends the search" "status $status: $(cat "$work/interrupted.out")" [ "$status" -eq 3 ]
check "... and prints what is known" "$(cat "$work/interrupted.out")" printed interrupted.out '^[0-9]+ runs, [0-9]+ events'
if [ "${XK_TEST_LONG:-0}" -ne 0 ]; then
	spawn suspended "$xk" explore graphs/explore/stopwait.dot --faults 5 --time 5s
	within 20 printed suspended.err ' runs, '
	children=$(cat "/proc/$pid/task/$pid/children")
	# shellcheck disable=SC2086
	kill -STOP $children
	sleep 21 # longer than a run may take
	# shellcheck disable=SC2086
	kill -CONT $children
	await_end "$pid" 60
	check "a search may be suspended" "status $status: $(cat "$work/suspended.out")" [ "$status" -eq 3 ]
fi
expect "a list of other words" 2 'choices: "frame 3 vanish" is none of: frame N' \
	"$xk" run graphs/explore/stopwait.dot --link sim --choices 'frame 3 vanish'
expect "a list with a host that does not exist" 2 'choices: "event 3 boot nobody" is none of' \
	"$xk" run graphs/explore/stopwait.dot --link sim --choices 'frame 2 lose,event 3 boot nobody'
expect "a list that is too long" 2 'choices: more than 256 choices' \
	"$xk" run graphs/explore/stopwait.dot --link sim --choices "$(printf 'frame 2 lose,%.0s' {1..257})"
for wrong in 'frame 2 lose 3ms' 'frame 2 delay 3' 'frame 2 damage 3:0' 'frame 2 damage 3:12345' 'frame 2 at server' 'links good now' \
	'frame 2 double 1us 2us' 'frame 2' 'frame 4294967299 lose' 'frame -1 lose' 'frame 0 lose' 'frame 2 delay 0s' 'frame 2 damage -5:1' \
	'frame 2 damage 5:-1' 'event 5 order 257' 'event 5 order -1'; do
	expect "$wrong" 2 "\"$wrong\" is none of" "$xk" run graphs/explore/stopwait.dot --link sim --choices "$wrong"
done
expect "--write-choices with --choices" 2 'is for a run without --choices' \
	"$xk" run graphs/explore/stopwait.dot --link sim --write-choices "$work/list" --choices 'frame 2 lose'
expect "--write-choices to the network" 1 'lossy.dot is the input' "$xk" run "$work/lossy.dot" --link sim --write-choices "$work/lossy.dot"
expect "--stop-at of a graph" 2 'are for network files' "$xk" run graphs/stopwait.dot --stop-at 3
expect "a choice that the run does not have" 1 'the run had no choice "event 4000 boot server"' \
	"$xk" run graphs/explore/stopwait.dot --link sim --quiet --choices 'frame 2 lose,event 4000 boot server'
expect "choices of a graph" 2 'are for network files' "$xk" run graphs/stopwait.dot --choices 'frame 3 lose'
expect "a graph is not explored" 1 'stopwait.dot' "$xk" explore graphs/stopwait.dot --quiet
exit $((failures > 0))
