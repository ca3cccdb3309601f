"""lab_window.py - lab 2: a sliding window over a bad link (docs/labs/window.md)."""
import search
from labs import Check, Choice, Field, Lab, Layout, checksum
from questions import any_of, choose
from world import BUFFERS, ENOBUFS, MS, S, US, need, short

WORD = 1 << 16
QUEUE = 64


def layout(number):
    choice = Choice("window", number)
    fields = [
        Field("kind", 1, "what the frame is", values=("data", "ack")),
        Field("number", 2, "of DATA, or the next that the receiver expects"),
        Field("length", 2, "of header and payload", kind="XK_LENGTH", covers="XK_COVERS_MESSAGE"),
        Field("checksum", 2, "the Internet's, of header and payload", kind="XK_CHECKSUM", print_as="XK_PRINT_HEX",
              covers="XK_COVERS_MESSAGE"),
    ]
    if choice.of(False, (False, True)):
        fields.insert(2, Field("spare", 1, "0 when sent"))
    data, ack = choice.different((1, 2), 1, 255)
    # An even number of bytes before the checksum: it is a sum of words of 16 bits.
    fields = choice.order(fields)
    while Layout("window", number, fields, {}).at["checksum"] % 2:
        fields.insert(0, fields.pop())
    return Layout("window", number, fields, {
        "data": (data, "Kinds: a message of the user, and its acknowledgement."),
        "ack": (ack, ""),
        "first": (WORD - choice.between(24, 20, 60), "The number of the first message; after 65535 comes 0."),
        "size": (choice.between(7, 5, 12), "Maximum number of messages in flight."),
        "timeout_ms": (choice.between(20, 10, 40) * 10, "Milliseconds until a message without an answer is sent again."),
        "queue": (QUEUE, "Maximum number of unacknowledged messages, in flight or waiting."),
    })


def first(w):
    return w.layout["first"]


def timeout(w):
    return w.layout["timeout_ms"] * MS


def frame(w, kind, number, payload=b"", **changes):
    """A frame with a right checksum, even if other fields are wrong."""
    values = {"kind": w.layout[kind] if isinstance(kind, str) else kind, "number": number % WORD, "length": w.layout.size + len(payload), **changes}
    total = checksum(w.layout.pack(**values) + payload)
    return w.layout.pack(checksum=total, **values) + payload


def data(w, number, payload):
    return frame(w, "data", number, payload)


def ack(w, number):
    return frame(w, "ack", number)


def read(w, bytes_):
    """Returns (kind, number, payload) of a frame that the host has sent, which must be well-formed."""
    values = w.layout.unpack(bytes_)
    need(values is not None, f"a frame of the host is shorter than the header: {short(bytes_)}")
    need(values["length"] == len(bytes_), f"a frame of {len(bytes_)} bytes has the length {values['length']}")
    need(checksum(bytes_) == 0, f"a frame of the host has a wrong checksum: {short(bytes_)}")
    names = {w.layout[name]: name for name in ("data", "ack")}
    need(values["kind"] in names, f"a frame of the host has the kind {values['kind']}")
    payload = bytes_[w.layout.size :]
    need(names[values["kind"]] == "data" or not payload, "an ACK has a payload")
    return names[values["kind"]], values["number"], payload


def sent_data(w):
    """Returns the numbers of the DATA that the host has sent since the last call."""
    return [number for kind, number, _ in (read(w, one) for one in w.take_sent()) if kind == "data"]


def sent_acks(w):
    return [number for kind, number, _ in (read(w, one) for one in w.take_sent()) if kind == "ack"]


def numbers(w, start, count):
    return [(first(w) + start + i) % WORD for i in range(count)]


# ---- the other host --------------------------------------------------------------------------------------------------


class Receiver:
    """Takes what the host sends, in order."""

    def __init__(self, w):
        self.w, self.got, self.kept = w, [], {}

    @property
    def expected(self):
        return (first(self.w) + len(self.got)) % WORD

    def hear(self, number, payload):
        ahead = (number - self.expected) % WORD
        if ahead < self.w.layout["size"]:
            self.kept[number] = payload
        while self.expected in self.kept:
            self.got.append(self.kept.pop(self.expected))
        return ack(self.w, self.expected)


