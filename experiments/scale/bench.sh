#!/bin/sh
# bench.sh BUILD CORE - the simulator at scale: frames delivered per second on one core, and memory per host.
# From the checkout's root.
set -eu
export LC_ALL=C

build=$1
core=$2
network=experiments/scale/scale.dot

# of HOSTS: prints "FRAMES_PER_SECOND KIB".
of() {
	taskset -c "$core" "$build/xk" bench sim "$network" --set "host.count=$1" \
		--set "host.traffic.peers=10.0.0.1-10.0.$(($1 / 256)).$(($1 % 256))" --warm 1500ms --for 500ms |
		sed -n 's/.* delivered, \([0-9]*\) a second; \([0-9]*\) KiB.*/\1 \2/p'
}

few=$(of 100)
many=$(of 1000)
printf 'The simulator, %s: each host sends 1,000 datagrams a virtual second.\n\n' "$network"
printf '  %-46s %10s %10s\n' '' 'hosts 100' '1000'
printf '  %-46s %10s %10s\n' 'frames delivered a second, one core' "${few% *}" "${many% *}"
printf '  %-46s %10s %10s\n' 'resident, KiB' "${few#* }" "${many#* }"
printf '  %-46s %21s\n' 'resident for a host, KiB (slope)' \
	"$(awk -v few="${few#* }" -v many="${many#* }" 'BEGIN { printf "%.1f", (many - few) / 900 }')"
