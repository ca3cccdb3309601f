#!/bin/bash
# peers.sh BUILD - ends that are missing, start twice, die, are stopped or get a signal: the other end reports it in time,
# with the right status, and leaves nothing behind.
. "$(dirname "$0")/common.sh"

for_ever=(--rounds 1000000000)
client=("$udptest" --client 10.77.0.2 --mode ipp)
socket=$XDG_RUNTIME_DIR/xk-port.sock

# took NAME FROM MIN MAX: checks that the time since FROM, in milliseconds, lies between.
took() {
	local spent
	spent=$(($(milliseconds) - $2))
	check "$1: in time" "$spent ms, not $3 to $4" [ $spent -ge "$3" -a $spent -le "$4" ]
}

# ended NAME PID SECONDS STATUS [FILE PATTERN]: checks that the process ends with STATUS and has printed PATTERN.
ended() {
	await_end "$2" "$3"
	if [ "$status" -ne "$4" ]; then
		fail "$1" "status $status instead of $4: $(tail -n 3 "$work/${5:-none}" 2>/dev/null)"
	elif [ $# -ge 6 ] && ! printed "$5" "$6"; then
		fail "$1" "does not print '$6' but: $(tail -n 3 "$work/$5")"
	else
		ok "$1"
	fi
}

# served NAME: checks that the server answers a client.
served() {
	run 40 "${client[@]}" --rounds 200 --json "$work/served.json"
	if [ "$status" -ne 0 ]; then
		fail "$1" "status $status: $(tail -n 3 "$work/err")"
	else
		runs_are "$1" "$work/served.json" 200 1
	fi
}

# ---- a pair started together -----------------------------------------------------------------------------------------

start_pair() {
	spawn pair "$udptest" "${for_ever[@]}" --mode ipp "$@"
	pair=$pid
	within 20 has_both || fail "pair" "there are no two ends: $(tail -n 3 "$work/pair.err")"
	pair_client=$(end_of "$pair" client)
	pair_server=$(end_of "$pair" server)
	await_traffic "$pair_client" || fail "pair" "there is no traffic"
}

has_both() {
	[ -n "$(end_of "$pair" client)" ] && [ -n "$(end_of "$pair" server)" ]
}

none_left() {
	gone "$pair_client" && gone "$pair_server"
}

for end in client server; do
	start_pair
	victim=pair_$end
	kill -KILL "${!victim}"
	since=$(milliseconds)
	ended "kill -9 of a pair's $end" "$pair" 10 1 pair.err "the $end died: signal 9"
	took "kill -9 of a pair's $end" "$since" 0 8000
	check "kill -9 of a pair's $end: no process is left" "$pair_client, $pair_server" within 20 none_left
done

start_pair
kill -KILL "$pair"
check "kill -9 of the parent: its children die with it" "$pair_client, $pair_server" within 20 none_left
wait "$pair" 2>/dev/null
# Its server may have noticed and removed the socket before the signal arrived.
left=$XDG_RUNTIME_DIR/xk-pair-$pair-port.sock
[ -S "$left" ] || python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$left"
check "a socket of a killed pair" "there is none" test -S "$left"
run 30 "$udptest" --rounds 10 --mode ipp
check "the next start" "status $status" [ "$status" -eq 0 ]
check "the next start removes what a killed one left" "$(ls "$XDG_RUNTIME_DIR")" \
	test ! -e "$left"

for signal in INT TERM; do
	start_pair
	kill -$signal "$pair"
	since=$(milliseconds)
	ended "SIG$signal of a pair" "$pair" 10 1 pair.err "stopped by signal"
	took "SIG$signal of a pair" "$since" 0 8000
	check "SIG$signal of a pair: no process is left" "$pair_client, $pair_server" within 20 none_left
done

# An interrupted run reports its measurements and that it is incomplete. Both configurations have been measured.
for program in udptest chantest; do
	for seconds in 0.5 2 8 32; do
		run 60 timeout --preserve-status -s INT $seconds "$build/$program" --link sim --rounds 1000000000 --json "$work/cut.json"
		[ "$status" -eq 1 ] && grep -q '^ .* ipp ' "$work/out" && break
	done
	check "$program, cut short: measurements are reported" "status $status: $(cat "$work/out" "$work/err")" \
		grep -q '^What IPP saved' "$work/out"
	check "$program, cut short: so is that it is not all" "$(head -n 3 "$work/out")" \
		grep -Eq '^CUT SHORT by a signal: [1-9][0-9]* of 2000000000 round trips' "$work/out"
	document "$program, cut short: JSON" "$work/cut.json" \
		'd["cut_short"] is True and len(d["runs"]) == 2 and all(0 < r["rounds"] < 1000000000 for r in d["runs"])'
done
start_pair --json "$work/cut.json"
kill -INT "$pair"
ended "a pair that is cut short" "$pair" 20 1 pair.out '^CUT SHORT by a signal: [0-9]+ of 1000000000 round trips'
document "a pair that is cut short: JSON" "$work/cut.json" 'd["cut_short"] is True and len(d["runs"]) <= 1'
run 30 "$udptest" --link sim --rounds 100 --json "$work/whole.json"
document "a complete run says so" "$work/whole.json" 'd["cut_short"] is False'

# ---- losses reported by IPP ---------------------------------------------------------------------------------------------

lost='^  1 byte, 1 channel, 1 thread, handoff both: 99 % took up to [0-9.]+ us instead of [0-9.]+; [0-9]+ a second instead of'
run 30 "$build/chantest" --link sim --costs modern,stack_switch=50us --handoff both --rounds 200
check "IPP's losses cause a warning" "$(cat "$work/out")" grep -Eq "$lost" "$work/out"
check "... below the savings" "$(cat "$work/out")" \
	[ "$(grep -n '^Warning: IPP lost' "$work/out" | cut -d: -f1)" -gt "$(grep -n '^What IPP saved' "$work/out" | cut -d: -f1)" ]
run 30 "$build/chantest" --link sim --rounds 200
check "no warning without losses" "$(cat "$work/out")" bash -c '! grep -q Warning "$1"' x "$work/out"

# ---- a lone client without a server -------------------------------------------------------------------------------------

since=$(milliseconds)
spawn lone "${client[@]}"
lone=$pid
sleep 1
spawn lone2 "${client[@]}"
sleep 1
kill -TERM "$pid"
ended "SIGTERM of a client that waits for its server" "$pid" 20 1
ended "a client without a server gives up" "$lone" 60 1 lone.err "no server on $socket .*: start the server, or specify its socket"
took "a client without a server gives up" "$since" 9500 60000

# The client may start first.
spawn early "${client[@]}" --rounds 100
early=$pid
sleep 0.5
serve
ended "a client that waits for its server, which comes" "$early" 20 0 early.err

# ---- one socket, two servers, two clients --------------------------------------------------------------------------------

expect "a second server on the socket" 1 "another server has $socket: stop it, or use another socket" "$udptest" --server
served "the first server continues"
spawn first "${client[@]}" "${for_ever[@]}"
first=$pid
await_traffic "$first" || fail "a second client" "there is no traffic"
spawn second "${client[@]}" --rounds 100
second=$pid
sleep 1
check "a second client waits" "it has ended" runs "$second"
kill -TERM "$first"
ended "SIGTERM of a client" "$first" 10 1 first.err "stopped by signal"
ended "a second client is served once the first has ended" "$second" 20 0 second.err

# ---- a client dies ----------------------------------------------------------------------------------------------------------

for size in 1 40000; do
	spawn dying "${client[@]}" "${for_ever[@]}" --size $size
	dying=$pid
	await_traffic "$dying" || fail "kill -9 of a client" "there is no traffic"
	kill -KILL "$dying"
	wait "$dying" 2>/dev/null
	check "kill -9 of a client: the server lives on ($size bytes)" "it has ended" runs "$server"
	served "kill -9 of a client: the next one is served ($size bytes)"
done

# ---- a server is stopped for a while ---------------------------------------------------------------------------------------

spawn patient "${client[@]}" --rounds 20000 --set udptest.timeout=200ms --json "$work/patient.json"
patient=$pid
await_traffic "$server" || fail "SIGSTOP of the server" "there is no traffic"
kill -STOP "$server"
sleep 2
kill -CONT "$server"
ended "SIGSTOP of the server: the client continues when it does" "$patient" 90 0 patient.err "a message was lost: no echo within [0-9]+ ms; continuing"
document "SIGSTOP of the server: losses are counted, every round is completed" "$work/patient.json" \
	'3 <= runs[0]["lost"] <= 200 and runs[0]["rounds"] == 20000 and runs[0]["bad"] == 0'
served "SIGSTOP of the server: the next client"

# ---- a server ends ----------------------------------------------------------------------------------------------------------

spawn orphan "${client[@]}" "${for_ever[@]}" --set udptest.silence=2s --set udptest.timeout=300ms
orphan=$pid
await_traffic "$orphan" || fail "kill -9 of the server" "there is no traffic"
kill -KILL "$server"
wait "$server" 2>/dev/null
since=$(milliseconds)
ended "kill -9 of the server: its client gives up" "$orphan" 30 1 orphan.err \
	'10\.77\.0\.2 has not answered for too long \(is udptest --server running there'
took "kill -9 of the server: its client gives up" "$since" 1500 10000
check "kill -9 of the server: it could not remove its socket" "nothing is left" test -S "$socket"
serve
served "a server starts despite a killed server's socket"

for signal in INT TERM; do
	kill -$signal "$server"
	ended "SIG$signal of a server" "$server" 10 0 server.err
	check "SIG$signal of a server: its socket is removed" "it is there" test ! -e "$socket"
	serve --json "$work/server.json"
	served "after SIG$signal of the server before"
done
end_server
document "a lone server's counts" "$work/server.json" \
	's["messages"] >= 300 and s["mode"] == "ipp" and set(s["drops"]) <= {"port.no_peer"} and s["counters"]["udptest.messages"] == s["messages"]'

# ---- other files at the socket's path --------------------------------------------------------------------------------------------

echo "not a socket" >"$socket"
expect "a file at the socket's place" 1 "$socket exists and cannot be used .*: remove it" "$udptest" --server
check "a file at the socket's place is left alone" "it has changed" grep -q "not a socket" "$socket"
rm "$socket"

serve
spawn silent "${client[@]}" --rounds 10 --set vnet.address=10.77.0.1/24 --set udptest.silence=2s
ended "a client" "$pid" 20 0 silent.err
expect "an address that no host has" 1 'no host on the link has the address 10\.77\.0\.9 ' "$udptest" --client 10.77.0.9 \
	--rounds 10 --set udptest.silence=1s
expect "the address is on no network here" 1 '192\.168\.7\.7 is on no network of this host' "$udptest" \
	--client 192.168.7.7 --rounds 10
expect "the address is the client's own" 1 '.' "$udptest" --client 10.77.0.1 --rounds 10 --set udptest.silence=1s
served "and then the right one"
end_server