class Sender:
    """Sends messages, and all those in flight again after a timeout."""

    def __init__(self, w, messages, send):
        self.w, self.messages, self.send = w, messages, send
        self.oldest = self.next = 0
        self.alive_at = w.now

    def fill(self):
        while self.next < len(self.messages) and self.next < self.oldest + self.w.layout["size"]:
            self.send(data(self.w, first(self.w) + self.next, self.messages[self.next]))
            self.next += 1

    def hear(self, number):
        count = (number - first(self.w) - self.oldest) % WORD
        if 0 < count <= self.next - self.oldest:
            self.oldest += count
            self.alive_at = self.w.now
            self.fill()

    def is_due(self):
        return self.oldest < self.next and self.w.now >= self.alive_at + timeout(self.w)

    def tick(self):
        self.next, self.alive_at = self.oldest, self.w.now
        self.fill()


# ---- checks: sending -------------------------------------------------------------------------------------------------


def check_sends(w):
    w.open()
    for i in range(3):
        payload = w.bytes(0, 1200)
        need(w.send(payload) == 0, "a push failed")
        sent = w.take_sent()
        need(len(sent) == 1, f"a message was sent as {len(sent)} frames")
        need(read(w, sent[0]) == ("data", numbers(w, i, 1)[0], payload), f"message {i + 1} was sent as {short(sent[0])}")


def check_window(w):
    size, acked = w.layout["size"], 0
    w.open()
    for total in (60, 120):  # beyond the last number
        for _ in range(60):
            need(w.send(w.bytes(10)) == 0, "a push failed")
        sent = sent_data(w)
        need(sent == numbers(w, acked, size), f"{len(sent)} messages are in flight, not {size}")
        while acked < total:
            more = min(w.random.randint(1, size), total - acked)
            acked += more
            w.run(MS)
            w.frame(ack(w, first(w) + acked))
            fresh = max(0, min(more, total - (acked - more) - size))
            sent = sent_data(w)
            need(sent == numbers(w, acked - more + size, fresh),
                 f"after an ACK of {more} messages {len(sent)} were sent, not the next {fresh}")


