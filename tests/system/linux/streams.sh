# shellcheck shell=bash
# streams.sh - long streams between our host and Linux over each kind of network, as medians of nine seeds (XK_TEST_SEEDS), beside
# Linux and Linux joined by our router. Sourced by linux_tcp.sh.
#
#     k0 (Linux's host, 10.88.0.1) --- x0 (ours, 10.88.0.2)
#     k0 (Linux's host, 10.88.0.1) --- x0 (our router) x2 --- p0 (Linux's host in `beyond`, 10.92.0.1)

seeds=${XK_TEST_SEEDS:-9}
table=$work/table
near_device=$our_device

# median SECONDS...
median() {
	printf '%s\n' "$@" | sort -n | sed -n "$((($# + 1) / 2))p"
}

# figure NAME BYTES SECONDS...: adds the median rate to the row, and the longest time to $longest_s; the median is at most 60 s, but
# for that between two of Linux's hosts, and its rate goes to $rate, in bytes per second.
figure() {
	local middle_s
	middle_s=$(median "${@:3}")
	rate=$(python3 -c "print(int($2 / $middle_s))")
	row+=("$(python3 -c "print('%.2f' % ($rate / 1e6))")")
	longest_s=$(printf '%s\n' "$longest_s" "${@:3}" | sort -n | tail -n 1)
	[ "${1% -}" != "$1" ] || check "$1: under 60 s" "$middle_s s" python3 -c "import sys; sys.exit($middle_s > 60)"
}

# to_us NAME FLOW SEED BYTES: Linux opens a stream. from_us: we do. Both add its seconds to the array `seconds`.
to_us() {
	stand "$faulty" "${options[@]}"
	run 200 "${stream[@]}" "$2" "$4"
	[ "$status" -eq 0 ] || fail "$1: Linux opens, $2, seed $3" "status $status: $(tail -n 2 "$work/err")"
	seconds+=("$(tail -n 1 "$work/out")")
	fall
}

from_us() {
	we_open "$2" "$4" "$faulty" "${options[@]}" --set tcp.trace=events --set tcptest.trace=events
	run 200 "${client[@]}"
	[ "$status" -eq 0 ] || fail "$1: we open, $2, seed $3" "status $status: $(tail -n 2 "$work/err")"
	seconds+=("$(awk '/ tcp: established/ { begun = $1 } / tcptest: finished/ { print $1 - begun }' "$work/err")")
}

# between_linux NAME - SEED BYTES: the same from one of Linux's hosts to the other.
between_linux() {
	local forwarder listener
	[ "$link" != tap ] || at "$beyond" ip link set p0 netns "$linux"
	spawn forwarder nsenter -t "$ours" -n "$xk" run "$here/forwarder.dot" --link "$link" --set port1.dev="$near_device" \
		--set port2.dev="$our_device" --set vnet.address=10.88.0.2/24 --set vnet.address2=10.92.0.2/24 "${options[@]}"
	forwarder=$pid
	within 30 printed forwarder.err 10.88.0.2 || fail reference "$(tail -n 3 "$work/forwarder.err")"
	[ "$link" != tap ] || at "$linux" ip link set p0 netns "$beyond"
	at "$beyond" ip link set p0 up
	at "$beyond" ip addr replace 10.92.0.1/24 dev p0
	at "$beyond" ip route replace 10.88.0.0/24 via 10.92.0.2
	spawn listener nsenter -t "$beyond" -n "$here/stream.py" server $port
	listener=$pid
	within 10 printed listener.out ready || fail reference "$(tail -n 3 "$work/listener.err")"
	run 200 nsenter -t "$linux" -n "$here/stream.py" client 10.92.0.1 $port send "$4"
	if [ "$status" -eq 0 ]; then
		seconds+=("$(tail -n 1 "$work/out")")
	else
		echo "# $1: Linux to Linux, seed $3: Linux gave up"
		seconds+=(200)
	fi
	kill -TERM "$listener" "$forwarder"
	await_end "$listener" 20
	await_end "$forwarder" 20
}

# streams NAME BYTES SETTING...: each way, with both as client, and between two of Linux's hosts; a network that never loses or
# reorders needs one seed. A row of the table; the rates of our streams go to the array `rates`.
streams() {
	local name=$1 count=$2 way flow seed seconds row longest_s=0 some=$seeds
	shift 2
	[ $# -gt 0 ] || some=1
	rates=()
	row=("$name" "$((count >> 10))" "$some")
	serve_linux
	for way in "to_us send" "to_us receive" "from_us send" "from_us receive" "between_linux -"; do
		flow=${way#* }
		seconds=()
		for ((seed = 1; seed <= some; seed++)); do
			with "$@" vdrop.seed=$seed
			${way% *} "$name" "$flow" "$seed" "$count"
		done
		figure "$name: $way" "$count" "${seconds[@]}"
		[ "$flow" = - ] || rates+=("$rate")
	done
	end_linux "$name"
	row+=("$longest_s")
	(IFS=, && echo "${row[*]}") >>"$table"
}

namespace beyond
first=$ours
cable "$([ "$link" = tap ] && echo "$linux" || echo "$beyond")" p0 x2
ours=$first
[ "$link" != tap ] || at "$linux" ip link set p0 netns "$beyond"
at "$linux" ip route add 10.92.0.0/24 via 10.88.0.2

echo "network,KiB,seeds,Linux sends,receives,we send,receive,Linux to Linux,longest s" >"$table"
streams "no loss" $((1 << 30))
streams "1 % lost" $((64 << 20)) vdrop.loss=1%
streams "5 % lost" $((8 << 20)) vdrop.loss=5%
streams "20 % lost" $((256 << 10)) vdrop.loss=20%
streams "in order" $((64 << 20)) vdrop.loss=0%
in_order=("${rates[@]}")
for overtake in 3 30; do
	streams "reordered by $overtake" $((64 << 20)) vdrop.reorder=1% vdrop.overtake=$overtake
	for i in "${!rates[@]}"; do
		check "reordered by $overtake: at least half of the rate in order" "${rates[i]} of ${in_order[i]} bytes per second" \
			[ $((2 * rates[i])) -ge "${in_order[i]}" ]
	done
done
# rates are medians in MB/s; who is named has opened the connection
column -t -s, "$table" | sed 's/^/# /'
our_device=$near_device
