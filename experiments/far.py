#!/usr/bin/env python3
"""far.py - runs commands on another machine, for experiments whose two ends are on two machines (class Far).

    far.py serve [--link LINK] [--dev INTERFACE]    on one machine: runs what the other asks for, until SIGINT or SIGTERM
    far.py run ADDRESS[:PORT] LINE                  on the other: like `ssh MACHINE LINE`; the key is in XK_FAR_KEY

The shell there runs the line in its own copy of this project; paths into this copy are replaced by paths into that one. Input,
output, signals and exit status are passed through. The command is killed when its caller ends.

serve makes a new key at each start and prints it. Anyone with the key can run commands as the user who serves; all others are
refused. After that, nothing is encrypted or signed: use a network that nobody else is on.
"""
import argparse
import contextlib
import hmac
import json
import os
import queue
import secrets
import shlex
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
from programs import Failed

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PORT = 7464
NONCE = 32
PROOF_S = 5  # to wait for the proof of the key
STRANGERS = 64  # connections that may wait to prove it
ANSWER_S = 60  # for the server to have time for one more
FRAME = struct.Struct("!cI")  # its kind and its length
FRAME_MAX = 1 << 20
# Kinds of frames: the line (JSON), input, its end, a signal; output, errors, the exit status.
LINE, INPUT, END, SIGNAL, OUTPUT, ERRORS, STATUS = (bytes([letter]) for letter in b"LIESOXQ")


# ---- frames ----


def receive(connection, size, until=None):
    """Exactly so many bytes, until a time of the monotonic clock."""
    data = b""
    while len(data) < size:
        if until is not None:
            connection.settimeout(max(0.001, until - time.monotonic()))
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("the connection has ended")
        data += more
    return data


def receive_frame(connection):
    kind, size = FRAME.unpack(receive(connection, FRAME.size))
    if size > FRAME_MAX:
        raise ConnectionError("a frame is too long")
    return kind, receive(connection, size)


def keep(connection):
    """A connection whose other machine is gone ends, and small frames wait for nothing."""
    for level, option, value in ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1), (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
                                 (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)):
        connection.setsockopt(level, option, value)


class Sender:
    """Sends frames, from any thread."""

    def __init__(self, connection):
        self.connection, self.lock = connection, threading.Lock()

    def send(self, kind, data=b""):
        with self.lock:
            self.connection.sendall(FRAME.pack(kind, len(data)) + data)

    def send_all_of(self, kind, file):
        """Until the file ends, or nobody wants it any more."""
        with contextlib.suppress(OSError):
            while data := os.read(file, FRAME_MAX):
                self.send(kind, data)


def proof(key, nonce):
    return hmac.digest(key.encode(), nonce, "sha256")


# ---- serving ----


class Command:
    """A running command."""

    def __init__(self, line, environment, sender):
        self.sender = sender
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", line], cwd=ROOT, env=environment, bufsize=0,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.input = queue.SimpleQueue()  # None: its end. A command that reads nothing holds up nobody
        self.threads = [threading.Thread(target=sender.send_all_of, args=(kind, file.fileno()))
                        for kind, file in ((OUTPUT, self.process.stdout), (ERRORS, self.process.stderr))]
        for thread in self.threads:
            thread.start()
        for target in (self.write_input, self.await_end):
            threading.Thread(target=target, daemon=True).start()

    def write_input(self):
        with contextlib.suppress(OSError), self.process.stdin as file:
            while (data := self.input.get()) is not None:
                file.write(data)

    def await_end(self):
        status = self.process.wait()
        self.input.put(None)
        self.signal(signal.SIGKILL)  # whatever it left behind
        for thread in self.threads:
            thread.join()
        with contextlib.suppress(OSError):
            self.sender.send(STATUS, str(status).encode())
            # The client closes: if this end did, input that comes late would reset the connection, and lose what is not read yet.
            self.sender.connection.shutdown(socket.SHUT_WR)

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def take(self, kind, data):
        if kind in (INPUT, END):
            self.input.put(data or None)
        elif kind == SIGNAL:
            self.signal(int(data))


