#!/bin/bash
# soak.sh BUILD [SECONDS [SEED]] - churn for SECONDS (4, or 1500 if XK_TEST_LONG is 1): hosts that crash in the simulator;
# standing servers on a bad network whose clients are killed and restarted; servers that are killed; a pair whose mode keeps
# changing; pairs with random options. On a good network nothing is lost or dropped; no sanitizer reports, no leaks, and the
# memory of standing servers does not grow. Needs a build with sanitizers and xk_debug. SEED determines all random choices,
# but not how far a process has come when it is killed.

# Freed memory stays in AddressSanitizer's quarantine and would look like growth: a small one.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=0}:quarantine_size_mb=2:thread_local_quarantine_size_kb=64"
. "$(dirname "$0")/common.sh"

# Counters reached by chance must not count for tests/counters.py.
unset XK_COUNTERS_FILE

seconds=${2:-$([ "${XK_TEST_LONG:-0}" = 1 ] && echo 1500 || echo 4)}
seed=${3:-$(($(date +%s) % 32768))}
RANDOM=$seed
count=0
round_trips=0

# ---- random choices ------------------------------------------------------------------------------------------------------

# one_of WORD...: sets $chosen to a random word; not printed, because a subshell would draw from its own sequence.
one_of() {
	shift $((RANDOM % $#))
	chosen=$1
}

# some_of WORD...: sets $chosen to one to three words, separated by commas, and $number to their number.
some_of() {
	local list
	one_of 1 1 2 3
	number=$chosen
	list=
	for ((i = 0; i < number; i++)); do
		one_of "$@"
		list=$list,$chosen
	done
	chosen=${list#,}
}

any_size() {
	one_of 1 8 $((RANDOM % 1472 + 1)) 1472 1473 $((RANDOM % 8000 + 1)) $((RANDOM % 32768 + 1)) $((RANDOM * 2 % 65507 + 1)) 65507
	printf -v "$1" '%s' "$chosen"
}

# ---- random pairs --------------------------------------------------------------------------------------------------------

options=()

choose() {
	local sizes graph driver link modes threads handoffs first second
	any_size first
	any_size second
	one_of "$first" "$first,$second"
	sizes=$chosen
	one_of "" "" -explicit -budget -reassembly -multihomed -two
	graph=graphs/udptest$chosen.dot
	one_of poll interrupt interrupt interrupt adaptive
	driver=$chosen
	one_of virtio virtio virtio virtio virtio memory ring
	link=$chosen
	[ "$link" != ring ] || driver=poll
	one_of regular ipp ipp regular,ipp
	modes=$chosen
	some_of 1 2 3 4
	threads=$chosen
	local thread_count=$number
	some_of none client server both
	handoffs=$chosen
	local handoff_count=$number
	one_of yes no
	[ "$chosen" = yes ] || handoff_count=0
	one_of 0,1 0,0 1,0
	[ "$(nproc)" -ge 2 ] || chosen=0,0
	local cores=$chosen
	one_of 20 100 300
	rounds=$chosen

	# long timeouts: a delay on a busy machine must not count as a loss
	options=(--graph "$graph" --driver "$driver" --link "$link" --mode "$modes" --threads "$threads" --cores "$cores"
		--size "$sizes" --rounds "$rounds" --set udptest.timeout=5s)
	[ $handoff_count -eq 0 ] || options+=(--handoff "$handoffs")
	local ipp=$((handoff_count > 0 ? handoff_count : 1)) configurations=0
	case $modes in *regular*) configurations=$((configurations + thread_count)) ;; esac
	case $modes in *ipp*) configurations=$((configurations + thread_count * ipp)) ;; esac
	case $sizes in *,*) configurations=$((configurations * 2)) ;; esac
	runs_expected=$configurations
}

