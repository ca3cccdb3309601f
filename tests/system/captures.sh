#!/bin/bash
# captures.sh BUILD - captures by --pcap: tshark reads them without a malformed packet, finds every checksum good and every
# datagram complete, and their packets match the counts, on both ends of a link. Unwritable files are reported; a repeated
# simulated run captures the same bytes.
. "$(dirname "$0")/common.sh"

xk=$build/xk
tapped=graphs/udptest-tapped.dot
has_tshark=1
command -v tshark >/dev/null || {
	has_tshark=
	echo "SKIPPED: tshark is not installed, so no other program has read a capture"
}

# ---- reading with tshark -------------------------------------------------------------------------------------------------

# read_capture FILE [INTERFACE]: writes a line for each packet to FILE.table, with fields separated by `|`: interface,
# direction (in, out), length, checksums of IP and UDP (1 good, 0 bad, empty: unknown), length of a complete UDP message, and a
# mark if malformed. INTERFACE selects one: tshark would take copies of a fragment for overlaps.
read_capture() {
	local file=$1 from=$1
	if [ $# -gt 1 ]; then
		tshark -n -r "$file" -Y "frame.interface_name == \"$2\"" -w "$file.part" 2>"$file.said" || return
		from=$file.part
	fi
	# random payload resembles many protocols: UDP's payload is not dissected
	tshark -n -r "$from" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE -o ip.defragment:TRUE \
		-d udp.port==1024-65535,data -T fields -E 'separator=|' -E aggregator=, -e frame.interface_name \
		-e frame.packet_flags_direction -e frame.len -e ip.checksum.status -e udp.checksum.status -e udp.length \
		-e _ws.malformed >"$file.fields" 2>"$file.said" || return
	sed 's/|0x00000001|/|in|/; s/|0x00000002|/|out|/' "$file.fields" >"$file.table"
	! grep -v 'Running as user' "$file.said" >&2
}

# has FILE INTERFACE DIRECTION COUNT: succeeds if there are COUNT packets ('': at least one).
has() {
	local found
	found=$(awk -F '|' -v interface="$2" -v way="$3" '$1 == interface && $2 == way' "$1.table" | wc -l)
	if [ -n "$4" ]; then [ "$found" -eq "$4" ]; else [ "$found" -gt 0 ]; fi && return
	echo "$1: $found packets $3 at $2, not '$4'" >&2
	return 1
}

count() {
	awk -F '|' -v interface="$2" -v way="$3" '$1 == interface && $2 == way' "$1.table" | wc -l
}

# is_sound FILE: succeeds if no packet is malformed, no checksum bad, and some UDP checksums were verified.
is_sound() {
	awk -F '|' '{ if ($7 != "" || $4 ~ /0/ || $5 ~ /0/) bad++; if ($5 ~ /1/) good++ }
		END { if (bad || !good) print bad + 0 " are bad, " good + 0 " are good"; exit bad || !good }' "$1.table" >&2
}

# messages FILE INTERFACE LENGTH: prints the number of complete UDP messages of this length.
messages() {
	awk -F '|' -v interface="$2" -v len=$(($3 + 8)) '$1 == interface && $6 == len' "$1.table" | wc -l
}

# has_all FILE JSON EXPRESSION: checks `has` for each (interface, direction, count) in the expression of the document d; not all 0.
has_all() {
	local interface way count some=
	while read -r interface way count; do
		has "$1" "$interface" "$way" "$count" || return
		some=1
	done < <(python3 - "$2" "$3" <<'END'
import json, sys

d = json.load(open(sys.argv[1]))
for line in eval(f"({sys.argv[2]})", {"d": d}):
    print(*line)
END
	)
	[ -n "$some" ]
}

# ---- a pair ----------------------------------------------------------------------------------------------------------------

# arrived FILE INTERFACE SENT: succeeds if all sent packets arrived, except at most two sent after that end was gone.
arrived() {
	local found
	found=$(count "$1" "$2" in)
	[ "$found" -le "$3" ] && [ "$found" -ge $(($3 - 2)) ] && return
	echo "$1: $found packets in at $2, not '$3'" >&2
	return 1
}

# pair_agrees CAPTURE: succeeds if each end received the frames that the other sent; 4,000 bytes are three fragments.
pair_agrees() {
	local client=$1.client server=$1.server out
	read_capture "$client" && read_capture "$server" || return
	out=$(count "$client" client.port out)
	[ "$out" -gt 200 ] || return
	arrived "$server" server.port "$out" && arrived "$client" client.port "$(count "$server" server.port out)" &&
		is_sound "$client" && is_sound "$server"
}

# pair_is_whole CAPTURE ROUNDS: succeeds if each round trip has two complete messages of each length.
pair_is_whole() {
	local end len rounds=$2
	for end in client server; do
		for len in 1 4000; do
			[ "$(messages "$1.$end" "$end.port" $len)" -eq $((2 * rounds)) ] || {
				echo "$(messages "$1.$end" "$end.port" $len) messages of $len bytes at the $end" >&2
				return 1
			}
		done
	done
}

# pair NAME ROUNDS OPTION...: ROUNDS counts the rounds of all modes, including an equal number of warm-up rounds.
pair() {
	local name=$1 rounds=$2 file=$work/$1.pcapng
	shift 2
	# long timeouts: a late echo must not cause a retransmission, which would be an additional message
	run 60 "$udptest" --size 1,4000 --rounds 40 --set udptest.timeout=60s --set udptest.silence=60s --pcap "$file" "$@"
	check "$name: it runs" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	[ -n "$has_tshark" ] || return 0
	check "$name: the ends agree" "see above" pair_agrees "$file"
	check "$name: every message is whole" "see above" pair_is_whole "$file" "$rounds"
}

pair virtio 160
pair ring 160 --link ring
pair memory 80 --link memory --driver poll --mode ipp
pair sim 160 --link sim
for link in memif tap af_packet; do
	run 60 "$udptest" --link $link --rounds 1 --mode ipp
	if [ "$status" -eq 0 ]; then
		pair $link 80 --link $link --mode ipp
	else
		echo "SKIPPED: no capture of $link: $(tail -n 1 "$work/err")"
	fi
done

# ---- packets match the counts --------------------------------------------------------------------------------------------

# counted CAPTURE JSON: succeeds if the packets of each port and tap match the host's counts.
counted() {
	has_all "$1" "$2" '[("host.port", way, d["host"]["ports"]["port"]["frames_" + way]) for way in ("in", "out")] +
		[("host." + tap, way, d["host"]["counters"][tap + end]) for tap in ("messages", "datagrams", "packets", "frames")
		for way, end in (("in", ".up"), ("out", ".down"))]' || return
	# 4,000 bytes are a message, a datagram and three packets, some of which may be lost on a busy machine
	local messages datagrams packets
	messages=$(count "$1" host.messages in)
	datagrams=$(count "$1" host.datagrams in)
	packets=$(count "$1" host.packets in)
	[ "$messages" -ge 300 ] && [ "$datagrams" -ge "$messages" ] && [ "$packets" -ge $((3 * datagrams)) ] && return
	echo "$messages messages, $datagrams datagrams, $packets packets"
	return 1
}

# standing MODE TAP: checks a standing host with taps and a client in another process with its own capture. The host sends no
# announcement, which might precede the client's start. In each mode, one kind of tap is examined; with --long, two.
standing() {
	spawn host "$xk" run "$tapped" --set arp.announcements=0 --mode "$1" --threads 2 --json "$work/host.json" --pcap "$work/host.pcapng"
	local host=$pid
	within 20 printed host.err 'stands at' || fail "a host" "$(tail -n 3 "$work/host.err")"
	run 60 "$udptest" --client 10.77.0.2 --size 4000 --rounds 300 --mode "$1" --pcap "$work/lone.pcapng"
	check "$1: a client of a host" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	kill -TERM "$host"
	await_end "$host" 20
	check "$1: the host ends well" "status $status: $(tail -n 3 "$work/host.err")" [ "$status" -eq 0 ]
	[ -n "$has_tshark" ] || return 0
	check "$1: as many as were counted" "see above" eval \
		'read_capture "$work/host.pcapng" && counted "$work/host.pcapng" "$work/host.json"'
	check "$1: the client's capture agrees" "see above" eval 'read_capture "$work/lone.pcapng" &&
		has "$work/lone.pcapng" client.port out "$(count "$work/host.pcapng" host.port in)" &&
		has "$work/lone.pcapng" client.port in "$(count "$work/host.pcapng" host.port out)"'
	for tap in $([ "${XK_TEST_LONG:-0}" = 1 ] && echo packets frames || echo "$2"); do
		check "$1: $tap of a tap are dissected" "see above" eval \
			'read_capture "$work/host.pcapng" "host.$tap" && is_sound "$work/host.pcapng" &&
			[ "$(messages "$work/host.pcapng" "host.$tap" 4000)" -gt 600 ]'
	done
}

standing ipp packets
standing regular frames

# ---- networks --------------------------------------------------------------------------------------------------------------

cp "$tapped" "$work/tapped.dot"
cat >"$work/net.dot" <<'END'
graph net {
	graph [network="10.9.0.0/24", protocols="tapped.dot", costs=modern];
	server [mode=regular, threads=2];
	client [count=2, set="udptest.peer=10.9.0.1 udptest.rounds=30 udptest.size=4000"];
	crashing [set="udptest.peer=10.9.0.1 udptest.rounds=1000", crash="20ms", boot="40ms"];
	lan [link=ethernet10];
	server -- lan; client -- lan; crashing -- lan;
}
END

network() {
	run 60 "$xk" run "$work/net.dot" --link sim --seed "$2" --until 200ms --quiet --json "$work/$1.json" \
		--pcap "$work/$1.pcapng"
	check "network: it runs" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
}

# Hosts that were up all the time have counted everything.
network_counted() {
	has_all "$1" "$2" '[(f"{host}.{node}", way, d["hosts"][host][count]) for host in ("server", "client1", "client2")
		for node, way, count in [("port", "out", "frames_out")] + [(tap, way, tap + end)
		for tap in ("messages", "datagrams", "packets", "frames") for way, end in (("in", ".up"), ("out", ".down"))]]' || return
	has "$1" crashing.messages in '' && [ "$(messages "$1" client1.packets 4000)" -gt 0 ]
}

