#!/bin/bash
# compiled.sh BUILD - xk compile: programs with a built-in graph and with the user's own protocols; refusals; and hostile graph
# files, which cannot inject C code.
. "$(dirname "$0")/common.sh"

mkdir "$work/tmp" "$work/programs"
export TMPDIR=$work/tmp
xk=$build/xk
made=$work/programs/udptest

# ---- programs ------------------------------------------------------------------------------------------------------------

expect "a program is made" 0 '' "$xk" compile graphs/udptest.dot -o "$made"
cp "$made" "$work/programs/other"
prints "its help describes it" 'graphs/udptest.dot and its protocols' "$made" --help
prints "a pair of processes" 'Round trips over virtio' "$made" udptest --rounds 100
prints "... of a program called udptest" 'Round trips over virtio' "$made" --rounds 100
prints "... of any graph" 'udptest-two' "$made" --graph graphs/udptest-two.dot --rounds 10 --link sim --json -
expect "... and no other word" 2 'there is no command "walk"' "$work/programs/other" walk
prints "the echo" 'ns for the graph' "$made" bench echo --rounds 1000
prints "udptest with its graph inside" 'Round trips over virtio' "$build/udptest" --compiled --rounds 20 --size 1,4000 --handoff none,both
prints "chantest, too" 'Round trips over virtio' "$build/chantest" --compiled --rounds 10 --mode ipp --handoff none
prints "the call" 'ns a call' "$xk" bench call --compiled --rounds 1000
check "nothing is left behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"

# The program reads no file: it runs in an empty directory.
away=(env -C "$work/tmp" "$made")
prints "a program needs no file" 'graphs/udptest.dot: ok' "${away[@]}" check
prints "... for a host" 'Round trips' "${away[@]}" udptest --link sim --rounds 10
# ... and behaves like its graph file, including settings and marks.
for options in '' '--trace' '--mode ipp --handoff both' '--set graph.budget=150us --size 4000' '--set udp.order=session'; do
	# shellcheck disable=SC2086 # options
	{
		run 60 "$build/udptest" --graph graphs/udptest.dot --link sim --rounds 10 $options
		cat "$work/out" "$work/err" >"$work/file"
		run 60 "$made" udptest --link sim --rounds 10 $options
		cat "$work/out" "$work/err" >"$work/inside"
	}
	check "the same as the file, with ${options:-nothing else}" "$(diff "$work/file" "$work/inside" | head -n 5)" cmp -s "$work/file" "$work/inside"
done
check "... and something" "it prints nothing" test -s "$work/inside"

# An object file for the user's program: the example of docs/compiling.md.
expect "an object is made" 0 '' "$xk" compile graphs/udptest.dot -o "$work/graph.o"
embed() {
	# shellcheck disable=SC2046 # lists of options
	cc -std=c11 -Wall -Wextra -Werror -o "$work/embed" docs/examples/embed_compiled.c "$work/graph.o" \
		$(PKG_CONFIG_PATH=$build/meson-uninstalled pkg-config --cflags --libs xkernel)
}
check "a user's program is linked with it" "see above" embed
prints "... and is its host" '^47 bytes came out: hello$' "$work/embed"

# ---- the user's protocols ------------------------------------------------------------------------------------------------

mkdir "$work/own"
expect "two protocols are begun" 0 '' "$xk" new tick --layer -o "$work/own/tick"
expect "... the other, too" 0 '' "$xk" new pong -o "$work/own/pong"
own="$work/own/tick/tick.c $work/own/pong/pong.c"
cat >"$work/own.dot" <<'END'
digraph own {
	udptest -> tick -> udp -> ip -> vnet -> eth -> port;
	udptest2 [protocol=udptest]; udptest2 -> pong -> ip;
	vnet -> arp -> eth;
}
END
# shellcheck disable=SC2086 # two files
expect "a program has both" 0 '' "$xk" compile "$work/own.dot" --with ${own/ / --with } -o "$work/own/program"
prints "... in its table" '^tick' "$work/own/program" protocols
prints "... and its graph runs" 'Round trips' "$work/own/program" udptest --link sim --rounds 10
# The same with the release build, which links faster.
[ ! -x "$root/build/xk" ] || xk=$root/build/xk
expect "without them there is no such graph" 1 'unknown protocol "tick"' "$xk" compile "$work/own.dot" -o "$work/none"
expect "with one of them, neither" 1 'unknown protocol "pong"' "$xk" compile "$work/own.dot" --with "$work/own/tick/tick.c" -o "$work/none"
check "... and nothing is made" "it is" test ! -e "$work/none"

# A changed protocol of the library: it sends nothing.
sed 's/^\(\t\.\)pop = xk_pop_through,/\1pop = drop_all,/; s/^static const struct xk_session_ops/static void\ndrop_all(struct xk_session *s, struct xk_session *lls, struct xk_msg *m, const void *hdr)\n{\n\txk_msg_free(m);\n}\n\n&/' protocols/udp.c >"$work/udp.c"
check "udp is changed" "its line is not there any more" bash -c '! cmp -s "$1" "$2"' cmp protocols/udp.c "$work/udp.c"
expect "a program has it in place of the library's" 0 '' "$xk" compile graphs/udptest.dot --with "$work/udp.c" -o "$work/mute"
expect "... and it is what runs" 1 'lost|no echo|nobody' "$work/mute" udptest --link sim --rounds 3 --mode ipp

