#!/usr/bin/env python3
"""peer.py WHAT ... - the operating system's ICMP and UDP as a peer of our host. Exit status 0: success.

    quiet DEVICE...             disables the devices' checksum and segmentation offloads
    ping ADDRESS COUNT SIZE...  sends COUNT echo requests with each SIZE bytes of payload and compares every answer
    udp ADDRESS PORT COUNT SIZE...  the same with datagrams to an echo server
    echo PORT                   echoes datagrams until SIGTERM
    closed ADDRESS PORT         sends a datagram to a closed port: an ICMP message must refuse it
    probe DEVICE ADDRESS        sends an ARP request and an echo request in turn until SIGTERM, each repeated until answered;
                                prints the numbers of answers and repetitions and the longest times as JSON
    watch ADDRESS [SOURCE]      sends an echo request every 50 ms until SIGTERM; prints a line for each answer
    announce DEVICE ADDRESS LINK  sends a gratuitous ARP request: ADDRESS is at LINK, the frame's source
    virtual DEVICE ADDRESS LINK   answers ARP requests for ADDRESS with LINK, in frames from DEVICE's own link address
    mtu ADDRESS SIZE            sends datagrams of SIZE with DF until the kernel knows that they are too long
"""
import ctypes
import errno
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import time

PATIENCE_S = 60
SIOCETHTOOL = 0x8946
ETHTOOL_SET = {"SRXCSUM": 0x15, "STXCSUM": 0x17, "SSG": 0x19, "STSO": 0x1F, "SGSO": 0x24, "SGRO": 0x2C}
IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14


def pattern(size, seed):
    """Returns bytes without a period, so that a misplaced piece is detected."""
    out, x = bytearray(), seed * 2654435761 % (1 << 32)
    while len(out) < size:
        x = (x * 1664525 + 1013904223) % (1 << 32)
        out += x.to_bytes(4, "big")
    return bytes(out[:size])


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(">%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def quiet(*devices):
    control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for device in devices:
        for command in ETHTOOL_SET.values():
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(control, SIOCETHTOOL, request)
            except OSError as error:
                if error.errno != errno.EOPNOTSUPP:
                    raise
    return 0


def ping_once(raw, address, number, size):
    data = pattern(size, number)
    head = struct.pack(">BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, number)
    head = struct.pack(">BBHHH", 8, 0, checksum(head + data), os.getpid() & 0xFFFF, number)
    raw.sendto(head + data, (address, 0))
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        raw.settimeout(max(until - time.monotonic(), 0.001))
        try:
            packet = raw.recvfrom(1 << 17)[0]
        except socket.timeout:
            return False
        answer = packet[(packet[0] & 15) * 4:]
        if answer[0] == 0 and answer[4:8] == head[4:8]:
            return answer[8:] == data and checksum(answer) == 0
    return False


def ping(address, count, *sizes):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    wrong = number = 0
    for size in map(int, sizes):
        for _ in range(int(count)):
            number += 1
            if not ping_once(raw, address, number, size):
                print("no correct answer to echo request %d of %d bytes" % (number, size), file=sys.stderr)
                wrong += 1
    return wrong != 0


def watch(address, source="0.0.0.0"):
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.bind((source, 0))
    due, number = time.monotonic(), 0
    while True:
        wait = due - time.monotonic()
        if wait <= 0:
            due, number = time.monotonic() + 0.05, (number + 1) & 0xFFFF
            head = struct.pack(">HH", os.getpid() & 0xFFFF, number)
            try:
                raw.sendto(struct.pack(">BBH", 8, 0, checksum(b"\x08\0\0\0" + head)) + head, (address, 0))
            except OSError:  # no answer to ARP now
                pass
            continue
        raw.settimeout(wait)
        try:
            answer = raw.recvfrom(1 << 17)[0]
        except OSError:
            continue
        answer = answer[(answer[0] & 15) * 4:]
        if answer[0] == 0 and struct.unpack_from(">H", answer, 4)[0] == os.getpid() & 0xFFFF:
            print("seq", struct.unpack_from(">H", answer, 6)[0], flush=True)


def arp_of(operation, link, host, to_link, to_host):
    return struct.pack(">HHBBH", 1, 0x800, 6, 4, operation) + link + host + to_link + to_host


def packet_socket(device):
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x806))
    raw.bind((device, 0x806))
    return raw