# random_pairs UNTIL: runs random pairs until then.
random_pairs() {
	while [ "$(milliseconds)" -lt "$1" ] && [ $failures -lt 10 ]; do
		choose
		count=$((count + 1))
		run 300 "$udptest" "${options[@]}" --json "$work/soak.json"
		if [ "$status" -ne 0 ]; then
			fail "$count: ${options[*]}" "status $status: $(tail -n 5 "$work/err")"
		else
			runs_are "$count: ${options[*]}" "$work/soak.json" "$rounds" "$runs_expected"
			round_trips=$((round_trips + rounds * runs_expected))
		fi
	done
}

# ---- standing servers, and peers that are killed --------------------------------------------------------------------------

# Every fault below ip, so that fragments suffer, too.
cat >"$work/bad.dot" <<'END'
digraph bad {
	vdrop [loss="1%", duplicate="1%", reorder="1%", corrupt="1%", reorder_time="2ms"];
	ip [reassembly_timeout="5s"];
	udptest [timeout="100ms"];
	udptest -> udp; udp -> ip; ip -> vdrop; vdrop -> vnet; vnet -> eth; vnet -> arp; arp -> eth; eth -> port;
}
END

for_ever=(--rounds 1000000000)

# Slots: each is a socket with its name, a standing server and a client.
slots=()
declare -A standing standing_file peers peers_file kills
lost_servers=0

# numbered NAME: sets $named to a unique file name for each process.
number=0
numbered() {
	number=$((number + 1))
	named=$1-$number
}

# client_of SLOT OPTION... and server_of SLOT OPTION...: start an end.
client_of() {
	local slot=$1
	shift
	numbered "$slot"
	spawn "$named" "$udptest" --client 10.77.0.2 --graph "$work/bad.dot" --set "port.dev=$slot" "$@"
}

server_of() {
	local slot=$1
	shift
	numbered "$slot"
	spawn "$named" "$udptest" --server --graph "$work/bad.dot" --set "port.dev=$slot" "$@"
	within 30 printed "$named.err" 'serving at' || fail "$slot" "no server: $(tail -n 3 "$work/$named.err")"
}

any_way() {
	one_of "regular 1" "regular 2" "regular 3" "ipp 1" "ipp 2"
	way=(--mode "${chosen% *}" --threads "${chosen#* }")
}

any_client() {
	local slot=$1 size
	any_way
	one_of 1 1 1472 4000 4000 20000
	size=$chosen
	one_of interrupt interrupt adaptive
	client_of "$slot" "${way[@]}" --size "$size" --driver "$chosen" --set udptest.silence=600s "${for_ever[@]}"
	peers[$slot]=$pid
	peers_file[$slot]=$named
}

# stand SLOT OPTION...: starts a slot with a server and a client.
stand() {
	local slot=$1
	shift
	slots+=("$slot")
	kills[$slot]=0
	# without AddressSanitizer's quarantine, which would look like growth
	ASAN_OPTIONS=$ASAN_OPTIONS:quarantine_size_mb=0:thread_local_quarantine_size_kb=0 \
		server_of "$slot" "$@" --json "$work/$slot.json"
	standing[$slot]=$pid
	standing_file[$slot]=$named
	any_client "$slot"
}

# end_client SLOT: ends the client, mostly by SIGKILL; after another signal its status must show that it was stopped.
end_client() {
	local slot=$1 peer=${peers[$1]} file=$work/${peers_file[$1]}
	one_of KILL KILL KILL TERM INT
	runs "$peer" || fail "$slot: its client" "it has ended: $(tail -n 3 "$file.err")"
	kill -"$chosen" "$peer" 2>/dev/null
	kills[$slot]=$((kills[$slot] + 1))
	await_end "$peer" 30
	if [ "$chosen" != KILL ] && [ "$status" -ne 1 ]; then
		fail "$slot: SIG$chosen of its client" "status $status: $(tail -n 3 "$file.err")"
	fi
	is_clean "$file.err" || fail "clean: $slot" "see above"
	rm -f "$file.err" "$file.out"
}

# exchange SLOT: checks that messages pass through the server, then replaces the client.
exchange() {
	local slot=$1
	await_traffic "${standing[$slot]}" || fail "$slot: after ${kills[$slot]} kills" \
		"no message comes: $(tail -n 3 "$work/${standing_file[$slot]}.err")"
	one_of 1 2 3 4 5 6
	if [ "$chosen" -eq 1 ]; then
		kill -STOP "${peers[$slot]}"
		sleep 0.3
		kill -CONT "${peers[$slot]}"
	fi
	end_client "$slot"
	any_client "$slot"
}