class Handler(socketserver.BaseRequestHandler):
    """One connection: the key, a line, and then its input."""

    def is_known(self):
        nonce = secrets.token_bytes(NONCE)
        with self.server.strangers:
            self.request.sendall(nonce)
            shown = receive(self.request, NONCE, time.monotonic() + PROOF_S)
        self.request.settimeout(None)
        return hmac.compare_digest(shown, proof(self.server.key, nonce))

    def handle(self):
        try:
            keep(self.request)
            known, sender = self.is_known(), Sender(self.request)
            if not known:
                print(f"report: {self.client_address[0]} does not have the key", file=sys.stderr, flush=True)
                sender.send(ERRORS, b"report: wrong key: use the one that the server printed\n")
                sender.send(STATUS, b"255")
                self.request.shutdown(socket.SHUT_WR)
                receive(self.request, 1 << 16, time.monotonic() + PROOF_S)  # until the client closes, likewise
                return
            kind, data = receive_frame(self.request)
            if kind != LINE:
                return
            asked = json.loads(data)
            command = Command(asked["line"].replace(asked["root"], ROOT), self.server.environment, sender)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return
        try:
            while True:
                command.take(*receive_frame(self.request))
        except (OSError, ValueError):
            pass
        finally:
            command.signal(signal.SIGKILL)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address, environment):
        super().__init__(address, Handler)
        self.key = secrets.token_hex(16)
        self.environment = environment
        self.strangers = threading.BoundedSemaphore(STRANGERS)

    def verify_request(self, request, client_address):
        """Limits the threads, since each waiting connection has one."""
        return threading.active_count() < 16 * STRANGERS

    def handle_error(self, request, client_address):
        pass


def serve(options):
    end = signal.SIGINT, signal.SIGTERM
    for number in end:
        signal.signal(number, lambda *_: os._exit(0))  # commands end with this process
    environment = {**os.environ, "XK_FAR_LINK": options.link, "XK_FAR_DEV": options.dev or (options.link if is_card(options.link) else ""),
                   "XK_FAR_CORES": options.cores}
    with Server((options.bind, options.port), environment) as server:
        print(f"report: serving. On the other machine: ./run report --client {server.key}@ADDRESS:{server.server_address[1]} --link LINK "
              "(ADDRESS: any address of this machine)", file=sys.stderr, flush=True)
        server.serve_forever()


# ---- asking ----


def is_card(link):
    """A PCI address, which needs no interface."""
    return ":" in link



def address_of(text):
    host, _, port = text.partition(":")
    return host, int(port or PORT)


def run(options):
    """Returns the exit status of the line."""
    with socket.create_connection(address_of(options.address), ANSWER_S) as connection:
        keep(connection)
        connection.sendall(proof(os.environ.get("XK_FAR_KEY", ""), receive(connection, NONCE)))
        connection.settimeout(None)
        sender = Sender(connection)
        sender.send(LINE, json.dumps({"line": options.line, "root": ROOT}).encode())
        signals = queue.SimpleQueue()  # a handler must not wait for the sender's lock
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: signals.put(number))
        for target, argument in ((send_input, None), (send_signals, signals)):
            threading.Thread(target=target, args=(sender, argument), daemon=True).start()
        while True:
            kind, data = receive_frame(connection)
            if kind == STATUS:
                status = int(data)
                return status if status >= 0 else 128 - status
            write_all(2 if kind == ERRORS else 1, data)


def send_signals(sender, signals):
    with contextlib.suppress(OSError):
        while True:
            sender.send(SIGNAL, str(signals.get()).encode())


def send_input(sender, _):
    sender.send_all_of(INPUT, 0)
    with contextlib.suppress(OSError):
        sender.send(END)


def write_all(file, data):
    while data:
        data = data[os.write(file, data):]


