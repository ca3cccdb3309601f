#!/bin/bash
# limits.sh BUILD - under each limit of a process (ulimit), every program works or names the limit: no crash, no hang, no bare
# errno text. --long sweeps all values over all programs.
. "$(dirname "$0")/common.sh"

# Sanitizers need terabytes of address space, so the programs of the parent build are used if it exists.
programs=$build
[ ! -x "$build/../udptest" ] || programs=$(realpath "$build/..")
bare='(Too many open files|Cannot allocate memory|Resource temporarily unavailable|File too large|Invalid argument|not permitted)$'

# fault: prints what is wrong with the last run's status or error message, if anything.
fault() {
	if [ "$status" -gt 2 ]; then
		echo "status $status"
	elif grep -qE -- "$bare" "$work/err"; then
		echo "an error without a remedy"
	elif [ "$status" -ne 0 ] && ! grep -qE 'ulimit|error while loading shared libraries' "$work/err"; then
		echo "status $status without naming the limit"
	fi
}

# under FLAG VALUE COMMAND...: runs it with the limit, as user $user if set. The test's own output must not be a file.
under() {
	local flag=$1 value=$2 why name
	shift 2
	# shellcheck disable=SC2016 # for the inner shell
	run 60 bash -c '(ulimit "$0" "$1" && shift && exec "$@") 2>&1 >/dev/null | cat >&2; exit ${PIPESTATUS[0]}' "$flag" "$value" \
		${user:+setpriv --reuid="$user" --regid="$user" --clear-groups env -u XDG_RUNTIME_DIR} "$@"
	why=$(fault)
	name="ulimit $flag $value, ${*##*/}"
	if [ -z "$why" ] || { [ "$status" -eq 127 ] && grep -q 'loading shared libraries' "$work/err"; }; then
		ok "$name: status $status"
	else
		fail "$name" "$why: $(tail -n 4 "$work/err")"
	fi
}

# names FLAG VALUE PATTERN COMMAND...: checks that it fails and prints PATTERN.
names() {
	local pattern=$3
	under "$1" "$2" "${@:4}"
	check "... fails" "status $status" [ "$status" -eq 1 ]
	check "... prints '$pattern'" "$(tail -n 4 "$work/err")" grep -qE -- "$pattern" "$work/err"
}

pair=("$programs/udptest" --rounds 20 --mode ipp)
here=("$programs/udptest" --rounds 20 --mode ipp --link memory)
host=("$programs/xk" run graphs/host.dot --link memif --until 10ms)

names -n 32 'may open 32 files and needs 64' "${pair[@]}"
names -n 10 'ulimit -n' "${pair[@]}"
names -n 5 'ulimit -n' "${here[@]}"
names -n 5 'ulimit -n' "$programs/xk" draw graphs/udptest.dot -o "$work/udptest.svg"
for link in virtio memif; do
	names -f 1 'may write files of 1 KiB, but shared memory is a file of [0-9]+ MiB: see .ulimit -f' "${pair[@]}" --link $link
done
under -f 1 "${pair[@]}" --link ring
names -s 128 'a stack may have 128 KiB, but 512 are needed' "${here[@]}"
names -s 128 'a stack may have' "$programs/xk" check graphs/udptest.dot
if [ "$programs" = "$build" ]; then
	ok "address space (not tried: only a sanitized build is here)"
else
	under -v 24000 "${host[@]}"
	names -v 60000 'ulimit -v' "${host[@]}"
	under -v 17000 "$programs/xk" bench echo --rounds 100
fi
# shellcheck disable=SC2016 # for the inner shell
expect "processor time" 152 'processor time is used up: .ulimit -t' bash -c 'ulimit -S -t 1; exec "$@"' time \
	"${here[@]}" --driver poll --rounds 1000000000
user=$((100000 + $$)) # an unused user: the limit covers all processes of a user
if [ "$(id -u)" -ne 0 ] || ! setpriv --reuid=$user --regid=$user --clear-groups test -x "$programs/udptest"; then
	ok "threads (not tried: it takes root to be another user, who can read the build)"
