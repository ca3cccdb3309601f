#!/bin/bash
# replay.sh BUILD [BUILD]... - the same seed gives the same run: `xk run` prints, counts and captures the same, to the byte, when
# repeated, at other memory addresses, and with every build: those given (by default build and BUILD; with --long also build/tsan)
# and one by clang 14, made here. Another seed gives another run.
. "$(dirname "$0")/common.sh"

networks=$work/networks
mkdir "$networks"
cp graphs/*.dot "$networks"

# ---- networks ------------------------------------------------------------------------------------------------------------

# Every fault, both modes, costs, fragments; hosts that crash at work, two of them at once.
cat >"$networks/faults-net.dot" <<'END'
graph faults {
	graph [network="10.9.0.0/24", protocols="traffic.dot",
		set="traffic.peers=10.9.0.1-10.9.0.8 traffic.rate=1500 traffic.size_max=6000 traffic.pattern=random"];
	old [count=3, mode=regular, threads=2, costs=decstation, crash="30ms,61ms", boot="45ms,80ms"];
	new [count=3, costs=modern, stacks=4];
	late [start="10ms", stagger="3ms", interrupt="900ns", frame_out="700ns", crash="61ms"];
	poor [buffers=2, mode=regular, costs=decstation];
	lan [link=rack10g, rate="100Mb/s", queue=3, loss="3%", burst=4, duplicate="3%", reorder="4%",
		reorder_delay="800us", corrupt="2%"];
	old -- lan; new -- lan; late -- lan; poor -- lan;
}
END

# Reliable messages, through virtual protocols that lose and delay, with a reboot.
cat >"$networks/reliable.dot" <<'END'
digraph reliable {
	traffic [promise=ordered];
	vdrop [loss="4%", duplicate="3%", reorder="5%", corrupt="2%", reorder_time="2ms"];
	vdelay [down="100us", jitter="70us", up="30us"];
	stopwait [timeout="5ms"];
	traffic -> stopwait; stopwait -> vdrop [number=253]; vdrop -> ip; ip -> vdelay; vdelay -> vnet;
	vnet -> eth; vnet -> arp; arp -> eth; eth -> port;
}
END
cat >"$networks/reliable-net.dot" <<'END'
graph reliable {
	graph [network="10.9.0.0/24", protocols="reliable.dot",
		set="traffic.peers=10.9.0.1-10.9.0.5 traffic.rate=400 traffic.size_max=1200"];
	a [count=3, crash="70ms", boot="90ms"];
	b [count=2, mode=regular, threads=3, costs=modern];
	cable [link=ethernet10, loss="1%"];
	a -- cable; b -- cable;
}
END

# Shepherds that leave the driver for every reason and are resumed by driver and thread, with long work.
cat >"$networks/handoffs.dot" <<'END'
digraph handoffs {
	graph [budget="40us", carry=2];
	traffic [promise=intact];
	arp [resume=driver];
	vwork [up="15us", up_kb="30us", down="4us", checkpoints=3];
	traffic -> udp [handoff=explicit]; udp -> vwork; vwork -> ip; ip -> vnet [budget="25us"];
	vnet -> eth; vnet -> arp; arp -> eth; eth -> port;
}
END
cat >"$networks/handoffs-net.dot" <<'END'
graph handoffs {
	graph [network="10.9.0.0/24", protocols="handoffs.dot",
		set="traffic.peers=10.9.0.1-10.9.0.4 traffic.rate=3000 traffic.size_max=4000"];
	one [costs=decstation, crash="33ms", boot="50ms"];
	many [costs=modern, threads=3, stacks=3];
	spins [set="arp.resume=thread"];
	regular [mode=regular, threads=2];
	ring [link=fddi];
	one -- ring; many -- ring; spins -- ring; regular -- ring;
}
END

# Every kind of link, hosts on two of them, cells.
sed 's/udptest/traffic/g' graphs/udptest-multihomed.dot >"$networks/multihomed.dot"
cat >"$networks/links-net.dot" <<'END'
graph links {
	graph [protocols="multihomed.dot", set="traffic.rate=700 traffic.size_max=3000"];
	a [set="traffic.peers=10.1.0.2"];
	b [mode=regular, costs=modern, set="traffic.peers=10.2.0.1"];
	c [costs=decstation, set="traffic.peers=10.3.0.1"];
	d [count=2, protocols="traffic.dot", set="traffic.peers=10.4.0.1-10.4.0.2"];
	atm [link=atm140, network="10.1.0.0/24", loss="2%"];
	d_hub [link=hub100, network="10.4.0.0/24"];
	d -- d_hub;
	a -- atm; c -- atm;
	a -- b [link=wide, latency="3ms", network="10.2.0.0/24"];
	b -- c [link=myrinet, network="10.3.0.0/24"];
}
END

# ---- builds --------------------------------------------------------------------------------------------------------------

builds=()
if [ $# -gt 1 ]; then
	for other; do builds+=("$(realpath "$other")"); done
else
	others=("$root/build" "$build")
	[ "${XK_TEST_LONG:-0}" != 1 ] || others+=("$root/build/tsan")
	for other in "${others[@]}"; do
		if [ -x "$other/xk" ]; then builds+=("$other"); else echo "SKIPPED: there is no $other/xk"; fi
	done
fi

# The clang build is kept for the next time, like the others. Unoptimized, it compiles in half the time, and still evaluates
# arguments in a different order from gcc and has other values in uninitialized memory.
clang=$root/build/clang-O$((${XK_TEST_LONG:-0} ? 2 : 0))
clang_build() {
	[ -f "$clang/build.ninja" ] ||
		CC=clang-14 meson setup "$clang" -Ddpdk=disabled -Dtests=false -Ddebug=false "-Doptimization=${clang#*-O}" || return
	ninja -C "$clang" xk
}
if ! command -v clang-14 >/dev/null; then
	echo "SKIPPED: clang-14 is not installed, so nothing shows that its runs are the same"
elif clang_build >"$work/clang.log" 2>&1; then
	builds+=("$clang")
else
	fail "a build by clang" "$(tail -n 5 "$work/clang.log")"
fi
check "several builds are compared" "only ${builds[*]}" [ "${#builds[@]}" -ge 2 ]

# ---- the same seed -------------------------------------------------------------------------------------------------------

# sim BUILD NAME NETWORK SEED UNTIL [OPTION]...: runs it; the output goes to $work/NAME.trace, NAME.json and NAME.pcapng, the
# summary, whose last line has the hash, to NAME.said.
sim() {
	local directory=$1 name=$2 network=$3 seed=$4 until=$5
	shift 5
	rm -f "$work/$name".{trace,said,json,pcapng}
	limited 120 "$directory/xk" run "$network" --link sim --seed "$seed" --until "$until" --trace \
		--json "$work/$name.json" --pcap "$work/$name.pcapng" "$@" \
		>"$work/$name.trace" 2>"$work/$name.said" </dev/null || fail "xk run $name" "$(tail -n 3 "$work/$name.said")"
	is_clean "$work/$name.said" || fail "clean: $name" "see above"
}

# same NAME OTHER: succeeds if the two runs have left the same files.
same() {
	local kind
	[ -s "$work/$1.trace" ] || return
	for kind in trace said json pcapng; do
		cmp "$work/$1.$kind" "$work/$2.$kind" >&2 || return
	done
}

# happened PATTERN...: succeeds if each is in the first run's trace or summary.
happened() {
	local pattern missing=
	for pattern; do
		grep -qE -- "$pattern" "$work/first.trace" "$work/first.said" || missing="$missing '$pattern'"
	done
	[ -z "$missing" ] || { echo "missing:$missing" >&2; return 1; }
}

# replay NETWORK UNTIL PATTERN...: checks that the run contains these events and is the same with every build.
replay() {
	local network=$1 until=$2 name other
	name=$(basename "$network" .dot)
	shift 2
	sim "${builds[0]}" first "$network" 7 "$until"
	check "$name: it happened" "not all" happened "$@"
	sim "${builds[0]}" again "$network" 7 "$until"
	check "$name: once more" "it differs" same first again
	for other in "${builds[@]:1}"; do
		sim "$other" other "$network" 7 "$until"
		check "$name: by ${other#"$root/"}" "it differs from ${builds[0]}" same first other
	done
	sim "${builds[0]}" other "$network" 8 "$until"
	check "$name: another seed, another run" "the traces are the same" \
		eval '! cmp -s "$work/first.trace" "$work/other.trace"'
}

echo "# builds: ${builds[*]}"
replay "$networks/faults-net.dot" 100ms 'lost.*\(loss\)' '\(duplicate\)' '\(reorder\)' '\(corrupt\)' 'lost.*\(queue\)' \
	'lost.*\(down\)' 'lost.*\(no_buffer\)' 'crashed' 'ip.reassembled' 'thread 2' 'driver, stack'
replay "$networks/reliable-net.dot" 150ms 'crashed' 'vdrop.lost' 'vdrop.duplicated' 'stopwait.retransmi'
replay "$networks/handoffs-net.dot" 100ms 'handoff: explicit' 'handoff: implicit' 'handoff: time' 'thread 3, stack' \
	'crashed'
replay "$networks/links-net.dot" 100ms 'sent atm' 'sent a--b' 'sent b--c' 'lost.*\(loss\)'
for network in graphs/net/*.dot; do
	case $network in */thousand.dot) continue ;; esac
	replay "$network" 300ms 'booted'