def announce(device, address, link):
    link, host = bytes.fromhex(link.replace(":", "")), socket.inet_aton(address)
    packet_socket(device).send(b"\xff" * 6 + link + b"\x08\x06" + arp_of(1, link, host, bytes(6), host))
    return 0


def virtual(device, address, link):
    link, host, raw = bytes.fromhex(link.replace(":", "")), socket.inet_aton(address), packet_socket(device)
    own = raw.getsockname()[4]
    print("ready", flush=True)
    while True:
        frame = raw.recv(2000)
        if frame[20:22] == b"\0\1" and frame[38:42] == host:
            raw.send(frame[6:12] + own + b"\x08\x06" + arp_of(2, link, host, frame[22:28], frame[28:32]))


def udp(address, port, count, *sizes):
    data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    data.connect((address, int(port)))
    data.settimeout(PATIENCE_S)
    wrong = number = 0
    for size in map(int, sizes):
        for _ in range(int(count)):
            number += 1
            want = pattern(size, number)
            data.send(want)
            try:
                if data.recv(1 << 17) == want:
                    continue
            except OSError as error:
                print(error, file=sys.stderr)
            print("no correct answer to datagram %d of %d bytes" % (number, size), file=sys.stderr)
            wrong += 1
    return wrong != 0


def echo(port):
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("", int(port)))
    print("ready", flush=True)
    while True:
        data, sender = server.recvfrom(1 << 17)
        server.sendto(data, sender)


def closed(address, port):
    data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    data.connect((address, int(port)))
    data.settimeout(PATIENCE_S)
    data.send(b"anybody?")
    try:
        data.recv(100)
    except ConnectionRefusedError:
        return 0
    except OSError as error:
        print(error, file=sys.stderr)
    return 1


def probe(device, address):
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    wire.bind((device, 0x0806))
    own = wire.getsockname()[4]
    target = socket.inet_aton(address)
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.connect((address, 0))
    sender = socket.inet_aton(raw.getsockname()[0])
    query = b"\xff" * 6 + own + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + own + sender + bytes(6) + target
    counts = {"arp": 0, "arp_again": 0, "echo": 0, "echo_again": 0, "arp_ms": 0, "echo_ms": 0}
    last = False
    while not last:
        last = bool(ended)  # one more complete round
        number = (counts["echo"] + 1) & 0xFFFF
        head = struct.pack(">HH", os.getpid() & 0xFFFF, number)
        echo_request = struct.pack(">BBH", 8, 0, checksum(b"\x08\0\0\0" + head)) + head
        for name, ends, question, is_answer in (
                ("arp", wire, query, lambda p: p[20:22] == b"\0\2" and p[28:32] == target),
                ("echo", raw, echo_request, lambda p: p[20] == 0 and p[24:28] == head)):
            begun = now = time.monotonic()
            asked = None
            while True:
                if asked is None or now - asked > 0.5:
                    counts[name + "_again"] += asked is not None
                    ends.send(question)
                    asked = now
                if select.select([ends], [], [], 0.5)[0] and is_answer(ends.recv(2000)):
                    break
                now = time.monotonic()
                if now - begun > PATIENCE_S:
                    print("no answer to %s" % name, file=sys.stderr)
                    return 1
            counts[name] += 1
            counts[name + "_ms"] = max(counts[name + "_ms"], round(1000 * (time.monotonic() - begun), 3))
        time.sleep(0.005)
    print(json.dumps(counts))
    return 0


def mtu(address, size):
    data = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    data.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    data.connect((address, 7))
    for _ in range(20):
        try:
            data.send(bytes(int(size)))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                print(data.getsockopt(socket.IPPROTO_IP, IP_MTU))
                return 0
        time.sleep(0.1)
    return 1


def main():
    words = {"quiet": quiet, "ping": ping, "udp": udp, "echo": echo, "closed": closed, "probe": probe,
             "mtu": mtu, "watch": watch, "announce": announce,
             "virtual": virtual}
    if len(sys.argv) < 2 or sys.argv[1] not in words:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        return int(words[sys.argv[1]](*sys.argv[2:]))
    except KeyboardInterrupt:
        return 0


sys.exit(main())
