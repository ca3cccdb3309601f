# shellcheck shell=bash
# host.sh - our host beside Linux's. Sourced after networks.sh; the caller makes the namespaces `linux` and `ours`, and in the
# latter the device x0.

here=$root/tests/system/linux
xk=$build/xk
kernel_host=10.88.0.1
our_host=10.88.0.2
alone=(--link af_packet --set port.dev=x0 --set "vnet.address=$our_host/24")

# stand GRAPH [OPTION]...: starts our host and waits until it is up, as $host; its messages are in $work/host.err.
stand() {
	spawn host nsenter -t "$ours" -n "$xk" run "$1" "${alone[@]}" --json "$work/host.json" "${@:2}"
	host=$pid
	within 30 printed host.err "$our_host" || fail stand "our host is not up: $(tail -n 3 "$work/host.err")"
}

# fall: ends it.
fall() {
	kill -TERM "$host"
	await_end "$host" 30
	[ "$status" -eq 0 ] || fail fall "status $status: $(tail -n 3 "$work/host.err")"
}
