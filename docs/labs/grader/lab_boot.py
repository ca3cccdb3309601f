"""lab_boot.py - lab 4: at most once, although hosts crash (docs/labs/boot.md)."""
import search
from labs import Check, Choice, Field, Lab, Layout
from questions import any_of, choose
from world import ENOBUFS, MS, PEER, S, need, short

WORD = 1 << 16
QUEUE = 16
KINDS = ("call", "welcome", "data", "ack", "gone")


def layout(number):
    choice = Choice("boot", number)
    fields = [
        Field("kind", 1, "what the frame is", values=KINDS),
        Field("mine", 4, "the sender's end", print_as="XK_PRINT_HEX"),
        Field("yours", 4, "the receiver's end; 0: unknown to the sender", print_as="XK_PRINT_HEX"),
        Field("number", 2, "of DATA and its ACK"),
        Field("length", 2, "of header and payload", kind="XK_LENGTH", covers="XK_COVERS_MESSAGE"),
    ]
    values = choice.different((1, 2, 3, 4, 5), 1, 255)
    comments = ("The kinds.", "", "", "", "")
    return Layout("boot", number, choice.order(fields), {
        **{kind: (value, comment) for kind, value, comment in zip(KINDS, values, comments)},
        "first": (choice.between(0, 0, WORD - 1), "The number of the first DATA of a conversation; after 65535 comes 0."),
        "timeout_ms": (choice.between(20, 10, 40) * 10, "Milliseconds until an unanswered frame is sent again."),
        "retries": (choice.between(5, 3, 8), "Number of times DATA is sent again before it is given up."),
        "queue": (QUEUE, "Maximum number of unacknowledged messages, in flight or waiting."),
    })


def timeout(w):
    return w.layout["timeout_ms"] * MS


def frame(w, kind, mine, yours=0, number=0, payload=b"", **changes):
    values = {"kind": w.layout[kind] if isinstance(kind, str) else kind, "mine": mine, "yours": yours, "number": number % WORD,
              "length": w.layout.size + len(payload), **changes}
    return w.layout.pack(**values) + payload


def read(w, data):
    """Returns (kind, mine, yours, number, payload) of a frame of the host, which must be well-formed."""
    values = w.layout.unpack(data)
    need(values is not None, f"a frame of the host is shorter than the header: {short(data)}")
    need(values["length"] == len(data), f"a frame of {len(data)} bytes has the length {values['length']}")
    names = {w.layout[name]: name for name in KINDS}
    need(values["kind"] in names, f"a frame of the host has the kind {values['kind']}")
    kind, payload = names[values["kind"]], data[w.layout.size :]
    need(kind == "data" or not payload, f"a frame {kind.upper()} has a payload")
    if kind != "gone":
        need(values["mine"] >> 16 == w.boots, f"{kind.upper()} of the end {values['mine']:08x}, which is not of boot {w.boots}")
    return kind, values["mine"], values["yours"], values["number"], payload


def sent(w):
    return [read(w, data) for data in w.take_sent()]


def one(w, kind, what):
    """Returns the only frame that the host has sent, which is of this kind."""
    found = sent(w)
    need(len(found) == 1 and found[0][0] == kind,
         f"{what}: the host sent {', '.join(one_[0].upper() for one_ in found) or 'nothing'}, not {kind.upper()}")
    return found[0]


def called(w, mine, peer=PEER):
    """The peer calls. Returns the host's end."""
    w.frame(frame(w, "call", mine), peer)
    _, end, yours, _, _ = one(w, "welcome", "to a CALL")
    need(yours == mine, f"a WELCOME is for the end {yours:08x}, not {mine:08x}")
    return end


def calls(w, mine, message):
    """The host sends message, first of a new conversation. Returns the host's end; its DATA is in flight."""
    need(w.send(message) == 0, "a push failed")
    return answered(w, mine, message)


def answered(w, mine, message):
    _, end, yours, _, _ = one(w, "call", "the first message")
    need(yours == 0, "a CALL names an end")
    w.frame(frame(w, "welcome", mine, end))
    need(one(w, "data", "to a WELCOME")[1:] == (end, mine, w.layout["first"], message), "the first DATA is wrong")
    return end


def an_end(w, boots=None):
    boots = boots if boots is not None else w.random.randint(10, 1000)
    return boots << 16 | w.random.randint(1, 5)


# ---- checks ----------------------------------------------------------------------------------------------------------


