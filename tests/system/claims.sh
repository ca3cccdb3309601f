#!/bin/bash
# claims.sh BUILD - other users cannot take a host's names before it starts, and cannot connect to the sockets on which it
# waits for its peer, whatever the umask.
. "$(dirname "$0")/common.sh"

if [ "$(id -u)" -ne 0 ] || ! command -v setpriv >/dev/null; then
	ok "other users (not tried: not root)"
	exit 0
fi
# Runs itself in its own network namespace, which has its own interfaces and abstract socket names.
if [ "${2:-}" != inside ] && unshare -n ip link add claimed type veth peer name other 2>/dev/null; then
	unshare -n sh -c 'ip link add claimed type veth peer name other && ip link set claimed up && ip link set other up && exec "$@"' sh \
		"$0" "$build" inside || failures=1
	exit
fi
nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
open=$work/open
mkdir -m 755 "$open"

# As another user, binds and keeps the abstract socket names for an interface and for the ends of the sockets.
spawn taker "${nobody[@]}" /usr/bin/python3 -c '
import socket, sys, time
def number(text):
    value = 0xcbf29ce484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001b3 % (1 << 64)
    return "%016x" % value
names = ["xk-interface-claimed"]
for path in sys.argv[1:]:
    names += ["xk-%s-%s" % (end, number(path)) for end in ("server", "client", "lanes-1")]
kept = []
for name in names:
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    kept[-1].bind("\0" + name)
print("taken", flush=True)
time.sleep(600)' "$open/virtio.sock" "$open/memif.sock"
within 20 printed taker.out taken || fail taker "$(cat "$work/taker.err")"

# As another user, keeps trying to connect and reports each success.
spawn stranger "${nobody[@]}" /usr/bin/python3 -c '
import socket, sys, time
kinds = {sys.argv[1]: socket.SOCK_STREAM, sys.argv[2]: socket.SOCK_SEQPACKET}
print("tries", flush=True)
while True:
    for path, kind in kinds.items():
        try:
            with socket.socket(socket.AF_UNIX, kind) as stranger:
                stranger.connect(path)
            print("connected to", path, flush=True)
        except OSError:
            pass
        time.sleep(0.001)' "$open/virtio.sock" "$open/memif.sock"
within 20 printed stranger.out tries || fail stranger "$(cat "$work/stranger.err")"

umask 0
for link in virtio memif; do
	spawn "$link" "$udptest" --server --link $link --set "port.dev=$open/$link.sock"
	server=$pid
	within 20 printed $link.err 'serving at'
	check "$link: a server whose name another user has taken" "$(tail -n 3 "$work/$link.err")" printed $link.err 'serving at'
	check "$link: only this user may connect" "$(stat -c %a "$open/$link.sock")" \
		[ "$(stat -c %a "$open/$link.sock" 2>/dev/null)" = 600 ]
	spawn "second-$link" "$udptest" --server --link $link --set "port.dev=$open/$link.sock"
	await_end "$pid" 20
	check "$link: a second server is refused" "status $status" \
		printed "second-$link.err" "another server has $open/$link.sock"
	if unshare -m mount -t tmpfs none "$open" 2>/dev/null; then
		spawn "elsewhere-$link" unshare -m sh -c 'mount -t tmpfs none "$0" && exec "$@"' "$open" \
			"$udptest" --server --link $link --set "port.dev=$open/$link.sock"
		elsewhere=$pid
		check "$link: ... but not where its directory is another one" "$(tail -n 3 "$work/elsewhere-$link.err")" \
			within 20 printed "elsewhere-$link.err" 'serving at'
		kill -TERM "$elsewhere"
		await_end "$elsewhere" 20
	fi
	expect "$link: a client" 0 '' "$udptest" --client 10.77.0.2 --link $link --rounds 10 --set "port.dev=$open/$link.sock"
	kill -TERM "$server"
	await_end "$server" 20
	check "$link: it ends" "status $status" [ "$status" -eq 0 ]
done
umask 022
check "no other user has ever connected" "$(cat "$work/stranger.out")" [ "$(wc -l <"$work/stranger.out")" -eq 1 ]

# The same for a network interface.
if [ "${2:-}" != inside ]; then
	ok "an interface (not tried: no right to make one)"
else
	spawn interface "$udptest" --server --link af_packet --set port.dev=claimed
	server=$pid
	within 20 printed interface.err 'serving at'
	check "an interface whose name another user has taken" "$(tail -n 3 "$work/interface.err")" \
		printed interface.err 'serving at'
	expect "... has one host, whatever its environment" 1 'another program of this kind uses claimed' \
		env -u XDG_RUNTIME_DIR "$udptest" --server --link af_packet --set port.dev=claimed
	spawn elsewhere unshare -n sh -c 'ip link add claimed type veth peer name other && ip link set claimed up && exec "$@"' sh \
		"$udptest" --server --link af_packet --set port.dev=claimed
	elsewhere=$pid
	check "... in each network namespace" "$(tail -n 3 "$work/elsewhere.err")" \
		within 20 printed elsewhere.err 'serving at'
	kill -TERM "$elsewhere"
	await_end "$elsewhere" 20
	kill -KILL "$server"
	wait "$server" 2>/dev/null
	spawn again "$udptest" --server --link af_packet --set port.dev=claimed
	server=$pid
	check "... and another when it was killed" "$(tail -n 3 "$work/again.err")" within 20 printed again.err 'serving at'
	kill -TERM "$server"
	await_end "$server" 20
fi
