#!/usr/bin/env python3
"""stats.py WHAT ARGUMENT... - unusual clients of a host's counts: hostile ones, a terminal, DPDK's telemetry.

    ask SOCKET SECONDS         prints the document
    hostile SOCKET             sends invalid requests and stays connected; fails if the host stops answering others
    terminal COMMAND...        runs it in a terminal for a while, then sends ctrl-C; prints its output
    serve SOCKET FILE          acts as a host: sends the file to every client, until killed
    telemetry PID REQUEST...   prints the answers of the process's DPDK telemetry, a line each
"""
import glob
import json
import os
import pty
import select
import signal
import socket
import sys
import time


def connect(path):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(path)
    client.settimeout(10)
    return client


def answer(client, request):
    """Returns the whole answer; b'' if the host has disconnected."""
    parts = []
    try:
        if request:
            client.sendall(request)
        while part := client.recv(65536):
            parts.append(part)
    except (BrokenPipeError, ConnectionResetError):
        pass
    client.close()
    return b"".join(parts)


def answer_in_crowd(path, request):
    """The same beside a crowd of clients: the host may disconnect a client preempted between connecting and asking."""
    return next((text for text in (answer(connect(path), request) for _ in range(5)) if text), b"")


def ask(path, seconds):
    document = json.loads(answer(connect(path), b"stats %d\n" % seconds))
    assert document["program"] == "xk run"
    return document


def crowd(path, count):
    clients, poll, parent = {}, select.poll(), os.getppid()
    while os.getppid() == parent:
        while len(clients) < count:
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            try:
                client.connect(path)
            except OSError:
                client.close()
                break
            clients[client.fileno()] = client
            poll.register(client, select.POLLIN)
        for fd, _ in poll.poll(1):
            poll.unregister(fd)
            clients.pop(fd).close()
    os._exit(0)


def hostile(path):
    for request in (b"\n", b"stats\n", b"stats -1\n", b"stats 61\n", b"stats 100\n", b"stats 1 2\n", b"STATS 1\n",
                    b"stats 0x1\n", b"stats \0\n", b"stats 1", b"\0" * 31, b"stats " + b"9" * 1000 + b"\n",
                    b"x" * 100000, b"\xff\xfe\n", b"stats 1\nstats 1\n", b"GET / HTTP/1.0\r\n\r\n",
                    b"text 50001\n", b"json -1\n", b"text\n", b"text 1 2\n", b"lines 1\n"):
        client = connect(path)
        if b"\n" not in request and len(request) < 31:
            client.sendall(request)  # then closes
            client.close()
            continue
        assert answer(client, request) == b"", request
    ask(path, 0)
    # More clients than there is room for send nothing or do not read: the host disconnects them in time.
    idle = [connect(path) for _ in range(10)]
    for client in idle[5:]:
        client.sendall(b"stats 1\n")
    begun = time.monotonic()
    ask(path, 0)
    assert time.monotonic() - begun < 9, "idle clients were not disconnected"
    for client in idle:
        client.close()
    # Clients that disconnect while they wait, and one that only shuts down its sending side.
    for _ in range(20):
        client = connect(path)
        client.sendall(b"text 5000\n")
        client.close()
    client = connect(path)
    client.sendall(b"text 200\n")
    client.shutdown(socket.SHUT_WR)
    assert answer(client, b"").endswith(b"\0")
    # Others are answered beside a crowd that connects, stays silent and reconnects whenever it is disconnected.
    silent = os.fork()
    if silent == 0:
        crowd(path, 200)
    begun = time.monotonic()
    try:
        for _ in range(20):
            assert json.loads(answer_in_crowd(path, b"stats 0\n"))["program"] == "xk run"
            assert answer_in_crowd(path, b"text 100\n").endswith(b"\0"), "a waiting client was disconnected"
        assert time.monotonic() - begun < 20, "silent clients delay the others"
    finally:
        os.kill(silent, signal.SIGKILL)
        os.waitpid(silent, 0)
    # A request may arrive a byte at a time.
    client = connect(path)
    for byte in b"stats 0":
        client.sendall(bytes([byte]))
        time.sleep(0.01)
    assert json.loads(answer(client, b"\n"))["program"] == "xk run"


def terminal(command):
    child, terminal_fd = pty.fork()
    if child == 0:
        os.execvp(command[0], command)
    written, until = b"", time.monotonic() + 20
    while written.count(b"\033[H") < 2 and time.monotonic() < until:
        if select.select([terminal_fd], [], [], 0.1)[0]:
            written += os.read(terminal_fd, 65536)
    os.kill(child, signal.SIGINT)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    sys.stdout.write(written.decode(errors="replace"))


def serve(path, name):
    with open(name, "rb") as file:
        told = file.read()
    host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    host.bind(path)
    host.listen(8)
    while True:
        client = host.accept()[0]
        try:
            client.recv(32)
            client.sendall(told)
        except OSError:
            pass
        client.close()


def telemetry(pid, requests):
    directory = "/var/run" if os.getuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    for path in glob.glob(directory + "/dpdk/*/dpdk_telemetry.v2*"):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        client.settimeout(10)
        try:
            client.connect(path)
        except OSError:
            continue
        if json.loads(client.recv(1024))["pid"] != pid:
            continue
        for request in requests:
            client.send(request.encode())
            print(json.dumps(json.loads(client.recv(1 << 16))[request.split(",")[0]]))
        return
    sys.exit("the process offers none")


if sys.argv[1] == "ask":
    print(json.dumps(ask(sys.argv[2], int(sys.argv[3]))))
elif sys.argv[1] == "hostile":
    hostile(sys.argv[2])
elif sys.argv[1] == "serve":
    serve(*sys.argv[2:])
elif sys.argv[1] == "terminal":
    terminal(sys.argv[2:])
else:
    telemetry(int(sys.argv[2]), sys.argv[3:])
