"""world.py - what a lab's check sees: the student's host, the link, and other hosts on it, on virtual time.

A check is a function of a World. It makes frames arrive, lets the host's user send, lets time pass, and looks at the frames
that the host has sent and at the messages that its user was given. Wrong ends it: that mark is lost.

Nothing that comes from the host is believed: frames and messages are bytes that a check compares with what they have to be,
and a host that answers nonsense, or not at all, loses the mark.
"""
import heapq
import struct

from keys import Draws

US, MS, S = 1000, 1000 * 1000, 1000 * 1000 * 1000
HOST = 2  # the student's: 10.77.0.2, 02:00:00:00:00:02
PEER = 1
BUFFERS = 4096  # of the host: labhost.c
ARP = 0x0806
STEPS_MAX = 50000
FRAME_MAX = 14 + 1500
NEVER = (1 << 64) - 1
EAGAIN, ENOBUFS, EMSGSIZE = 11, 105, 90


class Wrong(Exception):
    """The host has not followed the lab's rules."""


def need(holds, why):
    if not holds:
        raise Wrong(why)


def link(number):
    return struct.pack(">HI", 0x0200, number)


def address(number):
    return bytes((10, 77, 0, number))


def short(data, most=24):
    return data[:most].hex() + ("..." if len(data) > most else "") + f" ({len(data)} bytes)"


def arp_reply(frame):
    """Returns the answer to an ARP query for a host of this network, or None."""
    if len(frame) < 42 or frame[20:22] != b"\0\1" or frame[38:41] != address(0)[:3]:
        return None
    who, asked = frame[6:12], frame[41]
    return who + link(asked) + struct.pack(">HHHBBH", ARP, 1, 0x0800, 6, 4, 2) + link(asked) + address(asked) + who + frame[28:32]


