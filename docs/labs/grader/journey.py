"""journey.py - writes a run of a check as a page to step through (docs/journeys.md).

The student's process writes the steps inside of it, as tools/journey/journey.h says. Frames, boots, crashes and all times
of these are the grader's own, and so are the other hosts. Nothing of the process's steps is believed: each is taken to
pieces, and only what the page understands is put into it, as text. The page's policy allows no script but its own.
"""
import base64
import hashlib
import html
import io
import json
import os
import re

from sandbox import ROOT
from world import PEER

STEPS = 20000
HOSTS = 16
NODES = 64
PLACES = 64
LINE_MAX = 65536
KINDS = {"up", "down", "handoff", "drop", "say"}
NUMBERS = ("t", "n", "reply", "timer")
REFERENCES = ("c", "because", "again")
EARLIER, LATER = "sent", "arrived"


def is_number(value, end=1 << 53):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < end


def words(value):
    if not isinstance(value, str):
        raise ValueError(value)
    return value


def size(value):
    if not is_number(value, 1 << 16):
        raise ValueError(value)
    return value


def lines_of(text):
    """Yields the objects in a process's lines, one at a time: all together would need many times the memory of the text."""
    file = io.BytesIO(text)
    while line := file.readline(LINE_MAX):
        try:
            value = json.loads(line.decode(errors="replace"))
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def graph_of(text):
    """Returns the graph in a process's lines, or None."""
    return next((read_graph(value) for value in lines_of(text) if "nodes" in value), None)


def steps_in(text):
    """Yields the steps in a process's lines."""
    has_graph = False
    for value in lines_of(text):
        if "nodes" in value and not has_graph:
            has_graph = True
        else:
            yield value


def read_graph(value):
    """Returns {"nodes", "edges", "types"}, or None if it is not what a page can show."""
    try:
        types = {name: {"header": size(one["header"]), "help": words(one["help"]), "fields": [read_field(field) for field in one["fields"]]}
                 for name, one in value["types"].items()}
        nodes = [{"name": words(node["name"]), "type": words(node["type"]), **{key: 1 for key in ("virtual", "port") if key in node}}
                 for node in value["nodes"][:NODES]]
        edges = [[upper, lower, words(mark)] for upper, lower, mark in value["edges"] if is_number(upper, len(nodes)) and is_number(lower, upper)]
        return {"nodes": nodes, "edges": edges, "types": types} if all(node["type"] in types for node in nodes) else None
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError):
        return None


def read_field(field):
    read = {key: words(field[key]) for key in ("name", "kind", "print", "help") if key in field}
    read["bits"] = size(field["bits"])
    read.update({key: 1 for key in ("mask", "rare") if key in field})
    if "values" in field:
        read["values"] = [[str(int(value)), words(name)] for value, name in field["values"]]
    return read


