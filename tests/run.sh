#!/bin/bash
# run.sh LONG - runs every test built by ./run test; LONG=1 adds valgrind and the long forms of the others. Run it from the
# checkout's root. The last line is `N passed, N failed`: CUnit's tests, and one for each other check.
set -u
export LC_ALL=C

long=${1:-0}
passed=0
failed=0
used=0 # seconds of processor time, total
failures=() # repeated at the end
logs=build/logs/tests
export ASAN_OPTIONS="detect_stack_use_after_return=0:strict_string_checks=1:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}"
export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0:${LSAN_OPTIONS:-}"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/tsan.supp:${TSAN_OPTIONS:-}"
export XK_TEST_LONG="$long"

# The sanitizers of gcc 12 find no room for their shadow memory if addresses are highly randomized.
fixed_addresses=
! setarch -R true 2>/dev/null || fixed_addresses='setarch -R'

# failed_with TEXT: records a failed test and its log's error lines, to repeat them at the end.
failed_with() {
	local why
	why=$(grep -aE '^ *(FAIL|Test: .*FAILED|[0-9]+\. .* - )|(ERROR|SUMMARY|WARNING|[Ee]rror): |[Aa]ssert' "$log" | head -n 5)
	[ -n "$why" ] || why=$(tail -n 5 "$log")
	failures+=("$1"$'\n'"$(printf '%s' "$why" | cut -c 1-300 | sed 's/^/    /')")
}

# report VERDICT SECONDS TEXT: SECONDS are elapsed and processor time.
report() {
	printf '%-7s %3s s, %3s used  %s\n' "$1" "${2% *}" "${2#* }" "$3"
}

# log_of NAME: prints the path of the test's log.
log_of() {
	printf '%s' "$logs/$(printf '%s' "$1" | tr ' /' '__').log"
}

# Use the system's Python: some checks need its packages, and wrapper scripts that select a version cost time on each of a
# thousand starts.
python=$logs/bin

# ---- several tests at a time ---------------------------------------------------------------------------------------------

# limit_of NAME: prints a test's limit in seconds of processor time for each of its processes: several times the usual.
# The limit by the clock is ten times as long, because machines may be busy, but at most an hour.
limit_of() {
	case $1 in
	'valgrind '* | soak*) echo 1800 ;;
	'mutation score' | 'mutants explored' | 'thread mutants') echo 7200 ;;
	'system soak' | 'system once') echo $((long ? 3600 : 300)) ;;
	'experiments report') echo 1800 ;;
	'docs' | 'swarm'* | 'system package') echo $((long ? 3600 : 600)) ;;
	'system '* | 'experiments '* | 'threads '* | 'cppcheck' | 'aarch64 '* | *'test_beside_attacks') echo 900 ;;
	*) echo $((long ? 1200 : 400)) ;;
	esac
}

# clock_limit_of NAME
clock_limit_of() {
	local limit=$((10 * $(limit_of "$1")))
	echo $((long || limit < 3600 ? limit : 3600))
}

# logged NAME COMMAND...: runs it; its output goes to NAME's log; its status, elapsed seconds and processor seconds go to
# the log's .status.
logged() {
	local started=$SECONDS status clock
	log=$(log_of "$1")
	ulimit -S -t "$(limit_of "$1")"
	clock=$(clock_limit_of "$1")
	shift
	timeout -k 10 "$clock" "$@" >"$log" 2>&1 </dev/null
	status=$?
	times >"$log.status"
	awk -v status="$status" -v took=$((SECONDS - started)) 'NR == 2 { split($1 $2, part, /[ms]/)
		printf "%d %d %.0f\n", status, took, 60 * (part[1] + part[3]) + part[2] + part[4] }' "$log.status" >"$log.used" &&
		mv "$log.used" "$log.status"
}

# status_of NAME STATUS: prints the status in words.
status_of() {
	case $2 in
	124 | 137) echo "status $2: not finished after $(clock_limit_of "$1") s" ;;
	152) echo "status $2: not finished after $(limit_of "$1") s of processor time" ;;
	*) echo "status $2" ;;
	esac
}