else
	names -u 3 'cannot be started: .*ulimit -u' "${pair[@]}"
	names -u 8 'limited to 8 threads and processes by .ulimit -u|driver cannot be started: .*ulimit -u' "${pair[@]}"
fi
user=

# An XDP socket is found among any number of descriptors.
xdp=("${pair[@]}" --link af_xdp --driver interrupt)
run 60 "${xdp[@]}"
if [ "$status" -ne 0 ] || [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt 6000 ]; then
	ok "XDP sockets (not tried: it takes root, and ulimit -n 6000)"
else
	# shellcheck disable=SC2016 # for the inner shell
	expect "an XDP socket among 5000 files" 0 '' bash -c 'for ((fd = 20; fd < 5000; fd++)); do eval "exec $fd</dev/null"; done
		"$@"' many "${xdp[@]}"
fi

# ---- environment ----------------------------------------------------------------------------------------------------------

# without NAME PREPARE PATTERN COMMAND...: checks that it fails in its own mount namespace after PREPARE.
without() {
	local name=$1 prepare=$2 pattern=$3
	shift 3
	expect "$name" 1 "$pattern" unshare -m sh -c "$prepare"' && exec "$@"' without "$@"
}

# shellcheck disable=SC2016 # for the inner shell
for command in "${pair[*]}" "$programs/udptest --rounds 20 --link sim" "$programs/xk check graphs/udptest.dot"; do
	expect "${command##*/}, its output closed" 1 'standard output cannot be written: .*closed' sh -c "exec $command >&-"
done
mkdir "$work/gone"
# shellcheck disable=SC2016
expect "a deleted directory" 1 'working directory is gone' sh -c 'cd "$0" && rmdir "$0" && exec "$@"' "$work/gone" \
	"$programs/xk" run "$root/graphs/host.dot" --link memif --set port.dev=./x.sock --until 10ms
if ! unshare -m true 2>/dev/null; then
	ok "missing file systems (not tried: no mount namespace can be made)"
else
	without "no /sys" 'umount -l /sys' 'core_id is missing, .*: mount -t sysfs' "${pair[@]}"
	check "... and DPDK does not print its options" "$(wc -l <"$work/err") lines" [ "$(wc -l <"$work/err")" -le 3 ]
	without "no /proc" 'umount -l /proc' 'is /proc mounted' "${pair[@]}"
	without "no /proc, compiled" 'umount -l /proc' 'is /proc mounted' "$programs/udptest" --link sim --compiled --rounds 20
	without "nowhere to write" 'mount -t tmpfs -o ro none /tmp && unset XDG_RUNTIME_DIR' 'Read-only file system: use another' \
		"${pair[@]}"
fi

if [ "${XK_TEST_LONG:-0}" = 1 ]; then
	all=("udptest --rounds 20" "udptest --rounds 20 --mode ipp --link memif" "udptest --rounds 20 --link ring" "udptest --rounds 20 --link sim"
		"udptest --rounds 20 --link memory" "chantest --rounds 20" "icmptest --count 2 --interval 1ms" "logp --link sim"
		"xk check graphs/udptest.dot" "xk protocols udp" "xk run graphs/net/pair-ethernet10.dot --link sim --quiet"
		"xk run graphs/host.dot --until 10ms" "xk bench echo --rounds 100" "xk bench call --rounds 100" "xk bench message --rounds 100")
	sizes="17000 20000 24000 32000 48000 64000 96000 128000 160000 256000 1000000"
	[ "$programs" != "$build" ] || sizes=
	for command in "${all[@]}"; do
		for sweep in "-n 4 5 6 8 10 12 16 24 40 63 64" "-v $sizes" "-d $sizes" "-f 0 1 64 1000 100000" "-s 128 512 1024"; do
			for value in ${sweep#* }; do
				# shellcheck disable=SC2086 # a program and its options
				under "${sweep%% *}" "$value" $programs/$command
			done
		done
	done
fi
