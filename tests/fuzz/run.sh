#!/bin/sh
# run.sh SECONDS - libFuzzer for so long, on frames and then on graph files, with clang 14 if it is there.
# From the checkout's root. What it has learned stays in build/fuzz/corpus; an input that breaks something, in build/fuzz.
set -eu
export LC_ALL=C

seconds=${1:-60}
directory=build/fuzz

if ! command -v clang-14 >/dev/null; then
	echo "fuzz: clang-14 is not here; the seeded runs of tests/fuzz are all there is"
	exit 0
fi

if [ ! -f "$directory/build.ninja" ]; then
	CC=clang-14 CFLAGS='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' meson setup "$directory" \
		-Dbuildtype=debugoptimized -Dxk_debug=true -Db_sanitize=address,undefined -Db_lundef=false -Ddpdk=disabled
fi
ninja -C "$directory" tests/fuzz_frames tests/fuzz_graph

# The sanitizers do not find room for their shadow where addresses are very random.
fixed_addresses=
! setarch -R true 2>/dev/null || fixed_addresses='setarch -R'

# fuzz NAME OPTION...: a run of half the time; on failure, how to see it again.
fuzz() {
	name=$1
	shift
	mkdir -p "$directory/corpus/$name"
	$fixed_addresses nice -n 10 "$directory/tests/fuzz_$name" -max_total_time=$((seconds / 2 + 1)) -print_final_stats=1 \
		-timeout=60 -artifact_prefix="$directory/$name-" "$directory/corpus/$name" "$@" && return 0
	echo "fuzz: to see it again: $directory/tests/fuzz_$name $directory/$name-..." >&2
	return 1
}

mkdir -p "$directory/corpus/graph"
cp graphs/*.dot "$directory/corpus/graph"
fuzz frames -max_len=16384
fuzz graph -max_len=3000 -dict=tests/fuzz/graph.dict
