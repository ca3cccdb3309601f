#!/usr/bin/env python3
"""web.py BUILD [PORT] - a host that a browser of this machine can watch: graphs/web.dot, with some traffic, at port PORT (8080) of
127.0.0.1, until ctrl-C.

The host is on a tap in a network namespace of its own, so nothing of this machine's network changes, and users other than root
need only be allowed to make user namespaces. A socket that was bound outside of the namespace accepts the browser's connections;
each is relayed to the host's own TCP.
"""
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

HOST, LINUX, DEVICE = "10.77.0.2", "10.77.0.1", "xkweb0"
ECHO_PORT, STREAM_PORT, CLOSED_PORT = 2001, 5001, 9
CONNECTIONS = 64
START_S = 30


def die(*lines):
    sys.exit("\n".join("web: " + line for line in lines))


def namespace():
    """Returns the command that runs another one in a namespace of its own."""
    command = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--net", "--"]
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode != 0:
        die("a network namespace cannot be made: run it as root, or allow user namespaces:",
            "sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=1000,",
            "and where AppArmor forbids them, kernel.apparmor_restrict_unprivileged_userns=0")
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        die("/dev/net/tun cannot be opened: load the module (modprobe tun), or pass the device to the container")
    return command


# ---- outside -------------------------------------------------------------------------------------------------------------

def outside(build, port):
    command = namespace()
    try:
        listener = socket.create_server(("127.0.0.1", port), backlog=CONNECTIONS)
    except OSError as error:
        die(f"port {port} of 127.0.0.1 cannot be used ({os.strerror(error.errno)}): ./run web PORT takes another")
    if "XDG_RUNTIME_DIR" not in os.environ: # inside, this user seems to be root, whose own directory is out of reach
        os.environ["XDG_RUNTIME_DIR"] = f"/tmp/xk-{os.geteuid()}"
        os.makedirs(os.environ["XDG_RUNTIME_DIR"], 0o700, exist_ok=True)
    os.set_inheritable(listener.fileno(), True)
    os.execvp(command[0], [*command, sys.executable, __file__, build, str(port), str(listener.fileno())])


# ---- inside: the relay ---------------------------------------------------------------------------------------------------

def copy(source, sink):
    try:
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)
    except OSError: # one of them is gone, and the other must not wait for it
        for stream in source, sink:
            try:
                stream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def serve(browser, places):
    try:
        with browser, socket.create_connection((HOST, 80), 10) as host:
            host.settimeout(None)
            back = threading.Thread(target=copy, args=(host, browser), daemon=True)
            back.start()
            copy(browser, host)
            back.join()
    except OSError:
        pass
    finally:
        places.release()


def relay(listener):
    places = threading.Semaphore(CONNECTIONS)
    while True:
        places.acquire()
        browser, _ = listener.accept()
        threading.Thread(target=serve, args=(browser, places), daemon=True).start()


# ---- inside: traffic -----------------------------------------------------------------------------------------------------

def echo_request(sequence):
    packet = struct.pack(">BBHHH", 8, 0, 0, os.getpid() & 0xffff, sequence & 0xffff) + bytes(56)
    total = sum(struct.unpack(f">{len(packet) // 2}H", packet))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return packet[:2] + struct.pack(">H", ~total & 0xffff) + packet[4:]


def messages():
    """Datagrams that come back, some to a port where nobody listens, and pings."""
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    number = 0
    while True:
        try:
            udp.sendto(bytes(100), (HOST, CLOSED_PORT if number % 40 == 0 else ECHO_PORT))
            if number % 5 == 0:
                icmp.sendto(echo_request(number), (HOST, 0))
        except OSError: # a report about the closed port, or the host is gone
            pass
        for receiver in udp, icmp:
            try:
                while receiver.recv(2048, socket.MSG_DONTWAIT):
                    pass
            except OSError: # nothing more, or such a report
                pass
        number += 1
        time.sleep(0.02)


def streams():
    """Streams that the host sends (protocols/test/tcptest.c: 2, receive)."""
    while True:
        try:
            with socket.create_connection((HOST, STREAM_PORT), 10) as stream:
                stream.sendall(struct.pack(">QII", 100000, 1460, 2))
                stream.shutdown(socket.SHUT_WR)
                while stream.recv(1 << 16):
                    pass
        except OSError:
            pass
        time.sleep(1)


# ---- inside --------------------------------------------------------------------------------------------------------------

def inside(build, port, listener):
    host = subprocess.Popen([f"{build}/xk", "run", "graphs/web.dot", "--link", "tap", "--set", f"port.dev={DEVICE}",
                             "--set", f"vnet.address={HOST}/24", "--set", "http.names=127.0.0.1"], stdout=subprocess.DEVNULL)
    until = time.monotonic() + START_S
    address = ["ip", "addr", "add", f"{LINUX}/24", "dev", DEVICE]
    while subprocess.run(address, capture_output=True, check=False).returncode != 0:
        if host.poll() is not None or time.monotonic() > until:
            die("the host does not start")
        time.sleep(0.05)
    for work in (relay, listener), (messages,), (streams,):
        threading.Thread(target=work[0], args=work[1:], daemon=True).start()
    print(f"web: http://127.0.0.1:{port}/ shows the host; also /stats.json and /metrics", flush=True)
    for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP: # the host may get it from the terminal, too, which counts as once
        signal.signal(number, lambda *_: host.terminate())
    sys.exit(host.wait())


def main(build, port="8080", listener=None):
    if not port.isdecimal() or not 1 <= int(port) <= 65535:
        die(f"{port} is no port: a number from 1 to 65535")
    if listener is None:
        outside(build, int(port))
    inside(build, int(port), socket.socket(fileno=int(listener)))


main(*sys.argv[1:])
