"""questions.py - questions about a run of the student's own host: its author can answer them from the trace.

The run depends on the student's layout, seed and program. Answers are numbers.
"""

COUNT = 5
LOOKED_AT = 400  # events from the beginning of the run


class Frame:
    """A frame of the lab, sent by the host or arriving there, and what it led to until the next one arrived."""

    def __init__(self, now, data, values):
        self.now, self.data, self.values = now, data, values
        self.sent = self.delivered = 0


def read(layout, events):
    """Returns (sent, arrived, deliveries): frames, frames, and times."""
    sent, arrived, deliveries = [], [], []
    for now, event, data in events[:LOOKED_AT]:
        if event == "delivered":
            deliveries.append(now)
            if arrived and arrived[-1].now == now:
                arrived[-1].delivered += 1
        elif event in ("sent", "arrived") and data[12:14] == b"\x88\xb5":
            values = layout.unpack(data[14:])
            if values is None:
                continue
            (sent if event == "sent" else arrived).append(Frame(now, data, values))
            if event == "sent" and arrived and arrived[-1].now == now:
                arrived[-1].sent += 1
    return sent, arrived, deliveries


def seconds(ns):
    return f"{ns / 10**9:.9f} s"


def all_questions(layout, events, chance):
    """Yields (question, answer), all that this run has."""
    sent, arrived, deliveries = read(layout, events)
    plain = [field for field in layout.fields if not field.values and field.kind == "XK_VARIES" and field.name != "spare"]
    for field in plain if len(sent) > 4 else ():
        place = chance.randint(3, len(sent) - 1)
        yield f"Which `{field.name}` has frame {place + 1} that the host sends?", sent[place].values[field.name]
    for frames in (sent, arrived):
        for field in layout.fields:
            for value in field.values:
                count = sum(frame.values[field.name] == layout[value] for frame in frames)
                if count > 1:
                    until = chance.choice([frame.now for frame in frames if frame.values[field.name] == layout[value]])
                    yield (f"How many frames {value.upper()} {'has the host sent' if frames is sent else 'have arrived'} by "
                           f"{seconds(until)}, this time included?",
                           sum(frame.values[field.name] == layout[value] and frame.now <= until for frame in frames))
    seen = set()
    for place, frame in enumerate(sent):
        if frame.data in seen:
            yield "Which is the first frame that the host sends for the second time? Give its place among those sent.", place + 1
            break
        seen.add(frame.data)
    for place, frame in enumerate(arrived):
        if frame.sent == frame.delivered == 0:
            yield ("Which is the first frame to arrive that leads neither to a frame nor to a message for the user, before the next one "
                   "arrives? Give its place among those that arrive. Why is that so?"), place + 1
            break
    most = max((frame.delivered for frame in arrived), default=0)
    if most > 1:
        yield ("Which frame leads to the most messages for the user at once? Give its place among those that arrive, and the first of "
               "them if there are several. Why is that so?"), [frame.delivered for frame in arrived].index(most) + 1
    led = [place for place, frame in enumerate(arrived, 1) for _ in range(frame.delivered)]
    if len(led) > 4:
        place = chance.randint(3, len(led) - 1)
        yield f"Which frame leads to message {place + 1} for the user? Give its place among those that arrive.", led[place]
    if len(deliveries) > 2:
        until = chance.choice(deliveries)
        yield f"How many messages has the user been given by {seconds(until)}, this time included?", sum(now <= until for now in deliveries)


def ask(layout, events, chance):
    """Returns [(question, answer)], COUNT of those that this run has, or all."""
    found = list(all_questions(layout, events, chance))
    while len(found) > COUNT:
        found.pop(int(chance.random() * len(found)))
    return found
