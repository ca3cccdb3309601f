#!/usr/bin/env python3
"""ends.py - connections with tcptest in each of TCP's states, and how they end.

    rules FIRST                  prints the arguments of gate.py that hold them there; FIRST: the port of the first
    hold FIRST OUR_HOST PORT     opens them, prints `ready` once each is in its state, and waits until each has ended, or is in
                                 TIME-WAIT, or the open has succeeded; exit status 0: in time. Prints each one's state and error
"""
import errno
import socket
import struct
import sys
import time

SEND, RECEIVE = 1, 2
PATIENCE_S = 60
MANY = 1 << 24
LINUX_STATES = {1: "ESTABLISHED", 2: "SYN-SENT", 3: "SYN-RECEIVED", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 6: "TIME-WAIT", 7: "CLOSED",
                8: "CLOSE-WAIT", 9: "LAST-ACK", 11: "CLOSING", 12: "SYN-RECEIVED"}

# Linux's state, what gate.py loses, the flow and bytes that are requested, and what Linux does then. Our state is in comments:
# `limbo` is SYN-RECEIVED.
ENDS = [("ESTABLISHED", "linux:-", SEND, 1000, ""),  # limbo
        ("FIN-WAIT-1", "linux:F", SEND, 1000, "shutdown"),  # ESTABLISHED
        ("FIN-WAIT-2", "", RECEIVE, MANY, "shutdown"),  # CLOSE-WAIT
        ("CLOSE-WAIT", "", RECEIVE, 1000, ""),  # FIN-WAIT-2
        ("ESTABLISHED", "ours:F", RECEIVE, 1000, ""),  # FIN-WAIT-1
        ("FIN-WAIT-2", "ours:F", SEND, 1000, "send shutdown"),  # LAST-ACK
        ("FIN-WAIT-2", "ours:F", RECEIVE, 2000, "wait shutdown"),  # CLOSING
        ("TIME-WAIT", "linux:answered", SEND, 1000, "send shutdown"),  # LAST-ACK
        ("LAST-ACK", "ours:end", RECEIVE, 1000, "read close"),  # TIME-WAIT
        ("CLOSING", "linux:F", RECEIVE, 400000, "wait shutdown read"),  # FIN-WAIT-2
        ("SYN-SENT", "ours:S", None, 0, "")]  # limbo


def read_all(stream):
    while stream.recv(1 << 16):
        pass


def bring(stream, peer, flow, count, actions):
    if flow is None:
        stream.setblocking(False)
        assert stream.connect_ex(peer) == errno.EINPROGRESS
        return
    stream.connect(peer)
    stream.sendall(struct.pack(">QII", count, 1460, flow))
    for action in actions.split():
        if action == "send":
            stream.sendall(bytes((i + (i >> 8) * 7) & 255 for i in range(count)))
        elif action == "read":
            read_all(stream)
        elif action == "wait":  # until the server has sent what it can
            stream.recv(1, socket.MSG_PEEK)
            time.sleep(0.5)
        elif action == "shutdown":
            stream.shutdown(socket.SHUT_WR)
        else:
            stream.close()


def states(first):
    """Returns the states of Linux's sockets of these ports; those that are gone are missing."""
    found = {}
    with open("/proc/net/tcp", encoding="ascii") as table:
        for line in table.readlines()[1:]:
            port, state = int(line.split()[1].split(":")[1], 16), LINUX_STATES.get(int(line.split()[3], 16))
            if first <= port < first + len(ENDS):
                found[port] = state
    return found


def await_states(first, wanted, seconds):
    until = time.monotonic() + seconds
    while True:
        found = states(first)
        if wanted(found):
            return True
        if time.monotonic() > until:
            print("Linux's states: %s" % found, file=sys.stderr)
            return False
        time.sleep(0.05)


def hold(first, host, port):
    streams, all_there = {}, {first + i: end[0] for i, end in enumerate(ENDS)}
    for i, (_, _, flow, count, actions) in enumerate(ENDS):
        stream = streams[first + i] = socket.socket()
        stream.settimeout(PATIENCE_S)
        stream.bind(("", first + i))
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in ((socket.TCP_KEEPIDLE, 2), (socket.TCP_KEEPINTVL, 1), (socket.TCP_KEEPCNT, 3)):
            stream.setsockopt(socket.IPPROTO_TCP, option, value)
        bring(stream, (host, port), flow, count, actions)
    if not await_states(first, lambda found: found == all_there, 5):
        return 1
    print("ready", flush=True)
    opened = first + len(ENDS) - 1
    all_ended = await_states(first, lambda found: all(state == "TIME-WAIT" or (port, state) == (opened, "ESTABLISHED")
                                                      for port, state in found.items()), PATIENCE_S)
    for number, stream in streams.items():
        error = stream.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if stream.fileno() >= 0 else 0
        print(all_there[number], errno.errorcode.get(error, "none"), flush=True)
    return not all_ended


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "rules":
        print(" ".join("%d:%s" % (int(sys.argv[2]) + i, end[1]) for i, end in enumerate(ENDS) if end[1]))
        return 0
    if len(sys.argv) == 5 and sys.argv[1] == "hold":
        return hold(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main())