# lose_server: kills a server: its client ends by itself, and the next server takes over the socket.
lose_server() {
	local server client file
	any_way
	one_of none server
	server_of lost "${way[@]}" --handoff "$chosen"
	server=$pid
	any_way
	client_of lost "${way[@]}" --size 4000 --set udptest.silence=1s "${for_ever[@]}"
	client=$pid
	file=$named
	await_traffic "$server" || fail "a server that will be killed" "no message comes"
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	await_end "$client" 30
	if [ "$status" -ne 1 ] || ! printed "$file.err" 'has not answered for too long'; then
		fail "a server is killed" "status $status of its client: $(tail -n 3 "$work/$file.err")"
	fi
	lost_servers=$((lost_servers + 1))
}

# sample NAME PID: records the time and the process's memory in KB.
sample() {
	local resident
	resident=$(awk '/^VmRSS/ { print $2 }' "/proc/$2/status" 2>/dev/null)
	[ -z "$resident" ] || echo "$(milliseconds) $resident" >>"$work/$1.resident"
}

# flat NAME: compares the median memory of minutes three and four with that of the last two minutes. A process younger than
# ten minutes is still growing: a pool's buffers take memory when they are first used, which happens in turn.
flat() {
	python3 - "$1" "$work/$1.resident" <<'END' || failures=$((failures + 1))
import statistics, sys
name = sys.argv[1]
seen = [(int(ms) / 1000, int(kb)) for ms, kb in map(str.split, open(sys.argv[2]))]
began, ended = seen[0][0], seen[-1][0]
late = statistics.median(kb for s, kb in seen if s >= ended - 120)
print(f"# {name}: {seen[0][1]} KB at first, {late:.0f} KB late, {ended - began:.0f} s, {len(seen)} samples")
if ended - began >= 600:
    early = statistics.median(kb for s, kb in seen if began + 120 <= s <= began + 240)
    print(f"# {name}: {early:.0f} KB after two minutes")
    if late > early * 1.02 + 1024:
        print(f"FAIL {name}: its memory grows")
        sys.exit(1)
END
}

# Drops to expect on such a network.
expected="'vdrop.lost vdrop.full ip.short ip.bad_header ip.bad_version ip.bad_length ip.bad_checksum ip.bad_flags \
ip.bad_options ip.source_route ip.ttl_zero ip.martian ip.bad_source ip.not_mine ip.too_big ip.duplicate ip.overlap \
ip.inconsistent ip.too_many ip.refused_datagram ip.bad_fragment ip.too_long ip.tiny ip.evicted ip.timed_out \
ip.no_session udp.bad_checksum udp.bad_length udp.no_session udp.short port.no_peer port.no_session udptest.late'.split()"

# stood SLOT: ends the server: its counts are plausible, and it holds no more buffers than a freshly started server.
stood() {
	local slot=$1 file=$work/$1.json
	runs "${standing[$slot]}" || fail "$slot" "it has ended"
	kill -TERM "${standing[$slot]}"
	await_end "${standing[$slot]}" 30
	[ "$status" -eq 0 ] || fail "$slot" "status $status: $(tail -n 3 "$work/${standing_file[$slot]}.err")"
	flat "$slot"
	python3 - "$slot" "$file" <<'END'
import json, sys
s = json.load(open(sys.argv[2]))["server"]
print(f"# {sys.argv[1]}: {s['messages']} messages, {s['fragments']} frames, {s['buffers']} buffers held, drops {s['drops']}")
END
	document "$slot: its counts" "$file" "(set(s['drops']) <= set($expected)
		and s['messages'] == s['counters']['udptest.messages'] > 0 and s['stalled'] == s['fallbacks'] == 0
		and s['fragments'] + s['counters']['vdrop.duplicated'] >= s['messages']
		and (s['fragments'] < 5000 or s['counters']['vdrop.corrupted'] > 0 and s['drops']['vdrop.lost'] > 0))"
	document "$slot: buffers, as after the start" "$file" "s['buffers'] <= $fresh + 64"
}