done
# With a thousand hosts that query each other's addresses, the trace would have a line for each pair.
sed 's/count=1000/count=60/; s/10\.77\.3\.232/10.77.0.60/' graphs/net/thousand.dot >"$networks/sixty.dot"
replay "$networks/sixty.dot" 30ms 'booted' 'sent switch'

# ---- at other addresses ----------------------------------------------------------------------------------------------------

# Repeats the first test's run with stacks, heap and code at other addresses and fresh memory full of garbage.
sim "${builds[0]}" first "$networks/faults-net.dot" 7 100ms
for number in 1 2 3; do
	MALLOC_PERTURB_=$((number * 77)) NUMBER=$(printf "%0$((number * 1001))d" 0) \
		setarch "$(uname -m)" timeout 240 "${builds[0]}/xk" run "$networks/faults-net.dot" --link sim --seed 7 \
		--until 100ms --trace >"$work/other.trace" 2>"$work/other.said" </dev/null
	check "random addresses, time $number" "the traces differ" cmp "$work/first.trace" "$work/other.trace"
done

# Watching changes nothing: the last line of the summary has the hash of all events.
run 60 "${builds[0]}/xk" run "$networks/faults-net.dot" --link sim --seed 7 --until 100ms --quiet
check "watched or not, the hash is the same" "$(tail -n 1 "$work/err") or $(tail -n 1 "$work/first.said")" \
	[ "$(tail -n 1 "$work/err")" = "$(tail -n 1 "$work/first.said")" ]

