#!/bin/bash
# package.sh BUILD - installs BUILD with its headers, libraries and graphs, found by pkg-config; builds and runs the examples
# of docs/embedding.md against that copy; and uninstalls it without a trace.
. "$(dirname "$0")/common.sh"

dest=$work/dest
cc=${CC:-cc}
strict="-std=c11 -Wall -Wextra -Wshadow -Wstrict-prototypes -Werror"

# ---- installing ----------------------------------------------------------------------------------------------------------

expect "it is installed" 0 '' env DESTDIR="$dest" meson install --no-rebuild -C "$build"
cp "$build/meson-logs/install-log.txt" "$work/installed.log"
packages=$(find "$dest" -type d -name pkgconfig)
was=$(sed -n 's/^prefix=//p' "$packages/xkernel.pc")
prefix=$dest$was

# A copy of the .pc files with this installation's path; no other copy may be found.
mkdir "$work/pkgconfig"
cp "$packages"/*.pc "$work/pkgconfig/"
sed -i "s|^prefix=.*|prefix=$prefix|" "$work/pkgconfig"/*.pc
export PKG_CONFIG_PATH=$work/pkgconfig
include=$(pkg-config --variable=includedir xkernel)/xkernel
check "pkg-config finds it" "$include" test -d "$include"
check "... and knows its version" "$(pkg-config --modversion xkernel)" \
	grep -q "version: '$(pkg-config --modversion xkernel)'" meson.build

# ---- headers -------------------------------------------------------------------------------------------------------------

# A directory from which only the installed copy can be found.
cd "$work" || exit 1
headers=$(cd "$include" && find . -name '*.h' | sed 's|^\./||' | sort)
compilers=$cc
! command -v clang-14 >/dev/null || compilers="$compilers clang-14"

# stands_alone COMPILER HEADER: checks that it can be included alone and twice.
stands_alone() {
	# shellcheck disable=SC2046,SC2086 # lists of options
	printf '#include "%s"\n#include "%s"\nint unused_%s;\n' "$2" "$2" "$$" |
		$1 $strict -fsyntax-only -x c $(pkg-config --cflags xkernel) -
}

for header in $headers; do
	for compiler in $compilers; do
		check "$header stands alone ($compiler)" "see above" stands_alone "$compiler" "$header"
	done
done
for header in xkernel/kernel.h xkernel/upi.h graphs/graph.h platform/sim/memory.h protocols/udp.h; do
	check "$header is installed" "it is not" test -f "$include/$header"
done
private=$(printf '%s\n' "$headers" | grep -E 'private|inside|engine\.h' || true)
check "private headers are not" "$private" test -z "$private"

# ---- users' programs -----------------------------------------------------------------------------------------------------

# compiles PACKAGE OUTPUT SOURCE...: builds a program with the package's flags.
compiles() {
	local package=$1 output=$2
	shift 2
	# shellcheck disable=SC2046,SC2086 # lists of options
	$cc $strict -o "$output" "$@" $(pkg-config --cflags --libs "$package")
}

# example NAME OUTPUT: builds docs/examples/NAME.c with the package alone and checks its output.
example() {
	check "$1 compiles" "see above" compiles xkernel "$work/$1" "$root/docs/examples/$1.c"
	expect "$1 runs" 0 '' "$work/$1"
	check "$1 prints what it should" "$(cat "$work/out")" test "$(cat "$work/out")" = "$2"
}

example embed '47 bytes came out: hello'
example embed_shout HELLO
example embed_lend "1514 bytes came out, the last is p
1514 bytes came out, the last is p
the page is the program's again
82 bytes came out, the last is p"
needed=$(readelf -d "$work/embed" | grep -E 'NEEDED.*(librte|libevent)')
check "embed does without DPDK" "$needed" test -z "$needed"
# shellcheck disable=SC2046,SC2086
check "a protocol of docs/writing-a-protocol.md compiles" "see above" \
	$cc $strict -Wno-unused-parameter -c -o "$work/asp.o" "$root/docs/examples/asp.c" $(pkg-config --cflags xkernel)

if [ -e "$packages/xkernel-dpdk.pc" ]; then
	cat >"$work/version.c" <<'END'
#include <stdio.h>
#include "platform/dpdk/dpdk.h"

int
main(void)
{
	puts(xk_dpdk_version());
	return 0;
}
END
	check "a program on DPDK compiles" "see above" compiles xkernel-dpdk "$work/version" "$work/version.c"
	expect "... and runs" 0 '' "$work/version"
	check "... with DPDK" "$(cat "$work/out")" grep -q '^DPDK 2' "$work/out"
fi

# ---- the project's own programs ------------------------------------------------------------------------------------------

expect "an installed udptest finds its graph" 0 '' "$prefix/bin/udptest" --link sim --rounds 10
expect "an installed xk checks an installed graph" 0 '' "$prefix/bin/xk" check "$prefix/share/xkernel/graphs/chantest-full.dot"
expect "... and simulates an installed network" 0 'hash' "$prefix/bin/xk" run \
	"$prefix/share/xkernel/graphs/net/pair-ethernet10.dot" --link sim --quiet --until 10ms

limit=300 expect "an installed xk compiles an installed graph" 0 '' "$prefix/bin/xk" compile \
	"$prefix/share/xkernel/graphs/udptest.dot" -o "$work/compiled"
expect "... into a program that runs" 0 '' "$work/compiled" bench echo --rounds 1000

# ---- without installing, without DPDK, and the end -----------------------------------------------------------------------

check "a program is built against the uninstalled build" "see above" env PKG_CONFIG_PATH="$build/meson-uninstalled" \
	bash -c '"$1" -o "$2" "$3" $(pkg-config --cflags --libs xkernel)' build "$cc" "$work/embed_here" "$root/docs/examples/embed.c"
expect "... and runs" 0 '' "$work/embed_here"

expect "it is set up without DPDK" 0 '' meson setup -Ddpdk=disabled -Dtests=false "$work/without" "$root"
check "... with a package" "none" test -e "$work/without/meson-private/xkernel.pc"
check "... and without the other" "it is there" test ! -e "$work/without/meson-private/xkernel-dpdk.pc"

cp "$work/installed.log" "$build/meson-logs/install-log.txt"
expect "it is uninstalled" 0 '' ninja -C "$build" uninstall
check "... and nothing is left" "$(ls -R "$dest" 2>/dev/null)" test ! -e "$dest"
