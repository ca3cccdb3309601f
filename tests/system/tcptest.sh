#!/bin/bash
# tcptest.sh BUILD - tcptest starts both ends itself, over each link, in both modes, with each handoff, flow, size and number of
# connections; lone ends; and a server that is killed.
. "$(dirname "$0")/common.sh"

tcptest=$build/tcptest
client=("$tcptest" --client 10.77.0.2 --mode ipp)
flows=echo,short,send,receive,both

# pair NAME ROUNDS RUNS EXPRESSION OPTION...
pair() {
	local name=$1 rounds=$2 count=$3 expression=$4
	shift 4
	run 120 "$tcptest" --rounds "$rounds" --json "$work/pair.json" "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	else
		streams_are "$name" "$work/pair.json" "$rounds" "$count" "$expression"
	fi
}

# ---- pairs -----------------------------------------------------------------------------------------------------------

for driver in poll interrupt adaptive; do
	pair "virtio, $driver" 60 25 'r["flow"] in "'$flows'"' --driver $driver --flow $flows --size 1460 --handoff none,client,server,both
done
pair "virtio, one core" 30 10 True --cores 0,0 --flow $flows --size 3000
pair "virtio, many connections" 150 6 'r["connections"] == 64' --flow echo,short,both --size 1000 --connections 64
pair "more shepherds than messages" 5 2 True --flow echo,send --connections 20 --mode ipp --link memory
pair "ring" 60 10 True --link ring --flow $flows --size 1000
pair "memory" 60 20 True --link memory --flow $flows --size 1,100000 --threads 2
pair "the simulator" 60 20 True --link sim --flow $flows --size 1,20000 --connections 3
pair "long messages" 20 3 True --flow echo,send,receive --size 1000000 --mode ipp
pair "small windows" 60 5 True --flow $flows --size 5000 --mode ipp --set tcp.send=2000 --set tcp.receive=3000

# Both ends fill each other's windows, and of what they send, some is lost and some overtaken: an end that ignored the other's
# acknowledgements until the next probe took 102 s for one message.
sed 's/ip -> vnet/vdrop [loss="2%", reorder="3%", reorder_time="30ms", direction=both, seed=32]; ip -> vdrop -> vnet/' \
	graphs/tcptest.dot >"$work/lossy.dot"
run 60 "$tcptest" --graph "$work/lossy.dot" --link sim --preset rack10g --seed 32 --flow echo --rounds 5 --size 1000000 --mode ipp \
	--json "$work/lossy.json"
document "long messages, lost and overtaken" "$work/lossy.json" 'd["runs"][0]["rtt_ns"]["max"] < 20e9'

run 60 "$tcptest" --link sim --flow both --rounds 100 --size 5000 --seed 4 --json "$work/first.json"
run 60 "$tcptest" --link sim --flow both --rounds 100 --size 5000 --seed 4 --json "$work/second.json"
check "the same seed, the same run" "they differ" cmp "$work/first.json" "$work/second.json"

# ---- lone ends ---------------------------------------------------------------------------------------------------------

# serve_streams [OPTION]...: starts a lone server and waits until it is ready, as $server.
serve_streams() {
	spawn server "$tcptest" --server "$@"
	server=$pid
	within 20 printed server.err 'serving at' || fail serve "no server: $(tail -n 3 "$work/server.err")"
}

serve_streams --json "$work/server.json"
for connections in 1 8; do
	run 60 "${client[@]}" --rounds 200 --flow $flows --connections $connections --json "$work/lone.json"
	check "a lone client, $connections connections" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	streams_are "a lone client, $connections connections: its document" "$work/lone.json" 200 5 True
done
end_server
document "a lone server's counts" "$work/server.json" \
	's["counters"]["tcptest.accepted"] > 800 and s["counters"]["tcptest.wrong"] == 0 and s["counters"]["tcptest.cut"] == 0'
expect "nobody serves the port" 1 'no session to 10\.77\.0\.2: Connection refused' "$tcptest" --link memory --rounds 10 --mode ipp \
	--set server:tcptest.serve=no --set client:tcptest.silence=500ms

# ---- a server that is killed ---------------------------------------------------------------------------------------------

serve_streams
spawn orphan "${client[@]}" --set tcptest.silence=2s --rounds 1000000000 --connections 4
orphan=$pid
await_traffic "$orphan" || fail "kill -9 of the server" "there is no traffic"
kill -KILL "$server"
wait "$server" 2>/dev/null
await_end "$orphan" 30
check "kill -9 of the server: its client gives up" "status $status: $(tail -n 3 "$work/orphan.err")" \
	eval '[ $status -eq 1 ] && printed orphan.err "10\.77\.0\.2 has not answered for too long"'
rm -f "$XDG_RUNTIME_DIR"/*.sock # left by the killed server
