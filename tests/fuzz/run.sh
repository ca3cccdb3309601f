#!/bin/sh
# run.sh [SECONDS [TARGET...]] - runs libFuzzer for SECONDS (60) on each target named, or on all. Needs clang 14. Run from
# the checkout's root. Starts from the tree's corpus, tests/fuzz/corpus; new inputs stay in build/fuzz/corpus, and an input
# that breaks something in build/fuzz.
set -eu
export LC_ALL=C

all='frames hosts calls headers graph net settings http'
seconds=${1:-60}
[ $# -eq 0 ] || shift
directory=build/fuzz

if ! command -v clang-14 >/dev/null; then
	echo "SKIPPED: clang-14 is not installed; only the corpus and the seeded runs of tests/fuzz are run"
	exit 0
fi

if [ ! -f "$directory/build.ninja" ]; then
	CC=clang-14 CFLAGS='-fsanitize=fuzzer-no-link -fno-sanitize-recover=undefined' meson setup "$directory" \
		-Dbuildtype=debugoptimized -Dxk_debug=true -Db_sanitize=address,undefined -Db_lundef=false -Ddpdk=disabled
fi

# The sanitizers find no room for their shadow memory if addresses are too random.
fixed_addresses=
! setarch -R true 2>/dev/null || fixed_addresses='setarch -R'

# options TARGET: prints the target's options.
options() {
	case "$1" in
	frames | hosts) echo "-max_len=16384 -dict=$directory/headers.dict" ;;
	calls | headers) echo "-max_len=1024 -dict=$directory/headers.dict" ;;
	graph | net) echo "-max_len=3000 -dict=tests/fuzz/graph.dict" ;;
	settings) echo "-max_len=512 -dict=tests/fuzz/settings.dict" ;;
	http) echo "-max_len=1024 -dict=tests/fuzz/http.dict" ;;
	*)
		echo "fuzz: unknown target $1; targets: $all" >&2
		return 1
		;;
	esac
}

# fuzz TARGET: fuzzes; on failure, prints how to repeat it.
fuzz() {
	more=$(options "$1")
	ninja -C "$directory" "tests/fuzz_$1"
	mkdir -p "$directory/corpus/$1"
	# shellcheck disable=SC2086 # lists of words
	$fixed_addresses nice -n 10 "$directory/tests/fuzz_$1" -max_total_time="$seconds" -print_final_stats=1 -timeout=60 \
		-rss_limit_mb=4096 -artifact_prefix="$directory/$1-" $more "$directory/corpus/$1" "tests/fuzz/corpus/$1" \
		</dev/null && return 0
	echo "fuzz: to repeat it: $directory/tests/fuzz_$1 $directory/$1-..." >&2
	return 1
}

# The header fields that protocols declare.
[ -x build/xk ] || ./run build
build/xk protocols --dictionary >"$directory/headers.dict"

# shellcheck disable=SC2086 # a list of words
[ $# -gt 0 ] || set -- $all
for target; do
	fuzz "$target"
done
