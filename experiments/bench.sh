#!/bin/sh
# bench.sh BUILD A,B [CHECKOUT] - all benchmarks on cores A and B, as ratios within one run; or a comparison of this build
# with another checkout or commit (a commit is built below build/against).
set -eu
build=$1
cores=$2
old=${3:-}

if [ -z "$old" ]; then
	experiments/floors/bench.sh "$build" "$cores"
	echo
	experiments/scale/bench.sh "$build" "${cores#*,}"
	echo
	experiments/explore/bench.sh "$build" "$cores"
	echo
	experiments/overload/sweep.py "$build"
	echo
	experiments/tcp/flows.py "$build"
	echo
	exec experiments/tcp/copy.py "$build"
fi
if [ ! -x "$old/run" ]; then
	commit=$(git rev-parse --quiet --verify --short "$old^{commit}") || {
		echo "run: bench --against: $old is neither a checkout nor a commit" >&2
		exit 1
	}
	old=$PWD/build/against/$commit
	[ -d "$old" ] || git worktree add --force --quiet --detach "$old" "$commit"
fi
(cd "$old" && ./run build)
exec python3 experiments/trends.py "$build" "$old/build" --cores "$cores"