class Page:
    """What journey.js wants: see there."""

    def __init__(self, lab, layout):
        self.lab, self.layout = lab, layout
        self.hosts, self.steps, self.places = [], [], []
        self.types = {"user": self._type(0, "What the grader says.")}
        self.peers = {}  # number: host
        self.messages = self.frames = self.sessions = self.left_out = 0

    @staticmethod
    def _type(header, help_, fields=()):
        return {"header": header, "help": help_, "fields": list(fields)}

    def _lab_type(self):
        """The lab's header, as the layout has it."""
        prints = {"XK_PRINT_HEX": "hex", None: "decimal"}
        kinds = {"XK_LENGTH": "length", "XK_CHECKSUM": "checksum", "XK_FIXED": "fixed"}
        fields = [{"name": field.name, "bits": 8 * field.size, "kind": kinds.get(field.kind, "varies"), "print": prints[field.print_as],
                   "help": field.help, "values": [[str(self.layout[value]), value.upper()] for value in field.values]}
                  for field in self.layout.fields]
        return self._type(self.layout.size, "The lab's.", fields)

    def add_student(self, graph):
        graph = graph or {"nodes": [], "edges": [], "types": {}}
        self.types.update(graph["types"])
        self.types[self.lab.name] = self._lab_type()
        ethernet = [{"name": "destination", "bits": 48, "kind": "varies", "print": "link"}, {"name": "source", "bits": 48, "kind": "varies", "print": "link"},
                    {"name": "type", "bits": 16, "kind": "varies", "print": "hex"}]
        self.types["eth"] = self._type(14, "Ethernet.", ethernet)
        self.types["port"] = self._type(0, "A device.")
        self.hosts.append({"name": "student", "nodes": graph["nodes"], "edges": graph["edges"]})

    def peer(self, number):
        """Returns the page's number of a peer, or None if there are too many."""
        if number not in self.peers and len(self.hosts) < HOSTS:
            self.peers[number] = len(self.hosts)
            names = ("port", "eth", self.lab.name)
            nodes = [{"name": name, "type": name, **({"port": 1} if name == "port" else {})} for name in names]
            self.hosts.append({"name": f"10.77.0.{number}", "nodes": nodes, "edges": [[1, 0, ""], [2, 1, ""]]})
        return self.peers.get(number)

    def add(self, now, kind, host, **values):
        """Adds a step. Returns its number, or 0 if it is one too many."""
        if len(self.steps) == STEPS:
            self.left_out += 1
            return 0
        self.steps.append({"t": now, "k": kind, "h": host, **{name: value for name, value in values.items() if value is not None}})
        return len(self.steps)

    def place(self, name):
        if name not in self.places:
            name = name if len(self.places) < PLACES else "elsewhere"
        if name not in self.places:
            self.places.append(name)
        return self.places.index(name)

    def sent_by_peer(self, now, frame):
        """Adds a peer's frame, which is a new message. Returns its last step."""
        host = self.peer(frame[11])
        self.messages += 1
        self.frames += 1
        if host is None:
            return None
        place, last = self.place("the grader"), None
        if self.layout.part(frame) is not None and self.layout.below == 14:
            last = self.add(now, "down", host, m=self.messages, a=2, b=1, n=len(frame) - 14, x=frame[14:110].hex(), w=place)
            last = self.add(now, "down", host, m=self.messages, a=1, b=0, n=len(frame), x=frame[:96].hex(), c=last or None, w=place)
        return self.add(now, EARLIER, host, m=self.messages, c=last, frame=self.frames, link=0, n=len(frame), x=frame[:96].hex())


class Boot:
    """The steps of one process, put into the page between the grader's own."""

    def __init__(self, page, steps):
        self.page, self.steps = page, steps
        self.next = next(steps, None)
        self.at = 0  # steps that were taken
        self.numbers = {}  # of its steps: the page's
        self.messages = {}
        self.sessions = page.sessions

    def message(self, number):
        if is_number(number) and number > 0 and number not in self.messages:
            self.page.messages += 1
            self.messages[number] = self.page.messages
        return self.messages.get(number) if is_number(number) else None

    def until(self, kind):
        """Adds steps up to the next one of a frame, which is returned, if it is of this kind; kind None: all that are left."""
        while self.next is not None:
            step = self.next
            is_frame = step.get("k") in (EARLIER, LATER) and kind is not None
            if is_frame and step["k"] != kind:
                return None
            self.at += 1
            self.next = next(self.steps, None)
            if is_frame:
                return step
            self._add(step)
        return None

    def own(self, now, kind, data, step, **values):
        """Adds the grader's step of a frame, as what the process calls step."""
        number = self.page.add(now, kind, 0, link=0, n=len(data), **values)
        if step:
            self.numbers[self.at] = number
        return number

    def reference(self, step, name):
        number = step.get(name)
        return self.numbers.get(number) or None if is_number(number) else None

    def _add(self, step):
        nodes = self.page.hosts[0]["nodes"]
        kind, ends = step.get("k"), [step.get("a"), step.get("b")]
        if not isinstance(kind, str) or kind not in KINDS or not is_number(step.get("t")) or not all(is_number(end, len(nodes)) or end is None for end in ends) or (
                kind in ("up", "down") and (None in ends or not is_number(step.get("n")))):
            return
        values = {name: step[name] for name in NUMBERS[1:] if is_number(step.get(name))}
        values.update({name: self.reference(step, name) for name in REFERENCES})
        values.update({name: step[name] for name in ("reason", "text") if isinstance(step.get(name), str)})
        if isinstance(step.get("x"), str) and re.fullmatch("([0-9a-f]{2})*", step["x"]):
            values["x"] = step["x"]
        for name, end in (("path", len(nodes)), ("segments", 1 << 32)):
            if isinstance(step.get(name), list) and all(is_number(one, end) for one in step[name]):
                values[name] = step[name]
        if is_number(step.get("s")) and step["s"] > 0:
            values["s"] = self.sessions + step["s"]
            self.page.sessions = max(self.page.sessions, values["s"])
            values["made"] = 1 if step.get("made") else None
        place = self.page.place(step["w"] if isinstance(step.get("w"), str) else "driver")
        number = self.page.add(step["t"], kind, 0, m=self.message(step.get("m")), a=ends[0], b=ends[1], w=place, **values)
        self.numbers[self.at] = number