def check_call(w):
    w.open()
    message, mine = w.bytes(1, 200), an_end(w)
    w.send(message)
    _, end, yours, _, _ = one(w, "call", "the first message")
    need(yours == 0, "a CALL names an end")
    for _ in range(w.layout["retries"] + 3):  # a CALL is never given up
        w.run(timeout(w) - 5 * MS)
        need(not w.sent, "a CALL was sent again before its timeout")
        need(w.run_until(lambda: w.sent, timeout(w) // 2), "a CALL was not sent again after its timeout")
        need(one(w, "call", "after a timeout")[1:3] == (end, 0), "a CALL was sent again with another end")
        w.run(MS)
    for kind in KINDS:
        w.frame(frame(w, kind, 0, 0 if kind == "call" else end, w.layout["first"], b"for nobody" if kind == "data" else b""))
        w.expect_got([], "DATA of the end 0")
        need(not sent(w), f"{kind.upper()} of the end 0, which names none, had an effect")
    w.frame(frame(w, "welcome", mine, end ^ 1 << 16))
    need(not sent(w), "a WELCOME for another end had an effect")
    w.frame(frame(w, "welcome", mine, end))
    need(one(w, "data", "to a WELCOME")[1:] == (end, mine, w.layout["first"], message), "the first DATA is wrong")
    w.frame(frame(w, "ack", mine, end, w.layout["first"]))
    w.run(10 * timeout(w))
    need(not w.sent, "the host keeps sending after the ACK of its only message")


def check_answers(w):
    mine = an_end(w)
    end = called(w, mine)
    need(called(w, mine) == end, "a CALL that arrived twice got two different ends")
    other = called(w, an_end(w), 3)
    need(other != end, "two neighbours talk to the same end")
    w.run(10 * timeout(w))
    need(not w.sent, "the host sends although its user has sent nothing")


def check_delivers(w):
    mine, first = an_end(w), w.layout["first"]
    end = called(w, mine)
    messages = [w.bytes(0, 300) for _ in range(10)]
    for index, message in enumerate(messages):
        w.frame(frame(w, "data", mine, end, first + index + 1 + w.random.randint(0, 2), w.bytes(5)))
        w.expect_got([], "a message ahead of its turn")
        need(not sent(w), "a message ahead of its turn was answered")
        for turn in range(w.random.randint(1, 3)):
            w.frame(frame(w, "data", mine, end, first + index, message) + w.bytes(0, 20))
            w.expect_got([message] if turn == 0 else [], f"message {index + 1}, for the {turn + 1}. time")
            need(one(w, "ack", "to DATA")[1:4] == (end, mine, (first + index) % WORD), "an ACK is wrong")
    w.frame(frame(w, "data", mine, end, first, messages[0]))
    w.expect_got([], "the first message, again")
    need(one(w, "ack", "to old DATA")[3] == first, "an ACK is wrong")


def check_again(w):
    w.open()
    mine, first = an_end(w), w.layout["first"]
    messages = [w.bytes(1, 100) for _ in range(QUEUE)]
    end = calls(w, mine, messages[0])
    need([w.send(message) for message in messages[1:]] == [0] * (QUEUE - 1), "a push failed")
    need(w.send(b"x") == -ENOBUFS, f"push {QUEUE + 1} did not return -ENOBUFS")
    for index, message in enumerate(messages):
        for _ in range(2 if index < 5 else w.random.randint(0, 2)):  # in all more often than one message may be sent again
            w.run(timeout(w) - 5 * MS)
            need(not w.sent, "a message was sent before its turn, or before its timeout")
            need(w.run_until(lambda: w.sent, timeout(w) // 2), "a message was not sent again after its timeout")
            need(one(w, "data", "after a timeout")[1:] == (end, mine, (first + index) % WORD, message), "DATA sent again is wrong")
        w.frame(frame(w, "ack", mine, end, first + index + 1))
        w.frame(frame(w, "ack", mine, end, first + index - 1))
        need(not sent(w), "an ACK of another message has an effect")
        w.run(w.random.choice((0, timeout(w) // 2)))
        need(not w.sent, "a message was sent again before its timeout")
        w.frame(frame(w, "ack", mine, end, first + index))
        if index + 1 < len(messages):
            need(one(w, "data", "to an ACK")[1:] == (end, mine, (first + index + 1) % WORD, messages[index + 1]), "the next DATA is wrong")
    w.run(10 * timeout(w))
    need(not w.sent, "the host keeps sending after the last ACK")


def check_stale(w):
    mine, first = an_end(w), w.layout["first"]
    stranger = 1 << 16 | 9
    w.frame(frame(w, "data", mine, stranger, first, b"for nobody"))
    need(one(w, "gone", "to DATA for an end that never was")[1:3] == (stranger, mine), "a GONE is wrong")
    end = called(w, mine)
    for wrong in (end ^ 1 << 16, end + 7, 0):
        w.frame(frame(w, "data", mine, wrong, first, w.bytes(20)))
        w.expect_got([], "DATA for another end")
        need(one(w, "gone", "to DATA for another end")[1:3] == (wrong, mine), "a GONE is wrong")
        for kind in ("welcome", "ack", "gone"):
            w.frame(frame(w, kind, mine, wrong, first))
        need(not sent(w), "a WELCOME, ACK or GONE for another end was answered")
    message = w.bytes(20)
    for length in (w.layout.size - 1, w.layout.size + len(message) + 1):
        w.frame(frame(w, "data", mine, end, first, message, length=length))
    strange = next(kind for kind in range(256) if kind not in [w.layout[name] for name in KINDS])
    w.frame(frame(w, strange, mine, end, first, message))
    w.expect_got([], "DATA with a wrong length or kind")
    need(not sent(w), "a frame with a wrong length or kind was answered")
    w.frame(frame(w, "data", mine, end, first, message))
    w.expect_got([message], "DATA for the right end")
    w.take_sent()
    w.open()
    message = w.bytes(20)
    need(w.send(message) == 0, "a push failed")
    need(one(w, "data", "a message")[1:] == (end, mine, first, message), "DATA is wrong")
    w.frame(frame(w, "ack", mine, end ^ 1 << 16, first))
    need(w.run_until(lambda: w.sent, 2 * timeout(w)), "an ACK for another end had an effect")


def check_newer(w):
    """The peer crashes, and comes back with another end."""
    first = w.layout["first"]
    boots = w.random.randint(10, 100)
    mine = an_end(w, boots)
    end = called(w, mine)
    old = [w.bytes(20) for _ in range(4)]
    for index, message in enumerate(old):
        w.frame(frame(w, "data", mine, end, first + index, message))
    w.expect_got(old, "before the crash")
    w.take_sent()
    newer = an_end(w, boots + 1)
    end = called(w, newer)
    late = w.bytes(20)
    for number in (0, 3, 4):
        w.frame(frame(w, "data", mine, end, first + number, late))
    w.frame(frame(w, "call", mine))
    w.frame(frame(w, "ack", mine, end, first))
    w.expect_got([], "DATA of an end that is dead")
    need(not [kind for kind, *_ in sent(w) if kind not in ("gone",)], "a frame of a dead end was answered")
    new = [w.bytes(20) for _ in range(4)]
    for index, message in enumerate(new):
        w.frame(frame(w, "data", newer, end, first + index, message))
    w.expect_got(new, "of the new end")


def check_gone(w):
    w.open()
    mine, first = an_end(w), w.layout["first"]
    messages = [w.bytes(20) for _ in range(4)]
    end = calls(w, mine, messages[0])
    w.frame(frame(w, "ack", mine, end, first))
    sent(w)
    for message in messages[1:]:
        w.send(message)
    need(one(w, "data", "the second message")[4] == messages[1], "the second DATA is wrong")
    for lie in (frame(w, "gone", mine + 1, end), frame(w, "gone", mine, end + 1), frame(w, "gone", 0, end)):
        w.frame(lie)
    need(not sent(w), "a GONE of another conversation had an effect")
    w.frame(frame(w, "gone", mine, end))
    newer = mine + (1 << 16)
    again = answered(w, newer, messages[2])
    need(again != end, "a conversation after a GONE has the end of the previous one")
    w.frame(frame(w, "ack", newer, again, first))
    need(one(w, "data", "to an ACK")[1:] == (again, newer, (first + 1) % WORD, messages[3]), "the next DATA is wrong")
    w.frame(frame(w, "ack", newer, again, first + 1))
    w.run(10 * timeout(w))
    need(not w.sent, "a message was sent again although it may have been delivered before the crash")


def check_gives_up(w):
    w.open()
    mine = an_end(w)
    messages = [w.bytes(20) for _ in range(2)]
    end = calls(w, mine, messages[0])
    w.send(messages[1])
    w.run((w.layout["retries"] + 3) * timeout(w) * 3 // 2)
    found = sent(w)
    again = [payload for kind, _, _, _, payload in found if kind == "data"]
    need(again == [messages[0]] * w.layout["retries"], f"DATA was sent again {len(again)} times, not {w.layout['retries']}")
    need(found[-1][0] == "call" and found[-1][1] not in (0, end), "after giving up the host does not call with a new end")
    w.frame(frame(w, "welcome", mine, found[-1][1]))
    need(one(w, "data", "to a WELCOME")[1:] == (found[-1][1], mine, w.layout["first"], messages[1]), "the DATA of the new end is wrong")


def check_crash(w):
    """The host crashes. Frames for its earlier ends have no receiver."""
    mine, first = an_end(w), w.layout["first"]
    ends, message = [], w.bytes(20)
    for _ in range(3):
        ends.append(called(w, mine))
        for end in ends[:-1]:
            w.frame(frame(w, "data", mine, end, first, w.bytes(20)))
            w.expect_got([], "a message for an end before the crash, after a CALL")
            need(one(w, "gone", "to DATA for an end before the crash")[1:3] == (end, mine), "a GONE is wrong")
        w.frame(frame(w, "data", mine, ends[-1], first, message))
        w.expect_got([message], "a message")
        w.take_sent()
        w.crash()
        w.run(S)
        w.boot()
        for end in ends:
            w.frame(frame(w, "data", mine, end, first, message))
            w.frame(frame(w, "data", mine, end, first + 1, message))
            w.expect_got([], "a message for an end before the crash")
            need([(kind, *rest[:2]) for kind, *rest in sent(w)] == [("gone", end, mine)] * 2,
                 "DATA for an end before the crash was not answered by GONE")
        message = w.bytes(20)
    need(len(set(ends)) == len(ends), "an end was used twice")


# ---- the other host --------------------------------------------------------------------------------------------------


class End:
    """The lab's rules, in Python, for one neighbour."""

    def __init__(self, w, boots, send, deliver):
        self.w, self.boots, self.count, self.send, self.deliver = w, boots, 0, send, deliver
        self.queue, self.due, self.tries = [], None, 0
        self.restart()

    def restart(self):
        self.count += 1
        self.mine, self.yours = self.boots << 16 | self.count, 0
        self.numbers()

    def numbers(self):
        self.next = self.expected = self.w.layout["first"]
        if self.tries:
            self.queue.pop(0)
        self.tries = 0

    def push(self, message):
        self.queue.append(message)
        if len(self.queue) == 1:
            self.say()

    def say(self):
        """Sends the frame that has to be answered."""
        self.due = self.w.now + timeout(self.w) if self.queue else None
        if self.queue and not self.yours:
            self.send(frame(self.w, "call", self.mine))
        elif self.queue:
            self.tries += 1
            self.send(frame(self.w, "data", self.mine, self.yours, self.next, self.queue[0]))

    def is_due(self):
        return self.due is not None and self.w.now >= self.due

    def tick(self):
        if self.tries > self.w.layout["retries"]:
            self.restart()
        self.say()

    def hear(self, data):
        w = self.w
        values = w.layout.unpack(data)
        kind = next(name for name in KINDS if w.layout[name] == values["kind"])
        mine, yours, number = values["mine"], values["yours"], values["number"]
        if mine == 0:
            return
        if kind == "gone":
            if (mine, yours) == (self.yours, self.mine) and self.yours:
                self.restart()
                self.say()
            return
        if kind != "call" and yours != self.mine:
            if kind == "data":
                self.send(frame(w, "gone", yours, mine))
            return
        if mine < self.yours:
            return
        fresh = mine > self.yours
        if fresh:
            if self.yours:
                self.numbers()
            self.yours = mine
        if kind == "call":
            self.send(frame(w, "welcome", self.mine, mine))
        if kind == "data":
            ahead = (number - self.expected + WORD // 2) % WORD - WORD // 2
            if ahead == 0:
                self.deliver(data[w.layout.size :])
                self.expected = (self.expected + 1) % WORD
            if ahead <= 0:
                self.send(frame(w, "ack", self.mine, mine, number))
        if kind == "ack" and self.tries and number == self.next:
            self.queue.pop(0)
            self.next, self.tries = (self.next + 1) % WORD, 0
            self.say()
        if fresh:
            self.say()


class Storm:
    """Loses, duplicates and delays frames by seconds while it rages: at random, other than search.Link. The peer is hear(frame)."""

    def __init__(self, w):
        self.w, self.rages, self.past, self.hear, self.crash = w, True, [], None, None

    def to_host(self, data):
        self.past.append(data)
        self._carry(lambda: self.w.frame(data))

    def to_peer(self, data):
        self._carry(lambda: self.hear(data))

    def event(self, _, function):
        function()

    def _carry(self, arrive):
        chance = self.w.random.random
        for _ in range(1 + (self.rages and chance() < 0.1)):
            if self.rages and chance() < 0.1:
                continue
            delay = MS + int(chance() * 10 * MS) if not self.rages or chance() < 0.9 else int(chance() * 3 * S) + MS
            self.w.at(self.w.now + delay, arrive)


class Talk:
    """The users of both hosts send messages over a link, while the hosts may crash."""

    def __init__(self, w, link):
        self.w, self.link = w, link
        self.sent, self.got = {"host": [], "peer": []}, []  # got: by the peer's user
        self.crashes, self.before = {"host": 0, "peer": 0}, {"host": 0, "peer": 0}  # before: messages sent before the last crash
        self.peer = End(w, 1, link.to_host, self.got.append)
        w.hear, link.hear, link.crash, w.after_crash = self._hear, lambda data: self.peer.hear(data), self.crash_peer, self._crashed
        w.open()

    def _hear(self, _, data):
        read(self.w, data)
        self.link.to_peer(data)

    def _count(self, who):
        self.crashes[who] += 1
        self.before[who] = len(self.sent[who])

    def _crashed(self):
        self._count("host")
        self.w.open()

    def crash_host(self, ns):
        """The host crashes, and boots after this time."""
        self.w.crash()
        self.w.run(ns)
        self.w.boot()
        self._crashed()

    def crash_peer(self):
        self._count("peer")
        self.peer = End(self.w, self.crashes["peer"] + 1, self.link.to_host, self.got.append)

    def say(self, who):
        message = self.w.bytes(16)
        event, push = (self.w.event, self.w.send) if who == "host" else (self.link.event, lambda what: self.peer.push(what))

        def send():
            self.sent[who].append(message)
            push(message)

        event(lambda: "its user sends", send)

    def pass_(self, ns):
        """Lets time pass."""
        end = self.w.now + ns
        while self.w.now < end:
            self.w.run(20 * MS)
            if self.peer.is_due():
                self.link.event(lambda: "a timer ends", lambda: self.peer.tick())

    def judge(self, before, lost):
        """Of each host's messages beyond the first before[host], at most so many may be lost."""
        for who, other, got in (("peer", "host", self.w.take_got()), ("host", "peer", self.got)):
            places = {message: index for index, message in enumerate(self.sent[who])}
            need(all(message in places for message in got), f"the {other}'s user got a message that was never sent")
            order = [places[message] for message in got]
            need(len(set(order)) == len(order), f"the {other}'s user got a message twice")
            need(order == sorted(order), f"the {other}'s user got messages out of order")
            missing = set(range(before[who], len(places))) - set(order)
            need(len(missing) <= lost, f"the {other}'s user did not get all messages that were sent after the crashes and losses")


def check_storm(w):
    """Both hosts crash, on a link that loses, duplicates and delays by seconds. Nothing is delivered twice, or out of order."""
    storm, chance = Storm(w), w.random.random
    talk = Talk(w, storm)
    for _ in range(6):
        for _ in range(int((0.5 + chance()) * 50)):
            for who in ("host", "peer"):
                if chance() < 0.1:
                    talk.say(who)
            talk.pass_(20 * MS)
        if chance() < 0.5:
            talk.crash_host(int(chance() * S))
        else:
            talk.crash_peer()
    storm.rages = False
    talk.pass_(30 * S)
    calm = {who: len(messages) for who, messages in talk.sent.items()}
    # When all is calm, each crashes once more, and all frames of the past arrive again.
    for crash in ("host", "peer"):
        if crash == "host":
            talk.crash_host(S)
            talk.say("host")
            talk.pass_(S)
        else:
            talk.crash_peer()
        talk.say("peer")
        talk.pass_(S)
        for data in list(storm.past):
            w.frame(data)
        talk.pass_(S)
        for _ in range(5):
            talk.say("host")
            talk.say("peer")
        talk.pass_(30 * S)
    talk.crash_peer()
    w.send(w.bytes(16))  # is lost: the peer that has crashed might have had it
    talk.say("host")
    talk.pass_(10 * S)
    talk.judge(calm, 0)


def check_faults(w):
    """A few messages, with the faults and crashes that are chosen. A crash loses what its host has queued. It also ends the end to
    which the other host sends and, by a GONE, that of the other host: at most one message is lost in each direction."""
    talk = Talk(w, search.Link(w))
    for who in ("host", "peer", "host"):
        talk.say(who)
        talk.pass_(20 * MS)
    talk.pass_(8 * timeout(w))
    talk.judge(talk.before, sum(talk.crashes.values()))


# ---- questions -------------------------------------------------------------------------------------------------------


WHY_NOT = {
    "boot": "it is for an end that the host had before it crashed",
    "dead": "it is from an end of the peer that is dead: the host has heard of a newer one",
    "old": "the user has been given it before",
    "ahead": "it is ahead of its turn",
}
WHY_CALL = {
    "push": "the user has pushed a message, and there is no conversation",
    "again": "the same CALL was not answered in time",
    "gone": "the peer has answered GONE",
    "silent": "the peer did not acknowledge DATA, and is given up",
}


def questions(run, chance):
    kinds = {run.layout[name]: name for name in KINDS}
    refused, calls, given, called = [], [], set(), set()
    ends = {}  # boot: the end that the host uses, and the newest of the peer that it knows, as it has written them itself
    for frame in run.frames:
        mine, yours, number, kind = (frame.values[name] for name in ("mine", "yours", "number", "kind"))
        own, newest = ends.get(frame.boots, (0, 0))
        kind = kinds.get(kind)
        if frame.is_sent and kind != "gone":
            ends[frame.boots] = mine, max(newest if mine == own else 0, yours)
        if frame.is_sent and kind == "call":
            if mine in called and frame.cause == "timer":
                calls.append((frame, "again"))
            elif mine not in called and isinstance(frame.cause, str):
                calls.append((frame, "push" if frame.cause == "pushed" else "silent"))
            elif mine not in called and kinds.get(frame.cause.values["kind"]) == "gone":
                calls.append((frame, "gone"))
            called.add(mine)
        if not frame.is_sent and kind == "data":
            which = (mine, yours, number)
            if frame.delivered:
                given.add(which)
            elif yours >> 16 < frame.boots:
                refused.append((frame, "boot"))
            elif yours == own and mine < newest:
                refused.append((frame, "dead"))
            elif yours == own and mine == newest and which in given:
                refused.append((frame, "old"))
    for frames, reasons, text in ((refused, WHY_NOT, "Frame {} that arrives is DATA, and the user is not given its message. Why?"),
                                  (calls, WHY_CALL, "Frame {} that the host sends is a CALL. Why?")):
        for what in any_of(sorted({what for _, what in frames}), chance):
            for frame, _ in any_of([found for found in frames if found[1] == what], chance):
                choice, answer = choose(reasons, what)
                yield f"{text.format(frame.place)} {choice}", answer
    for frame in [frame for frame in run.sent if frame.boots > 1][:1]:
        yield "Which is the first frame that the host sends after its first crash? Give its place among those that it sends.", frame.place


LAB = Lab(4, "boot", layout, [
    Check("call", 3, "the first message calls the peer, repeatedly", check_call),
    Check("answers", 2, "a CALL is answered by WELCOME", check_answers),
    Check("delivers", 3, "DATA is delivered once, in order, and acknowledged", check_delivers),
    Check("again", 3, "DATA is sent again, one at a time", check_again),
    Check("stale", 3, "frames for other ends have no effect, and DATA is answered by GONE", check_stale),
    Check("newer", 3, "a rebooted peer starts afresh", check_newer),
    Check("gone", 3, "messages that may have been delivered before a crash are not sent again", check_gone),
    Check("gives_up", 2, "a silent peer is given up", check_gives_up),
    Check("crash", 4, "the host remembers nothing but its boots", check_crash),
    Check("storm", 3, "both crash, and nothing is delivered twice", check_storm, seeds=6),
    Check("faults", 3, "three messages, with any two faults or crashes", check_faults, choose=("lose", "double", "delay", "boot")),
], story="storm", questions=questions)
