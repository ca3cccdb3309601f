#!/bin/bash
# own.sh BUILD - a protocol outside the tree: `xk new` creates it, `./run build --with` builds, tests and runs it, and no file of the
# tree changes.
. "$(dirname "$0")/common.sh"

xk=$build/xk
own=$work/own

prints "a protocol is begun" 'next: ./run build --with' "$xk" new pong -o "$own"
prints "a layer is begun" 'tock/tocktest.dot' "$xk" new tock --layer -o "$work/tock"
prints "a virtual layer is begun" 'tock/mete2test.dot' "$xk" new mete2 --virtual -o "$work/tock"
prints "client and server are begun" 'tock/pricenet.dot' "$xk" new price --rpc -o "$work/tock"
check "they have the right names" "$(cat "$own"/* "$work/tock"/*)" eval \
	'! grep -qwiE "(asp|seq|tally|adder)(test|net)?|(asp|seq|tally|adder)_.*|.*example.*" "$own"/* "$work/tock"/*'
expect "nothing is written over" 1 'pong.c cannot be written: File exists' "$xk" new pong -o "$own"
expect "a name in use" 1 'there is already a protocol udp' "$xk" new udp -o "$own"
for name in 9 Pong a-b ../x '' aaaaaaaaaaaaaaaaaaaaaaaaa; do
	expect "no name: $name" 2 'a name is' "$xk" new "$name" -o "$own"
done
# Names that would not compile or mean something else: keywords of C, of graphs, tests and --set, names of the library.
for name in int new errno linux typeof node graph digraph host link user wire2 xk xk_push rig_new atomic sem test_pong; do
	expect "no name: $name" 2 "\"$name\" is .*: use another name" "$xk" new "$name" -o "$work/none"
done
expect "one kind" 2 'exclude each other' "$xk" new ping --rpc --layer
expect "no place" 1 'cannot be written' "$xk" new pong -o "$work/none/own"

cp "$work"/tock/* "$own"
before=$(git status --porcelain 2>/dev/null)
limit=400 expect "they are built" 0 '' ./run build --with "$own"
check "... and their tests are run" "$(cat "$work/err")" [ "$(grep -cE 'passed: .*/test_(pong|tock|mete2|price).c' "$work/err")" -eq 4 ]
check "no file of the tree has changed" "$(git status --porcelain 2>/dev/null)" [ "$(git status --porcelain 2>/dev/null)" = "$before" ]
for name in pong tock; do
	prints "$name is known" "^$name: " build-with/xk protocols $name
	prints "$name runs" ' 0$' build-with/udptest --graph "$own/${name}test.dot" --link sim --rounds 20 --mode ipp --size 100
done
prints "mete2 runs" ' 0$' build-with/udptest --graph "$own/mete2test.dot" --link sim --rounds 20 --mode ipp --size 100
run 60 build-with/xk run "$own/pricenet.dot" --link sim --quiet --set client.price.ends=yes --show price
check "client and server run" "$(cat "$work/err")" printed err '^price.answered +0 +3$'
expect "a client that fails ends its host so" 1 'price.failed' build-with/xk run "$own/pricenet.dot" --link sim --quiet --until 100s \
	--set client.price.peer=10.77.0.9 --set client.price.ends=yes --set cable.loss=100%
prints "a pair of programs, too" ' 0$' build-with/udptest --graph "$own/pongtest.dot" --rounds 20 --mode ipp --size 100
expect "udptest is udptest" 2 '^udptest: "nothing" is not an option' build-with/udptest nothing
expect "... which does not compile others" 1 'a program made by xk compile has none' build-with/udptest --compiled --rounds 10
expect "... and xk is xk" 2 '^xk: there is no command "nothing"' build-with/xk nothing
# Wireshark finds a field of any name: the filter's name omits the characters that filters do not allow.
mkdir "$work/odd"
sed 's/^XK_FIELDS.*/static const struct xk_field pong_fields[] = {\
{ .name = "the \\"first\\"\\n\\\\ port]]", .bits = 16, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "a port\\nor two" },\
{ .name = "destination", .bits = 16, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL },\
{ .name = "length", .bits = 16, .kind = XK_LENGTH, .covers = XK_COVERS_MESSAGE },\n{ .name = NULL } };/' "$own/pong.c" >"$work/odd/pong.c"
expect "a field with an odd name" 0 '' "$xk" compile --with "$work/odd/pong.c" -o "$work/odd/xk"
expect "... which is written for Wireshark" 0 '' "$work/odd/xk" dissectors "$own/pongtest.dot" -o "$work/odd/all.lua"
if command -v tshark >/dev/null; then
	expect "... in a capture" 0 '' build-with/udptest --graph "$own/pongtest.dot" --link sim --rounds 2 --mode ipp --pcap "$work/odd/frames"
	check "... and read by it" "no such field" eval 'tshark -n -X "lua_script:$work/odd/all.lua" -r "$work/odd/frames.client" -T fields \
		-e xk_pong.the_20_22first_22_0a_5c_20port_5d_5d >"$work/odd/read" 2>"$work/odd/said" && grep -q "^[0-9]" "$work/odd/read"'
fi
rm -rf "$work/tock"/*.c
expect "a folder without a protocol" 1 'no C file besides tests is in' ./run build --with "$work/tock"
sed -i -e 's/= xk_ports_passive_key_of/= pong_key_of/' -e '/^static const struct xk_protocol_ops/i \
static struct xk_key pong_key_of(const struct xk_session *s) { return (struct xk_key){ 0, 0 }; }' "$own/pong.c"
printf '\n#include <stdlib.h>\nTEST(it_ends)\n{\n\tabort();\n}\n' >>"$own/test_pong.c"
printf '\n#include <stdlib.h>\nTEST(it_leaks)\n{\n\tCHECK(malloc(10) != NULL);\n}\n' >>"$own/test_tock.c"
limited 400 ./run build --with "$own" >"$work/out" 2>"$work/err" </dev/null
status=$?
check "its tests find a mistake" "status $status" [ "$status" -eq 1 ]
for said in '2 of [0-9]+ tests of .*/test_pong\.c: pong_[a-z_]+, it_ends' '0 of [0-9]+ tests of .*/test_tock\.c: leaks'; do
	check "... first and last: $said" "$(cat "$work/err")" [ "$(grep -cE "^run: failed: $said" "$work/err")" -eq 2 ]
done
check "... with the line that is wrong, once" "$(cat "$work/err")" [ "$(grep -cE '/test_pong\.c:[0-9]+' "$work/err")" -eq \
	"$(grep -cE '^    .*/test_pong\.c:[0-9]+: .* is [0-9]+, not [0-9]+' "$work/err")" ]
check "... and where memory was leaked" "$(cat "$work/err")" printed err 'it_leaks .*/test_tock\.c:[0-9]+'
rm "$own"/test_*
printf 'int tock_unused(int a) { return 0; }\n' >>"$own/tock.c"
expect "a mistake that does not compile" 1 'tock.c:.* no previous prototype' ./run build --with "$own"
expect "no such directory" 1 'is no directory' ./run build --with "$work/none"
expect "no directory" 2 'unknown command: build --with' ./run build --with
expect "not with --debug" 2 'cannot be combined' ./run build --debug --with "$own"
