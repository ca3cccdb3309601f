"""lab_sequence.py - lab 1: detecting loss and reordering (docs/labs/sequence.md)."""
import struct

from labs import Check, Choice, Field, Lab, Layout
from questions import any_of
from world import MS, need, short

HISTORY = 64
WORD = 1 << 32
AHEAD = (1, HISTORY // 2, HISTORY - 2, HISTORY - 1, HISTORY, HISTORY + 1, 100, 2 * HISTORY - 2, 2 * HISTORY - 1, 2 * HISTORY)
COUNTS = ("delivered", "missing", "late", "duplicate", "old")


def layout(number):
    choice = Choice("sequence", number)
    fields = [
        Field("kind", 1, "what the message is", values=("data", "ask", "report")),
        Field("length", 2, "of header and payload", kind="XK_LENGTH", covers="XK_COVERS_MESSAGE"),
        Field("number", 4, "counts the messages of one sender to one receiver"),
    ]
    if choice.of(False, (False, True)):
        fields.append(Field("spare", choice.between(1, 1, 3), "0 when sent, anything when received"))
    data, ask, report = choice.different((1, 2, 3), 1, 255)
    return Layout("sequence", number, choice.order(fields), {
        "data": (data, "Kinds: a message of the user, a query for the receiver's counts, and its answer."),
        "ask": (ask, ""),
        "report": (report, ""),
        "first": (f"{WORD - choice.between(24, 20, 60)}u", "The number of the first message; after 4294967295 comes 0."),
        "history": (HISTORY, "Number of remembered numbers before the expected one; older messages are `old`."),
    })


def first(w):
    return int(w.layout["first"][:-1])


def frame(w, kind, number, payload=b"", **changes):
    values = {"kind": w.layout[kind] if isinstance(kind, str) else kind, "length": w.layout.size + len(payload), "number": number % WORD, **changes}
    return w.layout.pack(**values) + payload


class Receiver:
    """The counts that a correct receiver has."""

    def __init__(self, w):
        self.expected = first(w)
        self.had = {(self.expected - behind) % WORD for behind in range(1, HISTORY + 1)}  # numbers before the first one
        self.counts = dict.fromkeys(COUNTS, 0)

    def hear(self, number):
        """Returns whether the message with this number has to be delivered."""
        ahead = (number - self.expected + WORD // 2) % WORD - WORD // 2
        counts = self.counts
        if ahead >= 0:
            counts["missing"] += ahead
            self.expected = (number + 1) % WORD
        elif ahead < -HISTORY:
            counts["old"] += 1
            return False
        elif number in self.had:
            counts["duplicate"] += 1
            return False
        else:
            counts["late"] += 1
            counts["missing"] -= 1
        counts["delivered"] += 1
        self.had.add(number)
        return True


def report(w, peer=1):
    """Asks for the counts, and returns {name: count}."""
    w.take_sent()
    question = w.random.getrandbits(32)
    w.frame(frame(w, "ask", question), peer)
    w.run(MS)
    sent = w.take_sent()
    need(len(sent) == 1, f"an ASK was answered by {len(sent)} frames")
    values = w.layout.unpack(sent[0])
    wanted = w.layout.size + 4 * len(COUNTS)
    need(values is not None and values["kind"] == w.layout["report"], f"an ASK was answered by {short(sent[0])}")
    need(values["number"] == question, "a REPORT does not have the number of its ASK")
    need(len(sent[0]) == wanted and values["length"] == wanted, f"a REPORT of {len(sent[0])} bytes, not {wanted}")
    return dict(zip(COUNTS, struct.unpack(">5I", sent[0][w.layout.size :])))


def expect_report(w, wanted, peer=1):
    found = report(w, peer)
    for name in COUNTS:
        need(found[name] == wanted.get(name, 0) % WORD, f"REPORT: {name} is {found[name]}, not {wanted.get(name, 0) % WORD}")


def play(w, numbers, what, receiver=None):
    """The peer's messages with these numbers arrive; those that have to be are delivered. Returns the counts."""
    receiver, wanted = receiver or Receiver(w), []
    for number in numbers:
        payload = w.bytes(1, 200)
        if receiver.hear(number % WORD):
            wanted.append(payload)
        w.frame(frame(w, "data", number, payload))
        w.run(w.random.randint(1, 3) * MS)
    w.expect_got(wanted, what)
    return receiver.counts


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_numbers(w):
    w.open()
    for i in range(w.random.randint(70, 90)):
        payload = w.bytes(0, 1200)
        need(w.send(payload) == 0, "a push failed")
        sent = w.take_sent()
        need(len(sent) == 1, f"a message was sent as {len(sent)} frames")
        need(sent[0] == frame(w, "data", first(w) + i, payload), f"message {i + 1} was sent as {short(sent[0])}")


def check_delivers(w):
    start = first(w)
    play(w, range(start, start + w.random.randint(10, 20)), "in order")


def check_padding(w):
    messages = [w.bytes(1, 30) for _ in range(5)]
    for i, message in enumerate(messages):
        w.frame(frame(w, "data", first(w) + i, message) + w.bytes(1, 30))
    w.expect_got(messages, "with padding behind the message")


def check_refuses(w):
    start, size, message = first(w), w.layout.size, w.bytes(20)
    kinds = {w.layout[name] for name in ("data", "ask", "report")}
    w.frame(frame(w, "data", start, message))
    for length in (0, size - 1, size + len(message) + 1, 65535):
        w.frame(frame(w, "data", start + 1, message, length=length))
    for kind in w.random.sample(sorted(set(range(256)) - kinds), 5) + [w.layout["report"]]:
        w.frame(frame(w, kind, start + 1, message))
    w.frame(frame(w, "data", start + 1)[: size - 1])
    w.run(MS)
    w.expect_got([message], "frames with a wrong length or kind")
    need(not w.take_sent(), "a frame with a wrong length or kind was answered")
    w.frame(frame(w, "data", start + 1, message))
    w.expect_got([message], "the right frame after the wrong ones")


def check_duplicates(w):
    start, numbers = first(w), []
    for i in range(70):  # beyond the last number
        numbers += [start + i] * w.random.randint(1, 3)
        if w.random.random() < 0.3:
            numbers.append(start + w.random.randint(0, i))
    play(w, numbers, "with messages that come twice")


def disorder(w, count, loss):
    """Numbers reordered by up to 20, some of them missing, some duplicated."""
    start = first(w)
    keyed = [(i + w.random.randint(0, 20), w.random.random(), start + i) for i in range(count)
             for _ in range(1 + (w.random.random() < 0.1)) if w.random.random() >= loss]
    return [number for _, _, number in sorted(keyed)]


def check_late(w):
    play(w, disorder(w, 100, 0), "out of order")


def check_reports(w):
    expect_report(w, {})
    counts = play(w, disorder(w, 200, 0.1), "out of order, with losses")
    expect_report(w, counts)
    expect_report(w, counts)


def check_jumps(w):
    start, receiver = first(w), Receiver(w)
    play(w, [start - 1, start - HISTORY, start - HISTORY - 1, start + 3, start - 1, start - 20, start, start + 1, start + 2],
         "with numbers before the first one", receiver)
    newest = start + 3
    for ahead in w.random.sample(AHEAD, len(AHEAD)):
        # All that is remembered has come. Some of it is remembered now, and some numbers are missing until they come late.
        newest += 1 + ahead
        others = w.random.sample(range(newest - HISTORY + 1, newest), HISTORY - 1)
        play(w, [newest, *others[: HISTORY // 2], *others, newest, newest - HISTORY], f"after a message that was ahead by {ahead}", receiver)
    start = newest + 1
    far = start + w.random.randint(1000, 1 << 30)
    numbers = [start, start + 1, far, start + 2, far - HISTORY, far - HISTORY + 1, far - HISTORY + 1, far - 1, far + HISTORY, far,
               far + 1, far + (1 << 31) - 1 + HISTORY]
    expect_report(w, play(w, numbers, "with numbers that jump", receiver))


def check_peers(w):
    start, messages = first(w), [w.bytes(30) for _ in range(3)]
    w.frame(frame(w, "data", start, messages[0]), 1)
    w.frame(frame(w, "data", start + 5, messages[1]), 7)
    w.frame(frame(w, "data", start, messages[2]), 3)
    w.run(MS)
    w.expect_got(messages, "from three hosts")
    expect_report(w, {"delivered": 1}, 1)
    expect_report(w, {"delivered": 1, "missing": 5}, 7)
    w.open(3)
    w.open(9)
    for peer in (9, 3, 9):
        w.send(messages[0], peer)
    sent = [(peer, w.layout.unpack(data)["number"] if w.layout.unpack(data) else None) for _, peer, data in w.sent]
    need(sent == [(9, start % WORD), (3, start % WORD), (9, (start + 1) % WORD)],
         "each conversation has numbers of its own")


# ---- questions -------------------------------------------------------------------------------------------------------


def questions(run, chance):
    """Of a run without an ASK."""
    receiver, first_with, late, twice, missing = Receiver(run), {}, [], [], {}
    for frame in run.arrived:
        number = frame.values["number"]
        if frame.values["kind"] != run.layout["data"] or frame.values["length"] != len(frame.bytes):
            return
        if number in first_with:
            twice.append(frame)
        elif (receiver.expected - number) % WORD < WORD // 2 and number != receiver.expected:
            late.append((frame, sum((other - number) % WORD < WORD // 2 for other in first_with)))
        first_with.setdefault(number, frame)
        receiver.hear(number)
        missing[frame] = receiver.counts["missing"]
    for frame in any_of([frame for frame in twice if frame.delivered == 0], chance):
        yield (f"Frame {frame.place} that arrives brings a message that has arrived before. In which frame? Give its place among those that "
               "arrive."), first_with[frame.values["number"]].place
    for frame, ahead in any_of([(frame, ahead) for frame, ahead in late if frame.delivered == 1], chance):
        yield f"Frame {frame.place} that arrives is late. How many messages that were sent after it have arrived before it?", ahead
    for frame in any_of([frame for frame in missing if missing[frame] > 0], chance):
        yield f"If an ASK arrived right after frame {frame.place} that arrives, how many messages would the REPORT have as missing?", missing[frame]


LAB = Lab(1, "sequence", layout, [
    Check("numbers", 3, "each message is sent with the next number", check_numbers),
    Check("delivers", 2, "messages in order are delivered as they were sent", check_delivers),
    Check("padding", 1, "bytes after a message are cut off", check_padding),
    Check("refuses", 3, "frames with a wrong length or kind change nothing", check_refuses),
    Check("duplicates", 3, "no message is delivered twice", check_duplicates),
    Check("late", 2, "messages that were overtaken are delivered", check_late),
    Check("reports", 3, "a REPORT has the right counts", check_reports),
    Check("jumps", 2, "numbers may jump, and old messages are dropped", check_jumps),
    Check("peers", 1, "each neighbour has its own conversation", check_peers),
], story="late", questions=questions)
