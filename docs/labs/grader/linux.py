#!/usr/bin/env python3
"""linux.py - sends a stream of the student's host to the Linux of this machine, in real time (docs/labs/README.md).

The kernel's end is a TAP interface in a network namespace of its own, made by this file as a program: it copies frames between
the interface and the grader, and receives the stream on a socket. The student's host stays in its sandbox, and the frames are
carried by lab_stream.Road, which delays and loses some. Nothing here is marked: real time is not repeatable.
"""
import contextlib
import fcntl
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import time

ADDRESS, LINK = "10.77.0.1", bytes((2, 0, 0, 0, 0, 1))
BYTES = 200000
SECONDS_MAX = 30
TUNSETIFF, TAP, NO_INFO = 0x400454CA, 0x0002, 0x1000
SET_FLAGS, SET_ADDRESS, SET_MASK, SET_LINK, UP, ETHER = 0x8914, 0x8916, 0x891C, 0x8924, 0x1, 1
FRAME, READY, DATA, END = b"F", b"R", b"D", b"E"  # records: kind, length (4 bytes), contents


class Unavailable(Exception):
    """This machine gives no interface to its kernel."""


# ---- the program in the namespace ------------------------------------------------------------------------------------


def interface():
    """Makes the interface, and returns its file."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"lab", TAP | NO_INFO))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def set_(what, value):
            fcntl.ioctl(control, what, struct.pack("16s", b"lab") + value)

        set_(SET_LINK, struct.pack("H", ETHER) + LINK + bytes(16))
        for what, address in ((SET_ADDRESS, ADDRESS), (SET_MASK, "255.255.255.0")):
            set_(what, struct.pack("HH", socket.AF_INET, 0) + socket.inet_aton(address) + bytes(16))
        set_(SET_FLAGS, struct.pack("H22x", UP))
    return tap


def record(kind, data=b""):
    return kind + struct.pack(">I", len(data)) + data


class Records:
    """Reads records from a file; take() returns those that have come, or None at the end."""

    def __init__(self, file):
        self.file, self.bytes = file, bytearray()

    def take(self):
        more = os.read(self.file, 1 << 16)
        self.bytes += more
        found = []
        while len(self.bytes) >= 5:
            end = 5 + struct.unpack(">I", self.bytes[1:5])[0]
            if len(self.bytes) < end:
                break
            found.append((bytes(self.bytes[:1]), bytes(self.bytes[5:end])))
            del self.bytes[:end]
        return found if more else None


def serve(port):
    tap = interface()
    listener = socket.socket()
    listener.bind((ADDRESS, port))
    listener.listen()
    stream, grader = None, Records(0)
    tell = lambda *what: sys.stdout.buffer.write(record(*what)) and sys.stdout.buffer.flush()
    tell(READY, os.uname().release.encode())
    while True:
        for file in select.select([0, tap, stream or listener], [], [])[0]:
            if file == 0:
                records = grader.take()
                if records is None:
                    return
                for _, frame in records:
                    os.write(tap, frame)
            elif file == tap:
                tell(FRAME, os.read(tap, 2048))
            elif file is listener:
                stream, _ = listener.accept()
            else:
                data = stream.recv(1 << 16)
                tell(DATA if data else END, data)
                if not data:
                    stream.close()
                    stream = None


# ---- the grader's side -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def kernel(port):
    """Starts the program in a namespace. Yields the process, and the kernel's release."""
    if shutil.which("unshare") is None:
        raise Unavailable("the program unshare is not installed (Debian package util-linux)")
    command = ["unshare", *([] if os.getuid() == 0 else ["--user", "--map-root-user"]), "--net", sys.executable, os.path.abspath(__file__), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            first = Records(process.stdout.fileno()).take()
            if not first:
                raise Unavailable("a network namespace with a TAP interface cannot be made: "
                                  + process.stderr.read().decode(errors="replace").strip().split("\n")[-1])
            yield process, first[0][1].decode()
        finally:
            process.kill()


def send(world, stream):
    """Lets the host of a World send to Linux. stream: the module lab_stream. Returns (whether all is right, a line about it)."""
    size = world.layout["segment"] + stream.HEADERS + 14
    message, got, ended = world.bytes(BYTES), bytearray(), False
    with kernel(stream.PORT) as (process, release):
        to_kernel = lambda frame: process.stdin.write(record(FRAME, frame))
        net = stream.Network(world, queue=40, loss=0.01, rate=1250000, delay=5 * stream.MS, receive=to_kernel)
        records, began = Records(process.stdout.fileno()), time.monotonic_ns()
        world.boot()
        feed = stream.Feed(world, message)
        while not ended and (now := time.monotonic_ns() - began) < SECONDS_MAX * stream.S:
            world.run(max(0, now - world.now))
            feed.go_on()
            due = min([world.wake, now + 5 * stream.MS, *(one[0] for one in world.agenda[:1])]) - now
            if not select.select([process.stdout], [], [], max(0, due) / stream.S)[0]:
                continue
            for kind, data in records.take() or [(END, b"")]:
                if kind == FRAME and data[12:14] == b"\x08\0":
                    net.from_receiver(data)
                elif kind == FRAME and (reply := stream.arp_reply(data)) is not None:
                    to_kernel(reply)
                elif kind == DATA:
                    got += data
                ended = ended or kind == END
    right = ended and bytes(got) == message
    rest = "" if message.startswith(bytes(got)) else ", which are not those that were sent"
    return right, (f"Linux {release} got {len(got)} of {len(message)} bytes{rest}, {'and' if ended else 'but not'} the end of the stream, in "
                   f"{world.now / stream.S:.1f} s; of {net.sent} segments {net.lost} were lost on the way, and {net.again} were sent again")


if __name__ == "__main__":
    serve(int(sys.argv[1]))