network first 7
network again 7
check "network: the same run, the same bytes" "they differ" cmp "$work/first.pcapng" "$work/again.pcapng"
if [ -n "$has_tshark" ]; then
	check "network: as many as were counted" "see above" eval \
		'read_capture "$work/first.pcapng" && network_counted "$work/first.pcapng" "$work/first.json"'
	check "network: a device's frames are sound" "see above" eval \
		'read_capture "$work/first.pcapng" client1.port && is_sound "$work/first.pcapng"'
fi
for name in first again; do
	run 60 "$udptest" --link sim --graph "$tapped" --size 4000 --rounds 20 --seed 5 --pcap "$work/sim-$name"
done
check "udptest --link sim: the same run, the same bytes" "they differ" eval \
	'[ -s "$work/sim-first.client" ] && cmp "$work/sim-first.client" "$work/sim-again.client" &&
	cmp "$work/sim-first.server" "$work/sim-again.server"'

# ---- our own headers, with the dissectors that xk writes --------------------------------------------------------------------

# dissected CONDITION: prints the number of frames in the client's capture that meet an awk condition on the fields below.
dissected() {
	awk -F '|' "{ chan = \$1; bid = \$2; len = \$3; from_client = \$4; user = \$5; sequence = \$6; fragments = \$7 } $1" \
		"$work/calls.fields" | wc -l
}

