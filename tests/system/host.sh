#!/bin/bash
# host.sh BUILD - `xk run GRAPH` as a standing host, and icmptest, which pings it from another process or with its own
# host: in both modes, with every driver; signals; refusals.
. "$(dirname "$0")/common.sh"
xk=$build/xk
icmptest=$build/icmptest
echoes=graphs/icmptest.dot

# stand GRAPH [OPTION]...: starts a standing host, as $standing; its messages go to $work/host.err, its counts to host.out.
stand() {
	spawn host "$xk" run "$@"
	standing=$pid
	within 20 printed host.err 'stands at .* ctrl-C ends it' || fail stand "no host: $(tail -n 3 "$work/host.err")"
}

# stood NAME SIGNAL [PATTERN]: checks that the signal ends the host successfully and its counts contain PATTERN.
stood() {
	kill -"$2" "$standing"
	await_end "$standing" 20
	if [ "$status" -ne 0 ]; then
		fail "$1" "status $status: $(tail -n 3 "$work/host.err")"
	elif ! printed host.out "${3:-}"; then
		fail "$1" "does not print '$3' but: $(cat "$work/host.out")"
	else
		ok "$1"
	fi
}

# pings NAME OPTION...: checks that every request is answered. icmptest's output goes to $work/out, its document to pings.json.
pings() {
	local name=$1
	shift
	run 40 "$icmptest" --interval 2ms --timeout 8s --json "$work/pings.json" "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	else
		document "$name" "$work/pings.json" '(d["sent"] == d["received"] > 0 and d["rtt_ns"]["min"] > 0
			and not any(d["faults"].values()) and d["lost"] + d["duplicates"] + d["late"] + d["corrupt"] == 0)'
	fi
}

# Clients without a server give up after ten seconds: other tests run meanwhile.
spawn lonely "$icmptest" 10.77.0.2 --count 1 --set port.dev=lonely
lonely=$pid
spawn lonesome "$xk" run $echoes --end client --set port.dev=lonesome
lonesome=$pid

# ---- it stands and answers -----------------------------------------------------------------------------------------------

for mode in regular ipp; do
	for driver in interrupt adaptive poll; do
		stand $echoes --mode $mode --driver $driver --json "$work/host.json"
		for size in 0 65507; do
			pings "ping of $size bytes, $mode, $driver" 10.77.0.2 --mode $mode --driver $driver --size $size --count 10
		done
		stood "the host, $mode, $driver" INT '^icmp.requests +20$'
		document "... and its document" "$work/host.json" '(d["program"] == "xk run" and d["host"]["mode"] == "'$mode'"
			and d["driver"] == "'$driver'" and d["host"]["counters"]["icmp.requests"] == 20
			and d["host"]["addresses"] == ["10.77.0.2/24"] and d["host"]["ports"]["port"]["frames_out"] >= 10 * (1 + 45)
			and d["host"]["fragments"] >= 10 * (1 + 45) and d["host"]["fallbacks"] == 0)'
	done
done

stand $echoes --mode regular --threads 3 --core 0
pings "a host with threads on one core" 10.77.0.2 --mode regular --threads 2 --core 0
stood "... ends" TERM 'icmp.requests +5'

stand graphs/udptest.dot
run 40 "$udptest" --client 10.77.0.2 --mode ipp --rounds 200
check "a host with udptest serves" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
stood "... and has counted it" TERM 'udptest.messages +[0-9]{3}'

# Either end, at any address.
stand $echoes --end server --set vnet.address=192.168.7.9/16
pings "a host with an address that was set" 192.168.7.9 --set vnet.address=192.168.200.1/16
stood "... ends" INT 'icmp.requests +5'
stand $echoes --set port.dev=elsewhere --json -
pings "a host on another socket" 10.77.0.2 --set port.dev=elsewhere
stood "... ends" INT '"icmp.requests": 5'
document "--json - has standard output for itself" "$work/host.out" 'd["host"]["ports"]["port"]["dev"] == "elsewhere"'

# ---- icmptest with a host of its own -------------------------------------------------------------------------------------

pings "a pair, two processes" --size 3000 --count 50
check "a line for each reply" "$(cat "$work/out")" \
	[ "$(grep -c '^3000 bytes from 10.77.0.2: seq [0-9]*, [0-9.]* us$' "$work/out")" -eq 50 ]
check "a summary" "$(cat "$work/out")" grep -q '^10.77.0.2: 50 sent, 50 received, 0 lost (0 %)' "$work/out"
pings "a pair, polling" --driver poll --count 20
for link in ring memory; do
	pings "a pair, in one process, $link" --link $link --size 9000 --mode regular
