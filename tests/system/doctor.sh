#!/bin/bash
# doctor.sh BUILD - `xk doctor`: its reports on links are true, each missing thing comes with a command, and nothing is
# changed.
. "$(dirname "$0")/common.sh"
xk=$build/xk

# Readable by another user.
cp "$root/tests/lsan.supp" "$work/lsan"
chmod 644 "$work/lsan"
export LSAN_OPTIONS=suppressions=$work/lsan:print_suppressions=0

# Lists what `xk doctor` might leave behind.
surroundings() {
	ls -a "$XDG_RUNTIME_DIR" /sys/class/net /run/netns /var/run/dpdk /var/run/dpdk/rte 2>&1
	cat /proc/sys/vm/nr_hugepages /proc/sys/vm/max_map_count
	lsmod 2>/dev/null | awk '{ print $1 }'
}

surroundings >"$work/before"
expect "xk doctor" 0 '' "$xk" doctor --json "$work/doctor.json"
surroundings >"$work/after"
check "nothing is changed" "$(diff "$work/before" "$work/after")" cmp -s "$work/before" "$work/after"
check "the link of the demo works" "$(cat "$work/out")" grep -qE '^  virtio +yes +yes ' "$work/out"
check "... which its last line reports" "$(tail -n 1 "$work/out")" grep -q '^virtio, the default link, works' "$work/out"
document "its document" "$work/doctor.json" '(d["works"] is True and d["links"]["virtio"]["state"] == "good"
	and set(d["links"]) == {"virtio", "memif", "ring", "tap", "af_packet", "af_xdp", "PCI address", "memory", "sim"}
	and d["links"]["virtio"]["sleeps"] and not d["links"]["memif"]["sleeps"]
	and all(f["text"] for group in ("links", "checks", "programs") for f in d[group].values())
	and "tshark" in d["programs"] and "DPDK" in d["checks"])'

cp "$work/out" "$work/doctor"

# state_of LINK: prints good, could_be_better or missing.
state_of() {
	python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["links"][sys.argv[2]]["state"])' \
		"$work/doctor.json" "$1"
}

# Links that it calls good work, and links that it calls missing do not.
for link in virtio memif ring tap af_packet af_xdp memory; do
	said=$(state_of $link)
	run 40 "$build/icmptest" --link $link --count 3 --interval 5ms
	if [ "$said" = missing ]; then
		echo "SKIPPED: $link does not work here: $(grep -E "^  $link " "$work/doctor")"
		check "$link, which is missing" "it works" [ "$status" -ne 0 ]
	else
		check "$link, which is $said" "status $status: $(tail -n 3 "$work/err")" [ "$status" -eq 0 ]
	fi
done

# ---- missing things ------------------------------------------------------------------------------------------------------

# shellcheck disable=SC2016 # for the inner shell
expect "few descriptors: virtio does not work" 1 '' bash -c 'ulimit -n 40; exec "$@"' few "$xk" doctor
check "... which it reports" "$(cat "$work/out")" grep -qE '^  virtio +NO .*may open 40 files' "$work/out"
check "... with the command" "$(cat "$work/out")" grep -q -- '-> ulimit -n 1024' "$work/out"
check "... and what works instead" "$(tail -n 2 "$work/out")" grep -q 'virtio, the default link, does not work' "$work/out"
# shellcheck disable=SC2016
run 60 bash -c 'ulimit -n 40; exec "$@"' few "$xk" doctor --json -
check "--json - has standard output for itself" "$(head -n 2 "$work/out")" \
	python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["works"] is False' "$work/out"

if [ "$(id -u)" -eq 0 ] && command -v setpriv >/dev/null; then
	mkdir -m 700 "$work/nobody"
	chown 65534:65534 "$work/nobody"
	cp "$xk" "$work/xk"
	expect "an unprivileged user" 0 '' env XDG_RUNTIME_DIR="$work/nobody" \
		setpriv --reuid=65534 --regid=65534 --clear-groups "$work/xk" doctor
	check "... has the link of the demo" "$(cat "$work/out")" grep -qE '^  virtio +yes ' "$work/out"
	check "... and reports the commands for the others" "$(cat "$work/out")" grep -q 'sudo setcap cap_net_raw+ep' "$work/out"
	check "... and nothing is left" "$(ls -A "$work/nobody")" rmdir "$work/nobody"
else
	echo "SKIPPED: this user cannot become another: an unprivileged user's report is not tested"
fi

if unshare -m umount -l /sys 2>/dev/null; then
	# shellcheck disable=SC2016 # for the inner shell
	expect "no /sys" 1 '' unshare -m sh -c 'umount -l /sys; exec "$0" doctor' "$xk"
	check "... without which ring does not work" "$(cat "$work/out")" grep -qE '^  ring +NO .*mount -t sysfs' "$work/out"
	check "... nor is the clock known" "$(cat "$work/out")" grep -q "the system's is unknown," "$work/out"
else
	echo "SKIPPED: /sys cannot be unmounted: a report without it is not tested"
fi

# ---- misuse --------------------------------------------------------------------------------------------------------------

expect "an operand" 2 'nothing else is expected' "$xk" doctor virtio
expect "an option that is not there" 2 'no option --fix' "$xk" doctor --fix
expect "a file that cannot be written" 1 'cannot be written' "$xk" doctor --json /nowhere/file
