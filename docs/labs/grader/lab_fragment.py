"""lab_fragment.py - lab 3: messages that are longer than a frame (docs/labs/fragment.md)."""
from labs import Check, Choice, Field, Lab, Layout
from questions import any_of
from world import BUFFERS, EMSGSIZE, MS, need, short

WORD = 1 << 16
MTU = 1500


def layout(number):
    choice = Choice("fragment", number)
    fields = [
        Field("id", 2, "of the message"),
        Field("offset", 2, "of the payload in the message, in units"),
        Field("total", 2, "bytes of the message"),
        Field("length", 2, "of header and payload", kind="XK_LENGTH", covers="XK_COVERS_MESSAGE"),
    ]
    if choice.of(False, (False, True)):
        fields.append(Field("spare", choice.between(1, 1, 2), "0 when sent"))
    return Layout("fragment", number, choice.order(fields), {
        "first": (WORD - choice.between(10, 5, 15), "The id of the first message; after 65535 comes 0."),
        "unit": (choice.of(8, (2, 4, 8, 16)), "Bytes of a unit, in which offsets are counted."),
        "longest": (choice.between(16, 9, 30) * 1024, "Bytes of the longest message."),
        "partial": (choice.between(4, 3, 6), "Maximum number of incomplete messages kept for a neighbour."),
        "timeout_ms": (choice.between(50, 30, 90) * 10, "Milliseconds for which an incomplete message is kept, from its first fragment on."),
    })


def piece(w):
    """Bytes of every fragment but the last."""
    return (MTU - w.layout.size) // w.layout["unit"] * w.layout["unit"]


def frame(w, ident, offset, message_len, payload, **changes):
    """offset in bytes."""
    values = {"id": ident % WORD, "offset": offset // w.layout["unit"], "total": message_len,
              "length": w.layout.size + len(payload), **changes}
    return w.layout.pack(**values) + payload


def fragments(w, ident, message, size=None):
    """The frames of a message, in order."""
    size = size or piece(w)
    starts = range(0, max(1, len(message)), size)
    return [frame(w, ident, start, len(message), message[start : start + size]) for start in starts]


def a_size(w, pieces):
    """Returns a fragment size for which a message has this many pieces, with its length."""
    unit = w.layout["unit"]
    size = unit * w.random.randint(2, 60)
    return size, (pieces - 1) * size + w.random.randint(1, size)


def first(w):
    return w.layout["first"]


# ---- checks: sending -------------------------------------------------------------------------------------------------


def check_sends(w):
    w.open()
    size, longest = piece(w), w.layout["longest"]
    lengths = [1, size - 1, size, size + 1, 2 * size, 0, w.random.randint(3 * size, longest), longest]
    for index, length in enumerate(lengths + [w.random.randint(0, longest) for _ in range(12)]):
        message = w.bytes(length)
        need(w.send(message) == 0, f"the push of {length} bytes failed")
        sent, wanted = w.take_sent(), fragments(w, first(w) + index, message)
        need(len(sent) == len(wanted), f"a message of {length} bytes was sent as {len(sent)} frames, not {len(wanted)}")
        for number, one in enumerate(wanted):
            need(sent[number] == one, f"fragment {number + 1} of {length} bytes was sent as {short(sent[number])}")


def check_limits(w):
    w.open()
    longest = w.layout["longest"]
    for length in (longest + 1, 65536):
        need(w.send(w.bytes(length)) == -EMSGSIZE, f"a push of {length} bytes did not return -EMSGSIZE")
    need(not w.take_sent(), "a part of a message was sent although the message is too long")
    message = w.bytes(10)
    need(w.send(message) == 0, "a push failed")
    sent = w.take_sent()
    need(sent not in [fragments(w, first(w) + taken, message) for taken in (1, 2)], "a message that was too long took an id")
    need(sent == fragments(w, first(w), message), f"a message of 10 bytes was sent as {', '.join(map(short, sent)) or 'nothing'}")


