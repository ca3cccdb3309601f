"""questions.py - questions about a run of the student's own host: its author can answer them from the trace.

The run depends on the student's layout, seed and program. Answers are numbers, lists of them, or letters of a choice, and
follow from frames, messages and times. Each lab has questions of its own (Lab.questions); those in this file fit all.
"""

COUNT, OWN = 5, 3  # questions; of them the lab's own, if it has so many
LOOKED_AT = 400  # frames and messages from the beginning of the run


class Frame:
    """A frame of the lab, sent by the host or arriving there, and what it led to until the next one arrived.

    place counts from 1 among the frames that are sent, or that arrive; cause is what the host was told last before it sent
    this one: "pushed", "timer", or the frame that arrived."""

    def __init__(self, place, now, data, values, layout, boots, cause=None):
        self.place, self.now, self.data, self.values, self.boots, self.cause = place, now, data, values, boots, cause
        self.is_sent = cause is not None
        self.bytes = data[layout.below :]
        self.payload = self.bytes[layout.size :]
        self.sent = self.delivered = 0


class Run:
    """What happened: frames sent and arrived, and messages for the user: (time, data, the frame that led to it or None)."""

    def __init__(self, layout, events):
        self.layout = layout
        self.sent, self.arrived, self.messages = [], [], []
        self.frames = []  # sent or arrived, in order
        boots, cause = 0, "pushed"
        for now, event, data in events:
            last = cause if isinstance(cause, Frame) else None
            part = layout.part(data) if event in ("sent", "arrived") else None
            values = layout.unpack(part) if part is not None else None
            if event == "booted":
                boots, cause = boots + 1, "timer"
            elif event in ("pushed", "timer"):
                cause = event
            elif event == "delivered":
                self.messages.append((now, data, last))
                if last is not None:
                    last.delivered += 1
            elif event == "arrived":
                cause = "timer"  # ARP, and what is too short
                if values is not None:
                    cause = Frame(len(self.arrived) + 1, now, data, values, layout, boots)
                    self.arrived.append(cause)
                    self.frames.append(cause)
            elif values is not None:
                self.sent.append(Frame(len(self.sent) + 1, now, data, values, layout, boots, cause))
                self.frames.append(self.sent[-1])
                if last is not None:
                    last.sent += 1
            if len(self.sent) + len(self.arrived) + len(self.messages) == LOOKED_AT:
                return

    def times(self):
        return [now for now, _, _ in self.messages]


def seconds(ns):
    return f"{ns / 10**9:.9f} s"


def of_all(run, chance):
    """Yields (question, answer), all that this run has."""
    layout, sent, arrived, deliveries = run.layout, run.sent, run.arrived, run.times()
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
            yield "Which is the first frame that the host sends a second time? Give its place among those sent.", place + 1
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
        yield f"How many messages have been delivered to the user by {seconds(until)}, this time included?", sum(now <= until for now in deliveries)


def some(found, count, chance):
    while len(found) > count:
        found.pop(int(chance.random() * len(found)))
    return found


def any_of(frames, chance):
    """Returns [one of frames], or [] if there are none."""
    return [frames[int(chance.random() * len(frames))]] if frames else []


def choose(reasons, which):
    """Returns (the reasons as a choice, the letter of which): for a question that ends with "Why?"."""
    return " ".join(f"({chr(97 + place)}) {text};" for place, text in enumerate(reasons.values()))[:-1] + ".", chr(97 + list(reasons).index(which))


def ask(lab, layout, events, chance):
    """Returns [(question, answer)], COUNT of those that this run has, or all."""
    run = Run(layout, events)
    own = some(list(lab.questions(run, chance)), OWN, chance)
    return own + some(list(of_all(run, chance)), COUNT - len(own), chance)