# A protocol in two files, one without a type.
printf 'int tick_answer(void);\nint\ntick_answer(void)\n{\n\treturn 42;\n}\n' >"$work/own/tick_answer.c"
sed '0,/^static/s//int tick_answer(void);\nint (*const tick_asks)(void) = tick_answer;\nstatic/' "$work/own/tick/tick.c" >"$work/own/tick.c"
sed '/udptest2/d' "$work/own.dot" >"$work/tick.dot"
expect "a protocol of two files" 0 '' "$xk" compile "$work/tick.dot" --with "$work/own/tick.c" --with "$work/own/tick_answer.c" -o "$work/two"
prints "... runs" 'Round trips' "$work/two" udptest --link sim --rounds 3
expect "... not with one" 1 'tick_answer' "$xk" compile "$work/tick.dot" --with "$work/own/tick.c" -o "$work/none"

# ---- refusals and hostile files ---------------------------------------------------------------------------------------------

xk=$build/xk
expect "no output" 2 '-o PROGRAM is missing' "$xk" compile graphs/udptest.dot
expect "no graph" 1 'nowhere.dot' "$xk" compile nowhere.dot -o "$work/none"
expect "... with a protocol of one's own" 1 'nowhere.dot' "$xk" compile nowhere.dot --with "$work/udp.c" -o "$work/none"
expect "neither" 2 'neither a graph nor a protocol' "$xk" compile -o "$work/none"
expect "no protocol" 1 'nowhere.c' "$xk" compile graphs/udptest.dot --with nowhere.c -o "$work/none"
printf 'int x = ;\n' >"$work/wrong.c"
expect "no C" 1 'wrong.c:1' "$xk" compile graphs/udptest.dot --with "$work/wrong.c" -o "$work/none"
expect "a network file is not a graph" 1 '' "$xk" compile graphs/net/lan.dot -o "$work/none"
expect "no place for the program" 1 '' "$xk" compile graphs/udptest.dot -o /nowhere/program
XK_CFLAGS=--no-such-option expect "what XK_CFLAGS has is asked of the compiler" 1 'no-such-option' "$xk" compile graphs/udptest.dot \
	-o "$work/none"
XK_CFLAGS=$(printf -- '-O0 %.0s' {1..600}) expect "... but no more than there is room for" 1 'too many' "$xk" compile \
	graphs/udptest.dot -o "$work/none"
check "... and nothing is made" "it is" test ! -e "$work/none"

cp graphs/udptest.dot "$work/mine.dot"
expect "a program over its graph" 1 'would be overwritten' "$xk" compile "$work/mine.dot" -o "$work/mine.dot"
ln -s udp.c "$work/link.c"
expect "... or a protocol's" 1 'would be overwritten' "$xk" compile "$work/mine.dot" --with "$work/udp.c" -o "$work/link.c"
check "the graph file survives" "it has changed" cmp -s graphs/udptest.dot "$work/mine.dot"

mkdir "$work/evil*"
evil="$work/evil*/ \"; abort(); ??) \$(touch hurt) \`touch hurt\` \\ * .dot"
sed 's/udptest -> udp;/udptest -> udp; udp [label="*\/ \\"; int main(void) { abort(); } \/* ??\/\\n %s #error"];/' graphs/udptest.dot >"$evil"
printf '// */ #error "\\" ??/\n#include "/etc/passwd"\n// \t\001\033[31m\377' >>"$evil"
expect "a hostile file is a valid graph" 0 '' "$xk" check "$evil"
expect "... and is compiled" 0 '' "$xk" compile "$evil" -o "$work/evil program"
prints "... and runs" 'Round trips' "$work/evil program" udptest --link ring --rounds 10
check "... and has printed nothing" "it has" test ! -e hurt

# ---- interrupted ---------------------------------------------------------------------------------------------------------

# A compiler that never ends, under the name of this build's compiler.
mkdir "$work/hang"
printf '#!/bin/sh\necho $$ >>"%s"\nexec sleep 100\n' "$work/hanging" >"$work/hang/cc"
chmod +x "$work/hang/cc"
for name in gcc clang clang-14 ccache; do
	ln -s cc "$work/hang/$name"
done

# interrupted NAME COMMAND...: checks that a signal ends the command and its compiler.
interrupted() {
	local name=$1
	shift
	rm -f "$work/hanging"
	spawn interrupted env PATH="$work/hang:$PATH" "$@"
	check "$name: its compiler runs" "$(cat "$work/interrupted.err")" within 60 test -s "$work/hanging"
	kill -TERM "$pid"
	await_end "$pid" 20
	check "$name: it ends" "status $status: $(cat "$work/interrupted.err")" test "$status" -eq 143
	check "$name: so does the compiler" "it runs" within 20 gone "$(cat "$work/hanging")"
	check "$name: it leaves nothing behind" "$(ls "$TMPDIR")" test -z "$(ls "$TMPDIR")"
}

interrupted "xk compile" "$xk" compile graphs/udptest.dot -o "$work/none"
interrupted "udptest --compiled" "$udptest" --compiled --rounds 10