done
pings "a pair at addresses that were set" --set vnet.address=192.168.5.9/24 --quiet --pattern 170
check "--quiet prints no replies" "$(cat "$work/out")" [ "$(grep -c 'bytes from' "$work/out")" -eq 0 ]
check "... at the address" "$(cat "$work/out")" grep -q '^192.168.5.9: 5 sent' "$work/out"
run 40 "$icmptest" --count 3 --interval 1ms --json -
check "icmptest --json - has standard output for itself" "$(tail -n 3 "$work/out")" \
	python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["received"] == 3' "$work/out"

# ---- no answers ----------------------------------------------------------------------------------------------------------

stand $echoes
expect "an address that no host has" 1 '' "$icmptest" 10.77.0.9 --count 3 --interval 10ms --timeout 200ms
check "... which is reported" "$(cat "$work/out")" grep -q '3 sent, 0 received, 3 lost (100 %)' "$work/out"
expect "an address outside every network" 1 '10.99.0.1 is on no network of this host' "$icmptest" 10.99.0.1 --count 1
stood "the host ends" INT ''
stand $echoes --set icmp.echo=no
expect "a host that does not answer" 1 '' "$icmptest" 10.77.0.2 --count 3 --interval 10ms --timeout 200ms
stood "... ends" INT ''

for name in lonely lonesome; do
	await_end "${!name}" 20
	check "no host on the link ($name)" "status $status: $(cat "$work/$name.err")" [ "$status" -eq 1 ]
	check "... in words" "$(cat "$work/$name.err")" printed $name.err 'no server on .*: start the server'
done

# await_echo NAME: waits until the process spawned as NAME has an answer; fails if it ends without one.
await_echo() {
	within 30 printed "$1.out" 'bytes from'
}

# ---- signals -------------------------------------------------------------------------------------------------------------

for signal in INT TERM; do
	spawn endless "$icmptest" --count 0 --interval 1ms
	endless=$pid
	await_echo endless || fail "SIG$signal" "nobody answers"
	kill -$signal "$endless"
	await_end "$endless" 20
	check "SIG$signal ends pings without end" "status $status: $(tail -n 3 "$work/endless.err")" [ "$status" -eq 0 ]
	check "... with a summary" "$(cat "$work/endless.out")" printed endless.out 'sent, .* received, 0 lost'
done

# A host blocked in writing its output: the first signal requests a clean end, the second ends it at once.
mkfifo "$work/full"
exec 9<>"$work/full"
head -c 65536 /dev/zero >&9
for signal in INT TERM; do
	"$xk" run $echoes >"$work/full" 2>"$work/stuck$signal.err" </dev/null 9>&- &
	stuck=$!
	spawned+=("$stuck")
	within 20 printed "stuck$signal.err" 'stands at' || fail "a second SIG$signal" "no host: $(cat "$work/stuck$signal.err")"
	kill -$signal "$stuck"
	sleep 1
	runs "$stuck" || await_end "$stuck" 0
	check "a host that cannot print its counts waits" "status $status: $(cat "$work/stuck$signal.err")" runs "$stuck"
	kill -$signal "$stuck"
	await_end "$stuck" 5
	check "a second SIG$signal ends it at once" "status $status" [ "$status" -gt 128 ]
