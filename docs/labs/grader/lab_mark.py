"""lab_mark.py - lab 0, complete: a mark in front of each message (docs/labs/README.md)."""
from labs import Check, Choice, Field, Lab, Layout
from questions import any_of
from world import MS, need


def layout(number):
    choice = Choice("mark", number)
    fields = choice.order([
        Field("mark", 1, "always MARK_IS", kind="XK_FIXED", print_as="XK_PRINT_HEX"),
        Field("length", 2, "of header and payload", kind="XK_LENGTH", covers="XK_COVERS_MESSAGE"),
    ])
    return Layout("mark", number, fields, {"is": (choice.between(90, 1, 255), "The mark.")})


def marked(w, payload, **changes):
    values = {"mark": w.layout["is"], "length": w.layout.size + len(payload), **changes}
    return w.layout.pack(**values) + payload


def check_sends(w):
    w.open()
    for _ in range(5):
        payload = w.bytes(0, 1200)
        w.send(payload)
        sent = w.take_sent()
        need(len(sent) == 1, f"a message was sent as {len(sent)} frames")
        need(sent[0] == marked(w, payload), "the frame is not the header and the message")


def check_receives(w):
    messages = [w.bytes(1, 1200) for _ in range(5)]
    for message in messages:
        w.frame(marked(w, message))
        w.run(MS)
    w.expect_got(messages, "in order")


def check_padding(w):
    messages = [w.bytes(1, 40) for _ in range(5)]
    for message in messages:
        w.frame(marked(w, message) + w.bytes(1, 40))
    w.expect_got(messages, "with padding behind the message")


def check_refuses(w):
    message = w.bytes(20)
    w.frame(marked(w, message, mark=w.layout["is"] ^ 1 << w.random.randint(0, 7)))
    w.frame(marked(w, message, length=w.layout.size - 1))
    w.frame(marked(w, message, length=w.layout.size + len(message) + 1))
    w.frame(marked(w, b"")[: w.layout.size - 1])
    w.run(MS)
    w.expect_got([], "a wrong mark or length")
    w.frame(marked(w, message))
    w.expect_got([message], "a good message after bad ones")


# ---- questions -------------------------------------------------------------------------------------------------------


def questions(run, chance):
    for frame in any_of([frame for frame in run.arrived if frame.delivered == 1], chance):
        message = next(data for _, data, last in run.messages if last is frame)
        yield (f"How many bytes of frame {frame.place} that arrives, Ethernet's header included, were not delivered to the user?",
               len(frame.data) - len(message))


LAB = Lab(0, "mark", layout, [
    Check("sends", 2, "each message is sent behind the header", check_sends),
    Check("receives", 2, "messages are delivered without the header", check_receives),
    Check("padding", 1, "bytes after the message are cut off", check_padding),
    Check("refuses", 2, "wrong marks and lengths are dropped", check_refuses),
], story="receives", questions=questions)