expect "dissectors are written" 0 '' "$xk" dissectors -o "$work/xkernel.lua"
expect "... with a graph's numbers" 0 '' "$xk" dissectors graphs/chantest.dot
check "... to standard output" "it is empty" grep -q '^-- numbers as the graph gives them' "$work/out"
cp graphs/chantest.dot "$work/drawn.dot"
expect "... not in the graph's place" 1 'would be overwritten' "$xk" dissectors "$work/drawn.dot" -o "$work/drawn.dot"
expect "dissectors of no graph" 1 'none.dot' "$xk" dissectors "$work/none.dot"
if [ -n "$has_tshark" ]; then
	run 60 "$build/chantest" --link sim --rounds 20 --mode ipp --size 1,4000 --pcap "$work/calls"
	tshark -X lua_script:"$work/xkernel.lua" -r "$work/calls.client" -T fields -E 'separator=|' -e xk_chan -e xk_bid -e frame.len \
		-e xk_chan.from_client -e xk_chan.flags.user_msg -e xk_blast.sequence -e xk_blast.fragments \
		>"$work/calls.fields" 2>"$work/dissecting"
	calls=$(dissected 'chan != ""')
	check "every call and reply is dissected" "$calls of $(dissected 'bid != "" && len > 60')" \
		[ "$calls" -eq "$(dissected 'bid != "" && len > 60')" ]
	requests=$(dissected 'from_client == 1 && user == 1')
	check "as many requests as replies" "$requests requests" \
		[ "$requests" -eq "$(dissected 'chan != "" && from_client == 0 && user == 1')" ]
	check "... and there are some" "none" [ "$requests" -gt 0 ]
	check "fragments are no headers" "they are" [ "$(dissected 'sequence != "" && sequence != 0 && bid != ""')" -eq 0 ]
	check "fragments are dissected" "they are not" [ "$(dissected 'fragments == 3')" -gt 100 ]
	check "tshark has no complaint" "$(cat "$work/dissecting")" eval '! grep -qiE "lua|error" "$work/dissecting"'

	# Options are shown as Wireshark's own dissector of TCP shows them.
	"$build/tcptest" --link sim --rounds 300 --flow both --size 1400 --mode ipp --preset ethernet10,loss=2% \
		--pcap "$work/segments" >"$work/out"
	tshark -n -r "$work/segments.client" -o tcp.relative_sequence_numbers:FALSE -T fields -e tcp.options.mss_val \
		-e tcp.options.wscale.shift -e tcp.options.timestamp.tsval -e tcp.options.timestamp.tsecr -e tcp.options.sack_le \
		-e tcp.options.sack_re >"$work/options.own" 2>"$work/dissecting"
	expect "TCP's header under another name" 0 '' "$xk" compile --with tests/system/segment.c -o "$work/segment"
	"$work/segment" dissectors -o "$work/segment.lua"
	shown=xk_segment.options
	tshark -n -X lua_script:"$work/segment.lua" -r "$work/segments.client" -T fields -e $shown.mss.mss -e $shown.scale.scale \
		-e $shown.stamp.stamp -e $shown.stamp.echo -e $shown.sack.begin -e $shown.sack.end >"$work/options" 2>"$work/dissecting"
	check "options are dissected" "$(diff "$work/options" "$work/options.own" | head -n 5)" cmp -s "$work/options" "$work/options.own"
	check "... also several ranges" "there are none" grep -q ',.*,' "$work/options"
	check "tshark has no complaint of options" "$(cat "$work/dissecting")" eval '! grep -qiE "lua|error" "$work/dissecting"'