# fresh_buffers: sets $fresh to the number of buffers held by a server that has served one client.
fresh_buffers() {
	local server
	server_of fresh --mode ipp --json "$work/fresh.json"
	server=$pid
	client_of fresh --mode ipp --rounds 300
	await_end "$pid" 60
	kill -TERM "$server"
	await_end "$server" 30
	fresh=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["server"]["buffers"])' "$work/fresh.json")
	echo "# a server holds $fresh buffers after one client"
}

# ---- a pair whose mode changes -------------------------------------------------------------------------------------------

start_changing() {
	numbered changing
	spawn "$named" "$udptest" --rounds 5000 --mode regular,ipp --threads 1,2,3,4 --handoff none,client,server,both \
		--size 1,2,3,4,5,6,7,8,4000,4001,4002,4003,4004,4005,4006,4007 --set udptest.timeout=20s
	changing=$pid
	changing_file=$work/$named
	within 30 has_ends || fail "changing" "no pair: $(tail -n 3 "$changing_file.err")"
	changing_server=$(end_of "$changing" server)
	changing_client=$(end_of "$changing" client)
	await_traffic "$changing_server" || fail "changing" "no message comes"
}

has_ends() {
	[ -n "$(end_of "$changing" server)" ] && [ -n "$(end_of "$changing" client)" ]
}

# The first pair begins late because it keeps both cores busy. A pair that has tried every mode is followed by another.
changing=
keep_changing() {
	if [ -n "$changing" ]; then
		! runs "$changing" || return
		# its status may be lost if its pid was reused; its last output is not
		printed "${changing_file##*/}.out" 'over only at a handoff' || fail "changing" "$(tail -n 3 "$changing_file.err")"
	fi
	rm -f "$work/changing-server.resident" "$work/changing-client.resident"
	start_changing
}

# A stopped pair ends with status 1.
stop_changing() {
	kill -TERM "$changing"
	await_end "$changing" 30
	[ "$status" -le 1 ] || fail "changing" "status $status: $(tail -n 3 "$changing_file.err")"
	flat changing-server
	flat changing-client
}

# killings UNTIL: keeps replacing clients and killing servers until then.
killings() {
	local slot
	fresh_buffers
	stand ipp --mode ipp --threads 2
	stand regular --mode regular --threads 2
	while :; do
		for slot in "${slots[@]}"; do
			exchange "$slot"
			sample "$slot" "${standing[$slot]}"
		done
		lose_server
		keep_changing
		sample changing-server "$changing_server"
		sample changing-client "$changing_client"
		[ "$(milliseconds)" -lt "$1" ] && [ $failures -lt 10 ] || break # at the end: a busy machine may need all the time for one round
	done
	stop_changing
	for slot in "${slots[@]}"; do
		kill -TERM "${peers[$slot]}"
		await_end "${peers[$slot]}" 30
	done
	rm -f "$XDG_RUNTIME_DIR/xk-lost.sock"
	sleep 7 # longer than the reassembly timeout
	for slot in "${slots[@]}"; do
		stood "$slot"
	done
}

# ---- all of it -----------------------------------------------------------------------------------------------------------

# simulated HOURS: runs that much virtual time.
simulated() {
	run 1200 "$build/tests/soak" tests/soak/network.dot "$1" "$seed"
	sed 's/^/# /' "$work/out"
	check "$1 h in the simulator, seed $seed" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
}

echo "# seed $seed, $seconds s"
simulated "$([ "$seconds" -ge 600 ] && echo 10 || echo 0.45)"
killings $(($(milliseconds) + seconds * 800))
random_pairs $(($(milliseconds) + seconds * 200))
total=0
for slot in "${slots[@]}"; do
	total=$((total + kills[$slot]))
done
echo "# $total clients killed or ended, $lost_servers servers killed; $count pairs, $round_trips counted round trips, seed $seed"
