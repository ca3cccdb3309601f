#!/usr/bin/env python3
"""Sends a stream over TCP and virtio between two processes (tcptest), beside a copy of the same bytes between two processes.

The copy is in messages of the same length through 256 KiB of shared memory: one process copies each in, the other copies it out,
and both poll. Streams and copies take turns; the figures are medians. tcptest also makes each byte and checks it.
"""
import argparse
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))

from programs import Failed, exit_with

PATIENCE_S = 600
RING = 256 << 10
WRITTEN, READ, COUNT = 0, 64, 128  # words of shared memory, each in cache lines of its own
SIZES = (1460, 16384, 65536)


def stream(build, size, count, document):
    """Returns the bytes per second of a stream of so many messages."""
    command = [os.path.join(build, "tcptest"), "--link", "virtio", "--mode", "ipp", "--flow", "send", "--size", str(size),
               "--rounds", str(count), "--json", document]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    if done.returncode != 0:
        raise Failed("%s: status %d: %s" % (" ".join(command), done.returncode, done.stderr[-400:]))
    with open(document, encoding="utf-8") as file:
        run = json.load(file)["runs"][0]
    if run["rounds"] != count or run["lost"] != 0 or run["bad"] != 0:
        raise Failed("a stream is not whole: %s" % run)
    return size * count / (run["elapsed_ns"] / 1e9)


def take_all(slots, counts, message):
    """The other process: copies `count` messages out, and ends with status 0 if the last is right."""
    got = memoryview(bytearray(len(message)))
    for number in range(counts[COUNT]):
        while counts[WRITTEN] <= number:
            os.sched_yield()
        got[:] = slots[number % len(slots)]
        counts[READ] = number + 1
    os._exit(0 if got == message else 1)


def copy(size, count):
    """Returns the bytes per second of a copy of so many messages to another process."""
    ring, counts = memoryview(mmap.mmap(-1, RING)), memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("Q")
    slots = [ring[place:place + size] for place in range(0, RING - size + 1, size)]
    message = os.urandom(size)
    counts[COUNT] = count
    child = os.fork()
    if child == 0:
        take_all(slots, counts, message)
    begun = time.monotonic()
    for number in range(count):
        while number - counts[READ] >= len(slots):
            os.sched_yield()
        slots[number % len(slots)][:] = message
        counts[WRITTEN] = number + 1
    status = os.waitpid(child, 0)[1]
    if status != 0:
        raise Failed("the copy's bytes are not those that were written")
    return size * count / (time.monotonic() - begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--bytes", type=int, default=256 << 20, help="of each stream and copy (%(default)s)")
    parser.add_argument("--times", type=int, default=5, help="of each (%(default)s)")
    options = parser.parse_args()
    print("  bytes of a message   TCP, MB/s   copy, MB/s   TCP / copy")
    with tempfile.TemporaryDirectory() as work:
        for size in SIZES:
            count = options.bytes // size
            rates = [(stream(options.build, size, count, os.path.join(work, "run.json")), copy(size, count))
                     for _ in range(options.times)]
            tcp, plain = (statistics.median(one) / 1e6 for one in zip(*rates))
            ratio = statistics.median(one[0] / one[1] for one in rates)
            print("  %18d   %9.1f   %10.1f   %10.3f" % (size, tcp, plain, ratio))
    return 0


if __name__ == "__main__":
    exit_with(main)
