#!/bin/bash
# chantest.sh BUILD - chantest starts both ends itself, over each link, in both modes, with each handoff, size and number of
# channels; lone ends; and a server that is killed and restarted while a client calls.
. "$(dirname "$0")/common.sh"

chantest=$build/chantest
client=("$chantest" --client 10.77.0.2 --mode ipp)
socket=$XDG_RUNTIME_DIR/xk-port.sock

# pair NAME ROUNDS RUNS EXPRESSION OPTION...
pair() {
	local name=$1 rounds=$2 count=$3 expression=$4
	shift 4
	run 60 "$chantest" --rounds "$rounds" --json "$work/pair.json" "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	else
		calls_are "$name" "$work/pair.json" "$rounds" "$count" "$expression"
	fi
}

# ---- pairs -----------------------------------------------------------------------------------------------------------

# Without handoff, the driver does everything at the server and resumes the callers at the client. Other threads switch only
# to begin the callers, once in each block, or for a timer on a busy machine; a handoff would switch for each call. Some long
# replies on many channels wait for room in the device and are resumed by a thread.
several='(r["mode"] == "regular" or r["handoff"] != "none" or r["size"] > 1 or
	4 * r["context_switches"]["server"] < r["rounds"])'
none='(r["mode"] == "regular" or r["handoff"] != "none" or
	4 * max(r["context_switches"]["server"], r["context_switches"]["client"]) < r["rounds"])'
one=0,1
[ "$(nproc)" -ge 2 ] || one=0,0

pair "virtio" 40 20 "$none" --cores $one --size 1,1000,16000,64000 --handoff none,client,server,both
pair "virtio, 8 channels" 80 10 "$several" --cores $one --size 1,16000 --channels 8 --handoff none,client,server,both
pair "virtio, one core" 40 4 "$none" --cores 0,0 --size 1,16000 --channels 1 --handoff none
pair "ring" 40 20 "$none" --link ring --size 1,1000,16000,64000 --handoff none,client,server,both
pair "ring, 8 channels" 80 10 "$several" --link ring --size 1,16000 --channels 8 --handoff none,client,server,both
pair "adaptive" 40 2 "$none" --cores $one --driver adaptive --handoff none
pair "more callers than DPDK has caches for" 300 1 True --channels 64 --mode regular
pair "more callers than a host has stacks by itself" 300 1 True --channels 100 --mode ipp --handoff none
pair "the graph's own handoff, three threads" 100 2 'r["handoff"] == "graph"' --threads 3
pair "the direct stack" 50 4 True --graph graphs/chantest-direct.dot --size 1,1454
pair "the whole stack" 50 4 True --graph graphs/chantest-full.dot --size 1,16000
pair "nothing in a message" 50 2 True --size 0
expect "too long" 1 'sends at most [0-9]+ bytes in a message, not 500000' "$chantest" --size 500000 --rounds 1 --mode ipp

# Blocks of channels follow each other, and the server remembers a quarter more channels per client than a block has: none is
# refused. Retransmissions, even needless ones, depend on the machine and are allowed.
run 60 "$chantest" --cores $one --rounds 500 --mode ipp,regular --channels 128 --set chan.peer_channels=160 \
	--json "$work/many.json"
check "128 channels, repeatedly" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
document "128 channels: no call is lost, and no channel refused" "$work/many.json" \
	'len(runs) == 2 and all(r["rounds"] == 500 and r["lost"] == 0 and r["bad"] == 0 and "chan.too_many" not in r["drops"] for r in runs)'

# ---- lone ends ---------------------------------------------------------------------------------------------------------

# serve_calls [OPTION]...: starts a lone server and waits until it is ready, as $server.
serve_calls() {
	spawn server "$chantest" --server "$@"
	server=$pid
	within 20 printed server.err 'serving at' || fail serve "no server: $(tail -n 3 "$work/server.err")"
}

serve_calls --json "$work/server.json"
for channels in 1 8; do
	run 30 "${client[@]}" --rounds 200 --channels $channels --json "$work/lone.json"
	check "a lone client, $channels channels" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	calls_are "a lone client, $channels channels: its document" "$work/lone.json" 200 1 \
		'r["context_switches"]["server"] is None'
done
end_server
document "a lone server's counts" "$work/server.json" \
	's["messages"] >= 400 and s["mode"] == "ipp" and s["counters"]["chantest.messages"] == s["messages"] == s["counters"]["chantest.requests"]'

# ---- a server that is killed ---------------------------------------------------------------------------------------------

# ended NAME PID SECONDS STATUS PATTERN FILE: checks that the process ends with STATUS and PATTERN in FILE.
ended() {
	await_end "$2" "$3"
	if [ "$status" -ne "$4" ] || ! printed "$6" "$5"; then
		fail "$1" "status $status instead of $4, or not '$5': $(tail -n 3 "$work/$6")"
	else
		ok "$1"
	fi
}

# The client continues, or ends with an error that names the cause.
continues_or_reports() {
	if [ "$status" -eq 124 ]; then
		await_traffic "$again"
	else
		[ "$status" -eq 1 ] && printed again.err "10\\.77\\.0\\.2 has not answered for too long|no host on the link"
	fi
}

restless=(--set chan.silence=2s --set chantest.silence=4s)
serve_calls
spawn orphan "${client[@]}" "${restless[@]}" --rounds 1000000000 --channels 4
orphan=$pid
await_traffic "$orphan" || fail "kill -9 of the server" "there is no traffic"
kill -KILL "$server"
wait "$server" 2>/dev/null
ended "kill -9 of the server: its client gives up" "$orphan" 30 1 \
	'10\.77\.0\.2 has not answered for too long \(is chantest --server running there' orphan.err

# The server's next boot takes over the socket. A client whose link does not come back reports it and ends.
serve_calls
spawn again "${client[@]}" "${restless[@]}" --rounds 1000000000 --channels 4
again=$pid
await_traffic "$again" || fail "a server that comes back" "there is no traffic"
kill -KILL "$server"
wait "$server" 2>/dev/null
serve_calls
since=$(milliseconds)
await_end "$again" 15
check "a server that comes back: its client continues, or ends with a report" "status $status: $(tail -n 3 "$work/again.err")" \
	continues_or_reports
echo "# after $(($(milliseconds) - since)) ms: $(if [ "$status" -eq 124 ]; then echo it continues; else tail -n 1 "$work/again.err"; fi)"
if [ "$status" -eq 124 ]; then
	kill -TERM "$again"
	await_end "$again" 20
fi
run 30 "${client[@]}" --rounds 200
check "the next client of the server that came back" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
end_server
check "its socket is removed" "it is there" test ! -e "$socket"
