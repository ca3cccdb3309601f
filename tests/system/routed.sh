#!/bin/bash
# routed.sh BUILD - three simulated networks with two routers between them (graphs/net/routed.dot): pings and datagrams
# cross both, whole and in fragments, in both modes; path MTU discovery; ICMP errors for unreachable hosts; and an identical
# repeated run.
. "$(dirname "$0")/common.sh"

# run NAME OPTION...
run() {
	simulated graphs/net/routed.dot 6s "$@"
}

for mode in ipp regular; do
	run "$mode" --set "graph.mode=$mode"
	holds "$mode" "pings are answered, except two that discover the path MTU" \
		'h["client"]["icmptest.received"] == 18 and h["client"]["icmptest.lost"] == 2'
	holds "$mode" "so are datagrams" 'h["caller"]["udptest.rounds"] == 20 and h["caller"]["udptest.lost"] == 2'
	holds "$mode" "each router has reported the next link's MTU once to each sender" \
		'all(h[r]["icmp.sent_too_big"] == 2 and h[r]["ip.dont_fragment"] == 2 for r in ("west", "east"))'
	holds "$mode" "and the routers have fragmented nothing" \
		'all(h[r]["ip.forward_fragmented"] == 0 and h[r]["ip.forwarded"] > 200 for r in ("west", "east"))'
	holds "$mode" "the senders have fragmented, and were notified" \
		'h["client"]["ip.path_lowered"] == 1 and h["caller"]["udptest.reports"] == 1 and h["server"]["ip.path_lowered"] == 2'
done

run fragments --set graph.ip.pmtu=no
holds fragments "without path MTU discovery the routers fragment, and nothing is lost" \
	'h["client"]["icmptest.received"] == 20 and h["caller"]["udptest.lost"] == 0 and h["west"]["ip.forward_fragmented"] == 40'

run longest --set graph.ip.pmtu=no --set client.icmptest.size=65507
holds longest "the longest pings cross, too, except one that waited for ARP" \
	'h["client"]["icmptest.received"] >= 19 and h["client"]["icmptest.corrupt"] == 0'

run nowhere --set client.icmptest.to=10.9.0.1 --set caller.udptest.port=7
holds nowhere "a missing route is reported" \
	'h["west"]["icmp.sent_network"] == 20 and h["client"]["icmptest.fault_network"] == 20'
holds nowhere "a closed port is reported" 'h["server"]["icmp.sent_port"] > 0 and h["caller"]["icmp.got_port"] > 0'

run silent --set client.icmptest.to=10.3.0.99 --set client.icmptest.size=100
holds silent "a router reports a silent host" \
	'h["east"]["icmp.sent_host"] >= h["client"]["icmptest.fault_host"] > 0'

run far --set client.ip.ttl=2 --set client.icmptest.size=100
holds far "an expired TTL is reported" \
	'h["east"]["ip.expired"] == 20 and h["client"]["icmptest.fault_hops"] == 20'

run limited --set west.icmp.rate=8kb/s --set west.icmp.burst=600 --set client.icmptest.to=10.9.0.1 \
	--set client.icmptest.size=1000 --set client.icmptest.interval=1ms
holds limited "the rate of errors is limited" \
	'0 < h["west"]["icmp.sent_network"] < 5 and h["west"]["icmp.limited"] > 10'

run loop --set client.icmptest.to=10.9.0.1 --set client.icmptest.size=100 --set west.ip.gateway=10.2.0.2 \
	--set east.ip.gateway=10.2.0.1
holds loop "packets in a loop expire" \
	'h["client"]["icmptest.fault_hops"] == 20 and h["west"]["ip.expired"] + h["east"]["ip.expired"] == 20'

run again --set graph.mode=regular
check "the same again" "the two runs differ" cmp -s "$work/again.json" "$work/regular.json"

[ "$failures" -eq 0 ]
