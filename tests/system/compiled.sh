#!/bin/bash
# compiled.sh BUILD - xk compile: what compiled graphs do to frames, beside what graph files do (compiled/compare.c: the packet
# scripts' frames, as they are and changed by chance; compiled_graphs.sh has whole networks); what the programs can do besides;
# that both tests see a compiled graph that is wrong; and that a hostile graph file cannot say anything in C.
. "$(dirname "$0")/common.sh"
. "$(dirname "$0")/compiling.sh"

xk=$build/xk
mapfile -t scripts < <(find tests/conformance -name '*.packets' | sort)

# ---- frame by frame ------------------------------------------------------------------------------------------------------

# library BUILD: $work/BUILD.a has differ.c and the scripts' language.
library() {
	local objects=$work/objects-${1##*/}
	mkdir "$objects"
	# shellcheck disable=SC2046 # lists of options
	(cd "$objects" && printf '%s\n' "$root/tests/compiled/compare.c" "$root"/tests/conformance/*.c | grep -v /test_ |
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
	local name=$work/differ-${2##*/}
	run 120 "$1/xk" compile "$2" -o "$name.o"
	check "$2 is compiled" "$(cat "$work/err")" test "$status" -eq 0
	check "$2 is linked with its test" "see above" link "$1" "$name" "$name.o"
	prints "$2: frame by frame" 'no difference' "$name" "$3" "${scripts[@]}"
}

check "the test is compiled" "see above" library "$fast"
[ "$fast" = "$build" ] || check "... with sanitizers, too" "see above" library "$build"
# Every graph that a script has a host of; what most of them have, as people compile it.
for name in $(sed -n 's/^host .* graph \([^ ]*\).*/\1/p' "${scripts[@]}" | sort -u); do
	graph=graphs/$name
	[ -e "$graph" ] || graph=tests/conformance/$name
	case $name in
	udptest.dot) XK_CFLAGS=-g0 differs "$fast" "$graph" 2 ;;
	router.dot) differs "$build" "$graph" 4 ;;
	*) differs "$fast" "$graph" 4 ;;
	esac
done

# embed: the example of docs/compiling.md, with the object that is there already.
embed() {
	# shellcheck disable=SC2046 # lists of options
	cc -std=c11 -Wall -Wextra -Werror -o "$work/embed" docs/examples/embed_compiled.c "$work/differ-udptest.dot.o" \
		$(PKG_CONFIG_PATH=$fast/meson-uninstalled pkg-config --cflags --libs xkernel)
}

check "a program of one's own is linked with a graph" "see above" embed
prints "... and is its host" '^47 bytes came out: hello$' "$work/embed"

# It can be seen: a compiled graph whose UDP believes every checksum.
mkdir "$work/tree"
cp -r xkernel protocols "$work/tree"
mkdir "$work/tree/graphs"
cp graphs/*.h "$work/tree/graphs"
sed -i 's/if (xk_get16(p + UDP_CHECKSUM) == 0/if (1/' "$work/tree/protocols/udp.c"
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

# A mutant that sends nothing: programs do use what was compiled into them.
sed -i '/^udp_send(/,/^}/s/return xk_push(session->lls, m);/return xk_msg_free(m), 0;/' "$work/tree/protocols/udp.c"
for watched in 0 1; do
	check "another mutant is compiled ($watched)" "see above" cc -std=gnu11 -O1 -w -DXK_WATCHED=$watched -I"$work/tree" -c \
		"$work/mutant.c" -o "$work/mutant$watched.o"
done
objcopy --keep-global-symbol=xk_compiled_plain "$work/mutant0.o"
objcopy --keep-global-symbol=program_graph "$work/mutant1.o"
# shellcheck disable=SC2046 # a list
check "... and made a program" "see above" cc -o "$work/mute" "$work/mutant0.o" "$work/mutant1.o" -Wl,--start-group \
	"$fast/libxkernel-programs.a" "$fast/libxkernel-dpdk.a" "$fast/libxkernel.a" -Wl,--end-group -lrte_net_ring -lrte_net_vhost -lm \
	-pthread -Wl,--as-needed $(pkg-config --libs libdpdk libevent)
for options in "" "--trace"; do
	# shellcheck disable=SC2086 # options
	expect "... that loses everything $options" 1 'lost|no echo|nobody' "$work/mute" udptest --link sim --rounds 3 --mode ipp $options
done

# ---- programs ------------------------------------------------------------------------------------------------------------

mkdir "$work/programs"
made=$work/programs/udptest
expect "a program is made" 0 '' "$fast/xk" compile graphs/udptest.dot -o "$made"
prints "a program tells what it can do" 'udptest.dot, compiled' "$made" --help
check "... with this graph, and nothing else" "$(cat "$work/out")" bash -c '! grep -E "^  (chantest|icmptest) " "$1"' grep "$work/out"
check "... whose own program is among it" "$(cat "$work/out")" grep -q '^  udptest ' "$work/out"
expect "... and knows no other graph" 2 'made of graphs/udptest.dot' "$made" udptest --graph graphs/udptest-two.dot
expect "... and no other word" 2 'usage' "$work/mute" walk
prints "a pair of processes" 'Round trips over virtio' "$made" udptest --rounds 100
prints "... of a program called udptest" 'Round trips over virtio' "$made" --rounds 100
prints "udptest compiles its own graph" 'Round trips over virtio' "$fast/udptest" --compiled --rounds 100 --size 1,4000 --handoff none,both
prints "chantest, too" 'Round trips over virtio' "$fast/chantest" --compiled --rounds 50 --mode ipp --handoff none
prints "the echo" 'ns for the graph' "$fast/xk" bench echo --compiled --rounds 1000
prints "the call" 'ns a call' "$fast/xk" bench call --compiled --rounds 1000
check "nothing is left behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"

# ---- what is refused, and hostile files ------------------------------------------------------------------------------------

expect "no output" 2 'what to make' "$xk" compile graphs/udptest.dot
expect "no graph" 1 'nowhere.dot' "$xk" compile nowhere.dot -o "$work/none"
expect "a network is no graph" 1 '' "$xk" compile graphs/net/lan.dot -o "$work/none"
expect "no place for the program" 1 '' "$fast/xk" compile graphs/udptest.dot -o /nowhere/program
XK_CFLAGS=--no-such-option expect "what XK_CFLAGS has is asked of the compiler" 1 'no-such-option' "$fast/xk" compile graphs/udptest.dot \
	-o "$work/none"
XK_CFLAGS=$(printf -- '-O0 %.0s' {1..600}) expect "... but no more than there is room for" 1 'too many' "$fast/xk" compile \
	graphs/udptest.dot -o "$work/none"
check "... and nothing is made" "it is" test ! -e "$work/none"
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
