#!/bin/bash
# drivers.sh BUILD - hosts with several drivers, each with its own queue and core: over every link with more than one
# queue, in both modes; ends with different numbers of drivers; refusals.
. "$(dirname "$0")/common.sh"
xk=$build/xk
icmptest=$build/icmptest

# pair NAME ROUNDS RUNS OPTION...
pair() {
	local name=$1 rounds=$2 count=$3
	shift 3
	run 60 "$udptest" --rounds "$rounds" --json "$work/pair.json" --set udptest.timeout=20s "$@"
	if [ "$status" -ne 0 ]; then
		fail "$name" "status $status: $(tail -n 3 "$work/err")"
	else
		runs_are "$name" "$work/pair.json" "$rounds" "$count" "$expression"
	fi
}

expression='r["lost"] == 0 and len(d["cores"]) == 4'
for driver in interrupt poll adaptive; do
	pair "virtio, 2 drivers, $driver" 40 8 --drivers 2 --driver $driver --size 1,4000 --handoff none,both --threads 1,2 \
		--mode ipp
	pair "virtio, 2 drivers, $driver, regular" 40 2 --drivers 2 --driver $driver --size 1,4000 --mode regular
done
pair "ring, 2 drivers" 40 4 --drivers 2 --link ring --size 1,4000
pair "memory, 2 drivers" 40 4 --drivers 2 --link memory --size 1,4000
expression='d["cores"] == [0, 0, 0, 0]'
pair "all drivers on one core" 20 2 --drivers 2 --cores 0
pair "a core for each driver" 20 2 --drivers 2 --cores 0,0,0,0
expression='len(d["cores"]) == 6'
pair "memory, 3 drivers" 40 2 --drivers 3 --link memory
pair "virtio, 3 drivers" 40 2 --drivers 3

# A server with two queues serves clients with one and with two in turn. Its drivers' counts add up to all frames.
expression='r["lost"] == 0'
both='sum(e["fragments"] for e in s["drivers"]) == s["fragments"] > 0 and len(s["drivers"]) == 2'
serve --drivers 2 --set udptest.timeout=20s --json "$work/server.json"
for drivers in 1 2 1; do
	pair "a server with 2 drivers, a client with $drivers" 40 2 --client 10.77.0.2 --drivers $drivers --size 1,4000 --mode ipp
done
end_server
document "what its drivers have received" "$work/server.json" "$both"
serve
expect "a client with more than its server" 1 'has 1 queue, and this host has 2 drivers' \
	"$udptest" --client 10.77.0.2 --drivers 2
pair "... and one with as many" 40 1 --client 10.77.0.2 --mode ipp
end_server

# A standing host, and pings.
spawn host "$xk" run graphs/icmptest.dot --drivers 2 --cores 0,0 --json "$work/host.json" --pcap "$work/host.pcapng"
standing=$pid
check "a host stands with 2 drivers" "$(tail -n 3 "$work/host.err")" \
	within 20 printed host.err 'stands at .*; 2 drivers, interrupt, mode ipp'
expect "it answers" 0 '' "$icmptest" 10.77.0.2 --drivers 2 --count 20 --interval 2ms --timeout 4s --size 3000
kill -TERM "$standing"
await_end "$standing" 20
check "it ends well" "status $status: $(tail -n 3 "$work/host.err")" [ "$status" -eq 0 ]
check "it prints each driver's counts" "$(cat "$work/host.out")" printed host.out 'by driver [01]'
document "... and its document" "$work/host.json" '(sum(e["fragments"] for e in d["host"]["drivers"]) ==
	d["host"]["ports"]["port"]["frames_in"] == d["host"]["fragments"] >= 60)'
expect "its own host answers" 0 '' "$icmptest" --drivers 2 --count 5 --interval 2ms --timeout 4s

# refused WORDS OPTION...
refused() {
	local words=$1
	shift
	expect "refused: $words" 2 "$words" "$udptest" "$@"
}

for link in memif tap af_packet af_xdp; do
	refused "$link has one queue" --link $link --drivers 2
done
refused 'a simulated host has only one' --link sim --drivers 2
refused 'virtio has at most 8 queues' --drivers 9
refused '"0" is not a number between 1 and 16' --drivers 0
refused 'or 2N with --drivers N' --drivers 2 --cores 0,0,0
refused 'may not use core 900' --drivers 2 --cores 0,0,0,900
expect "refused: cores of a host" 2 'one for each of the 2 drivers' "$xk" run graphs/icmptest.dot --drivers 2 --cores 0,0,0
expect "refused: of a network" 2 'are for a host' "$xk" run graphs/net/pair-ethernet10.dot --link sim --drivers 2
