"""lab_stream.py - lab 5: the sender of a stream, with congestion control (docs/labs/stream.md).

The first checks speak for the receiver themselves, segment by segment. In the others the receiver is this project's TCP, in a
process of its own (labhost.c), at the other end of a slow link; figures are compared with those of the same TCP as the sender, on
a link with the same seed.
"""
import struct
import typing

from keys import Draws
from labs import Check, Choice, Field, Lab, Layout, checksum
from questions import any_of, choose
from sandbox import Ended
from world import HOST, MS, NEVER, PEER, S, US, address, arp_reply, link, need, short

WORD = 1 << 32
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
IP, TCP = 0x0800, 6
HEADERS = 40  # bytes of a segment that are not payload
PORT = 5001
OTHER = 3  # the host of another sender
WINDOW_MAX = 65535


class StreamLayout(Layout):
    """TCP's header, behind IP's."""

    ethertype, below = IP, 34

    def part(self, frame):
        return frame[34:] if frame[12:14] == b"\x08\0" and frame[14:15] == b"\x45" and frame[23:24] == b"\x06" else None

    def title(self, data):
        values = self.unpack(data[20:])
        if values is None:
            return f"{len(data)} bytes"
        names = [name for bit, name in ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST")) if values["flags"] & bit]
        return " ".join(["segment", *names, str(values["sequence"]), "ACK", str(values["acknowledgement"])])

    def header(self):
        """Returns the text of the student's header file: that of the lab's folder, with other numbers."""
        lines = super().header().replace(str(self["first"]), f"UINT32_C({self['first']})").split("\n")
        begin, end = lines.index("/* Offsets of the fields, in bytes. */"), lines.index("/* For dissectors, traces and tests. */")
        first = next(at for at in range(begin, end) if lines[at] == "};") + 2
        return "\n".join(lines[:begin] + FIELDS.split("\n") + lines[first:end] + ["#endif", ""])


FIELDS = """/* TCP's header (RFC 9293, 3.1). */
/* clang-format off */
#define STREAM_HEADER(F) \\
	F(16, source, .kind = XK_NAMES_SESSION, .end = XK_END_REMOTE, .help = "port") \\
	F(16, destination, .kind = XK_NAMES_SESSION, .end = XK_END_LOCAL, .help = "port") \\
	F(32, sequence, .help = "of the first byte, or of the SYN") \\
	F(32, acknowledgement, .help = "the next byte that is expected") \\
	F(4, offset, .help = "of the payload, in words of 4 bytes") \\
	F(4, reserved, .help = "ignored") \\
	F(8, flags, .help = "1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK") \\
	F(16, window, .help = "bytes that the receiver has room for") \\
	F(16, checksum, .kind = XK_CHECKSUM, .print = XK_PRINT_HEX, .covers = XK_COVERS_PSEUDO, .pseudo = 6) \\
	F(16, urgent, .help = "ignored")
/* clang-format on */
XK_HEADER(stream, STREAM_HEADER);

enum {
	STREAM_FIN = 1 << 0,
	STREAM_SYN = 1 << 1,
	STREAM_RST = 1 << 2,
	STREAM_PSH = 1 << 3,
	STREAM_ACK = 1 << 4,
	STREAM_HEADER_LEN = XK_HEADER_LEN(stream),
};
"""


def layout(number):
    choice = Choice("stream", number)
    fixed = "XK_FIXED"
    fields = [
        Field("source", 2, "port", kind=fixed), Field("destination", 2, "port", kind=fixed),
        Field("sequence", 4, "of the first byte, or of the SYN"), Field("acknowledgement", 4, "the next byte that is expected"),
        Field("offset", 1, "of the payload, in words of 4 bytes, times 16", kind=fixed), Field("flags", 1, "1 FIN, 2 SYN, 4 RST, 8 PSH, 16 ACK", kind=fixed),
        Field("window", 2, "bytes that the receiver has room for", kind=fixed),
        Field("checksum", 2, "the Internet's, with a pseudo-header", kind="XK_CHECKSUM", print_as="XK_PRINT_HEX"), Field("urgent", 2, "ignored", kind=fixed),
    ]
    return StreamLayout("stream", number, fields, {
        "first": (WORD - choice.between(10000, 2000, 60000), "The SYN's number; the first byte has the next one. After 4294967295 comes 0."),
        "segment": (choice.between(128, 100, 134) * 4, "Bytes of payload of a full segment."),
        "initial": (choice.between(2, 2, 4), "Full segments in the first congestion window."),
        "duplicates": (3, "Duplicate ACKs in a row that show a loss."),
        "timeout_ms": (choice.between(10, 6, 14) * 100, "Milliseconds until bytes without an ACK are sent again: before a round trip is measured, at least, at most."),
        "timeout_min_ms": (choice.between(20, 18, 26) * 10, ""),
        "timeout_max_ms": (10000, ""),
        "tries": (choice.between(6, 4, 7), "Timeouts in a row, after which the next one gives the stream up."),
        "window_max": (WINDOW_MAX, "The longest window, in bytes: the header has no room for more."),
        "room": (131072, "Bytes that are pushed and not acknowledged, before a push waits."),
    })


# ---- segments --------------------------------------------------------------------------------------------------------


class Segment(typing.NamedTuple):
    """at: the first byte's place in the stream, -1: the SYN's; end: the place behind the last, and behind the FIN."""
    at: int
    end: int
    payload: bytes
    flags: int
    acknowledgement: int
    source: int


def signed(number):
    return (number + WORD // 2) % WORD - WORD // 2


def pseudo(packet):
    return packet[12:20] + struct.pack(">HH", TCP, len(packet) - 20)


def packet(source, destination, segment):
    """Returns an IP packet with this segment, whose checksum is filled in if it is 0."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 0, 0, 64, TCP, 0) + address(source) + address(destination)
    head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
    if segment[16:18] == b"\0\0":
        segment = segment[:16] + struct.pack(">H", checksum(pseudo(head + segment) + segment)) + segment[18:]
    return head + segment


def read(w, data):
    """Returns the segment in a packet that the host has sent, which must be well-formed."""
    need(len(data) >= HEADERS and data[0] == 0x45 and checksum(data[:20]) == 0 and data[9] == TCP and struct.unpack(">H", data[2:4])[0] == len(data),
         f"the host sent something that is no segment: {short(data)}")
    segment = data[20:]
    need(checksum(pseudo(data) + segment) == 0, f"a segment has a wrong checksum: {short(segment)}")
    values = w.layout.unpack(segment)
    need(values["offset"] == 5 << 4, "a segment has options")
    at = signed(values["sequence"] - w.layout["first"]) - 1
    payload, flags = segment[20:], values["flags"]
    return Segment(at, at + len(payload) + bool(flags & FIN) + bool(flags & SYN), payload, flags, values["acknowledgement"], values["source"])


# ---- the receiver of the first checks --------------------------------------------------------------------------------


class Receiver:
    """Speaks for the peer, as a check says. Places of bytes count from 0."""

    def __init__(self, w, window=WINDOW_MAX, opens=True):
        self.w, self.window, self.number = w, window, w.random.getrandbits(32)
        self.pushed, self.ended, self.acked, self.max = b"", False, 0, 0
        self.size = w.layout["segment"]
        if opens:
            self.open()

    def open(self):
        w = self.w
        w.open(PEER, struct.pack(">H", PORT))
        syn = [read(w, data) for data in w.take_sent()]
        need(len(syn) == 1 and syn[0].flags == SYN and syn[0].at == -1, "opening a stream does not send one SYN with the first number")
        self.port = syn[0].source
        w.run(MS)
        self.send(0, flags=SYN | ACK, options=b"\2\4\5\xb4")
        self.number += 1
        sent = [read(w, data) for data in w.take_sent()]
        need(len(sent) == 1 and sent[0].flags == ACK and sent[0].acknowledgement == self.number % WORD and not sent[0].payload,
             "the answer to the SYN is not answered by an ACK")

    def send(self, place, flags=ACK, payload=b"", options=b"", window=None, number=None, **changes):
        """Sends a segment that acknowledges everything before this place."""
        values = {"source": PORT, "destination": self.port, "sequence": self.number if number is None else number,
                  "acknowledgement": self.w.layout["first"] + 1 + place, "offset": (5 + len(options) // 4) << 4, "flags": flags,
                  "window": self.window if window is None else window, **changes}
        self.w.frame(packet(PEER, HOST, self.w.layout.pack(**values) + options + payload))

    def ack(self, place, **how):
        self.acked = max(self.acked, place)
        self.send(place, **how)

    def push(self, segments=0, size=0):
        """The user pushes so many full segments, and `size` bytes."""
        more = self.w.bytes(segments * self.size + size)
        self.pushed += more
        need(self.w.send(more) == 0, "a push failed")

    def end(self):
        """The user ends the stream."""
        self.ended = True
        need(self.w.end() == 0, "ending the stream failed")

    def sent(self):
        """Returns the segments with bytes, or a FIN, that were sent since the last call."""
        segments = [read(self.w, data) for data in self.w.take_sent()]
        for one in segments:
            need(one.acknowledgement == self.number % WORD and one.flags & ACK, "a segment does not acknowledge what the peer has sent")
            need(0 <= one.at and len(one.payload) <= self.size, f"a segment has {len(one.payload)} bytes from byte {one.at} on")
            need(one.payload == self.pushed[one.at : one.at + len(one.payload)], f"a segment from byte {one.at} on has other bytes than the user has pushed")
            need(not one.flags & FIN or (self.ended and one.at + len(one.payload) == len(self.pushed)), "a FIN is not behind the last byte")
            need(not one.flags & SYN, "a SYN was sent in an open stream")
            self.max = max(self.max, one.end)
        return [one for one in segments if one.end > one.at]

    def fresh(self):
        """The same, all of which must be new, and full segments in order. Returns how many."""
        at, sent = self.max, self.sent()
        for one in sent:
            need(one.at == at, f"the segment from byte {one.at} on was sent where byte {at} is next")
            at = one.end
        return len(sent)

    @property
    def flight(self):
        """Bytes that are sent and not acknowledged."""
        return self.max - self.acked

    def grow(self, segments):
        """Acknowledges one segment after another, until so many are in flight."""
        need(self.fresh() > 0, "nothing was sent")
        while self.flight < segments * self.size:
            need(self.acked < 4 * segments * self.size, f"in slow start there were never {segments} segments in flight")
            self.w.run(MS)
            self.ack(self.acked + self.size)
            self.fresh()


def check_opens(w):
    peer = Receiver(w)
    peer.push(size=100)
    sent = peer.sent()
    need([(one.at, one.end) for one in sent] == [(0, 100)], "100 bytes are not sent at once, in one segment")
    w.run(MS)
    peer.ack(100)
    w.run(30 * S)
    need(not peer.sent(), "something was sent after everything had been acknowledged")


def check_window(w):
    """The peer's window, which is smaller than the congestion window after the first turns."""
    size, few = w.layout["segment"], w.random.randint(3, 5)
    peer = Receiver(w, few * size)
    peer.push(segments=90)
    peer.fresh()
    for turn, window in enumerate((few, few, few + 4, few + 4, 2, 6, few)):
        for _ in range(8):
            w.run(MS)
            peer.window = window * size + w.random.randint(0, size - 1)
            peer.ack(peer.acked + min(size, peer.flight))
            before = peer.flight
            peer.fresh()
            need(peer.flight <= max(peer.window, before), f"{peer.flight} bytes are in flight, and the peer has room for {peer.window}")
        need(turn == 0 or peer.flight > peer.window - size, f"only {peer.flight} bytes are in flight, and the peer has room for {peer.window}")


def check_start(w):
    peer = Receiver(w)
    size, initial = peer.size, w.layout["initial"]
    peer.push(segments=120)
    need(peer.fresh() == initial, f"the first window is not {initial} segments")
    for turn in range(3 * initial):
        w.run(MS)
        peer.ack(peer.acked + size)
        count = peer.fresh()
        need(count == 2, f"in slow start, the ACK of one segment lets {count} be sent, not 2")
    for _ in range(2):
        w.run(MS)
        peer.ack(peer.acked + 4 * size)
        count = peer.fresh()
        need(5 <= count <= 6, f"in slow start, an ACK of 4 segments lets {count} be sent: it opens the window by 1 or 2")


def recover(peer, place):
    """Acknowledges everything up to a place at once, and returns how many bytes are in flight then."""
    peer.w.run(MS)
    peer.ack(place)
    peer.sent()
    return peer.flight


def check_avoidance(w):
    peer = Receiver(w)
    size, most = peer.size, w.random.randint(14, 18)
    peer.push(segments=70)
    peer.grow(most)
    half = peer.flight / 2
    for _ in range(3):
        w.run(MS)
        peer.ack(peer.acked)
    peer.sent()
    flight = recover(peer, peer.max)
    rounds = 6
    for _ in range(rounds):
        peer.push(segments=15)
        for _ in range(peer.flight // size if peer.flight <= flight + 2 * rounds * size else 0):
            w.run(MS)
            peer.ack(peer.acked + size)
            peer.sent()
    grown = (peer.flight - flight) / size
    need(flight <= half + size, f"after the loss of one of {2 * half / size:.0f} segments in flight, {flight / size:.0f} are in flight")
    need(rounds // 2 <= grown <= rounds + 2, f"above the threshold, the window has grown by {grown:.0f} segments in {rounds} round trips, "
         "and not by about one for each")


def check_fast(w):
    peer = Receiver(w)
    size, most = peer.size, w.random.randint(12, 16)
    peer.push(segments=100)
    peer.grow(most)
    lost, end, flight = peer.acked, peer.max, peer.flight
    for turn in range(1, 3):
        w.run(MS)
        peer.ack(lost)
        need(not [one for one in peer.sent() if one.at < end], f"{turn} duplicates of an ACK let a segment be sent again")
    w.run(MS)
    peer.ack(lost)
    again = [one.at for one in peer.sent() if one.at < end]
    need(again == [lost], "three duplicates of an ACK do not let exactly the segment that it asks for be sent again" if len(again) < 2 else
         f"three duplicates of an ACK let {len(again)} segments be sent again, not one")
    for _ in range(flight // size - 4):
        w.run(MS)
        peer.ack(lost)
        need(not [one for one in peer.sent() if one.at < end], "more than three duplicates of an ACK let a segment be sent again, again")
    need(peer.max - end <= flight // 2 + size, f"during fast recovery, {(peer.max - end) // size} segments more were sent")
    peer.w.run(MS)
    before = peer.max
    peer.ack(end)
    peer.sent()
    need(peer.max - before <= 2 * size or peer.flight <= flight // 2 + size, f"the end of fast recovery lets {(peer.max - before) // size} segments be sent")
    need(flight // 2 - 2 * size <= peer.flight <= flight // 2 + size,
         f"after fast recovery with {flight // size} segments in flight, {peer.flight / size:.0f} are in flight, and not half of them")


def check_partial(w):
    peer = Receiver(w)
    size, most = peer.size, w.random.randint(12, 16)
    peer.push(segments=100)
    peer.grow(most)
    lost, end, hole = peer.acked, peer.max, w.random.randint(3, 8)
    for _ in range(most - 3):
        w.run(MS)
        peer.ack(lost)
    peer.sent()
    peer.ack(lost + hole * size)
    again = [one.at for one in peer.sent() if one.at < end]
    need(again == [lost + hole * size], "an ACK of a part, in fast recovery, does not let exactly the next segment be sent again")
    flight = recover(peer, end)
    need(0 < flight <= (most // 2 + 1) * size, f"after a recovery from two losses, {flight / size:.0f} segments are in flight, of {most} before")


def timeout(w):
    return w.layout["timeout_min_ms"] * MS


def late(peer, ns, what):
    """Checks that the next segments come after ns and not much later. Returns them."""
    w = peer.w
    w.run(ns - 10 * MS)
    need(not peer.sent(), f"{what}: bytes were sent again before their timeout of {ns / MS:.0f} ms")
    need(w.run_until(lambda: w.sent, ns // 2), f"{what}: nothing was sent again after the timeout of {ns / MS:.0f} ms")
    return peer.sent()


def check_timeout(w):
    peer = Receiver(w)
    size, most = peer.size, w.random.randint(16, 20)
    peer.push(segments=200)
    peer.grow(most)
    ns, end = timeout(w), peer.max
    for turn in range(4):
        sent = late(peer, ns, f"after {turn} timeouts")
        need(sent[0].at == peer.acked, "the bytes that are sent again first are not the oldest")
        need(len(sent) == 1, f"a timeout lets {len(sent)} segments be sent, not one")
        ns *= 2
    allowed = 1
    while peer.acked < end:  # slow start from one segment; ACKs are for one each
        w.run(MS)
        peer.ack(peer.acked + size)
        count = len(peer.sent())
        need(count <= 2, f"after a timeout, the ACK of one segment lets {count} be sent")
        allowed += count - 1
    need(allowed <= most // 2 + 5, f"after a timeout with {most} segments in flight, the window has grown to {allowed} within a round trip: the threshold is not half")
    need(allowed >= most // 2 - 1, f"after a timeout, slow start ends at {allowed} of {most} segments")


def check_gives_up(w):
    peer = Receiver(w)
    for _ in range(3):  # single timeouts, which do not count later
        peer.push(segments=1)
        peer.sent()
        need(w.run_until(lambda: w.sent, 2 * w.layout["timeout_max_ms"] * MS), "a lost segment was not sent again")
        peer.sent()
        peer.ack(peer.max)
        peer.push(segments=1)
        peer.sent()
        w.run(MS)
        peer.ack(peer.max)
    peer.push(segments=10)
    peer.sent()
    for turn in range(w.layout["tries"]):
        need(w.run_until(lambda: w.sent, 2 * w.layout["timeout_max_ms"] * MS), f"the stream was given up, or forgotten, after {turn} timeouts")
        need(not w.ended, f"the user was told of the end after {turn} timeouts")
        peer.sent()
    need(w.run_until(lambda: w.ended or w.sent, 2 * w.layout["timeout_max_ms"] * MS) and w.ended, "the stream is not given up, or the user is not told")
    w.run(60 * S)
    need(not peer.sent(), "something was sent after the stream was given up")


def check_measure(w):
    peer, trip = Receiver(w), w.random.randint(30, 40) * 10 * MS
    for _ in range(14):
        peer.push(segments=1)
        peer.sent()
        w.run(trip)
        peer.ack(peer.max)
    peer.push(segments=1)
    peer.sent()
    began = w.now
    need(w.run_until(lambda: w.sent, 10 * trip), "a lost segment was not sent again")
    first = w.now - began
    need(trip < first < 2 * trip, f"with round trips of {trip / MS:.0f} ms the timeout is {first / MS:.0f} ms")
    peer.sent()
    w.run(5 * MS)
    peer.ack(peer.max)  # of either copy
    peer.push(segments=1)
    peer.sent()
    began = w.now
    need(w.run_until(lambda: w.sent, 10 * trip), "a lost segment was not sent again")
    need(abs(w.now - began - 2 * first) < first // 50, f"an ACK of bytes that were sent twice has changed the timeout: it is {(w.now - began) / MS:.0f} ms, "
         f"and not twice {first / MS:.0f}")


def check_lies(w):
    peer = Receiver(w)
    size = peer.size
    peer.push(segments=60)
    peer.grow(8)
    una, end = peer.acked, peer.max
    number = peer.number
    peer.send(una + size, checksum=w.random.randint(1, 65535))
    peer.send(una + size, destination=peer.port ^ 1)
    peer.send(end + 1)
    peer.send(end + 100 * size)
    peer.send(una - size)
    peer.send(una + WORD // 2)
    peer.send(una + size, flags=0)
    peer.send(una + size, offset=4 << 4)
    peer.send(una + size, offset=6 << 4)
    peer.send(una, flags=RST | ACK, number=number + 1)
    need(not peer.sent() and not w.ended, "a damaged, misdirected or impossible segment had an effect")
    w.run(MS)
    for turn in range(4):
        peer.send(una, window=20 * size + turn)
    peer.send(una, window=WINDOW_MAX)
    need(not [one for one in peer.sent() if one.at < end], "ACKs with other windows are no duplicates, but let a segment be sent again")
    for _ in range(4):
        peer.send(una, payload=b"not expected")
    need(not [one for one in peer.sent() if one.at < end], "segments with payload are no duplicates, but let a segment be sent again")
    for _ in range(4):
        peer.send(una - size)
    need(not [one for one in peer.sent() if one.at < end], "old ACKs are no duplicates, but let a segment be sent again")
    w.run(MS)
    peer.ack(una + size)
    need(peer.sent(), "after segments that must have no effect, an ACK has none either")


def check_ends(w):
    peer = Receiver(w)
    peer.push(size=w.random.randint(1, peer.size))
    peer.end()
    sent = peer.sent()
    need(sum(one.end - one.at for one in sent) == len(peer.pushed) + 1 and sent[-1].flags & FIN, "the end of a stream does not send a FIN behind the bytes")
    w.run(MS)
    peer.ack(len(peer.pushed))  # the round trip of 1 ms is measured
    sent = late(peer, timeout(w), "a FIN without an ACK")
    need([(one.at, one.end) for one in sent] == [(len(peer.pushed), len(peer.pushed) + 1)], "a lost FIN is not sent again alone, with the number behind the last byte")
    peer.ack(len(peer.pushed) + 1)
    w.run(40 * S)
    need(not peer.sent(), "something was sent after the FIN had been acknowledged")
    need(w.send(b"more") not in (0, None), "a push on an ended stream does not fail")
    need(not w.ended, "the user was told of an end that the peer has not made")
    peer.send(len(peer.pushed) + 1, flags=ACK | FIN)
    need(w.ended, "the user is not told of the peer's FIN")


# ---- a network with TCPs ---------------------------------------------------------------------------------------------


class Tcp:
    """A host with this project's TCP: without extensions, and with segments of the lab's size."""

    def __init__(self, w, number, send):
        self.w, self.number, self.send = w, number, send  # send(frame)
        self.got, self.ended, self.wake, self.results = {}, set(), NEVER, []
        self.process = w.start_tcp(Draws(w.seed, f"tcp {number}").getrandbits(63), f"number={number}", f"mtu={w.layout['segment'] + HEADERS}",
                                   "tcp.sack=no", "tcp.stamps=no", "tcp.scale=no", "tcp.receive=64k", "tcp.send=4m")
        w.others.append(self.process)

    def step(self, *items):
        try:
            records, wake = self.process.step(self.w.now, items)
        except Ended as why:
            raise RuntimeError(f"the grader's own host {why}") from None
        for kind, data in records:
            if kind == b"f":
                reply = arp_reply(data)
                if reply is not None:
                    self.w.at(self.w.now + US, lambda reply=reply: self.step((b"F", reply)))
                elif data[12:14] == b"\x08\0":
                    self.send(data)
            elif kind == b"d":
                self.got[data[3]] = self.got.get(data[3], b"") + data[4:]
            elif kind == b"e":
                self.ended.add(data[3])
            elif kind == b"r":
                self.results.append(struct.unpack(">i", data)[0])
        if wake != self.wake and wake != NEVER:
            self.wake = wake
            self.w.at(max(wake, self.w.now + US), lambda: self.step() if self.wake == wake else None)
        self.wake = wake

    def connect(self):
        self.step((b"O", address(PEER) + struct.pack(">H", PORT)))
        self.w.run_until(lambda: self.results, 10 * S)

    def push(self, message):
        self.step((b"S", address(PEER) + message))


class Road:
    """One direction of the link: a queue that drops what has no room, then so many bytes a second, then a delay; faults are drawn."""

    def __init__(self, w, chance, rate, delay, room, loss=0.0):
        self.w, self.chance, self.rate, self.delay, self.room, self.loss = w, chance, rate, delay, room, loss
        self.free = 0
        self.dropped = self.lost = 0

    def carry(self, frame, arrive):
        wait = max(0, self.free - self.w.now)
        if self.room is not None and wait * self.rate // S + len(frame) > self.room:
            self.dropped += 1
            return
        self.free = self.w.now + wait + len(frame) * S // self.rate
        for _ in range(1 + (self.chance.random() < self.loss / 2)):
            if self.chance.random() < self.loss:
                self.lost += 1
                continue
            late = self.delay // 2 if self.chance.random() < self.loss else 0
            jitter = int(self.chance.random() * len(frame) * S / self.rate)
            self.w.at(self.free + self.delay + late + jitter, lambda: arrive(frame))


class Network:
    """A receiver behind a slow link, to which the senders are joined: the student's host, and others. receive(frame): the receiver, if
    it is no Tcp."""

    def __init__(self, w, queue, loss=0.0, rate=125000, delay=20 * MS, receive=None):
        self.w, size = w, w.layout["segment"] + HEADERS + 14
        chance = Draws(w.seed, "link")
        self.there = Road(w, chance, rate, delay, queue * size, loss)
        self.back = Road(w, chance, rate, delay, None, loss)
        self.hosts, self.receive = {}, receive
        if receive is None:
            self.receiver = Tcp(w, PEER, self.from_receiver)
            self.receiver.step((b"L", struct.pack(">H", PORT)))
            self.receive = lambda frame: self.receiver.step((b"F", frame))
        self.sent = self.again = 0  # segments of the student's host
        self.highest = 0
        w.hear = self._from_student

    def _from_student(self, _, data):
        one = read(self.w, data)
        if one.end > one.at and not one.flags & SYN:
            self.sent += 1
            self.again += one.at < self.highest
            self.highest = max(self.highest, one.end)
        self.there.carry(link(PEER) + link(HOST) + struct.pack(">H", IP) + data, self.receive)

    @property
    def lost(self):
        """Frames to the receiver that were dropped or lost."""
        return self.there.dropped + self.there.lost

    def from_receiver(self, frame):
        number = frame[5]
        if number == HOST and HOST not in self.hosts:
            self.back.carry(frame, lambda one: self.w.frame(one[14:]))
        elif number in self.hosts:
            self.back.carry(frame, lambda one: self.hosts[number].step((b"F", one)))

    def add(self, number):
        """Adds a host with TCP as a sender."""
        self.hosts[number] = Tcp(self.w, number, lambda frame: self.there.carry(frame, self.receive))
        return self.hosts[number]

    def got(self, number=HOST):
        return self.receiver.got.get(number, b"")


class Feed:
    """The user opens a stream, pushes a message in pieces as they find room, and ends the stream."""

    def __init__(self, w, message):
        self.w, self.message, self.at, self.ended = w, message, 0, False
        w.open(PEER, struct.pack(">H", PORT))

    def go_on(self):
        """Pushes the next piece, or ends the stream, if the last push has returned."""
        w = self.w
        if not w.results or self.ended:
            return
        need(w.results[0] == 0, f"a push returned {w.results[0]}")
        if self.at < len(self.message):
            self.at += 8192
            w.send(self.message[self.at - 8192 : self.at])
        else:
            self.ended = True
            w.end()


def feed(w, net, message, limit, until):
    """Sends a message; lets time pass until until(), at most `limit`."""
    user, end = Feed(w, message), w.now + limit
    while w.now < end and not until():
        user.go_on()
        w.run(5 * MS)
    need(message.startswith(net.got()), "the receiver's user got other bytes than the host's user had pushed")


def transfer(w, message, limit, **how):
    """Sends a message to the end. Returns the network, and the time it took."""
    net, began = Network(w, **how), w.now
    feed(w, net, message, limit, lambda: HOST in net.receiver.ended)
    need(len(net.got()) == len(message), f"the receiver has {len(net.got())} of {len(message)} bytes after {(w.now - began) / S:.1f} s")
    need(HOST in net.receiver.ended, "the receiver has all bytes, but no FIN")
    return net, w.now - began


def by_tcp(w, message, limit, **how):
    """The same, with this project's TCP as the sender: what it takes until all bytes are there."""
    net = Network(w, **how)
    sender, began = net.add(HOST), w.now
    sender.connect()
    sender.push(message)
    w.run_until(lambda: len(net.got()) == len(message), limit)
    if len(net.got()) != len(message):
        raise RuntimeError("the grader's own host has not sent everything")
    return net, w.now - began


def check_whole(w):
    transfer(w, w.bytes(60000, 80000), 300 * S, queue=30, loss=0.04)


def check_speed(w):
    message = w.bytes(300000)
    for name, how, share in (("a link with room for 20 segments", {"queue": 20}, 0.65), ("a link that loses one frame of a hundred", {"queue": 40, "loss": 0.01}, 0.5)):
        _, best = by_tcp(w, message, 200 * S, **how)
        net, took = transfer(w, message, 200 * S, **how)
        need(took * share <= best, f"over {name}, {len(message)} bytes took {took / S:.1f} s, and TCP's Reno {best / S:.1f} s")


def check_flood(w):
    message, how = w.bytes(200000), {"queue": 8}
    best, least = by_tcp(w, message, 200 * S, **how)
    net, took = transfer(w, message, 300 * S, **how)
    need(took <= 3 * least, f"over a link with room for 8 segments, {len(message)} bytes took {took / S:.1f} s, and TCP's Reno {least / S:.1f} s")
    most = 2 * best.there.dropped + 40
    need(net.there.dropped <= most, f"a link with room for 8 segments dropped {net.there.dropped} of {net.sent}; of TCP's Reno it dropped {best.there.dropped}")
    need(net.again <= 2 * net.there.dropped + 20, f"{net.again} segments were sent again, of which {net.there.dropped} had been dropped")


def check_fair(w):
    net, long = Network(w, queue=20), 30 * S
    other = net.add(OTHER)
    other.connect()
    for _ in range(7):
        other.push(bytes(500000))
    began, before = w.now, {}

    def over():
        if not before and w.now >= began + long // 4:
            before.update({number: len(net.got(number)) for number in (HOST, OTHER)})
        return w.now >= began + long

    feed(w, net, w.bytes(3500000), 2 * long, over)
    mine, other = (len(net.got(number)) - before.get(number, 0) for number in (HOST, OTHER))
    need(mine <= 2.5 * other, f"beside a flow of TCP's Reno, the host has sent {mine} bytes in the time of its {other}")
    need(other <= 3.5 * mine, f"beside a flow of TCP's Reno, which has sent {other} bytes, the host has sent only {mine}")


# ---- questions -------------------------------------------------------------------------------------------------------


WHY_SENT = {
    "push": "the user has just pushed its bytes",
    "window": "an ACK has made room for it in the window",
    "timeout": "its first byte was the oldest in flight, and its timeout has passed",
    "duplicates": "it is the one that duplicate ACKs ask for",
    "partial": "an ACK in fast recovery has shown that it is lost, too",
}


def questions(run, chance):
    una = top = run.layout["first"] + 1  # acknowledged, and sent: before these
    duplicates, because, in_flight = 0, [], []
    for frame in run.frames:
        values = frame.values
        if not frame.is_sent:
            news = signed(values["acknowledgement"] - una)
            duplicates = 0 if news > 0 else duplicates + (news == 0)
            una += max(news, 0) if signed(values["acknowledgement"] - top) <= 0 else 0
        elif frame.payload:
            is_new = signed(values["sequence"] - top) >= 0
            if is_new:
                because.append((frame, "push" if frame.cause == "pushed" else "window"))
            elif signed(values["sequence"] - una) == 0:
                because.append((frame, "timeout" if frame.cause == "timer" else "duplicates" if duplicates > 0 else "partial"))
            top += max(0, signed(values["sequence"] + len(frame.payload) - top))
            in_flight.append((frame, signed(top - una)))
    for what in any_of(sorted({what for _, what in because}), chance):
        for frame, _ in any_of([found for found in because if found[1] == what], chance):
            text, answer = choose(WHY_SENT, what)
            yield f"Why does the host send frame {frame.place} of those that it sends? {text}", answer
    for frame, count in any_of(in_flight[4:], chance):
        yield f"How many bytes are in flight, unacknowledged, right after the host has sent frame {frame.place} of its own?", count
    again = [frame for frame, what in because if what in ("timeout", "duplicates", "partial")]
    for frame in any_of(again, chance):
        yield (f"Frame {frame.place} that the host sends was sent before. How many bytes from the first of the stream on had been acknowledged "
               "by then?"), signed(frame.values["sequence"] - run.layout["first"] - 1)


LAB = Lab(5, "stream", layout, [
    Check("opens", 1, "a stream is opened, and its first bytes are sent", check_opens),
    Check("window", 3, "no more is in flight than the peer has room for", check_window),
    Check("start", 3, "slow start doubles the window in a round trip", check_start),
    Check("avoidance", 3, "above the threshold it grows by a segment in a round trip", check_avoidance),
    Check("fast", 4, "three duplicates send one segment again, and halve the window", check_fast),
    Check("partial", 2, "a second loss in a window is repaired, too", check_partial),
    Check("timeout", 4, "a timeout sends one segment, and doubles the next", check_timeout),
    Check("gives_up", 2, "a peer that is silent is given up", check_gives_up),
    Check("measure", 2, "the timeout follows the round trips that can be measured", check_measure),
    Check("lies", 2, "damaged and impossible segments have no effect", check_lies),
    Check("ends", 2, "the FIN has a number of its own", check_ends),
    Check("whole", 4, "TCP receives all bytes over a bad link", check_whole, seeds=4),
    Check("speed", 4, "nearly as fast as TCP's Reno", check_speed),
    Check("flood", 2, "a full link is not flooded", check_flood),
    Check("fair", 2, "a flow of TCP's Reno gets its share", check_fair),
], story="partial", questions=questions, over_ip=True)
