#!/bin/bash
# compiled.sh BUILD - xk compile: compiled graphs do what graph files do. Frame by frame beside one another (compiled/differ.c:
# the packet scripts' frames, as they are and changed by chance); whole networks and pairs in the simulator, in both modes, with
# every policy, traced or not: what is sent, counted, traced and reported is the same to the byte. And that a hostile graph file
# cannot say anything in C.
. "$(dirname "$0")/common.sh"

xk=$build/xk
chantest=$build/chantest
mapfile -t scripts < <(find tests/conformance -name '*.packets' | sort)
programs=$work/programs
mkdir "$programs" "$work/tmp"
export TMPDIR=$work/tmp

# compile XK GRAPH OUTPUT
compile() {
	run 120 "$1" compile "$2" -o "$3"
	[ "$status" -eq 0 ] || fail "$2 is compiled" "status $status: $(cat "$work/err")"
}

# prints NAME PATTERN COMMAND...: succeeds, and prints something like PATTERN.
prints() {
	local name=$1 pattern=$2
	shift 2
	limit=120 expect "$name" 0 '' "$@"
	check "$name: it prints so" "$(tail -n 3 "$work/out")" grep -qE -- "$pattern" "$work/out"
}

# ---- frame by frame ------------------------------------------------------------------------------------------------------

# Many frames: with the build that people use, if it is there, and a little with this one.
fast=$root/build
[ -x "$fast/xk" ] || fast=$build