# ---- checks: receiving -----------------------------------------------------------------------------------------------


def check_whole(w):
    messages = [w.bytes(0, 100) for _ in range(20)] + [w.bytes(piece(w)), b""]
    for index, message in enumerate(messages):
        w.frame(fragments(w, first(w) + index, message)[0] + (w.bytes(0, 30) if len(message) < 200 else b""))
    w.expect_got(messages, "messages of one fragment")


def check_order(w):
    messages = [w.bytes(1, w.layout["longest"]) for _ in range(6)] + [w.bytes(w.layout["longest"])]
    for index, message in enumerate(messages):
        for one in fragments(w, first(w) + index, message):
            w.frame(one)
    w.expect_got(messages, "fragments in order")


def check_disorder(w):
    """As many messages at a time as are kept, interleaved, with some duplicate fragments."""
    for turn in range(4):
        messages, frames = {}, []
        for index in range(w.layout["partial"]):
            size, length = a_size(w, w.random.randint(2, 9))
            ident = first(w) + turn * w.layout["partial"] + index
            messages[ident] = w.bytes(length)
            mine = fragments(w, ident, messages[ident], size)
            keyed = sorted((w.random.random(), ident, one) for one in mine)
            # a double of another one than the last, and before that, which would begin the message again
            frames += keyed + [(keyed[-1][0] * w.random.random(), ident, w.random.choice(keyed[:-1])[2])]
        wanted, missing, had = [], {ident: len(fragments_of(frames, ident)) for ident in messages}, set()
        for _, ident, one in sorted(frames):
            w.frame(one)
            w.run(w.random.randint(1, 3) * MS)
            if (ident, one) not in had:
                had.add((ident, one))
                missing[ident] -= 1
                if missing[ident] == 0:
                    wanted.append(messages[ident])
        w.expect_got(wanted, "fragments out of order")


def fragments_of(frames, ident):
    return {one for _, its, one in frames if its == ident}


def check_lies(w):
    """Impossible fragments change nothing, not even the message to which they claim to belong."""
    unit, size = w.layout["unit"], w.layout["unit"] * 4
    for turn in range(3):
        ident, message = first(w) + turn, w.bytes(3 * size - 1)
        good, total = fragments(w, ident, message, size), 3 * size - 1
        lies = [
            frame(w, ident, size, total, message[size:] + b"x"),  # beyond the end
            frame(w, ident, 0, total, message + w.bytes(40)),
            frame(w, ident, 65535 * unit, total, message[:unit]),
            frame(w, ident, size, total, b""),  # nothing
            frame(w, ident, size, total, message[size : size + unit + 1]),  # no whole units, and not the end
            frame(w, ident, size, total, message[size : 2 * size], length=w.layout.size + size + 1),
            frame(w, ident, size, total, message[size : 2 * size], length=w.layout.size - 1),
            frame(w, ident + 100, 0, w.layout["longest"] + 1, message[:size]),
            frame(w, ident + 100, 0, 0, message[:size]),
            good[1][: w.layout.size - 1],
        ]
        w.random.shuffle(lies)
        w.frame(good[0])
        for lie in lies:
            w.frame(lie)
        w.frame(good[2])
        w.expect_got([], "fragments that cannot be")
        w.frame(good[1])
        w.expect_got([message], "after fragments that cannot be")
    # Nor do they take the place of a message that is kept.
    messages = [w.bytes(2 * size) for _ in range(w.layout["partial"])]
    parts = [fragments(w, first(w) + 10 + index, message, size) for index, message in enumerate(messages)]
    for part, _ in parts:
        w.frame(part)
    w.frame(frame(w, first(w) + 30, 0, 2 * size, b""))
    w.frame(frame(w, first(w) + 31, 0, 2 * size, bytes(size - 1)))
    for _, part in parts:
        w.frame(part)
    w.expect_got(messages, "messages that were kept before fragments that cannot be")
    message = w.bytes(w.layout["longest"] + 1)
    for one in fragments(w, first(w) + 200, message):
        w.frame(one)
    w.expect_got([], "a message that is too long")


