#!/bin/bash
# linux.sh BUILD - our host and Linux on one wire: echo requests and datagrams in both directions, up to the longest, with
# their fragments in order, reversed and duplicated; address resolution in both directions and its expiry; ICMP errors.
#
#     k0 (Linux's host, 10.88.0.1) --- m0  relay.py  m1 --- x0 (ours, 10.88.0.2)
#
# Each is in its own network namespace. The relay is the witness of what crossed: it counts fragments and verifies every
# checksum, which shows that neither end left checksums or fragmentation to a device.
. "$(dirname "$0")/common.sh"

unshown="Linux understands us"
. "$root/tests/system/networks.sh"
. "$root/tests/system/linux/host.sh"

# ---- the wire --------------------------------------------------------------------------------------------------------

wire

# relay ORDER: starts the wire. end_relay: ends it and writes its report to $work/witness.json.
relay() {
	spawn relay nsenter -t "$middle" -n "$here/relay.py" m0 m1 "$work/witness.json" "$1"
	relay=$pid
	within 10 printed relay.out ready || fail relay "$(tail -n 3 "$work/relay.err")"
}

end_relay() {
	kill -TERM "$relay"
	await_end "$relay" 10
	[ "$status" -eq 0 ] || fail end_relay "status $status: $(tail -n 3 "$work/relay.err")"
}

# witnessed NAME EXPRESSION: checks an expression of the report; left: frames from Linux, right: frames from us.
witnessed() {
	document "$1" "$work/witness.json" "$2"
}

# ---- our host --------------------------------------------------------------------------------------------------------

# ping NAME NAMESPACE COUNT WANTED OPTION...: we ping Linux; WANTED of COUNT requests are answered, none corrupt.
ping() {
	local name=$1 from=$2 count=$3 wanted=$4
	shift 4
	run 60 nsenter -t "$from" -n "$build/icmptest" "$kernel_host" --count "$count" --interval 20ms --timeout 5s --quiet \
		--json "$work/ping.json" "$@"
	[ "$status" -eq 0 ] || tail -n 3 "$work/err"
	document "$name" "$work/ping.json" \
		"d['received'] >= $wanted and d['corrupt'] == 0 and d['duplicates'] == 0 and d['sent'] == $count"
}

sizes='1 1472 1473 8000 65507'

# Linux sends requests, we answer.
linux_asks() {
	check "$1: Linux pings us" "see above" at "$linux" "$here/peer.py" ping "$our_host" 2 $sizes
	check "$1: Linux's datagrams come back" "see above" at "$linux" "$here/peer.py" udp "$our_host" 2001 2 $sizes
}

# We send requests, Linux answers.
we_ask() {
	spawn echo nsenter -t "$linux" -n "$here/peer.py" echo 2001
	local echo=$pid size
	within 10 printed echo.out ready || fail echo "$(tail -n 3 "$work/echo.err")"
	for size in 1 1473 65507; do
		ping "$1: we ping Linux with $size bytes" "$ours" 3 3 "${alone[@]}" --size "$size"
	done
	limit=60 expect "$1: our datagrams come back from Linux" 0 '' nsenter -t "$ours" -n "$udptest" --client "$kernel_host" \
		"${alone[@]}" --rounds 5 --size "${sizes// /,}" --json "$work/udp.json"
	document "$1: none was lost" "$work/udp.json" 'all(run["rounds"] == 5 and run["lost"] == 0 for run in runs)'
	kill -TERM "$echo"
	await_end "$echo" 10
}

# In each direction, at least so many datagrams were fragmented, and every checksum was present and correct.
fragments_crossed() {
	local way
	for way in left right; do
		witnessed "$1: fragments crossed as fragments ($way)" \
			"d['$way']['fragmented'] >= $2 and d['$way']['fragments'] >= $2 * 17 and d['$way']['longest'] == 1514"
		witnessed "$1: every checksum was correct on the wire ($way)" \
			"not any(d['$way'][what] for what in ('bad_sums', 'bad_ip_sums', 'unasked_sums', 'sums_left_out'))"
		witnessed "$1: no other frames crossed ($way)" "d['$way']['strange'] == 0 and d['$way']['incomplete'] == 0"
	done
}

for order in straight reversed doubled; do
	relay "$order"
	stand graphs/host.dot
	linux_asks "$order"
	fall
	we_ask "$order"
	end_relay
	fragments_crossed "$order" 12
done

# ---- errors ----------------------------------------------------------------------------------------------------------

relay straight
stand graphs/host.dot
check "Linux gets an ICMP error for a closed port" "see above" at "$linux" "$here/peer.py" closed "$our_host" 9
fall
expect "we get an ICMP error for a closed port" 1 '' nsenter -t "$ours" -n "$udptest" --client "$kernel_host" "${alone[@]}" \
	--graph graphs/host.dot --set udptest.timeout=50ms --set udptest.silence=500ms --rounds 5 --mode ipp
