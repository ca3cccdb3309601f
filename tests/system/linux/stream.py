#!/usr/bin/env python3
"""stream.py WHAT ... - Linux's TCP as a peer of tcptest (protocols/test/tcptest.c). Exit status 0: each byte was right.

    client ADDRESS PORT FLOW BYTES [TIMES]   opens TIMES connections, one after the other; prints the seconds
    server PORT                              serves until SIGTERM; status 1 if a byte was wrong, or a stream was cut
    die ADDRESS PORT STATE [reset]           opens a connection and ends in that state, by a FIN or by a reset: opened, asking,
                                             sending, receiving, ended
"""
import signal
import socket
import struct
import sys
import threading
import time

SEND, RECEIVE, BOTH, ECHO = 1, 2, 3, 4
FLOWS = {"send": SEND, "receive": RECEIVE, "both": BOTH, "echo": ECHO}
PATIENCE_S = 120
PIECE = 1 << 16
FIRST = bytes((i + (i >> 8) * 7) & 255 for i in range(PIECE))
MORE = [bytes((i + more) & 255 for i in range(256)) for more in range(256)]
PIECES = {}


def piece(number, from_client):
    """Returns the bytes of the stream's 64 KiB of this number."""
    more = (number * 13 + (0 if from_client else 101)) & 255
    if more not in PIECES:
        PIECES[more] = FIRST.translate(MORE[more])
    return PIECES[more]


def pattern(begin, count, from_client):
    """Returns count bytes of the stream, from its byte `begin` on."""
    first, last = begin // PIECE, (begin + count - 1) // PIECE
    if first == last:
        return piece(first, from_client)[begin % PIECE:begin % PIECE + count]
    whole = b"".join(piece(number, from_client) for number in range(first, last + 1))
    return whole[begin - first * PIECE:begin - first * PIECE + count]


def send(stream, count, from_client):
    for begin in range(0, count, PIECE):
        stream.sendall(pattern(begin, min(PIECE, count - begin), from_client))
    stream.shutdown(socket.SHUT_WR)


def send_or_note(stream, count, from_client, failed):
    try:
        send(stream, count, from_client)
    except OSError as error:
        failed.append(error)


def receive(stream, count, from_client):
    """Whether exactly so many right bytes come, and then the end."""
    place = 0
    while True:
        some = stream.recv(4 * PIECE)
        if not some:
            return place == count
        if some != pattern(place, len(some), from_client):
            return False
        place += len(some)


def use(stream, flow, count, is_client):
    """Carries out one connection's flow; returns whether all was right."""
    sends = flow == BOTH or flow == (SEND if is_client else RECEIVE)
    expects = count if flow == BOTH or flow == (RECEIVE if is_client else SEND) else 0
    stream.settimeout(PATIENCE_S)
    failed = []
    sender = threading.Thread(target=send_or_note, args=(stream, count if sends else 0, is_client, failed))
    if flow == ECHO and not is_client:
        while some := stream.recv(PIECE):
            stream.sendall(some)
        return True
    if flow == ECHO:
        for begin in range(0, count, 1000):
            stream.sendall(pattern(begin, min(1000, count - begin), True))
            some = b""
            while len(some) < min(1000, count - begin):
                some += stream.recv(PIECE)
            if some != pattern(begin, len(some), True):
                return False
        stream.shutdown(socket.SHUT_WR)
        return receive(stream, 0, False)
    sender.start()
    right = receive(stream, expects, not is_client)
    sender.join()
    for error in failed:
        raise error
    return right


def request(count, flow):
    return struct.pack(">QII", count, 1460, flow)


def client(address, port, flow, count, times="1"):
    begun = time.monotonic()
    for _ in range(int(times)):
        with socket.create_connection((address, int(port)), PATIENCE_S) as stream:
            stream.sendall(request(int(count), FLOWS[flow]))
            if not use(stream, FLOWS[flow], int(count), True):
                print("wrong bytes", file=sys.stderr)
                return 1
    print("%.3f" % (time.monotonic() - begun))
    return 0


def server(port):
    wrong = []
    listener = socket.create_server(("", int(port)), backlog=64)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(len(wrong) > 0))
    print("ready", flush=True)
    while True:
        stream = listener.accept()[0]
        with stream:
            asked = b""
            while len(asked) < 16 and (some := stream.recv(16 - len(asked))):
                asked += some
            if len(asked) < 16:
                continue
            count, _, flow = struct.unpack(">QII", asked)
            try:
                right = use(stream, flow, count, False)
            except OSError as error:
                right = False
                print(error, file=sys.stderr)
            if not right:
                wrong.append(stream)


def die(address, port, state, how="close"):
    stream = socket.create_connection((address, int(port)), PATIENCE_S)
    if how == "reset":
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    many = 1 << 24
    if state == "asking":
        stream.sendall(request(many, BOTH)[:9])
    elif state == "sending":
        stream.sendall(request(many, SEND) + pattern(0, 100000, True))
    elif state == "receiving":  # and no longer reading
        stream.sendall(request(many, RECEIVE))
        time.sleep(0.2)
    elif state == "ended":  # the server still sends
        stream.sendall(request(many, BOTH) + pattern(0, 5000, True))
        stream.shutdown(socket.SHUT_WR)
        stream.recv(PIECE)
    elif state != "opened":
        return 2
    stream.close()
    return 0


def main():
    words = {"client": client, "server": server, "die": die}
    if len(sys.argv) < 2 or sys.argv[1] not in words:
        print(__doc__, file=sys.stderr)
        return 2
    return words[sys.argv[1]](*sys.argv[2:])


sys.exit(main())
