#!/usr/bin/env python3
"""gate.py LINUX OURS RULE... - a wire between two network devices that loses chosen segments of TCP, to hold connections in a state.

A rule is PORT:FROM:WHICH: of the connection with this port at Linux's end, segments from `linux` or `ours` are lost: those with a
flag of S or F (WHICH is that letter), those without SYN (`-`), or all once a segment from there with a FIN has passed (`end`) or
once the other end has sent a FIN (`answered`). SIGUSR1 cuts the wire; SIGUSR2 makes it whole, without rules.
"""
import select
import signal
import socket
import struct
import sys

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_PROMISC = 1
PACKET_OUTGOING = 4
FIN, SYN = 1, 2


def device(name):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    end.bind((name, ETH_P_ALL))
    request = struct.pack("IHH8s", socket.if_nametoindex(name), PACKET_MR_PROMISC, 0, b"")
    end.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, request)
    return end


def segment(frame, side):
    """Returns the port at Linux's end and the flags, or None: not TCP."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return None
    begin = 14 + (frame[14] & 15) * 4
    return struct.unpack_from(">H", frame, begin if side == "linux" else begin + 2)[0], frame[begin + 13]


def is_lost(rules, fins, side, port, flags):
    other = "ours" if side == "linux" else "linux"
    which = rules.get((port, side), "")
    return (which == "S" and flags & SYN or which == "F" and flags & FIN or which == "-" and not flags & SYN or
            which == "end" and (port, side) in fins or which == "answered" and (port, other) in fins)


def main():
    ends = {"linux": device(sys.argv[1]), "ours": device(sys.argv[2])}
    rules, fins, cut = {}, set(), []
    for rule in sys.argv[3:]:
        port, side, which = rule.split(":")
        rules[int(port), side] = which
    signal.signal(signal.SIGUSR1, lambda *_: cut.append(True))
    signal.signal(signal.SIGUSR2, lambda *_: (cut.clear(), rules.clear()))
    print("ready", flush=True)
    while True:
        for side, end in ends.items():
            if not select.select(list(ends.values()), [], [])[0]:
                continue
            if not select.select([end], [], [], 0)[0]:
                continue
            frame, address = end.recvfrom(1 << 16)
            found = segment(frame, side)
            if address[2] == PACKET_OUTGOING or cut or (found and is_lost(rules, fins, side, *found)):
                continue
            if found and found[1] & FIN:
                fins.add((found[0], side))
            ends["ours" if side == "linux" else "linux"].send(frame)


main()
