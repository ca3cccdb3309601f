#!/bin/sh
# run.sh [SECONDS [TARGET...]] - libFuzzer for so long (60) on each target, or on those that are named, with clang 14 if it
# is there. From the checkout's root. What it learns stays in build/fuzz/corpus; an input that breaks something, in
# build/fuzz. It begins with the corpus of the tree, tests/fuzz/corpus.
set -eu
export LC_ALL=C

all='frames hosts calls headers graph net settings'
seconds=${1:-60}
[ $# -eq 0 ] || shift
directory=build/fuzz

if ! command -v clang-14 >/dev/null; then
	echo "SKIPPED: clang-14 is not here; the corpus and the seeded runs of tests/fuzz are all there is"
	exit 0
fi

if [ ! -f "$directory/build.ninja" ]; then
	CC=clang-14 CFLAGS='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' meson setup "$directory" \
		-Dbuildtype=debugoptimized -Dxk_debug=true -Db_sanitize=address,undefined -Db_lundef=false -Ddpdk=disabled
fi

# The sanitizers do not find room for their shadow where addresses are very random.
fixed_addresses=
! setarch -R true 2>/dev/null || fixed_addresses='setarch -R'

# options TARGET: what it needs besides.
options() {
	case "$1" in
	frames | hosts) echo "-max_len=16384 -dict=$directory/headers.dict" ;;
	calls | headers) echo "-max_len=1024 -dict=$directory/headers.dict" ;;
	graph | net) echo "-max_len=3000 -dict=tests/fuzz/graph.dict" ;;
	settings) echo "-max_len=512 -dict=tests/fuzz/settings.dict" ;;
	*)
		echo "fuzz: there is no target $1, only: $all" >&2
		return 1
		;;
	esac
}

# fuzz TARGET: on failure, how to see it again.
fuzz() {
	more=$(options "$1")
	ninja -C "$directory" "tests/fuzz_$1"
	mkdir -p "$directory/corpus/$1"
	# shellcheck disable=SC2086 # lists of words
	$fixed_addresses nice -n 10 "$directory/tests/fuzz_$1" -max_total_time="$seconds" -print_final_stats=1 -timeout=60 \
		-rss_limit_mb=4096 -artifact_prefix="$directory/$1-" $more "$directory/corpus/$1" "tests/fuzz/corpus/$1" \
		</dev/null && return 0
	echo "fuzz: to see it again: $directory/tests/fuzz_$1 $directory/$1-..." >&2
	return 1
}

# What protocols declare of their headers.
[ -x build/xk ] || ./run build
build/xk protocols --dictionary >"$directory/headers.dict"

# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $all
for target; do
	fuzz "$target"
done
