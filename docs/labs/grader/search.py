"""search.py - runs a check with every list of at most MOST unusual choices, the shortest first, instead of drawing faults.

A choice is made at a frame or at an event. Frames are numbered as they are sent, by either host; events of both hosts, such
as a frame's arrival, as they happen. A list names those at which something unusual happens, and is a whole run:

    frame 3 lose, event 12 boot

Each run starts from the beginning, with hosts of its own, the same messages and the same random numbers.
"""
import argparse
import re
import time
import typing

from world import MS

MOST = 2  # choices in a list
RUNS_MAX = 2500
SECONDS_MAX = 180  # far more than a right host needs, because a busy machine must not cost it marks
# What may happen to a frame, and to a host before an event.
POSSIBLE = {"frame": {"lose": "is lost", "double": "arrives twice", "delay": "arrives late, behind the receiver's next event"},
            "event": {"boot": "crashes and boots at once"}}
STORY = {"frame": "frame {number} ({what} from the {who}) {does}", "event": "before event {number} ({what}) the {who} {does}"}
TRIP = MS  # of each frame from one host to the other


def parse(text):
    """Returns the choices in a list: {(kind, number): choice}."""
    wanted = {}
    for one in text.split(","):
        found = re.fullmatch(r" *(frame|event) +([0-9]{1,9}) +([a-z]+) *", one)
        if found is None or found[3] not in POSSIBLE[found[1]]:
            raise argparse.ArgumentTypeError(f"{one!r} is none of `frame N lose|double|delay` and `event N boot`")
        key = found[1], int(found[2])
        if key in wanted:
            raise argparse.ArgumentTypeError(f"{found[1]} {key[1]} is in the list twice")
        wanted[key] = found[3]
    return wanted


def as_list(wanted):
    return ", ".join(f"{kind} {number} {choice}" for (kind, number), choice in wanted.items())


class Choices:
    """The choices of a run. wanted: those to make; story: those made, in words; offered: [(when, choice)], those after the last
    one made, at most RUNS_MAX of them; count: of all that were offered."""

    def __init__(self, kinds, wanted=()):
        self.kinds, self.wanted = kinds, dict(wanted)
        self.numbers = {"frame": 0, "event": 0}
        self.story, self.offered, self.count = [], [], 0

    def make(self, kind, now, who, what):
        """Returns the choice at the next frame, which `who` sends, or at its next event; None is the usual one."""
        self.numbers[kind] += 1
        number, possible = self.numbers[kind], POSSIBLE[kind]
        chosen = self.wanted.get((kind, number))
        if chosen is not None:
            self.story.append(STORY[kind].format(number=number, what=what(), who=who, does=possible[chosen]))
        elif self.is_made:
            for choice in filter(self.kinds.__contains__, possible):
                self.count += 1
                if len(self.offered) < RUNS_MAX:
                    self.offered.append((now, ((kind, number), choice)))
        return chosen

    @property
    def is_made(self):
        """Whether the run has had all of its list."""
        return len(self.story) == len(self.wanted)

    def reason(self, why):
        """Returns why the mark is lost, with the story."""
        return "; ".join([*self.story, why])


class Link:
    """The link between the host and its peer, whose faults are choices. The peer is hear(data); crash(), if it has one, makes
    it crash and boot."""

    tick = 10 * MS  # how often the peer looks at its clock

    def __init__(self, w, hear=None, crash=None):
        self.w, self.hear, self.crash = w, hear, crash
        self.late = {"host": [], "peer": []}  # arrivals that wait for the receiver's next event
        w.after_event = lambda: self._release("host")

    def to_host(self, data):
        self._carry(data, "peer", "host", lambda: self.w.frame(data))

    def to_peer(self, data):
        self._carry(data, "host", "peer", lambda: self.event(lambda: f"{self.w.layout.title(data)} arrives", lambda: self.hear(data)))

    def event(self, what, function):
        """An event of the peer's, before which it may crash. what() is the event, in words."""
        self.w.before_event("peer", what, self.crash)
        function()
        self._release("peer")

    def _carry(self, data, sender, receiver, arrive):
        chosen = self.w.choose("frame", sender, lambda: self.w.layout.title(data))
        if chosen == "delay":
            self.w.at(self.w.now + TRIP, lambda: self.late[receiver].append(arrive))
        else:
            for _ in range({None: 1, "lose": 0, "double": 2}[chosen]):
                self.w.at(self.w.now + TRIP, arrive)

    def _release(self, receiver):
        late, self.late[receiver] = self.late[receiver], []
        for arrive in late:
            arrive()


class Found(typing.NamedTuple):
    """What a search found: why the promise is broken, and the choices that break it, or None; the lists tried and, if none of
    them breaks it, of how many."""
    why: str
    wanted: dict
    tried: int
    lists: int


def search(run, kinds, budget):
    """run(choices) returns None, or why the promise is broken. The shortest lists come first; of two lists of one length, the
    one that makes its last choice earlier. Ends with the first that breaks the promise, or when the budget or RUNS_MAX is used up.
    """
    end, tried = time.monotonic() + SECONDS_MAX, 0
    lists, count = [(0, {})], 1  # to try next, the first RUNS_MAX of them; and how many there are in all
    for length in range(MOST + 1):
        longer, longer_count = [], 0
        for place, (_, wanted) in enumerate(lists):
            choices = Choices(kinds, wanted)
            why = run(choices)
            if budget.over or tried == RUNS_MAX or time.monotonic() > end:  # the run may have been cut off
                guess = longer_count * count // place if place else count * count // 2
                return Found(None, None, tried, tried + count - place + (guess if length < MOST else 0))
            tried += 1
            if why is not None:
                return Found(choices.reason(why), wanted, tried, None)
            if length < MOST:
                longer_count += choices.count
                longer += [(when, {**wanted, key: choice}) for when, (key, choice) in choices.offered]
                longer.sort(key=lambda one: one[0])  # keeps the order of those of one moment
                del longer[RUNS_MAX:]
        lists, count = longer, longer_count
    return Found(None, None, tried, tried)
