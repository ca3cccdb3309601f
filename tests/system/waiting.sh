#!/bin/bash
# waiting.sh BUILD - debug builds report a message that may wait for ever, a lock held across the interface, and the use of
# what a type does not declare, where it happens, with host and protocol. tests/mistakes/run.sh tests other builds.
. "$(dirname "$0")/common.sh"
xk=$build/tests/xk_mistake
net=tests/mistakes/net.dot

# refused MISTAKE PATTERN: the server makes it.
refused() {
	expect "$1" 134 "$2" "$xk" run "$net" --link sim --quiet --until 2s --set "server.mistake.makes=$1"
}

refused waits_forever 'a wait that may not end: host "server", protocol "mistake" waits, crossing "udp" -> "mistake" upward.*mistake_pop.*may never be signalled [(]XK_FOREVER[)]'
refused locked_push 'a lock is held for too long: host "server", protocol "mistake" pushes a message, crossing "udptest" -> "mistake", in its operation push.*, and holds the lock of protocol "mistake"'
refused locked_wait 'a lock is held for too long: host "server", protocol "mistake" waits, .*, and holds the lock of protocol "mistake"'
refused locked_end 'a lock is held for too long: host "server": a message has ended and left the lock of protocol "mistake" taken'
refused undeclared_header 'host "server", protocol "mistake" pushes a header of 4 bytes, and its `header` has 0'
refused undeclared_counter 'host "server", protocol "mistake" counts its counter 1 [(]from 0[)], and `counters` has 0'
refused undeclared_drop 'host "server", protocol "mistake" drops a message for reason [0-9]*: its own begin at XK_DROP_OWN, [0-9]*, and `drops` has 2'
refused unnamed_drop 'host "server", protocol "mistake" drops a message for reason 0: its own begin at XK_DROP_OWN'
expect "a wait that ends" 0 '' "$xk" run "$net" --link sim --quiet --until 2s --set server.mistake.makes=waits_long