done
exec 9>&-
rm -f "$XDG_RUNTIME_DIR"/*.sock

# Closing its terminal shuts a host down cleanly, unless it was started with nohup.
spawn hung env --default-signal=HUP "$xk" run $echoes
within 20 printed hung.err 'stands at' || fail SIGHUP "no host: $(cat "$work/hung.err")"
kill -HUP "$pid"
await_end "$pid" 20
check "SIGHUP shuts a host down cleanly" "status $status: $(cat "$work/hung.err")" [ "$status" -eq 0 ]
check "... and it takes its sockets along" "$(ls "$XDG_RUNTIME_DIR")" [ -z "$(ls "$XDG_RUNTIME_DIR")" ]
# shellcheck disable=SC2016 # for the inner shell
spawn deaf bash -c 'trap "" HUP; exec "$@"' deaf "$xk" run $echoes
deaf=$pid
within 20 printed deaf.err 'stands at' || fail nohup "no host: $(cat "$work/deaf.err")"
kill -HUP "$deaf"
sleep 0.3
check "... but not one started with nohup" "it has ended" runs "$deaf"
kill -TERM "$deaf"
await_end "$deaf" 20
check "... which SIGTERM ends" "status $status" [ "$status" -eq 0 ]
for signal in TERM HUP; do
	spawn group setsid env --default-signal=HUP "$icmptest" --count 0 --interval 1ms --timeout 3s
	await_echo group || fail "SIG$signal" "nobody answers"
	kill -$signal -- "-$pid"
	await_end "$pid" 20
	check "SIG$signal to icmptest and the host it started" "status $status: $(tail -n 3 "$work/group.err")" [ "$status" -eq 0 ]
done

# The host that answers dies; or icmptest itself.
children() {
	[ -n "$(children_of "$endless")" ]
}
spawn endless "$icmptest" --count 0 --interval 1ms --timeout 100ms
endless=$pid
await_echo endless || fail "kill -9 of the answering host" "nobody answers"
kill -KILL "$(children_of "$endless")"
await_end "$endless" 20
check "kill -9 of the answering host ends the pings" "status $status: $(tail -n 3 "$work/endless.err")" \
	[ "$status" -eq 1 ]
check "... in words" "$(cat "$work/endless.err")" printed endless.err 'the server failed at its end'
spawn endless "$icmptest" --count 0 --interval 1ms --quiet
endless=$pid
within 20 children || fail "kill -9 of icmptest" "there is no other host"
companion=$(children_of "$endless")
await_traffic "$endless"
kill -KILL "$endless"
check "kill -9 of icmptest: the host it started dies with it" "$companion" within 20 gone "$companion"
wait "$endless" 2>/dev/null
pings "the next start" --count 3
check "... removes what a killed one left" "$(ls "$XDG_RUNTIME_DIR")" \
	[ -z "$(find "$XDG_RUNTIME_DIR" -name '*icmptest*')" ]

# ---- it ends by itself ---------------------------------------------------------------------------------------------------

for link in virtio tap memif ring; do
	case $link in
	ring) wanted=2 said='neither end can run alone' ;;
	*) wanted=0 said='stands at' ;;
	esac
	expect "--until on $link" "$wanted" "$said" "$build/xk" run $echoes --link "$link" --end server --until 300ms
done

# ---- refusals --------------------------------------------------------------------------------------------------------------

refused() {
	local status=$1 pattern=$2
	shift 2
	expect "$*" "$status" "$pattern" "$build/$1" "${@:2}"
}
refused 2 'an argument is missing' xk run
refused 2 'one argument too many' xk run $echoes more
refused 2 'not a time such as' xk run $echoes --until soon
refused 2 'not a time such as' xk run $echoes --until 0s
refused 2 '--stop-at and --back are for network files' xk run $echoes --quiet
refused 2 '--stop-at and --back are for network files' xk run $echoes --seed 1
refused 2 'are for a host' xk run graphs/net/pair-ethernet10.dot --link sim --mode ipp
refused 2 'are for a host' xk run graphs/net/pair-ethernet10.dot --link sim --driver poll
refused 2 'are for a host' xk run graphs/net/pair-ethernet10.dot --link sim --end client
refused 2 'networks run in the simulator' xk run graphs/net/pair-ethernet10.dot
refused 2 'networks run in the simulator' xk run graphs/net/pair-ethernet10.dot --link virtio
refused 1 'directed' xk run $echoes --link sim
refused 2 'neither end can run alone' xk run $echoes --link ring
refused 2 'interrupt is refused: use --driver poll' xk run $echoes --link memif --driver interrupt
refused 2 'there are: .*virtio' xk run $echoes --link string
refused 2 '"middle" is not one of client, server' xk run $echoes --end middle
refused 2 '"both" is not one of regular, ipp' xk run $echoes --mode both
refused 2 '"0" is not a number' xk run $echoes --threads 0
refused 2 'may not use core 900' xk run $echoes --cores 900
refused 2 '--cores takes one' xk run $echoes --cores 0,1
refused 2 'not of the form' xk run $echoes --set nonsense
refused 1 'has no node "nowhere"' xk run $echoes --set nowhere.x=1
refused 1 'none.dot: cannot be read' xk run "$work/none.dot"
refused 1 '--json .* cannot be written' xk run $echoes --json /nowhere/file
refused 2 'not an address like' icmptest 10.77
refused 2 'one argument too many' icmptest 10.77.0.2 10.77.0.3
refused 2 '"65508" is not a number' icmptest --size 65508
refused 2 'is not a time of at least 1us' icmptest --interval 0s
refused 2 'is not a time of at least 1us' icmptest --timeout soon
refused 2 'less than 4096 times --interval' icmptest --timeout 1s --interval 1us
refused 2 'neither end can run alone' icmptest 10.77.0.2 --link memory
refused 2 'xk run NETWORK --link sim' icmptest --link sim
refused 1 'there is no icmptest in' icmptest --graph graphs/udptest.dot
refused 1 '--json .* cannot be written' icmptest --json /nowhere/file
for program in "$xk run" "$icmptest"; do
	# shellcheck disable=SC2086 # a program and its word
	expect "${program##*/} --help" 0 '' $program --help
	check "... is on standard output" "it is not" grep -q -- '--driver' "$work/out"
done
