#!/usr/bin/env python3
"""many.py WHAT ... - very many connections of Linux's, all open at once.

    client ADDRESS PORT COUNT   opens them to tcptest, one after another, and makes round trips of one byte on the first thousand
                                and on the last; prints the microseconds of these opens and round trips as JSON. Exit status 1:
                                a byte was wrong, or a connection has ended
    server PORT                 sends back what comes, until SIGTERM
"""
import json
import resource
import select
import socket
import struct
import sys
import time

ECHO = 4
FILES = 11000
BATCH = 1000
TRIPS = 5
PATIENCE_S = 120


def mean_us(begun, count):
    return round(1e6 * (time.monotonic() - begun) / count, 1)


def measure_trips(streams, trip):
    """Returns the mean of the round trips on the first and on the last, which take turns: the machine is as busy for both."""
    spent = [0.0, 0.0]
    for number in range(TRIPS):
        for i, some in enumerate((streams[:BATCH], streams[-BATCH:])):
            begun = time.monotonic()
            for stream in some:
                trip(stream, number)
            spent[i] += time.monotonic() - begun
    return [round(1e6 * one / (TRIPS * BATCH), 1) for one in spent]


def client(address, port, count):
    streams, opens = [], []
    for number in range(count):
        if number % BATCH == 0:
            begun = time.monotonic()
        stream = socket.create_connection((address, port), PATIENCE_S)
        stream.sendall(struct.pack(">QII", 1 << 20, 1, ECHO))
        streams.append(stream)
        if number % BATCH == BATCH - 1:
            opens.append(mean_us(begun, BATCH))

    def trip(stream, number):
        stream.sendall(bytes([number]))
        if stream.recv(2) != bytes([number]):
            sys.exit("a wrong byte")

    return opens, measure_trips(streams, trip), streams


def server(port):
    """Sends everything back."""
    listener = socket.create_server(("", port), backlog=4096)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    streams = {}
    print("ready", flush=True)
    while True:
        for number, _ in poll.poll():
            if number == listener.fileno():
                stream = listener.accept()[0]
                streams[stream.fileno()] = stream
                poll.register(stream, select.EPOLLIN)
                continue
            try:
                some = streams[number].recv(1 << 16)
                streams[number].sendall(some)
            except OSError:
                some = b""
            if not some:
                streams.pop(number).close()


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    if len(sys.argv) == 5 and sys.argv[1] == "client":
        opens, trips, streams = client(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    elif len(sys.argv) == 3 and sys.argv[1] == "server":
        server(int(sys.argv[2]))
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print(json.dumps({"connections": len(streams), "open_us": [opens[0], opens[-1]], "trip_us": trips}), flush=True)
    return 0


sys.exit(main())
