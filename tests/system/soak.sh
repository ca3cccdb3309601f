#!/bin/bash
# soak.sh BUILD [SECONDS [SEED]] - pairs with options at random, one after another, for SECONDS (20, or 600 where
# XK_TEST_LONG is 1): nothing may be lost, dropped, reported by a sanitizer, or leaked (udptest itself fails if a
# buffer has not come back). To be run on a build with sanitizers and xk_debug.
. "$(dirname "$0")/common.sh"

seconds=${2:-$([ "${XK_TEST_LONG:-0}" = 1 ] && echo 600 || echo 20)}
seed=${3:-$(($(date +%s) % 32768))}
RANDOM=$seed
until=$(($(milliseconds) + seconds * 1000))
count=0
round_trips=0

# one_of WORD...: in $chosen, since a subshell would draw from a sequence of its own
one_of() {
	shift $((RANDOM % $#))
	chosen=$1
}

# some_of WORD...: one to three, in $chosen by commas, their number in $number
some_of() {
	local list
	one_of 1 1 2 3
	number=$chosen
	list=
	for ((i = 0; i < number; i++)); do
		one_of "$@"
		list=$list,$chosen
	done
	chosen=${list#,}
}

any_size() {
	one_of 1 8 $((RANDOM % 1472 + 1)) 1472 1473 $((RANDOM % 8000 + 1)) $((RANDOM % 32768 + 1)) $((RANDOM * 2 % 65507 + 1)) 65507
	printf -v "$1" '%s' "$chosen"
}

options=()

choose() {
	local sizes graph driver link modes threads handoffs first second
	any_size first
	any_size second
	one_of "$first" "$first,$second"
	sizes=$chosen
	one_of "" "" -explicit -budget -reassembly -multihomed -two
	graph=graphs/udptest$chosen.dot
	one_of poll interrupt interrupt interrupt adaptive
	driver=$chosen
	one_of virtio virtio virtio virtio virtio memory ring
	link=$chosen
	[ "$link" != ring ] || driver=poll
	one_of regular ipp ipp regular,ipp
	modes=$chosen
	some_of 1 2 3 4
	threads=$chosen
	local thread_count=$number
	some_of none client server both
	handoffs=$chosen
	local handoff_count=$number
	one_of yes no
	[ "$chosen" = yes ] || handoff_count=0
	one_of 0,1 0,0 1,0
	[ "$(nproc)" -ge 2 ] || chosen=0,0
	local cores=$chosen
	one_of 20 100 300
	rounds=$chosen

	# a machine that is busy elsewhere is not a loss
	options=(--graph "$graph" --driver "$driver" --link "$link" --mode "$modes" --threads "$threads" --cores "$cores"
		--size "$sizes" --rounds "$rounds" --set udptest.timeout=5s)
	[ $handoff_count -eq 0 ] || options+=(--handoff "$handoffs")
	local ipp=$((handoff_count > 0 ? handoff_count : 1)) configurations=0
	case $modes in *regular*) configurations=$((configurations + thread_count)) ;; esac
	case $modes in *ipp*) configurations=$((configurations + thread_count * ipp)) ;; esac
	case $sizes in *,*) configurations=$((configurations * 2)) ;; esac
	runs_expected=$configurations
}

echo "# seed $seed, $seconds s"
while [ "$(milliseconds)" -lt $until ] && [ $failures -lt 10 ]; do
	choose
	count=$((count + 1))
	run 300 "$udptest" "${options[@]}" --json "$work/soak.json"
	if [ "$status" -ne 0 ]; then
		fail "$count: ${options[*]}" "status $status: $(tail -n 5 "$work/err")"
	else
		runs_are "$count: ${options[*]}" "$work/soak.json" "$rounds" "$runs_expected"
		round_trips=$((round_trips + rounds * runs_expected))
	fi
done
echo "# $count pairs, $round_trips counted round trips, seed $seed"
