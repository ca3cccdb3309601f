# shellcheck shell=bash
# common.sh - functions for the system tests. Each is run as `NAME.sh BUILD` and begins with
#     . "$(dirname "$0")/common.sh"
# It prints a line for each check, `ok NAME` or `FAIL NAME: why`, and exits 1 if one has failed. Sockets and files lie
# in the test's own directory, $work. At the end, the directory is removed and every process started by `spawn` killed.

[ $# -ge 1 ] || {
	echo "usage: $0 BUILD" >&2
	exit 2
}

# The sanitizers of gcc 12 find no room for their shadow memory if addresses are highly randomized.
if [ -z "${XK_SYSTEM_FIXED:-}" ] && setarch -R true 2>/dev/null; then
	XK_SYSTEM_FIXED=1 exec setarch -R "$0" "$@"
fi

set -u
export LC_ALL=C
# A status of its own, different from the program's.
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=0}:exitcode=99"
export LSAN_OPTIONS="${LSAN_OPTIONS:-suppressions=$(dirname "$(realpath "$0")")/../lsan.supp:print_suppressions=0}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}:exitcode=99"

# few_or MANY: prints MANY with --long, otherwise a fifth of it: for repetitions that mostly find faults early. On a busy
# machine, polling ends wait for their turn for each message.
few_or() {
	if [ "${XK_TEST_LONG:-0}" = 1 ]; then echo "$1"; else echo $((($1 + 4) / 5)); fi
}

build=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
udptest=$build/udptest
work=$(mktemp -d /tmp/xk-system-XXXXXX)
chmod 755 "$work"
export XDG_RUNTIME_DIR=$work/run
mkdir -m 700 "$XDG_RUNTIME_DIR"
cd "$root" || exit 1

failures=0
spawned=()
exec {never}<> <(:) # nothing is ever written to it

ok() {
	printf 'ok %s\n' "$1"
}

# fail NAME WHY: WHY is cut after 400 characters.
fail() {
	printf 'FAIL %s: %s\n' "$1" "${2:0:400}"
	failures=$((failures + 1))
}

# check NAME WHY COMMAND...: checks that the command succeeds.
check() {
	local name=$1 why=$2
	shift 2
	if "$@"; then ok "$name"; else fail "$name" "$why"; fi
}

# holds NAME WHAT EXPRESSION: checks an expression of h, the hosts' counts by name (missing ones are 0) in $work/NAME.json.
holds() {
	local why
	if why=$(python3 - "$work/$1.json" "$3" <<'END' 2>&1
import collections, json, sys

document = json.load(open(sys.argv[1]))
h = {name: collections.Counter({k: v for k, v in counts.items() if isinstance(v, int)})
     for name, counts in document["hosts"].items()}
if not eval(sys.argv[2], {"h": h, "sum": sum, "all": all}):
    sys.exit(str({name: {k: v for k, v in counts.items() if v and k in sys.argv[2]} for name, counts in h.items()})[:400])
END
	); then ok "$1: $2"; else fail "$1: $2" "$why"; fi
}

# simulated NETWORK UNTIL NAME OPTION...: runs the network in the simulator; its counts go to $work/NAME.json.
simulated() {
	local network=$1 until=$2 name=$3
	shift 3
	if limited 60 "$build/xk" run "$network" --link sim --until "$until" --quiet --json "$work/$name.json" "$@" \
		>"$work/$name.out" 2>"$work/$name.err"; then
		ok "$name: ran"
	else
		fail "$name: ran" "status $?: $(tail -n 3 "$work/$name.err")"
	fi
}

milliseconds() {
	local now=${EPOCHREALTIME/./}
	echo $((now / 1000))
}

# ---- processes -----------------------------------------------------------------------------------------------------

# spawn NAME COMMAND...: runs it in the background, as $pid; its output goes to $work/NAME.out and $work/NAME.err.
spawn() {
	local name=$1
	shift
	"$@" >"$work/$name.out" 2>"$work/$name.err" </dev/null &
	pid=$!
	spawned+=("$pid")
	# before the exec, a signal would hit the shell's copy
	within 10 is_on_its_own "$pid"
}

