#!/usr/bin/env python3
"""relay.py LEFT RIGHT REPORT [ORDER] - a wire between two network devices, and a witness of the frames that cross it.

Forwards frames unchanged from one device to the other. ORDER is the order of a datagram's fragments: `straight` as they
arrive, `reversed` the last first, `doubled` each of them twice. On SIGTERM it writes its counts for each direction to REPORT.
It verifies every checksum itself, so neither end can leave checksums to a device.
"""
import json
import select
import signal
import socket
import struct
import sys

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_ADD_MEMBERSHIP = 1
PACKET_MR_PROMISC = 1
PACKET_AUXDATA = 8
TP_STATUS_CSUMNOTREADY = 8
PACKET_OUTGOING = 4
IP, ARP = 0x0800, 0x0806
ICMP, UDP = 1, 17
SEEN = ("frames", "fragments", "fragmented", "icmp", "udp", "arp_requests", "arp_replies", "unasked_sums", "bad_ip_sums",
        "bad_sums", "sums_left_out", "strange")


class Done(Exception):
    """Raised by the signal to end."""


def checksum(data):
    """Returns the Internet checksum of RFC 1071: 0 if data includes its own."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Device:
    """A network device, for receiving and sending frames."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.socket.bind((name, ETH_P_ALL))
        index = socket.if_nametoindex(name)
        self.socket.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("IHH8s", index, PACKET_MR_PROMISC, 0, b""))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)

    def receive(self):
        """Returns a received frame and whether its checksum was left to a device; (None, False) for a sent frame."""
        frame, ancillary, _, address = self.socket.recvmsg(1 << 17, 256)
        if address[2] == PACKET_OUTGOING:
            return None, False
        for level, kind, data in ancillary:
            if level == SOL_PACKET and kind == PACKET_AUXDATA:
                return frame, bool(struct.unpack("I", data[:4])[0] & TP_STATUS_CSUMNOTREADY)
        return frame, False


class Datagram:
    """The received fragments of a datagram."""

    def __init__(self):
        self.frames = []
        self.pieces = {}
        self.end = None

    def add(self, frame, offset, more, payload):
        self.frames.append(frame)
        self.pieces[offset] = payload
        if not more:
            self.end = offset + len(payload)

    def whole(self):
        """Returns the payload if it is complete."""
        at = 0
        while at in self.pieces and at != self.end:
            at += len(self.pieces[at])
        if self.end is None or at != self.end:
            return None
        return b"".join(self.pieces[offset] for offset in sorted(self.pieces))


class Direction:
    """One direction."""

    def __init__(self, source, sink, order):
        self.source, self.sink, self.order = source, sink, order
        self.seen = dict.fromkeys(SEEN, 0)
        self.longest = 0
        self.open = {}

    def pass_on(self):
        frame, unasked = self.source.receive()
        if frame is None:
            return
        self.seen["frames"] += 1
        self.seen["unasked_sums"] += unasked
        self.longest = max(self.longest, len(frame))
        for out in self.count(frame):
            self.sink.socket.send(out)

    def count(self, frame):
        """Counts the frame. Returns the frames to forward now."""
        kind = struct.unpack_from(">H", frame, 12)[0]
        if kind == ARP and len(frame) >= 42:
            self.seen["arp_requests" if frame[21] == 1 else "arp_replies"] += 1
        elif kind == IP and len(frame) >= 34 and frame[14] >> 4 == 4:
            return self.count_ip(frame)
        else:
            self.seen["strange"] += 1
        return [frame]

    def count_ip(self, frame):
        header_len = (frame[14] & 15) * 4
        total, identification, fragment = struct.unpack_from(">HHH", frame, 16)
        header, payload = frame[14:14 + header_len], frame[14 + header_len:14 + total]
        self.seen["bad_ip_sums"] += checksum(header) != 0
        if fragment & 0x3FFF == 0:
            self.count_datagram(header, payload)
            return [frame]
        self.seen["fragments"] += 1
        key = (header[12:20], identification, header[9])
        datagram = self.open.setdefault(key, Datagram())
        datagram.add(frame, (fragment & 0x1FFF) * 8, bool(fragment & 0x2000), payload)
        whole = datagram.whole()
        if whole is not None:
            del self.open[key]
            self.seen["fragmented"] += 1
            self.count_datagram(header, whole)
        return self.arrange(frame, datagram.frames, whole is not None)

    def arrange(self, frame, frames, complete):
        if self.order == "straight":
            return [frame]
        if self.order == "doubled":
            return [frame, frame]
        return list(reversed(frames)) if complete else []

    def count_datagram(self, header, payload):
        """Verifies a complete datagram's transport checksum."""
        if header[9] == ICMP:
            self.seen["icmp"] += 1
            self.seen["bad_sums"] += checksum(payload) != 0
        elif header[9] == UDP and len(payload) >= 8:
            self.seen["udp"] += 1
            length, given = struct.unpack_from(">HH", payload, 4)
            pseudo = header[12:20] + struct.pack(">HH", UDP, length)
            if given == 0:
                self.seen["sums_left_out"] += 1
            elif checksum(pseudo + payload[:length]) != 0:
                self.seen["bad_sums"] += 1
        else:
            self.seen["strange"] += 1

    def report(self):
        return dict(self.seen, longest=self.longest, incomplete=len(self.open))


def end(_signal, _frame):
    raise Done


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    left, right, report = Device(sys.argv[1]), Device(sys.argv[2]), sys.argv[3]
    order = sys.argv[4] if len(sys.argv) == 5 else "straight"
    ways = {left.socket: Direction(left, right, order), right.socket: Direction(right, left, order)}
    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    try:
        while True:
            for ready in select.select(list(ways), [], [])[0]:
                ways[ready].pass_on()
    except Done:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(report, "w", encoding="ascii") as file:
        json.dump({"left": ways[left.socket].report(), "right": ways[right.socket].report()}, file, indent=1)
        file.write("\n")


main()