# judge_check NAME: one test, passed if its command succeeded.
judge_check() {
	log=$(log_of "$1")
	read -r status seconds <"$log.status"
	used=$((used + ${seconds#* }))
	if [ "$status" -eq 0 ]; then
		passed=$((passed + 1))
		report passed "$seconds" "$1"
	else
		failed=$((failed + 1))
		report FAILED "$seconds" "$1 ($(status_of "$1" "$status"); $log)"
		tail -n 30 "$log" | sed 's/^/    /'
		failed_with "$1 ($(status_of "$1" "$status"); $log)"
	fi
}

# cunit_summary LOG: prints the `tests` line of CUnit's summary as "PASSED FAILED".
cunit_summary() {
	awk '$1 == "tests" && NF >= 6 { result = $4 " " $5 } END { print result }' "$1"
}

# judge_cunit NAME: a program of CUnit tests, each counted. A program that ends without a summary counts as one failure.
judge_cunit() {
	log=$(log_of "$1")
	read -r status seconds <"$log.status"
	used=$((used + ${seconds#* }))
	summary=$(cunit_summary "$log")
	good=${summary% *}
	bad=${summary#* }
	if [ "$status" -ne 0 ] && [ "${bad:-0}" -eq 0 ]; then
		bad=$((${bad:-0} + 1))
	fi
	passed=$((passed + ${good:-0}))
	failed=$((failed + ${bad:-1}))
	if [ "${bad:-1}" -eq 0 ]; then
		report passed "$seconds" "$1 (${good:-0})"
	else
		report FAILED "$seconds" "$1 (${bad:-1} of $((${good:-0} + ${bad:-1})), $(status_of "$1" "$status"); $log)"
		grep -vE ' \.\.\.passed$|^ *$' "$log" | tail -n 40 | sed 's/^/    /'
		failed_with "$1 ($(status_of "$1" "$status"); $log)"
	fi
}

# Running tests by process: lane, kind of verdict, name.
declare -A running=()

# Two lanes of tests run side by side: programs that talk to each other and mostly wait, and tests that mostly compute, one
# process per core, so the cores stay busy. A finished lane leaves its place to the other. In each lane, the longest go first:
# what waits at the end leaves cores idle.
talking=()
computing=()
declare -A busy=([talking]=0 [computing]=0)
cores=$(nproc)
talking_most=$((cores + 1))

# settle: waits for a running test and reports its verdict.
settle() {
	local ended lane kind name
	wait -n -p ended "${!running[@]}"
	read -r lane kind name <<<"${running[$ended]}"
	unset "running[$ended]"
	busy[$lane]=$((busy[$lane] - 1))
	"judge_$kind" "$name"
}

# start LANE KIND NAME COMMAND...: runs the test in the background.
start() {
	local lane=$1 kind=$2
	shift 2
	logged "$@" &
	running[$!]="$lane $kind $1"
	busy[$lane]=$((busy[$lane] + 1))
}

# start_next LANE: starts the lane's next test, which is stored as shell text.
start_next() {
	local -n waiting=$1
	local words=${waiting[0]}
	waiting=("${waiting[@]:1}")
	eval "start $1 $words"
}

# run_all: runs all queued tests and reports their verdicts.
run_all() {
	while [ $((${#talking[@]} + ${#computing[@]} + ${#running[@]})) -gt 0 ]; do
		if [ ${#running[@]} -ge $((talking_most + cores)) ]; then
			settle
		elif [ ${#talking[@]} -gt 0 ] && { [ "${busy[talking]}" -lt "$talking_most" ] || [ ${#computing[@]} -eq 0 ]; }; then
			start_next talking
		elif [ ${#computing[@]} -gt 0 ]; then
			start_next computing
		else
			settle
		fi
	done
}

# begin KIND NAME COMMAND...: queues a test.
begin() {
	local words
	printf -v words '%q ' "$@"
	case $2 in
	'system grade') talking=("$words" "${talking[@]}") ;;
	*'test_paths_exhaustive' | *'test_siege' | 'swarm sanitized') computing=("$words" "${computing[@]}") ;;
	experiments* | system* | docs | card | bench* | 'threads udptest' | *'test_dpdk'*) talking+=("$words") ;;
	*) computing+=("$words") ;;
	esac
}

# check NAME COMMAND...
check() {
	begin check "$@"
}

# cunit NAME COMMAND...
cunit() {
	begin cunit "$@"
}

# unit SUITE BUILD FOLDERS COMMAND...: every tests/FOLDER/test_NAME.c, each run by COMMAND.
unit() {
	suite=$1
	directory=$2
	folders=$3
	shift 3
	for folder in $folders; do
		for source in tests/"$folder"/test_*.c; do
			[ -e "$source" ] || continue
			program=$(basename "$source" .c)
			cunit "$suite $folder/$program" "$@" "$directory/tests/$program"
		done
	done
}

# ---- the tests -----------------------------------------------------------------------------------------------------------

format() {
	clang-format --version | grep -qE 'version 14\.' || { echo "not clang-format 14: not checked"; return 0; }
	find xkernel protocols platform graphs tools tests experiments docs -name '*.[ch]' -print0 |
		xargs -0 clang-format --dry-run -Werror
}

# cpp_check_as DEFINITION FILE...
cpp_check_as() {
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr --std=c11 \
		--suppressions-list=tests/cppcheck.txt --library=posix -I . -I docs/labs/stream --template=gcc -DXK_HAVE_DPDK -D__x86_64__ \
		-D__GNUC__=12 "$@"
}

# Static checks beyond gcc's: for release builds, and for debug builds of files that differ there. tests/cppcheck.txt lists the
# exemptions and their reasons. The files of a directory are checked as one where their names permit that: most of the time
# goes to headers, which they share.
cpp_check() {
	local directory whole=$logs/cpp_check
	mkdir -p "$whole"
	for directory in $(find xkernel protocols platform graphs tools -name '*.c' -printf '%h\n' | sort -u); do
		printf '#include "%s"\n' "$directory"/*.c >"$whole/${directory//\//_}.c"
	done
	cpp_check_as -UXK_DEBUG "$whole" experiments docs || return
	# shellcheck disable=SC2046 # a list of words
	cpp_check_as -DXK_DEBUG $(grep -lrwE 'XK_DEBUG|XK_IS_DEBUG' --include='*.c' xkernel protocols platform graphs tools experiments docs)
}

# The stack switch of the other architecture, for which CUnit is not installed: tests/cross/ has what test.h needs.
cross_stack() {
	aarch64-linux-gnu-gcc -std=gnu11 -O2 -g -static -pthread -Wall -Wextra -Werror -Wno-unused-parameter \
		-fstack-clash-protection -I . -I tests/cross -o build/logs/tests/test_stack_aarch64 \
		tests/xkernel/test_stack.c tests/test_main.c xkernel/engine/stack.c xkernel/engine/switch_aarch64.S xkernel/base.c ||
		return
	# A fork of the emulator sometimes waits for ever, for a lock of its own that another of its threads had.
	for _ in 1 2 3; do
		timeout -k 5 60 qemu-aarch64 build/logs/tests/test_stack_aarch64 >"$logs/stack_aarch64.txt" 2>&1
		status=$?
		[ $status -eq 124 ] || break
	done
	cat "$logs/stack_aarch64.txt"
	return $status
}

# The swarm passes with sanitizers, and each seed gives the same run as without them: the hash of all runs is equal.
swarm_sanitized() {
	seeds=1-$((long ? 1000 : 150))
	# shellcheck disable=SC2086 # a command and its option, or nothing
	$fixed_addresses build/sanitize/tests/swarm/swarm --seeds "$seeds" | tee "$logs/swarm.txt"
	[ "${PIPESTATUS[0]}" -eq 0 ] || return
	build/tests/swarm/swarm --seeds "$seeds" | grep '^hash of all runs' >"$logs/swarm_hash.txt" &&
		grep -xFf "$logs/swarm_hash.txt" "$logs/swarm.txt"
}

# The framework, protocols, graphs and the simulator compile against musl.
musl() {
	musl-gcc -std=gnu11 -Wall -Wextra -Werror -Wno-unused-parameter -fsyntax-only -I . -I platform/compat -DXK_NO_SEM_CLOCKWAIT \
		xkernel/*.c xkernel/engine/*.c xkernel/support/*.c protocols/*.c protocols/*/*.c graphs/*.c platform/*.c platform/sim/*.c
}

# A simulated world runs the same on the other architecture, frame by frame.
cross_replay() {
	# shellcheck disable=SC2086 # a command and its option, or nothing
	aarch64-linux-gnu-gcc -std=gnu11 -O0 -static -pthread -Wall -Wextra -Werror -Wno-unused-parameter \
		-fno-strict-aliasing -fstack-clash-protection -I . -o build/logs/tests/replay_aarch64 tests/cross/replay.c \
		xkernel/*.c xkernel/engine/*.c xkernel/support/*.c xkernel/engine/switch_aarch64.S protocols/*.c protocols/*/*.c platform/sim/*.c platform/clock.c platform/lane.c &&
		qemu-aarch64 build/logs/tests/replay_aarch64 >build/logs/tests/replay_there &&
		$fixed_addresses build/sanitize/tests/replay >build/logs/tests/replay_here &&
		diff build/logs/tests/replay_here build/logs/tests/replay_there && cat build/logs/tests/replay_here
}

# A function of this file as a command: timeout cannot call functions.
if [ "${2:-}" = --only ]; then
	"$3"
	exit
fi

rm -rf "$logs"
mkdir -p "$python"
ln -s /usr/bin/python3 "$python/python3"
export PATH="$PWD/$python:$PATH"
# Hosts of debug builds record here which of their counters were not zero; tests/counters.py reads it at the end.
export XK_COUNTERS_FILE="$PWD/$logs/counters"

check "experiments report" /usr/bin/python3 tests/experiments/test_report.py build
check "experiments components" /usr/bin/python3 tests/experiments/test_components.py build
check "experiments userlevel" /usr/bin/python3 tests/experiments/test_userlevel.py build
check "experiments endpoints" /usr/bin/python3 tests/experiments/test_endpoints.py build
check "experiments scaling" /usr/bin/python3 tests/experiments/test_scaling.py build
check "experiments planted" /usr/bin/python3 tests/experiments/test_planted.py
check "experiments trends" /usr/bin/python3 tests/experiments/test_trends.py build
check "experiments failures" /usr/bin/python3 tests/experiments/test_failures.py build
check "experiments two machines" /usr/bin/python3 tests/experiments/test_two_machines.py build
# shellcheck disable=SC2086 # a command and its option, or nothing
check "docs" $fixed_addresses tests/docs/run.sh build/sanitize
for script in tests/system/*.sh; do
	[ -x "$script" ] || continue
	check "system $(basename "$script" .sh)" "$script" build/sanitize
done
check "threads udptest" tests/soak/threads.sh build/tsan
check "swarm mutants" build/mutated/build/tests/swarm/swarm --mutants --seeds 1-2000
check "clang-format" "$0" "$long" --only format
check "cppcheck" "$0" "$long" --only cpp_check
check "musl" "$0" "$long" --only musl
check "layers" tests/layers.py build
cunit "aarch64 xkernel/test_stack" "$0" "$long" --only cross_stack
check "aarch64 replay" "$0" "$long" --only cross_replay
# shellcheck disable=SC2086 # a command and its option, or nothing
{
	check "experiments ipp1994" $fixed_addresses tests/experiments/test_ipp1994.py build
	check "experiments overload" $fixed_addresses experiments/overload/sweep.py build --seconds 0.05 --loads 50,100,200
	unit sanitized build/sanitize 'xkernel protocols graphs platform tools experiments fuzz conformance' $fixed_addresses
	for example in adder asp seq tally; do
		cunit "sanitized docs/examples/test_$example" $fixed_addresses "build/sanitize/tests/example_test_$example"
	done
	for lab in mark sequence window fragment boot stream; do
		cunit "sanitized docs/labs/$lab" $fixed_addresses "build/sanitize/tests/lab_test_$lab"
	done
	unit threads build/tsan tools $fixed_addresses
	# The others have one thread, or use a rig, which has no thread of its own.
	for source in $(grep -lE 'XK_REGULAR|xk_thread_start|pthread' tests/xkernel/test_*.c tests/protocols/test_*.c); do
		name=$(basename "$source" .c)
		folder=$(basename "$(dirname "$source")")
		# A simulated network has one thread and takes long.
		[ "$name" = "${name%_net}" ] || [ "$long" -ne 0 ] || continue
		# Its other tests use no threads, and one sends 65,537 requests, which takes longer than all the rest.
		part=
		[ "$name" != test_icmptest ] || part=hosts_ping_each_other
		cunit "threads $folder/$name" $fixed_addresses build/tsan/tests/$name $part
	done
	for name in test_memory test_dpdk test_dpdk_lanes test_dpdk_virtio; do
		# Of the tests of links between two processes, those that send messages.
		part=
		[ "$name" != test_dpdk_virtio ] || [ "$long" -ne 0 ] ||
			part='client_sleeps_and_server_sleeps server_polls_and_client_sleeps chains lent_bytes bursts server_survives finds_the_next'
		cunit "threads platform/$name" $fixed_addresses build/tsan/tests/$name $part
	done
	cunit "threads platform/test_dpdk_links" $fixed_addresses build/tsan/tests/test_dpdk_links \
		$([ "$long" -ne 0 ] || echo memif)
}
if [ "$long" -ne 0 ]; then
	check "card" tests/card/run.sh build
	check "soak, simulated" build/tests/soak tests/soak/network.dot 100 1
	check "bench peers" experiments/peers/bench.sh "$PWD/build" 0
fi
# The same as among the sanitized tests, with the headers known at compile time and more variants.
cunit "optimized conformance/test_paths_exhaustive" build/tests/paths_exhaustive
check "mistakes" tests/mistakes/run.sh build
check "swarm" build/tests/swarm/swarm --seeds "1-$((long ? 20000 : 1000))"
check "swarm sanitized" "$0" "$long" --only swarm_sanitized
check "mutation" tests/mutation/test_mutate.py
if [ "$long" -ne 0 ]; then
	check "path mutants" tests/mutation/each.py build/mutated-paths tests/paths_exhaustive datagram call segment checksums
	check "tcp mutants" tests/mutation/each.py build/mutated-tcp tests/test_conformance tests/conformance/tcp tests/conformance/rfc* tests/conformance/attacks
	check "thread mutants" tests/mutation/each.py build/mutated-threads tests/test_tcp_threads
	check "mutation score" tests/mutation/score.py build/mutants 3600
	check "mutants explored" tests/mutation/explored.py build/mutated
fi
if [ "$long" -ne 0 ]; then
	# Finds uses of uninitialized memory, which AddressSanitizer does not. valgrind runs one thread at a time: one core
	# suffices, and threads that wait for others yield it.
	core=$(awk '/^Cpus_allowed_list/ { print $2 + 0 }' /proc/self/status)
	memcheck="taskset -c $core valgrind --quiet --error-exitcode=9 --leak-check=full --fair-sched=yes"
	memcheck="$memcheck --suppressions=tests/valgrind.supp"
	for folder in xkernel protocols graphs platform tools experiments; do
		for source in tests/$folder/test_*.c; do
			name=$(basename "$source" .c)
			case $name in
			test_pair | test_dpdk_lanes | test_dpdk_virtio | test_dpdk_links)
				report SKIPPED '0 0' "valgrind $folder/$name: it starts itself again, and would start valgrind"
				continue
				;;
			esac
			# shellcheck disable=SC2086 # a command and its options
			cunit "valgrind $folder/$name" $memcheck "build/plain/tests/$name"
		done
	done
	# shellcheck disable=SC2086
	check "valgrind udptest" $memcheck build/plain/udptest --link memory --cores "$core,$core" --rounds 20 --size 1,4000 \
		--threads 2 --handoff none,both --set udptest.timeout=20s
fi
run_all
check "counters" tests/counters.py build/sanitize/xk "$XK_COUNTERS_FILE"
run_all

for failure in "${failures[@]}"; do
	echo "FAILED: $failure"
done
echo "$SECONDS s, $used of processor time on $(nproc) cores"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
