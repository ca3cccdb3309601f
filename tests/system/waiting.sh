#!/bin/bash
# waiting.sh BUILD - debug builds report, with place, host and protocol: waits that may never end, locks held across the
# interface, use of another protocol's session, of freed messages and of things that a type does not declare.
# tests/mistakes/run.sh tests other builds.
. "$(dirname "$0")/common.sh"
xk=$build/tests/xk_mistake
net=tests/mistakes/net.dot

# refused MISTAKE PATTERN: the server makes the mistake and aborts with this report.
refused() {
	expect "$1" 134 "$2" "$xk" run "$net" --link sim --quiet --until 2s --set "server.mistake.makes=$1"
}

refused waits_forever 'a wait that may not end: host "server", protocol "mistake" waits, crossing "udp" -> "mistake" upward.*mistake_pop.*may never be signalled [(]XK_FOREVER[)]'
refused locked_push 'a lock is held for too long: host "server", protocol "mistake" pushes a message, crossing "udptest" -> "mistake", in its operation push.*, and holds the lock of protocol "mistake"'
refused locked_wait 'a lock is held for too long: host "server", protocol "mistake" waits, .*, and holds the lock of protocol "mistake"'
refused locked_end 'a lock is held for too long: host "server": a message has ended and left the lock of protocol "mistake" taken'
refused unlocks 'a lock that is not held is released: host "server", protocol "mistake" unlocks, crossing "udp" -> "mistake" upward.*the lock belongs to protocol "mistake"'
refused delivers_below 'protocol "mistake" delivers a message to itself: it has given xk_demux the session of "udp" below instead of its own [(]mistake_pop'
refused pops_below 'protocol "mistake" pops a message at a session of "udp": xk_pop takes a session of the protocol that has the message [(]mistake_pop'
refused pushes_on_its_own 'protocol "mistake" pushes a message to itself: it has given xk_push its own session instead of the one below [(]mistake_push'
refused undeclared_header 'host "server", protocol "mistake" pushes a header of 4 bytes, but its `header` has 0'
refused undeclared_counter 'host "server", protocol "mistake" counts its counter 1 [(]from 0[)], but `counters` has 0'
refused undeclared_drop 'host "server", protocol "mistake" drops a message for reason [0-9]*: its own begin at XK_DROP_OWN, [0-9]*, but `drops` has 2'
refused unnamed_drop 'host "server", protocol "mistake" drops a message for reason 0: its own begin at XK_DROP_OWN'
expect "a wait that ends" 0 '' "$xk" run "$net" --link sim --quiet --until 2s --set server.mistake.makes=waits_long

# In DPDK's memory, which the sanitizers do not track.
if "$xk" --version | grep -q 'without DPDK'; then
	ok "freed messages that are touched (not tried: this build has no DPDK)"
else
	while read -r makes what; do
		expect "$makes" 134 "protocol \"mistake\" $what a message that it has already freed.*it was freed in mistake_pop" \
			"$build/tests/udptest_mistake" --graph tests/mistakes/mistake.dot --link ring --mode ipp --rounds 20 \
			--set "server:mistake.makes=$makes"
	done <<'END'
freed_and_measured reads the length of
freed_and_cut cuts
END
fi