def check_conflicts(w):
    unit, size = w.layout["unit"], w.layout["unit"] * 4
    total = 3 * size
    for turn in range(6):
        ident, message = first(w) + turn, w.bytes(total)
        good = fragments(w, ident, message, size)
        conflicts = [
            frame(w, ident, 0, total, message[: size - unit]),
            frame(w, ident, 0, total, message[: size + unit]),
            frame(w, ident, unit, total, message[unit:size]),
            frame(w, ident, size - unit, total, w.bytes(size)),
            frame(w, ident, size, total + size, message[size : 2 * size]),
            frame(w, ident, 0, total - unit, message[:size]),
        ]
        w.frame(good[0])
        w.frame(conflicts[turn])
        w.frame(good[1])
        w.frame(good[2])
        w.expect_got([], "a message whose fragments contradict each other")
        w.run(2 * w.layout["timeout_ms"] * MS)
    # As many bytes as the message has, but not all of them.
    for turn, spans in enumerate((((0, 2), (0, 1), (3, 4)), ((0, 2), (1, 2), (3, 4)), ((1, 3), (0, 2)))):
        message = w.bytes(4 * size)
        for low, high in spans:
            w.frame(frame(w, first(w) + 30 + turn, low * size, len(message), message[low * size : high * size]))
        w.expect_got([], "a message whose fragments overlap")
    w.run(2 * w.layout["timeout_ms"] * MS)
    message = w.bytes(total)
    for one in fragments(w, first(w) + 50, message, size):
        w.frame(one)
    w.expect_got([message], "after messages that contradict themselves")
    # A fragment that is a whole message contradicts nothing.
    for turn, length in enumerate((total, size, 0)):
        ident, message, whole = first(w) + 60 + turn, w.bytes(total), w.bytes(length)
        good = fragments(w, ident, message, size)
        w.frame(good[0])
        w.frame(frame(w, ident, 0, length, whole))
        w.expect_got([whole], "a whole message with the id of one that is put together")
        w.frame(good[1])
        w.frame(good[2])
        w.expect_got([message], "a message with the id of a whole one that came meanwhile")


