#!/usr/bin/env python3
"""stream.py WHAT ... - Linux's TCP as a peer of tcptest (protocols/test/tcptest.c). Exit status 0: each byte was right.

    client ADDRESS PORT FLOW BYTES [TIMES]   opens TIMES connections, one after the other
    server PORT                              serves until SIGTERM; status 1 if a byte was wrong
"""
import signal
import socket
import struct
import sys
import threading

SEND, RECEIVE, BOTH, ECHO = 1, 2, 3, 4
FLOWS = {"send": SEND, "receive": RECEIVE, "both": BOTH, "echo": ECHO}
PATIENCE_S = 120
PIECE = 1 << 16


def pattern(begin, count, from_client):
    more = 0 if from_client else 101
    return bytes((i + (i >> 8) * 7 + (i >> 16) * 13 + more) & 255 for i in range(begin, begin + count))


def send(stream, count, from_client):
    for begin in range(0, count, PIECE):
        stream.sendall(pattern(begin, min(PIECE, count - begin), from_client))
    stream.shutdown(socket.SHUT_WR)


def receive(stream, count, from_client):
    """Whether exactly so many right bytes come, and then the end."""
    place = 0
    while True:
        piece = stream.recv(PIECE)
        if not piece:
            return place == count
        if piece != pattern(place, len(piece), from_client):
            return False
        place += len(piece)


def use(stream, flow, count, is_client):
    """Carries out one connection's flow; returns whether all was right."""
    sends = flow == BOTH or flow == (SEND if is_client else RECEIVE)
    expects = count if flow == BOTH or flow == (RECEIVE if is_client else SEND) else 0
    stream.settimeout(PATIENCE_S)
    sender = threading.Thread(target=send, args=(stream, count if sends else 0, is_client))
    if flow == ECHO and not is_client:
        while piece := stream.recv(PIECE):
            stream.sendall(piece)
        return True
    if flow == ECHO:
        for begin in range(0, count, 1000):
            stream.sendall(pattern(begin, min(1000, count - begin), True))
            piece = b""
            while len(piece) < min(1000, count - begin):
                piece += stream.recv(PIECE)
            if piece != pattern(begin, len(piece), True):
                return False
        stream.shutdown(socket.SHUT_WR)
        return receive(stream, 0, False)
    sender.start()
    right = receive(stream, expects, not is_client)
    sender.join()
    return right


def client(address, port, flow, count, times="1"):
    for _ in range(int(times)):
        with socket.create_connection((address, int(port)), PATIENCE_S) as stream:
            stream.sendall(struct.pack(">QII", int(count), 1460, FLOWS[flow]))
            if not use(stream, FLOWS[flow], int(count), True):
                print("wrong bytes", file=sys.stderr)
                return 1
    return 0


def server(port):
    wrong = []
    listener = socket.create_server(("", int(port)), backlog=64)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(wrong) > 0))
    print("ready", flush=True)
    while True:
        stream = listener.accept()[0]
        with stream:
            request = b""
            while len(request) < 16 and (piece := stream.recv(16 - len(request))):
                request += piece
            if len(request) < 16:
                continue
            count, _, flow = struct.unpack(">QII", request)
            try:
                right = use(stream, flow, count, False)
            except OSError as error:
                right = False
                print(error, file=sys.stderr)
            if not right:
                wrong.append(stream)


def main():
    words = {"client": client, "server": server}
    if len(sys.argv) < 2 or sys.argv[1] not in words:
        print(__doc__, file=sys.stderr)
        return 2
    return words[sys.argv[1]](*sys.argv[2:])


sys.exit(main())