end_relay
witnessed "the errors were ICMP messages with correct checksums" "d['left']['icmp'] > 0 and d['right']['icmp'] > 0 and \
	not any(d[way][what] for way in ('left', 'right') for what in ('bad_sums', 'bad_ip_sums'))"

# ---- address resolution and its expiry ---------------------------------------------------------------------------------

neighbour() {
	at "$linux" ip neigh show "$our_host" dev k0
}

is_known() {
	neighbour | grep -qE 'REACHABLE|DELAY|PROBE|STALE'
}

relay straight
stand graphs/host.dot --set arp.age=1s
at "$linux" ip neigh flush dev k0
at "$linux" sh -c 'echo 100 >/proc/sys/net/ipv4/neigh/k0/base_reachable_time_ms
	echo 0 >/proc/sys/net/ipv4/neigh/k0/delay_first_probe_time'
check "Linux resolves us" "see above" at "$linux" "$here/peer.py" ping "$our_host" 1 56
link_address=$(at "$ours" ip -o link show x0 | sed 's/.*link.ether \([^ ]*\) .*/\1/')
check "Linux has our link address" "$(neighbour)" grep -q "lladdr $link_address" <(neighbour)
sleep 0.5
check "Linux resolves us again after expiry" "see above" at "$linux" "$here/peer.py" ping "$our_host" 1 56
check "its entry for us is confirmed again" "$(neighbour)" within 20 is_known
fall
end_relay
witnessed "Linux queried twice, and we answered each time" "d['left']['arp_requests'] >= 2 and d['right']['arp_replies'] >= 2"

relay straight
spawn pinger nsenter -t "$ours" -n "$build/icmptest" "$kernel_host" "${alone[@]}" --count 0 \
	--interval 50ms --timeout 500ms --json "$work/pinger.json"
pinger=$pid
within 20 printed pinger.out 'seq 9' || fail pinger "$(tail -n 3 "$work/pinger.err")"
at "$linux" ip link set k0 address 02:00:00:00:88:99
at "$linux" ip addr add "$kernel_host/24" dev k0 2>/dev/null
answers=$(grep -c 'bytes from' "$work/pinger.out")
goes_on() {
	[ "$(grep -c 'bytes from' "$work/pinger.out")" -gt $((answers + 20)) ]
}
check "an open session finds Linux at an unannounced new link address" "$(tail -n 3 "$work/pinger.out")" within 15 goes_on
kill -TERM "$pinger"
await_end "$pinger" 20
end_relay
witnessed "we queried again after expiry" "d['right']['arp_requests'] >= 2 and d['left']['arp_replies'] >= 2"

# ---- Linux as a router -------------------------------------------------------------------------------------------------

far=(--link af_packet --set port.dev=x0 --set vnet.address=10.89.0.2/24 --set ip.gateway=10.89.0.254)

at "$middle" ip addr add 10.88.0.254/24 dev m0
at "$middle" ip addr add 10.89.0.254/24 dev m1
at "$middle" ip link set m0 mtu 1000
at "$linux" ip link set k0 mtu 1000
at "$middle" sh -c 'echo 1 >/proc/sys/net/ipv4/ip_forward; echo 0 >/proc/sys/net/ipv4/icmp_ratelimit'
at "$linux" ip route add 10.89.0.0/24 via 10.88.0.254
ping "Linux routes our pings" "$ours" 5 5 "${far[@]}" --size 56
ping "Linux routes our fragments" "$ours" 5 5 "${far[@]}" --size 20000
ping "Linux reports its path MTU, and we respect it" "$ours" 10 5 "${far[@]}" --size 1400 --graph graphs/host.dot
document "the reports were counted" "$work/ping.json" "d['faults']['too_big'] >= 1"
run 30 nsenter -t "$ours" -n "$build/icmptest" "$kernel_host" "${far[@]}" --set ip.ttl=1 --count 3 --interval 10ms \
	--json "$work/ping.json"
document "Linux reports that a datagram's TTL expired" "$work/ping.json" \
	"d['received'] == 0 and d['faults']['hops'] == 3"

# ---- without a wire: a Linux device whose other end is ours -------------------------------------------------------------

spawn host nsenter -t "$linux" -n "$xk" run graphs/host.dot --link tap --set port.dev=t0 --set vnet.address=10.90.0.2/24
host=$pid
if within 30 printed host.err 10.90.0.2; then
	at "$linux" ip addr add 10.90.0.1/24 dev t0
	at "$linux" ip link set t0 up
	check "tap: Linux pings us" "see above" at "$linux" "$here/peer.py" ping 10.90.0.2 2 $sizes
	check "tap: Linux's datagrams come back" "see above" at "$linux" "$here/peer.py" udp 10.90.0.2 2001 2 $sizes
	fall
	check "tap: nothing is left of it" "$(at "$linux" ip link)" eval '! at "$linux" ip link show t0 2>/dev/null'
elif printed host.err 'net/tun'; then
	echo "SKIPPED: $(tail -n 1 "$work/host.err"): nothing shows that tap works with Linux"
else
	fail tap "$(tail -n 3 "$work/host.err")"
fi
