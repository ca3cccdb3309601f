#!/bin/bash
# silence.sh BUILD - clients whose server is killed: they notice within the setting `silence`, and report it.
. "$(dirname "$0")/common.sh"
xk=$build/xk

# All long batches are damaged and only the short greetings between them arrive: this server does not count as silent.
spawn client-logp "$build/logp" --graph graphs/udptest-faults.dot --link memory --mode ipp --size 16 --rounds 3 --repeats 1 \
	--set vdrop.seed=1 --set vdrop.loss=4% --set udptest.silence=4s
lossy=$pid

# Each client notices soon after ten seconds of silence, even while it waits in calls, which last longer.
silent=()
for program in udptest chantest; do
	spawn "server-$program" "$build/$program" --server --set port.dev="$program"
	within 20 printed "server-$program.err" 'serving at' || fail "$program" "no server"
	silent+=("$pid")
	spawn "client-$program" "$build/$program" --client 10.77.0.2 --set port.dev="$program" --mode ipp --rounds 1000000000
	silent+=("$pid")
done
spawn server-icmptest "$xk" run graphs/icmptest.dot --set port.dev=icmptest
within 20 printed server-icmptest.err 'stands at' || fail icmptest "no host"
silent+=("$pid")
spawn client-icmptest "$build/icmptest" 10.77.0.2 --set port.dev=icmptest --count 0 --interval 10ms --quiet
silent+=("$pid")
for at in 1 3 5; do
	await_traffic "${silent[$at]}" || fail "a killed server" "there is no traffic"
	kill -KILL "${silent[$((at - 1))]}"
done
for at in 1 3; do
	await_end "${silent[$at]}" 19
	check "a client of a killed server ends (${at})" "status $status" [ "$status" -eq 1 ]
done
for program in udptest chantest icmptest; do
	check "$program reports that its server is gone" "$(tail -n 3 "$work/client-$program.err")" \
		within 19 printed "client-$program.err" '10\.77\.0\.2 has not answered.*end of the link is gone'
done
kill -INT "$pid"
await_end "$pid" 20
check "... and continues until it is ended" "status $status" [ "$status" -eq 0 ]
kill -INT "$lossy"
await_end "$lossy" 20
check "logp does not report a server silent that answers greetings" "$(tail -n 3 "$work/client-logp.err")" \
	[ "$(grep -c 'has not answered' "$work/client-logp.err")" -eq 0 ]
rm -f "$XDG_RUNTIME_DIR"/*.sock # left by killed servers