# library BUILD: $work/BUILD.a has differ.c and the scripts' language.
library() {
	local objects=$work/objects-${1##*/}
	mkdir "$objects"
	# shellcheck disable=SC2046 # lists of options
	(cd "$objects" && printf '%s\n' "$root/tests/compiled/differ.c" "$root"/tests/conformance/*.c | grep -v /test_ |
		xargs -n 4 -P 2 cc -O1 -g -w -DDIFFER_ROOT="\"$root\"" -I"$root" -c \
			$(PKG_CONFIG_PATH=$1/meson-uninstalled pkg-config --cflags xkernel) && ar rc "$objects.a" ./*.o)
}

# link BUILD OUTPUT OBJECT...
link() {
	local build=$1 output=$2
	shift 2
	# shellcheck disable=SC2046 # lists of options
	cc -g -o "$output" "$@" -Wl,--whole-archive "$work/objects-${build##*/}.a" -Wl,--no-whole-archive \
		$(PKG_CONFIG_PATH=$build/meson-uninstalled pkg-config --libs xkernel)
}

# differs BUILD GRAPH ROUNDS
differs() {
	local name=$work/differ-${2//\//-}
	run 120 "$1/xk" compile "$2" -o "$name.o"
	check "$2 is compiled" "$(cat "$work/err")" test "$status" -eq 0
	check "$2 is linked with its test" "see above" link "$1" "$name" "$name.o"
	prints "$2: frame by frame" 'no difference' "$name" "$3" "${scripts[@]}"
}

check "the test is compiled" "see above" library "$fast"
[ "$fast" = "$build" ] || check "... with sanitizers, too" "see above" library "$build"
differs "$fast" graphs/udptest.dot 2
differs "$fast" graphs/host.dot 4
differs "$fast" graphs/chantest.dot 4
differs "$fast" tests/conformance/udp-over-bid.dot 2
differs "$fast" tests/conformance/udp-over-blast.dot 2
differs "$fast" graphs/udptest-multihomed.dot 4
differs "$build" graphs/router.dot 10

# embed: the example of docs/compiling.md, with the object that is there already.
embed() {
	# shellcheck disable=SC2046 # lists of options
	cc -std=c11 -Wall -Wextra -Werror -o "$work/embed" docs/examples/embed_compiled.c "$work/differ-graphs-udptest.dot.o" \
		$(PKG_CONFIG_PATH=$fast/meson-uninstalled pkg-config --cflags --libs xkernel)
}

check "a program of one's own is linked with a graph" "see above" embed
prints "... and is its host" '^47 bytes came out: hello$' "$work/embed"

# It can be seen: a compiled graph whose UDP believes every checksum.
mkdir "$work/tree"
cp -r xkernel protocols "$work/tree"
mkdir "$work/tree/graphs"
cp graphs/*.h "$work/tree/graphs"
sed -i 's/return udp_is_intact(h, m, s->pop_sum) ? 0 : UDP_DROP_BAD_CHECKSUM;/return 0;/' "$work/tree/protocols/udp.c"
check "a mutant is made" "its line is not there any more" bash -c '! cmp -s "$1" "$2"' cmp protocols/udp.c "$work/tree/protocols/udp.c"
expect "the C of a graph" 0 '' "$fast/xk" compile graphs/udptest.dot --emit-c "$work/mutant.c"
for watched in 0 1; do
	check "the mutant is compiled ($watched)" "see above" cc -std=gnu11 -O1 -w -DXK_WATCHED=$watched -I"$work/tree" -c \
		"$work/mutant.c" -o "$work/mutant$watched.o"
done
check "... and is the unit's own" "see above" objcopy --keep-global-symbol=xk_compiled_plain "$work/mutant0.o"
check "... as is its other half" "see above" objcopy --keep-global-symbol=program_graph "$work/mutant1.o"
check "... and is linked" "see above" link "$fast" "$work/mutant" "$work/mutant0.o" "$work/mutant1.o"
limit=120 expect "its difference is found" 1 '' "$work/mutant" 2 "${scripts[@]}"
check "... and told" "$(cat "$work/out")" grep -q 'compiled' "$work/out"

# ---- whole networks, and pairs -------------------------------------------------------------------------------------------

# Sanitized, or the others', which are made sooner.
compile "$xk" graphs/chantest.dot "$programs/chantest"
compile "$fast/xk" graphs/udptest.dot "$programs/udptest"
compile "$fast/xk" graphs/stopwait.dot "$programs/stopwait"
compile "$fast/xk" graphs/chantest-full.dot "$programs/chantest-full"
compile "$fast/xk" graphs/traffic.dot "$programs/traffic"
compile "$fast/xk" experiments/floors/null10.dot "$programs/null10"

# A mutant that sends nothing: programs do use what was compiled into them.
sed -i '/^udp_push(/,/^}/s/return xk_push(session->lls, m);/return xk_msg_free(m), 0;/' "$work/tree/protocols/udp.c"
for watched in 0 1; do
	check "another mutant is compiled ($watched)" "see above" cc -std=gnu11 -O1 -w -DXK_WATCHED=$watched -I"$work/tree" -c \
		"$work/mutant.c" -o "$work/mutant$watched.o"
done
objcopy --keep-global-symbol=xk_compiled_plain "$work/mutant0.o"
objcopy --keep-global-symbol=program_graph "$work/mutant1.o"
# shellcheck disable=SC2046 # a list
check "... and made a program" "see above" cc -o "$work/mute" "$work/mutant0.o" "$work/mutant1.o" -Wl,--start-group \
	"$fast/libxkernel-programs.a" "$fast/libxkernel-dpdk.a" "$fast/libxkernel.a" -Wl,--end-group -lrte_net_ring -lrte_net_vhost -lm \
	-pthread -Wl,--as-needed $(pkg-config --libs libcgraph libdpdk libevent)
for options in "" "--trace"; do
	# shellcheck disable=SC2086 # options
	expect "... that loses everything $options" 1 'lost|no echo|nobody' "$work/mute" udptest --link sim --rounds 3 --mode ipp $options
done

# How long a cache line took, and what program it was, is no part of what is compared.
document() {
	grep -vE '"(before|after|sanitized|compiled)": ' "$1"
}

# same NAME PROGRAM WORD ARGUMENT...: the compiled program prints, says and reports what the table-driven one does.
same() {
	local name=$1 program=$2 word=$3 which
	shift 3
	for which in table compiled; do
		case $which,$word in
		table,run) run 120 "$fast/xk" run "$@" --json "$work/$which.json" ;;
		table,*) run 120 "$fast/$word" "$@" --json "$work/$which.json" ;;
		*) run 120 "$program" "$word" "$@" --json "$work/$which.json" ;;
		esac
		[ "$status" -eq 0 ] || fail "$name: $which" "status $status: $(tail -n 3 "$work/err")"
		cp "$work/out" "$work/$which.out"
		cp "$work/err" "$work/$which.err"
		document "$work/$which.json" >"$work/$which.document"
	done
	for which in out err document; do
		if ! cmp -s "$work/table.$which" "$work/compiled.$which"; then
			fail "$name" "$which: $(diff "$work/table.$which" "$work/compiled.$which" | head -n 6)"
			return
		fi
	done
	ok "$name"
}

same "a network that loses, with reboots" "$programs/stopwait" run graphs/net/bad.dot --link sim --seed 7 --until 2s
same "... traced" "$programs/stopwait" run graphs/net/bad.dot --link sim --seed 9 --until 100ms --trace
same "a network of udptest" "$programs/udptest" run graphs/net/lan.dot --link sim --until 200ms
same "calls through a router" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 3 --until 500ms
same "... in regular mode" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 4 --until 500ms \
	--set graph.mode=regular
same "... traced" "$programs/chantest-full" run graphs/net/calls.dot --link sim --seed 5 --until 50ms --trace
all="--link sim --mode regular,ipp --handoff none,client,server,both --rounds 20"
# shellcheck disable=SC2086 # lists of options
{
	same "a pair, all policies" "$programs/udptest" udptest $all --size 1,4000 --threads 1,3
	same "a pair, traced" "$programs/udptest" udptest --link sim --rounds 3 --size 4000 --trace
	same "a pair with a budget" "$programs/udptest" udptest --link sim --rounds 20 --mode ipp --size 4000 --set graph.budget=200us
	same "a pair, in order" "$programs/udptest" udptest $all --set udp.order=session
	same "ten layers of one type, all policies" "$programs/null10" udptest --graph experiments/floors/null10.dot $all --size 1,4000
	same "callers, all policies" "$programs/chantest" chantest $all --size 1,4000 --channels 1,4
	same "callers over the whole stack" "$programs/chantest-full" chantest --graph graphs/chantest-full.dot $all --size 1,9000
}

# ---- programs ------------------------------------------------------------------------------------------------------------

prints "a program tells what it can do" 'udptest.dot, compiled' "$programs/udptest" --help
check "... with this graph, and nothing else" "$(cat "$work/out")" bash -c '! grep -E "^  (chantest|icmptest) " "$1"' grep "$work/out"
check "... whose own program is among it" "$(cat "$work/out")" grep -q '^  udptest ' "$work/out"
expect "... and knows no other graph" 2 'made of graphs/udptest.dot' "$programs/udptest" udptest --graph graphs/udptest-two.dot
expect "... and no other word" 2 'usage' "$programs/traffic" walk
prints "a pair of processes" 'Round trips over virtio' "$programs/udptest" udptest --rounds 100
prints "... of a program called udptest" 'Round trips over virtio' "$programs/udptest" --rounds 100
prints "udptest compiles its own graph" 'Round trips over virtio' "$fast/udptest" --compiled --rounds 100 --size 1,4000 --handoff none,both
prints "chantest, too" 'Round trips over virtio' "$chantest" --compiled --rounds 50 --mode ipp --handoff none
prints "the echo" 'ns for the graph' "$fast/xk" bench echo --compiled --rounds 1000
prints "the call" 'ns a call' "$fast/xk" bench call --compiled --rounds 1000
check "nothing is left behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"

# ---- what is refused, and hostile files ------------------------------------------------------------------------------------

expect "no output" 2 'what to make' "$xk" compile graphs/udptest.dot
expect "no graph" 1 'nowhere.dot' "$xk" compile nowhere.dot -o "$work/none"
expect "a network is no graph" 1 '' "$xk" compile graphs/net/lan.dot -o "$work/none"
expect "no place for the program" 1 '' "$fast/xk" compile graphs/udptest.dot -o /nowhere/program
expect "no place for the C" 1 'cannot be written' "$xk" compile graphs/udptest.dot --emit-c /nowhere/graph.c

cp graphs/udptest.dot "$work/mine.dot"
expect "a program in its graph's place" 1 'would be written over' "$xk" compile "$work/mine.dot" -o "$work/mine.dot"
ln -s mine.dot "$work/link.dot"
expect "C in its place" 1 'would be written over' "$xk" compile "$work/mine.dot" --emit-c "$work/link.dot"
check "a graph file is not lost" "it is" cmp -s graphs/udptest.dot "$work/mine.dot"
TMPDIR=$work/$(printf 'x%.0s' {1..300}) expect "a temporary directory of a long name" 1 'File name too long' \
	"$xk" compile graphs/udptest.dot -o "$work/none"

mkdir "$work/evil*"
evil="$work/evil*/ \"; abort(); ??) \$(touch hurt) \`touch hurt\` \\ * .dot"
sed 's/udptest -> udp;/udptest -> udp; udp [label="*\/ \\"; int main(void) { abort(); } \/* ??\/\\n %s #error"];/' graphs/udptest.dot >"$evil"
printf '// */ #error "\\" ??/\n#include "/etc/passwd"\n' >>"$evil"
expect "a hostile file is a graph" 0 '' "$xk" check "$evil"
limit=60 expect "... and is compiled" 0 '' "$fast/xk" compile "$evil" -o "$work/evil program"
prints "... and runs" 'Round trips' "$work/evil program" udptest --link ring --rounds 10
check "... and has said nothing" "it has" test ! -e hurt
for name in 'a"b' 'a b' 'a;b' 'a*/b' '1;abort()'; do
	printf 'digraph g { "%s" [protocol=udptest]; "%s" -> udp -> ip -> vnet -> eth -> port; vnet -> arp -> eth; }\n' \
		"${name//\"/\\\"}" "${name//\"/\\\"}" >"$work/name.dot"
	run 60 "$xk" compile "$work/name.dot" --emit-c "$work/name.c"
	if [ "$status" -eq 0 ]; then
		check "a node called $name" "its C is wrong" cc -std=gnu11 -w -DXK_WATCHED=1 -I. -fsyntax-only "$work/name.c"
	else
		ok "a node called $name is refused"
	fi
done

# ---- interrupted ---------------------------------------------------------------------------------------------------------

# A compiler that does not come to an end, whatever this build's is called.
mkdir "$work/hang"
printf '#!/bin/sh\necho >>"%s"\nexec sleep 100\n' "$work/hanging" >"$work/hang/cc"
chmod +x "$work/hang/cc"
for name in gcc clang clang-14 ccache objcopy; do
	ln -s cc "$work/hang/$name"
done

# interrupted NAME COMMAND...
interrupted() {
	local name=$1
	shift
	rm -f "$work/hanging"
	spawn interrupted env PATH="$work/hang:$PATH" "$@"
	check "$name: its compiler runs" "$(cat "$work/interrupted.err")" within 60 test -s "$work/hanging"
	kill -TERM "$pid"
	await_end "$pid" 20
	check "$name: it ends" "status $status: $(cat "$work/interrupted.err")" test "$status" -eq 143
	check "$name: it leaves nothing behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"
}

interrupted "xk compile" "$xk" compile graphs/udptest.dot -o "$work/none"
interrupted "udptest --compiled" "$udptest" --compiled --rounds 10
# Not by a signal that it was told to ignore.
rm -f "$work/hanging"
spawn deaf env PATH="$work/hang:$PATH" bash -c 'trap "" HUP; exec "$@"' bash "$xk" compile graphs/udptest.dot -o "$work/none"
check "xk compile that ignores a signal: its compiler runs" "$(cat "$work/deaf.err")" within 60 test -s "$work/hanging"
kill -HUP "$pid"
sleep 0.3
check "... and goes on" "it has ended" runs "$pid"
kill -TERM "$pid"
await_end "$pid" 20
check "... to its end" "status $status" test "$status" -eq 143
check "... and leaves nothing behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"