def steps_of(page, events, boots):
    """Adds all events of a run; boots: a Boot for each process."""
    boot = None
    for now, event, data in events:
        if event == "booted":
            boot = boots.pop(0) if boots else Boot(page, iter(()))
            page.add(now, "booted", 0)
        elif event == "crashed":
            boot.until(None)
            page.add(now, "crashed", 0)
        elif event == "chosen" and page.peer(PEER) is not None:
            page.add(now, "say", page.peer(PEER), a=2, text=data.decode(), w=page.place("the grader"))
        elif event in (LATER, "down") and len(data) >= 14:
            last = page.sent_by_peer(now, data)
            message = page.messages
            if event == "down":
                page.add(now, "lost", 0, m=message, c=last, frame=page.frames, link=0, n=len(data), x=data[:96].hex(), reason="the host is down")
                continue
            step = boot.until(LATER)
            if step is not None and is_number(step.get("m")):
                boot.messages[step["m"]] = message
            boot.own(now, LATER, data, step, m=message, c=last, frame=page.frames)
        elif event == EARLIER and len(data) >= 14:
            step = boot.until(EARLIER) or {}
            page.frames += 1
            message = boot.message(step.get("m"))
            last = boot.own(now, EARLIER, data, step, m=message, c=boot.reference(step, "c"), frame=page.frames, x=data[:96].hex())
            number = data[41] if data[12:14] == b"\x08\x06" and len(data) >= 42 else data[5]
            peer = page.peer(number)
            if peer is not None:
                page.add(now, LATER, peer, m=message, c=last, frame=page.frames, link=0, n=len(data))
    if boot is not None:
        boot.until(None)


def write(file, lab, layout, title, seed, why, events, journeys):
    """Writes the page to file. journeys: what each process has written; why: None, or why the mark is lost."""
    page = Page(lab, layout)
    page.add_student(next(filter(None, map(graph_of, journeys)), None))
    steps_of(page, events, [Boot(page, steps_in(text)) for text in journeys])
    data = json.dumps({"steps": page.steps, "hosts": page.hosts, "types": page.types, "places": page.places, "links": ["link"],
                       "title": title, "seed": str(seed), "leftOut": page.left_out}).replace("<", "\\u003c")
    style, body, script = (open_text(name) for name in ("journey.css", "journey.html", "journey.js"))
    verdict = "right" if why is None else why
    note = (f'<span class="key">{html.escape(f"The check says: {verdict}.")} Frames and their times are the grader\'s; all else inside the '
            "student's host is what its process says of itself.</span>\n</footer>")
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (script, style)]
    file.write('<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
               "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; base-uri 'none'; form-action 'none'; "
               f"script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'\">\n"
               '<meta name="viewport" content="width=device-width">\n<title>A journey</title>\n'
               f"<style>{style}</style>\n</head>\n{body.replace('</footer>', note)}"
               f'<script type="application/json" id="journey">{data}</script>\n<script>{script}</script>\n</html>\n')


def open_text(name):
    with open(os.path.join(ROOT, "tools", "journey", name), encoding="utf-8") as file:
        return file.read()