# ---- the capture, read by others ---------------------------------------------------------------------------------------------

# decodes NETWORK UNTIL: checks that tshark reads as many frames as were sent, received and lost, none malformed.
decodes() {
	local told shown
	sim "${builds[0]}" first "$1" 7 "$2" --set "${3:-graph.costs=none}"
	told=$(grep -cE '^ *[0-9]+\.[0-9]{9} [^ ]+ (sent|arrived|lost) ' "$work/first.trace")
	shown=$(tshark -n -r "$work/first.pcapng" -T fields -e frame.number 2>"$work/tshark.said" | wc -l)
	[ "$told" -gt 100 ] && [ "$told" -eq "$shown" ] || { echo "$told frames reported, $shown read" >&2; return 1; }
	[ "$(tshark -n -r "$work/first.pcapng" -Y '_ws.malformed' 2>>"$work/tshark.said" | wc -l)" -eq 0 ] || return
	grep -v 'Running as user' "$work/tshark.said" >&2
	! grep -qv 'Running as user' "$work/tshark.said"
}

if command -v tshark >/dev/null; then
	check "tshark reads the faults" "see above" decodes "$networks/faults-net.dot" 100ms lan.corrupt=0
	check "tshark reads links of every kind" "see above" decodes "$networks/links-net.dot" 100ms
else
	echo "SKIPPED: tshark is not installed, so no other program has read a capture"
fi