fi

# ---- unwritable files ------------------------------------------------------------------------------------------------------

expect "no such directory" 1 '--pcap .*/none/x.client cannot be written: No such' "$udptest" --rounds 10 \
	--pcap "$work/none/x"
check "it is reported once" "$(cat "$work/err")" [ "$(grep -c 'cannot be written' "$work/err")" -eq 1 ]
ln -s /dev/full "$work/full"
ln -s /dev/full "$work/full.server"
expect "a full disk, of one end" 1 '--pcap .*/full.server cannot be written: No space' "$udptest" --rounds 500 --mode ipp \
	--pcap "$work/full"
for link in memory sim; do
	expect "a full disk, over $link" 1 '--pcap .*/full.server cannot be written: No space' "$udptest" --rounds 500 \
		--mode ipp --link $link --pcap "$work/full"
done
rm "$work/full.server" "$work/full.client"

# A server killed under load leaves a capture that ends with a complete packet.
serve --pcap "$work/killed.pcapng"
spawn client "$udptest" --client 10.77.0.2 --mode ipp --rounds 1000000
within 20 is_busy "$server" 2000 || fail "killed" "no traffic"
kill -KILL "$server" "$pid"
await_end "$server" 20
await_end "$pid" 20
if [ -n "$has_tshark" ]; then
	check "the capture of a killed server is readable" "see above" eval 'read_capture "$work/killed.pcapng" &&
		[ "$(count "$work/killed.pcapng" server.port in)" -gt 100 ]'
fi
rm -rf "$XDG_RUNTIME_DIR"/*
