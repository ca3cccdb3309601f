#!/bin/sh
# build.sh - builds the tests, and a user's protocols with their tests; sourced by ./run, which has info, die, quietly, configure and more.

# tests_of FOLDER...: prints these folders' test programs as paths in a build directory.
tests_of() {
	for folder; do
		for source in tests/"$folder"/test_*.c; do
			name=${source##*/}
			echo "tests/${name%.c}"
		done
	done
}

# threaded_tests: prints the tests of the framework and protocols with a second thread; the others have one, or use a rig, which has none.
threaded_tests() {
	grep -lE 'XK_REGULAR|xk_thread_start|pthread' tests/xkernel/test_*.c tests/protocols/test_*.c | sed 's|.*/|tests/|; s|\.c$||'
}

# Compiling takes a third of the time of ./run test, so optimization is low and debug information is limited to the line numbers
# that sanitizers' reports need. The swarm and the programs in build/ test code built with -O2.
sanitized='-Doptimization=1 -Ddebug=false -Dc_args=-g1 -Dxk_debug=true -Db_lundef=false'
# Flags for a file compiled without meson but linked with build/sanitize.
sanitized_flags='-DXK_DEBUG -fsanitize=address,undefined -fno-omit-frame-pointer'

# mutated TREE TESTS OPTION...: copies the tree with selectable small defects, set up in TREE/build; TESTS: true to build tests.
mutated() {
	directory=$1
	tests=$2
	shift 2
	quietly mutate tests/mutation/mutate.py tree --out "$directory" "$@"
	(cd "$directory" && mkdir -p build/logs && configure build "-Dtests=$tests" -Ddpdk=disabled -Ddebug=false -Doptimization=1 \
		-Dxk_debug=true -Dc_args='-DXK_MUTANTS -w')
}

# build_sanitized TARGET...: builds the targets (all, if none is named) with the address and undefined sanitizers. Without DPDK it only
# serves users' protocols, so the library is compiled in half the time with the address sanitizer alone.
build_sanitized() {
	options="$sanitized $strict -Ddpdk=auto -Db_sanitize=address,undefined"
	! is_sim || options="$sanitized $strict -Doptimization=0 -Ddpdk=disabled -Db_sanitize=address"
	# shellcheck disable=SC2086 # a list of options
	configure build/sanitize $options
	quietly build-sanitize "$(command -v ninja || command -v samu)" -C build/sanitize "$@"
}

# build_for_tests LONG: builds everything that tests/run.sh LONG runs.
build_for_tests() {
	build_sanitized
	# shellcheck disable=SC2086
	configure build/tsan $sanitized -Dwerror=true -Db_sanitize=thread
	# shellcheck disable=SC2046 # a list of words
	quietly build-tsan ninja -C build/tsan xk udptest chantest $(tests_of tools) $(threaded_tests) \
		tests/test_memory tests/test_dpdk tests/test_dpdk_lanes tests/test_dpdk_links tests/test_dpdk_virtio
	# shellcheck disable=SC2046 # a list of words
	quietly build-programs ninja -C build tests/swarm/swarm tests/paths_exhaustive tests/soak tests/xk_mistake tests/udptest_mistake $(printf "tests/xk_unended_%s " drops settings lowers fields values) tests/xk_lacks_open tests/xk_lacks_demux
	mutated build/mutated false --scenarios tests/mutation/scenarios.txt protocols/*.[ch] protocols/*/*.[ch] xkernel/support/virtual.c xkernel/support/alarm.c xkernel/support/ports.c xkernel/receive.h xkernel/engine/receive.c
	quietly build-mutated ninja -C build/mutated/build tests/swarm/swarm
	[ "$1" -eq 0 ] || {
		quietly build-mutated ninja -C build/mutated/build xk
		mutated build/mutants true --sample 200 xkernel/*.[ch] xkernel/engine/*.[ch] xkernel/support/*.[ch] protocols/*.[ch] protocols/*/*.[ch] graphs/*.[ch] platform/sim/*.[ch]
		quietly build-mutants ninja -C build/mutants/build
		mutated build/mutated-paths false --scenarios tests/mutation/paths.txt xkernel/path.h xkernel/upi.c xkernel/engine/path*.c
		quietly build-mutated-paths ninja -C build/mutated-paths/build tests/paths_exhaustive
		mutated build/mutated-tcp true --scenarios tests/mutation/tcp.txt protocols/tcp/*.[ch] protocols/ip/ip_fault.c xkernel/path.h xkernel/engine/path.c
		quietly build-mutated-tcp ninja -C build/mutated-tcp/build tests/test_conformance
		mutated build/mutated-threads true --scenarios tests/mutation/threads.txt protocols/tcp/*.[ch] xkernel/support/room.[ch]
		quietly build-mutated-threads ninja -C build/mutated-threads/build tests/test_tcp_threads
		configure build/plain -Dbuildtype=debugoptimized -Dxk_debug=true
		# shellcheck disable=SC2046
		quietly build-plain ninja -C build/plain udptest $(tests_of xkernel protocols graphs tools experiments platform)
	}
}

# failures LOG FILE: prints which tests of FILE failed, the output of each, and their names again. A test without a verdict has ended
# the program; a sanitizer's report after the last one is of leaks.
failures() {
	awk -v log_="$1" -v file="$2" '
	function settle() {
		count += name != "" && name != "leaks"
		if (name == "" || good)
			return
		failed += name != "leaks"
		names = names (names == "" ? "" : ", ") name
		said = said "  " name "\n" text
	}
	function begin(what) {
		settle()
		name = what
		good = lines = 0
		text = ""
	}
	/^  Test: / { begin($2); sub(/^  Test: [^ ]+ \.\.\./, "") }
	/^Run Summary:/ { begin("") }
	/ERROR: LeakSanitizer/ { begin("leaks") }
	/^passed$/ { good = 1 }
	/^ *[0-9]+\. .* - test_got == test_want$/ || /^(FAILED)?$/ || ++lines > 30 { next } # CHECK_EQ has printed the values
	{ sub(/^ *[0-9]+\. /, ""); text = text "    " $0 "\n" }
	END {
		settle()
		verdict = "failed: " failed + 0 " of " count " tests of " file (names == "" ? "" : ": " names)
		printf "run: %s\n%srun: %s (all of it: %s)\n", verdict, said, verdict, log_
	}' "$1" >&2
}

# build_with DIRECTORY: builds the programs with DIRECTORY's protocols, then builds its tests with sanitizers and runs them. The
# programs are linked with build/, the tests with build/sanitize.
build_with() {
	with=$(cd -- "$1" 2>/dev/null && pwd) || die "$1 is no directory"
	set --
	for source in "$with"/*.c; do
		case ${source##*/} in
		test_* | '*.c') ;;
		*) set -- "$@" --with "$source" ;;
		esac
	done
	[ $# -gt 0 ] || die "no C file besides tests is in $with"
	if is_sim; then
		build_sim
	else
		build
	fi
	rm -rf build-with
	mkdir build-with
	own="${XK_CFLAGS:-} ${CFLAGS:-}"
	warnings='-Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wshadow -Wno-unused-parameter'
	quietly build-with env "XK_CFLAGS=$warnings $own" build/xk compile "$@" -o build-with/xk
	for name in udptest chantest tcptest icmptest logp; do # hard links: the name selects the program, also when a pair starts itself
		ln build-with/xk "build-with/$name"
	done
	ls "$with"/test_*.c >/dev/null 2>&1 || return 0
	build_sanitized libxkernel.a tools/libtools.a tests/libtest_main.a tests/libtest_rig.a
	flags="-std=gnu11 -O1 -g1 -Wall $warnings -Wno-format-overflow $sanitized_flags $own"
	quietly build-with-tests env "XK_CFLAGS=$flags" build/xk compile "$@" -o build-with/protocols.o
	export ASAN_OPTIONS="detect_stack_use_after_return=0:strict_string_checks=1:${ASAN_OPTIONS:-}"
	export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:${UBSAN_OPTIONS:-}"
	all_passed=1
	for file in "$with"/test_*.c; do
		test=build-with/$(basename "$file" .c)
		# shellcheck disable=SC2086 # lists of words
		quietly build-with-test ${CC:-cc} $flags -fstack-clash-protection -fno-strict-aliasing -pthread -I. -o "$test" \
			"$file" build-with/protocols.o -Wl,--whole-archive build/sanitize/tests/libtest_main.a -Wl,--no-whole-archive \
			build/sanitize/tests/libtest_rig.a build/sanitize/tools/libtools.a build/sanitize/libxkernel.a -lcunit ${LDFLAGS:-}
		log=$PWD/build/logs/with_${test#build-with/}.log
		# shellcheck disable=SC2046 # two words or none
		if $(! setarch -R true 2>/dev/null || echo setarch -R) "$test" >"$log" 2>&1 </dev/null; then
			info "passed: $file"
		else
			failures "$log" "$file"
			all_passed=
		fi
	done
	[ -n "$all_passed" ] || exit 1
}