class Far:
    """The other machine, where an experiment's server is, and the link to it. options: those of add_options."""

    def __init__(self, options):
        key, _, self.address = options.client.rpartition("@")
        if key:
            os.environ["XK_FAR_KEY"] = key
        if "XK_FAR_KEY" not in os.environ:
            raise Failed(f"--client {options.client} has no key: give KEY@ADDRESS, as the server prints it")
        if not options.link:
            raise Failed("--client needs --link: what joins the machines")
        if not is_card(options.link) and not options.dev:
            raise Failed(f"--link {options.link} needs --dev: an interface of this machine")
        self.prefix = [sys.executable, os.path.abspath(__file__), "run", self.address]
        theirs = self.output('printf "%s\\n" "$XK_FAR_LINK" "$XK_FAR_DEV" "$XK_FAR_CORES"').splitlines()
        # of the client and of the server
        self.links = options.link, theirs[0] or options.link
        self.devs = options.dev or options.link, theirs[1] or options.dev or options.link
        self.cores = options.cores.split(",")[0], theirs[2].split(",")[-1]

    def options(self):
        """Those that make another program's Far."""
        return ["--client", self.address, "--link", self.links[0], "--dev", self.devs[0]]

    def of_pair(self):
        """Options of udptest and chantest, which start their server there."""
        return ["--far", shlex.join(self.prefix), "--link", self.links[0], "--set", f"client:port.dev={self.devs[0]}", "--set",
                f"server:port.dev={self.devs[1]}"]

    def of_end(self, end):
        """Options of one host: 0, the client here, or 1, the server there."""
        return ["--link", self.links[end], "--set", f"port.dev={self.devs[end]}"]

    def line(self, line):
        """The command that runs a line of shell there."""
        return [*self.prefix, line]

    def words(self, *words):
        """The command that runs a command there."""
        return self.line("exec " + shlex.join(map(str, words)))

    def output(self, line, given=b""):
        """What a line prints there, given its input."""
        done = subprocess.run(self.line(line), input=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed(f"{line}: {done.stderr.decode().strip()[-400:]}")
        return done.stdout.decode()

    def put(self, data):
        """The name of a file there with this data; remove() it."""
        return self.output('f=$(mktemp) && cat >"$f" && echo "$f"', data).strip()

    def remove(self, *files):
        self.output("rm -rf " + shlex.join(files))


def add_options(parser):
    """Of programs whose server may be on another machine."""
    parser.add_argument("--client", metavar="KEY@ADDRESS", help="run the servers on the machine that printed KEY")
    parser.add_argument("--link", help="with --client: what joins the machines: af_packet, af_xdp, or the PCI address of a card")
    parser.add_argument("--dev", metavar="INTERFACE", help="with --client: this machine's interface, unless the link is a card")


def far_of(options):
    return Far(options) if options.client else None


def main():
    parser = argparse.ArgumentParser(prog="far.py", description="runs commands on another machine")
    commands = parser.add_subparsers(dest="command", required=True)
    serving = commands.add_parser("serve", help="run what another machine asks for")
    serving.add_argument("--link", default="", help="what joins the machines: af_packet, af_xdp, or the PCI address of a card (default: what the client gives)")
    serving.add_argument("--dev", default="", metavar="INTERFACE", help="this machine's interface, unless the link is a card (default: what the client gives)")
    serving.add_argument("--cores", default="0,1", metavar="A,B", help="the server's core is B (0,1)")
    serving.add_argument("--bind", default="", metavar="ADDRESS", help="listen on this address only (all)")
    serving.add_argument("--port", type=int, default=PORT, help=f"({PORT}; 0: any)")
    asking = commands.add_parser("run", help="run a line on another machine")
    asking.add_argument("address", metavar="ADDRESS[:PORT]")
    asking.add_argument("line")
    options = parser.parse_args()
    try:
        return (serve if options.command == "serve" else run)(options)
    except (OSError, ValueError) as why:
        print(f"report: {options.address if options.command == 'run' else 'the server'}: {why}", file=sys.stderr)
        return 255


if __name__ == "__main__":
    sys.exit(main())
