#!/bin/bash
# crowd.sh BUILD - many clients of one server of the RPC stack all reboot (experiments/crowd), a few at a time and all at
# once; then they stay silent until the server queries all of them. Many TCP connections are opened and used.
. "$(dirname "$0")/common.sh"

# crowd NAME OPTION...: checks that every call is run once and nothing is dropped.
crowd() {
	local name=$1
	shift
	if limited 100 "$build/experiments/crowd/crowd" "$@" >"$work/$name.out" 2>"$work/$name.err"; then
		ok "$name: every call is run once"
	else
		fail "$name: every call is run once" "status $?: $(tail -n 3 "$work/$name.err")"
	fi
	check "$name: nothing is dropped" "$(grep dropped "$work/$name.out")" [ -z "$(grep dropped "$work/$name.out")" ]
}

crowd few --clients 500
crowd all --clients 2000 --window 2000
crowd long --clients 500 --calls 2 --rest 50

asked=$(awk '$1 == "bidctl.keepalives" { print $2 }' "$work/long.out")
check "long: silent clients are queried" "${asked:-0} were" [ "${asked:-0}" -ge 500 ]

if limited 100 "$build/experiments/crowd/connections" --connections 20000 >"$work/connections.out" 2>&1; then
	ok "connections: all are opened, and used"
else
	fail "connections: all are opened, and used" "status $?: $(tail -n 3 "$work/connections.out")"
fi

[ "$failures" -eq 0 ]