def check_lies(w):
    size = w.layout["size"]
    w.open()
    for _ in range(3 * size):
        w.send(w.bytes(10))
    need(sent_data(w) == numbers(w, 0, size), "the first messages were not sent")
    wrong = bytearray(ack(w, first(w) + 1))
    wrong[w.layout.at["checksum"]] ^= 0x10
    strange = next(kind for kind in range(256) if kind not in (w.layout["data"], w.layout["ack"]))
    lies = [bytes(wrong), frame(w, strange, first(w) + 1), ack(w, first(w)), ack(w, first(w) - 1), ack(w, first(w) + size + 1), ack(w, first(w) + WORD // 2),
            frame(w, "ack", first(w) + 1, length=w.layout.size + 1), ack(w, first(w) + 1)[:-1]]
    for lie in lies:
        w.frame(lie)
    need(not sent_data(w), "an ACK that is wrong, old, or of a message never sent had an effect")
    w.frame(ack(w, first(w) + 2))
    need(sent_data(w) == numbers(w, size, 2), "after wrong ACKs, a good one has no effect")
    w.frame(ack(w, first(w) + 1))
    need(not sent_data(w), "a late ACK had an effect")


def check_again(w):
    size = w.layout["size"]
    w.open()
    for _ in range(size):
        w.send(w.bytes(10))
    need(sent_data(w) == numbers(w, 0, size), "the first messages were not sent")
    for turn in range(5):
        w.run(timeout(w) * 3 // 4)
        for number in (0, -1, size + 1, WORD // 2) if turn % 2 else ():
            w.frame(ack(w, first(w) + number))
        w.run(timeout(w) // 4 - 5 * MS)
        need(not sent_data(w), "a message was sent again before its timeout")
        need(w.run_until(lambda: w.sent, timeout(w) // 2), "the oldest message was not sent again after its timeout"
             + (", or an ACK that does not count has begun it anew" if turn % 2 else ""))
        w.run(MS)
        sent = sent_data(w)
        need(sent[0] == numbers(w, 0, 1)[0], "the message sent again first is not the oldest")
        need(set(sent) <= set(numbers(w, 0, size)) and len(sent) <= size, "more messages were sent again than are in flight")
    w.run(timeout(w) // 2)
    w.frame(ack(w, first(w) + 1))
    w.run(timeout(w) - 5 * MS)
    need(not sent_data(w), "an ACK that counts did not restart the timeout")
    need(w.run_until(lambda: w.sent, timeout(w) // 2), "the oldest message was not sent again after its timeout")
    need(sent_data(w)[:1] == numbers(w, 1, 1), "the message sent again first is not the oldest")
    w.frame(ack(w, first(w) + size))
    w.run(10 * timeout(w))
    need(not sent_data(w), "a message was sent again after its acknowledgement")


def check_queue(w):
    w.open()
    for i in range(QUEUE):
        need(w.send(w.bytes(10)) == 0, f"push {i + 1} of {QUEUE} failed")
    for _ in range(3):
        need(w.send(w.bytes(10)) == -ENOBUFS, f"push {QUEUE + 1} did not return -ENOBUFS")
    w.take_sent()
    w.frame(ack(w, first(w) + 2))
    need([w.send(w.bytes(10)) for _ in range(3)] == [0, 0, -ENOBUFS], "after an ACK of two messages, the queue has no room for two")


# ---- checks: receiving -----------------------------------------------------------------------------------------------


def check_receives(w):
    messages = [w.bytes(0, 1200) for _ in range(80)]
    for i, message in enumerate(messages):
        padding = w.bytes(0, 20) if len(message) < 40 or i % 2 else b""
        w.frame(data(w, first(w) + i, message) + padding)
        w.expect_got([message], f"message {i + 1} in order")
        need(sent_acks(w) == numbers(w, i + 1, 1), f"message {i + 1} was not answered by an ACK with the next number")


def check_keeps(w):
    size = w.layout["size"]
    done = (WORD - first(w) - size // 2) % size
    for i in range(done):
        w.frame(data(w, first(w) + i, b""))
    w.expect_got([b""] * done, "messages in order")
    w.take_sent()
    while done < 70:  # a window has the last number in its middle
        messages = [w.bytes(1, 100) for _ in range(size)]
        late = list(range(1, size))
        w.random.shuffle(late)
        for i in late:
            w.frame(data(w, first(w) + done + i, messages[i]))
            need(sent_acks(w) == numbers(w, done, 1), "an early message was not answered by an ACK with the expected number")
        w.expect_got([], "messages before their turn")
        w.frame(data(w, first(w) + done, messages[0]))
        w.expect_got(messages, "messages that were kept")
        done += size
        need(sent_acks(w)[-1:] == numbers(w, done, 1), "kept messages are not acknowledged")
    # One message so often that the host has no buffers any more, if it keeps them all.
    messages = [w.bytes(20) for _ in range(2)]
    w.frame(data(w, first(w) + done + 1, messages[1]))
    for turn in range(BUFFERS + 100):
        w.frame(data(w, first(w) + done + 1, w.bytes(20)))
        w.take_sent()
    w.frame(data(w, first(w) + done, messages[0]))
    w.expect_got(messages, "an early message, repeatedly")


def check_twice(w):
    messages = [w.bytes(1, 100) for _ in range(70)]  # beyond the last number
    wanted = []
    for i, message in enumerate(messages):
        for _ in range(w.random.randint(1, 3)):
            w.frame(data(w, first(w) + i, message))
        wanted.append(message)
        w.take_sent()
        old = w.random.randint(max(0, i - 30), i)
        w.frame(data(w, first(w) + old, messages[old]))
        need(sent_acks(w) == numbers(w, i + 1, 1), "a duplicate was not answered by an ACK")
    w.expect_got(wanted, "with messages that come twice")


def check_outside(w):
    size, message = w.layout["size"], w.bytes(20)
    for ahead in (size, size + 1, 1000, WORD // 2 - 1, -1, -5):
        w.frame(data(w, first(w) + ahead, message))
        need(ahead < 0 or sent_acks(w) == numbers(w, 0, 1), "a message ahead of the window was not answered by an ACK with the expected number")
    w.expect_got([], "messages outside the window")
    messages = [w.bytes(20) for _ in range(size + 2)]
    for i, one in enumerate(messages):
        w.frame(data(w, first(w) + i, one))
    w.expect_got(messages, "after messages outside the window")


def check_refuses(w):
    message, size = w.bytes(20), w.layout.size
    kinds = sorted(set(range(256)) - {w.layout["data"], w.layout["ack"]})
    good = data(w, first(w), message)
    for _ in range(20):
        bad = bytearray(good)
        bad[w.random.randint(0, len(bad) - 1)] ^= 1 << w.random.randint(0, 7)
        w.frame(bytes(bad))
    for length in (0, size - 1, len(good) + 1, 65535):
        w.frame(frame(w, "data", first(w), message, length=length))
    for kind in w.random.sample(kinds, 5):
        w.frame(frame(w, kind, first(w), message))
    for length in range(0, size, 3):
        w.frame(good[:length])
    w.run(MS)
    w.expect_got([], "damaged frames")
    need(not w.take_sent(), "a damaged frame was answered")
    w.frame(good)
    w.expect_got([message], "a good frame after damaged ones")


# ---- checks: all of it -----------------------------------------------------------------------------------------------


class Link:
    """Loses, duplicates, delays and damages frames: at random, other than search.Link. The peer is hear(frame)."""

    def __init__(self, w, loss, least, most):
        self.w, self.loss, self.least, self.most, self.hear = w, loss, least, most, None
        self.tick = 10 * MS if loss else MS

    def to_host(self, frame_):
        self._carry(frame_, self.w.frame)

    def to_peer(self, frame_):
        self._carry(frame_, self.hear)

    def event(self, _, function):
        function()

    def _carry(self, frame_, arrive):
        chance = self.w.random.random
        for _ in range(1 + (chance() < self.loss / 2)):
            if chance() < self.loss:
                continue
            damaged = bytearray(frame_)
            if chance() < self.loss / 2:
                damaged[int(chance() * len(damaged))] ^= 1 << int(chance() * 8)
            delay = self.least + int(chance() * (self.most - self.least))
            self.w.at(self.w.now + delay, lambda what=bytes(damaged): arrive(what))


def converse(w, link, ours, theirs, limit):
    """The host's user sends `ours`, the peer `theirs`, over this link; returns the time that it took."""
    receiver, waiting = Receiver(w), list(ours)
    sender = Sender(w, theirs, link.to_host)

    def hear(peer, bytes_):
        kind, number, _ = read(w, bytes_)
        if kind == "data":
            ahead = (number - receiver.expected + WORD // 2) % WORD - WORD // 2
            need(ahead < w.layout["size"], f"the host has more than {w.layout['size']} messages in flight")
        link.to_peer(bytes_)

    def arrived(bytes_):
        values = w.layout.unpack(bytes_)
        if checksum(bytes_) != 0 or values["length"] != len(bytes_):
            return
        if values["kind"] == w.layout["data"]:
            link.to_host(receiver.hear(values["number"], bytes_[w.layout.size :]))
        elif values["kind"] == w.layout["ack"]:
            sender.hear(values["number"])

    w.hear, link.hear = hear, arrived
    started = w.now
    sender.fill()
    while w.now < started + limit and (len(receiver.got) < len(ours) or sender.oldest < len(theirs)):
        while waiting and w.send(waiting[0]) == 0:
            waiting.pop(0)
        w.run(link.tick)
        if sender.is_due():
            link.event(lambda: "a timer ends", sender.tick)
    need(receiver.got == ours[: len(receiver.got)], "the peer received other messages than the host's user had sent")
    need(len(receiver.got) == len(ours), f"the peer got {len(receiver.got)} of {len(ours)} messages in {limit / S:.1f} s")
    w.expect_got(theirs, "over the link")
    return w.now - started


def check_speed(w):
    """On a long link the window determines the rate: one window per round trip."""
    w.open()
    size, trip = w.layout["size"], 40 * MS
    ours = [w.bytes(50) for _ in range(14 * size)]  # beyond the last number
    link = Link(w, 0, trip // 2, trip // 2 + US)
    took = converse(w, link, ours, [], 60 * S)
    need(took <= 19 * trip, f"{len(ours)} messages took {took / trip:.0f} round trips, with a window of {size}")


def check_link(w):
    w.open()
    link = Link(w, 0.1, MS, 8 * MS)
    converse(w, link, [w.bytes(0, 300) for _ in range(120)], [w.bytes(0, 300) for _ in range(120)], 120 * S)


def check_faults(w):
    """A few messages in both directions, with the faults that are chosen."""
    w.open()
    converse(w, search.Link(w), *([w.bytes(16) for _ in range(3)] for _ in "12"), 20 * timeout(w))
    w.run(3 * timeout(w))
    w.expect_got([], "after all messages")


# ---- questions -------------------------------------------------------------------------------------------------------


WHY_SENT = {
    "again": "it was sent before, and its timeout has passed",
    "window": "an ACK has made room for it in the window",
    "push": "the user has just pushed its message",
    "expected": "it answers DATA with the number that was expected",
    "early": "it answers DATA that came before its turn",
    "old": "it answers DATA that the user had been given before",
}


def is_right(run, frame):
    return checksum(frame.bytes) == 0 and frame.values["length"] == len(frame.bytes)


def questions(run, chance):
    size, kinds = run.layout["size"], {run.layout[name]: name for name in ("data", "ack")}
    had, early, because, in_flight, delivered = set(), [], [], [], 0
    oldest = following = first(run)  # of the host's DATA: not acknowledged, not sent yet
    for frame in run.frames:
        number, kind, cause = frame.values["number"], kinds.get(frame.values["kind"]), frame.cause
        if not is_right(run, frame):
            continue
        if not frame.is_sent and kind == "ack":
            oldest = number if (number - oldest) % WORD <= (following - oldest) % WORD else oldest
        elif not frame.is_sent and kind == "data":
            frame.ahead = (number - first(run) - delivered + WORD // 2) % WORD - WORD // 2
            if 0 < frame.ahead < size and number not in had:
                early.append((frame, (number - first(run)) % WORD))
            had.add(number)
            delivered += frame.delivered
        elif kind == "data":
            if cause == "timer" and (number - oldest) % WORD < (following - oldest) % WORD:
                because.append((frame, "again"))
            elif number == following and cause == "pushed":
                because.append((frame, "push"))
            elif number == following and cause != "timer" and kinds.get(cause.values["kind"]) == "ack":
                because.append((frame, "window"))
            following = (following + (number == following)) % WORD
            in_flight.append((frame, (following - oldest) % WORD))
        elif kind == "ack" and hasattr(cause, "ahead") and cause.ahead < size:
            because.append((frame, "expected" if cause.ahead == 0 else "old" if cause.ahead < 0 else "early"))
    for what in any_of(sorted({what for _, what in because}), chance):
        for frame, _ in any_of([found for found in because if found[1] == what], chance):
            text, answer = choose(WHY_SENT, what)
            yield f"Why does the host send frame {frame.place} of those that it sends? {text}", answer
    waited = [(frame, *run.messages[index][1:]) for frame, index in early if index < len(run.messages)]
    for frame, _, last in any_of([found for found in waited if found[1] == found[0].payload and found[2] is not None], chance):
        yield (f"Frame {frame.place} that arrives brings a message before its turn. With which frame does the user get that message? Give "
               "its place among those that arrive."), last.place
    for frame, count in any_of(in_flight[size:], chance):
        yield f"How many messages are in flight, unacknowledged, right after the host has sent frame {frame.place} of its own?", count


LAB = Lab(2, "window", layout, [
    Check("sends", 2, "messages are sent with the next number and a checksum", check_sends),
    Check("window", 4, "a full window is in flight, and no more", check_window),
    Check("lies", 2, "a wrong, old or empty ACK has no effect", check_lies),
    Check("again", 4, "unanswered messages are sent again, at the right time", check_again),
    Check("queue", 2, "a full queue refuses messages", check_queue),
    Check("receives", 2, "messages in order are delivered and acknowledged", check_receives),
    Check("keeps", 4, "early messages are kept for their turn", check_keeps),
    Check("twice", 2, "duplicates are acknowledged, and delivered once", check_twice),
    Check("outside", 2, "messages outside the window are not kept", check_outside),
    Check("refuses", 2, "damaged frames change nothing", check_refuses),
    Check("speed", 2, "a window is sent in a round trip", check_speed),
    Check("link", 2, "messages in both directions over a bad link", check_link, seeds=4),
    Check("faults", 2, "three messages each way, with any two faults", check_faults, choose=("lose", "double", "delay")),
], story="link", questions=questions)