is_on_its_own() {
	local words ours
	{ mapfile -d '' words <"/proc/$1/cmdline" && mapfile -d '' ours <"/proc/$$/cmdline"; } 2>/dev/null
	gone "$1" || [ "${words[*]}" != "${ours[*]}" ]
}

# read_status PID: sets $state and $parent; both are empty if there is no such process. Starts no process, because it is
# called in polling loops.
read_status() {
	local line=
	{ IFS= read -r -d '' line <"/proc/$1/stat"; } 2>/dev/null
	line=${line##*) }
	state=${line:0:1}
	line=${line#? }
	parent=${line%% *}
}

runs() {
	local state parent
	read_status "$1"
	[[ $state == [!ZX] ]]
}

# children_of PID: prints each living child of the process.
children_of() {
	local directory state parent
	for directory in /proc/[0-9]*; do
		read_status "${directory#/proc/}"
		[[ $parent != "$1" || $state != [!ZX] ]] || echo "${directory#/proc/}"
	done
}

# end_of PID END: prints the child that is this end of the pair.
end_of() {
	local child
	for child in $(children_of "$1"); do
		if tr '\0' '\n' <"/proc/$child/cmdline" 2>/dev/null | grep -qx -- "--end=$2"; then
			echo "$child"
		fi
	done
}

# Limits are in seconds of each process's processor time on an idle machine. Limits by the clock, which depends on the load,
# are ten times as long.

# limited SECONDS COMMAND...: returns status 124 if it took too long by the clock, 152 if by processor time.
limited() (
	seconds=$1
	shift
	ulimit -S -t "$seconds"
	exec timeout -k 5 $((10 * seconds)) "$@"
)

# within SECONDS COMMAND...: repeats the command until it succeeds; fails if it does not in time.
within() {
	local until=$((${EPOCHREALTIME/./} + $1 * 10000000))
	shift
	while ! "$@"; do
		[ "${EPOCHREALTIME/./}" -lt "$until" ] || return 1
		read -r -t 0.02 -u "$never" || : # a sleep without a process
	done
}

gone() {
	! runs "$1"
}

# await_end PID SECONDS: waits for our process and sets $status; 124: it is still running.
await_end() {
	if within "$2" gone "$1"; then
		wait "$1" 2>/dev/null
		status=$?
	else
		status=124
	fi
}

# signal_taken: succeeds if no signal is pending for $pid.
signal_taken() {
	grep -q '^ShdPnd:	0*$' "/proc/$pid/status"
}

# ended_by_two NAME SIGNAL STATUS: the first signal leaves $pid as it is, the second ends it.
ended_by_two() {
	local name=$1 signal=$2
	kill -s "$signal" "$pid"
	within 20 signal_taken
	sleep 0.5 # two signals within 100 ms count as one
	check "$name: the first SIG$signal does not end it" "it did" runs "$pid"
	kill -s "$signal" "$pid"
	await_end "$pid" 20
	check "$name: the second SIG$signal does" "status $status" [ "$status" -eq "$3" ]
}

# printed FILE PATTERN: succeeds if $work/FILE contains PATTERN.
printed() {
	grep -qE -- "$2" "$work/$1" 2>/dev/null
}

# takes_signals PID: succeeds if the process already handles SIGTERM, which would otherwise just end it.
takes_signals() {
	awk '/^Sig(Blk|Cgt)/ { taken = taken substr($2, 13, 1) } END { exit taken !~ /[4567cdef]/ }' "/proc/$1/status" 2>/dev/null
}

# switches_of PID: prints the voluntary context switches of all its threads: with the interrupt driver, each message takes some.
switches_of() {
	cat "/proc/$1/task/"*/status 2>/dev/null | awk '/^voluntary/ { sum += $2 } END { print sum + 0 }'
}

is_busy() {
	[ "$(switches_of "$1")" -gt "$2" ]
}

# await_traffic PID: waits until messages pass through the process.
await_traffic() {
	within 30 is_busy "$1" $(($(switches_of "$1") + 300))
}

# serve [OPTION]...: starts a lone server and waits until it is ready, as $server; its messages are in $work/server.err.
serve() {
	spawn server "$udptest" --server "$@"
	server=$pid
	within 20 printed server.err 'serving at' || fail serve "no server: $(tail -n 3 "$work/server.err")"
}

# end_server: sends SIGTERM to the server and checks that it ends successfully.
end_server() {
	kill -TERM "$server"
	await_end "$server" 20
	[ "$status" -eq 0 ] || fail end_server "status $status: $(tail -n 3 "$work/server.err")"
}

# ---- output ----------------------------------------------------------------------------------------------------------

# is_clean FILE: succeeds if FILE has no report of a sanitizer.
is_clean() {
	! grep -E 'Sanitizer|runtime error|Assertion|assertion|were not returned' "$1" >&2
}

# run SECONDS COMMAND...: sets $status (124 or 152: it took too long); the output goes to $work/out and $work/err.
run() {
	limited "$@" >"$work/out" 2>"$work/err" </dev/null
	status=$?
	is_clean "$work/err" || fail "clean: ${*##*/}" "see above"
}

# expect NAME STATUS PATTERN COMMAND...: checks that it ends with this status and prints PATTERN on standard error ('':
# anything).
expect() {
	local name=$1 wanted=$2 pattern=$3
	shift 3
	run "${limit:-60}" "$@"
	if [ "$status" -ne "$wanted" ]; then
		fail "$name" "status $status instead of $wanted: $(tail -n 3 "$work/err")"
	elif [ -n "$pattern" ] && ! grep -qE -- "$pattern" "$work/err"; then
		fail "$name" "does not print '$pattern' but: $(tail -n 3 "$work/err")"
	else
		ok "$name"
	fi
}

# prints NAME PATTERN COMMAND...: checks that it succeeds and prints PATTERN.
prints() {
	local name=$1 pattern=$2
	shift 2
	limit=120 expect "$name" 0 '' "$@"
	check "$name: its output" "$(tail -n 3 "$work/out")" grep -qE -- "$pattern" "$work/out"
}

# runs_are NAME FILE ROUNDS RUNS [EXPRESSION]: checks a document of udptest (documents.py).
runs_are() {
	python3 "$root/tests/system/documents.py" runs "$@" || failures=$((failures + 1))
}

# calls_are NAME FILE ROUNDS RUNS [EXPRESSION]: the same for chantest.
calls_are() {
	python3 "$root/tests/system/documents.py" calls "$@" || failures=$((failures + 1))
}

# streams_are NAME FILE ROUNDS RUNS [EXPRESSION]: the same for tcptest.
streams_are() {
	python3 "$root/tests/system/documents.py" streams "$@" || failures=$((failures + 1))
}

# document NAME FILE EXPRESSION: checks an expression of a document (documents.py).
document() {
	python3 "$root/tests/system/documents.py" one "$@" || failures=$((failures + 1))
}

# ---- the end -----------------------------------------------------------------------------------------------------------

finish() {
	local process file left
	[ "$BASHPID" -eq $$ ] || return
	for process in "${spawned[@]}"; do
		if runs "$process"; then
			for left in $(children_of "$process") "$process"; do
				kill -KILL "$left" 2>/dev/null
			done
		fi
		wait "$process" 2>/dev/null
	done
	for file in "$work"/*.err; do
		[ ! -e "$file" ] || is_clean "$file" || fail "clean: ${file##*/}" "see above"
	done
	left=$(find "$XDG_RUNTIME_DIR" -mindepth 1 -name ccache-tmp -prune -o -mindepth 1 -print 2>/dev/null)
	[ -z "$left" ] || fail nothing_left "$left"
	rm -rf "$work"
	[ "$failures" -eq 0 ] || exit 1
	exit 0
}

trap finish EXIT
trap 'exit 143' TERM INT HUP