class World:
    """start(chance, boots) returns a host: an object with step and close, as sandbox.Process. choices: the unusual ones of this run
    (search.py); None: the check does not ask for any. start_tcp(chance, *words) returns a host that runs this project's TCP."""

    def __init__(self, start, layout, seed, told=None, choices=None, start_tcp=None):
        self.start, self.layout, self.seed, self.random = start, layout, seed, Draws(seed, "world")
        self.start_tcp, self.others = start_tcp, []  # hosts to close at the end
        self.choices, self.opening = choices, False
        self.chance = Draws(seed, "host")  # apart, because the host sees these numbers
        self.told = told  # told(now, event, data): for --trace, --pcap, --journey and --questions
        self.now = 0
        self.boots = 0
        self.agenda = []  # (time, order, function)
        self.order = self.steps = 0
        self.sent = []  # (time, peer, bytes behind the Ethernet header)
        self.got = []  # (time, peer, message)
        self.ended = []  # (time, peer): sessions that their protocol has ended
        self.results = []  # of opens and sends since the last of them
        self.hear = None  # hear(peer, bytes): called for each frame, in the place of `sent`
        self.after_event = lambda: None  # called after each event of the host
        self.after_crash = lambda: None  # called when the host has crashed before an event, and booted
        self.host = None

    # ---- the host's life ----

    def boot(self):
        self.boots += 1
        self.host = self.start(self.chance.getrandbits(63), self.boots)
        self.wake = NEVER
        self._tell("booted", b"")
        self._step([])

    def crash(self):
        """The host forgets everything. Frames for it are lost until it boots again."""
        self.host.close()
        self.host = None
        self.wake = NEVER
        self._tell("crashed", b"")

    def close(self):
        for other in self.others:
            other.close()
        if self.host is not None:
            self.host.close()
            self.host = None

    # ---- what happens ----

    def at(self, when, function):
        heapq.heappush(self.agenda, (max(when, self.now), self.order, function))
        self.order += 1

    def run(self, ns):
        """Lets ns of virtual time pass."""
        end = self.now + ns
        while True:
            due = min(self.agenda[0][0] if self.agenda else NEVER, self.wake)
            if due > end:
                self.now = end
                return
            self.now = max(self.now, due)
            if self.agenda and self.agenda[0][0] <= self.now:
                heapq.heappop(self.agenda)[2]()
            else:
                self.event(lambda: "a timer ends", self._time_out)

    def run_until(self, done, ns):
        """Lets time pass until done(), at most ns. Returns whether it is."""
        end = self.now + ns
        while not done() and self.now < end:
            due = min(self.agenda[0][0] if self.agenda else NEVER, self.wake)
            self.run(max(0, min(due, end) - self.now))
        return done()

    def event(self, what, function):
        """An event of the host's, before which it may crash. what() is the event, in words."""
        if self.host is not None:
            self.before_event("host", what, self._reboot)
        function()
        self.after_event()

    def before_event(self, who, what, crash):
        """Makes `who` crash, if that is chosen. A host whose user is opening a session does not: its user would not open it again."""
        if self.choices is not None and not self.opening and self.choose("event", who, what) is not None:
            crash()

    def choose(self, kind, who, what):
        """Returns the choice for a frame or an event of `who`, or None, the usual one. what() is the frame or event, in words."""
        chosen = self.choices.make(kind, self.now, who, what)
        if chosen is not None:
            self._tell("chosen", self.choices.story[-1].encode())
        return chosen

    def _reboot(self):
        self.crash()
        self.boot()
        self.after_crash()

    def _time_out(self):
        self._tell("timer", b"")
        self._step([])

    def _step(self, items):
        """Makes the host do its due work and the work in items."""
        if self.host is None:
            return
        self.steps += 1
        need(self.steps <= STEPS_MAX, f"the host took more than {STEPS_MAX} steps: an endless timer?")
        records, wake = self.host.step(self.now, items)
        self.wake = max(wake, self.now + US)
        for kind, data in records:
            if kind == b"f":
                self._hear(data)
            elif kind == b"d" and len(data) >= 4:
                self._tell("delivered", data[4:])
                self.got.append((self.now, data[3], data[4:]))
            elif kind == b"e" and len(data) == 4:
                self.ended.append((self.now, data[3]))
            elif kind == b"s":
                self._tell("said", data)
            elif kind == b"r" and len(data) == 4:
                self.results.append(struct.unpack(">i", data)[0])

    def _tell(self, event, data):
        if self.told is not None:
            self.told(self.now, event, data)

    def _hear(self, frame):
        """A frame that the host has sent."""
        self._tell("sent", frame)
        need(14 <= len(frame) <= FRAME_MAX, f"the host sent a frame of {len(frame)} bytes")
        peer, kind = frame[5], struct.unpack(">H", frame[12:14])[0]
        if kind == ARP:
            reply = arp_reply(frame)
            if reply is not None and frame[41] != HOST:
                self.at(self.now + US, lambda: self._arrive(reply))
        elif kind == self.layout.ethertype and frame[:6] == link(peer):
            if self.hear is not None:
                self.hear(peer, frame[14:])
            else:
                self.sent.append((self.now, peer, frame[14:]))

    def _arrive(self, frame):
        self._tell("arrived" if self.host is not None else "down", frame)
        self._step([(b"F", frame)])

    # ---- for checks ----

    def frame(self, data, peer=PEER, delay=0):
        """The peer's frame arrives after `delay`, or now."""
        frame = link(HOST) + link(peer) + struct.pack(">H", self.layout.ethertype) + data

        def arrive():
            self.event(lambda: f"{self.layout.title(data)} arrives", lambda: self._arrive(frame))

        if delay == 0:
            arrive()
        else:
            self.at(self.now + delay, arrive)

    def open(self, peer=PEER, port=b""):
        """The host's user opens a session to the peer, which may have to be asked for its link address. It has to succeed."""
        self.results.clear()
        self.opening = True
        self._step([(b"O", address(peer) + port)])
        self.run_until(lambda: self.results, MS)
        self.opening = False
        need(self.results == [0], f"opening a session returned {self.results[0] if self.results else 'nothing'}")

    def send(self, message, peer=PEER):
        """The host's user sends a message. Returns what the push returned, None if it has not returned."""
        self.results.clear()
        self._tell("pushed", message)
        self._step([(b"S", address(peer) + message)])
        return self.results[0] if self.results else None

    def end(self, peer=PEER):
        """The host's user ends its stream. Returns the result, None if there is none."""
        self.results.clear()
        self._step([(b"E", address(peer))])
        return self.results[0] if self.results else None

    def bytes(self, least, most=None):
        count = least if most is None else self.random.randint(least, most)
        return self.random.getrandbits(8 * count).to_bytes(count, "big") if count else b""

    def take_sent(self):
        """Returns the frames that the host has sent since the last call: [bytes]."""
        sent, self.sent = self.sent, []
        return [data for _, _, data in sent]

    def take_got(self):
        got, self.got = self.got, []
        return [data for _, _, data in got]

    def expect_got(self, messages, what):
        """Checks that these messages were delivered since the last call, in this order, and no others."""
        got = self.take_got()
        for index, message in enumerate(messages):
            need(index < len(got), f"{what}: message {index + 1} of {len(messages)} was not delivered: {short(message)}")
            need(got[index] == message, f"{what}: delivered {short(got[index])} instead of {short(message)}")
        need(len(got) <= len(messages), f"{what}: delivered {len(got) - len(messages)} more, "
                                        f"beginning with {short((got + [b''])[len(messages)])}")