def check_timeout(w):
    time = w.layout["timeout_ms"] * MS
    size, length = a_size(w, 4)
    for turn, wait in enumerate((time - 5 * MS, time + 20 * MS, time - 5 * MS, 3 * time)):
        message = w.bytes(length)
        parts = fragments(w, first(w) + turn, message, size)
        w.frame(parts[1])
        w.run(wait // 2)
        w.frame(parts[0])
        w.frame(parts[3])
        w.run(wait - wait // 2)
        w.frame(parts[2])
        w.expect_got([message] if wait < time else [], f"fragments of {wait / MS:.0f} ms, when {time // MS} are allowed")


    # Memory comes back although no other fragment comes: twice as much does not fit into the host.
    unit, pieces = w.layout["unit"], 512
    for turn in range(2):
        messages = [w.bytes(pieces * unit) for _ in range(BUFFERS * 3 // 4 // pieces)]
        parts = [fragments(w, first(w) + index, message, unit) for index, message in enumerate(messages)]
        for index, message in enumerate(messages):
            for part in parts[index][:-1]:
                w.frame(part, 11 + 20 * turn + index)
        need(w.wake <= w.now + time + MS, "no timer of the host is due when a message times out")
        w.expect_got([], "messages without their last fragments")
        if turn == 0:
            w.run(2 * time)
    for index, part in enumerate(parts):
        w.frame(part[-1], 31 + index)
    w.expect_got(messages, "after messages that have to be given up although no other fragment comes")


def check_evicts(w):
    """One more than are kept: the oldest is evicted. Many more: memory is bounded."""
    kept = w.layout["partial"]
    size, length = a_size(w, 2)
    messages = [w.bytes(length) for _ in range(kept + 1)]
    parts = [fragments(w, first(w) + index, message, size) for index, message in enumerate(messages)]
    for first_part, _ in parts:
        w.frame(first_part)
        w.run(MS)
    whole = w.bytes(20)
    w.frame(fragments(w, first(w) + kept + 1, whole)[0])
    w.expect_got([whole], "a message of one fragment, which need not be kept")
    for _, second in parts[1:]:
        w.frame(second)
    w.expect_got(messages[1:], "messages that are kept")
    w.frame(parts[0][1])
    w.expect_got([], "the oldest message, which is not kept")
    for index in range(5000):
        w.frame(frame(w, 1000 + index, 0, w.layout["longest"], bytes(w.layout["unit"])))
        if index % 500 == 0:
            w.expect_got([], "messages with one fragment each")
    message = w.bytes(w.layout["longest"])
    for one in fragments(w, 30000, message):
        w.frame(one)
    w.expect_got([message], "a message after thousands that never become whole")


def check_peers(w):
    size, length = a_size(w, 2)
    messages = {peer: w.bytes(length) for peer in (1, 3, 7)}
    parts = {peer: fragments(w, first(w), message, size) for peer, message in messages.items()}
    for number in (1, 0):
        for peer in messages:
            w.frame(parts[peer][number], peer)
    w.expect_got(list(messages.values()), "messages of three hosts with the same id")


# ---- questions -------------------------------------------------------------------------------------------------------


def questions(run, chance):
    """Of a run in which nothing contradicts, and no message is given up."""
    parts, left, open_, made_of = {}, [], [], []
    for frame in run.arrived:
        ident, offset = frame.values["id"], frame.values["offset"]
        mine = parts.setdefault(ident, {})
        if offset not in mine:
            mine[offset] = frame
            missing = frame.values["total"] - sum(len(part.payload) for part in mine.values())
            left.append((frame, missing))
            open_ = [other for other in open_ if other != ident] + [ident] * (missing > 0)
        frame.open = len(open_)
    for number, (_, data, last) in enumerate(run.messages, 1):
        mine = parts.get(last.values["id"], {}) if last else {}
        if len(mine) > 1 and b"".join(mine[offset].payload for offset in sorted(mine)) == data:
            made_of.append((number, [mine[offset].place for offset in sorted(mine)]))
    for number, places in any_of(made_of, chance):
        yield (f"From which frames is message {number} for the user made, from its first byte to its last? Give their places among those that "
               "arrive; of a fragment that came twice, the first."), places
    for frame, missing in any_of([(frame, missing) for frame, missing in left if missing > 0], chance):
        yield f"How many bytes of its message are missing right after frame {frame.place} has arrived?", missing
    for frame in any_of([frame for frame in run.arrived if frame.open > 1], chance):
        yield f"For how many messages does the host keep fragments right after frame {frame.place} has arrived?", frame.open


LAB = Lab(3, "fragment", layout, [
    Check("sends", 4, "messages are cut by rule 1", check_sends),
    Check("limits", 1, "messages that are too long are refused", check_limits),
    Check("whole", 2, "messages of one fragment are delivered", check_whole),
    Check("order", 3, "fragments in order become a message", check_order),
    Check("disorder", 4, "... and so do fragments in any order, of several messages", check_disorder),
    Check("lies", 3, "impossible fragments have no effect", check_lies),
    Check("conflicts", 2, "fragments that contradict each other end their message", check_conflicts, seeds=1),
    Check("timeout", 2, "incomplete messages are given up in time", check_timeout),
    Check("evicts", 2, "no more incomplete messages than allowed are kept", check_evicts, seeds=1),
    Check("peers", 1, "neighbours do not disturb each other", check_peers),
], story="disorder", questions=questions)
