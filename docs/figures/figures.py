#!/usr/bin/env python3
"""figures.py BUILD [DIRECTORY]: draws the figures of this folder and the pictures of graphs in docs/img, or all into DIRECTORY.

Each figure shows a simulated run, whose steps BUILD/xk writes (`xk run --journey`): its names, numbers, times and headers
are those of the run, and the same run gives the same bytes. tests/docs/docs.py checks that the figures are up to date. It
checks only the texts of the pictures, which BUILD/xk draws, because dot's layout depends on the fonts of a machine.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAIR, CALLS = "graphs/net/pair-ethernet10.dot", "graphs/net/pair-calls.dot"

# ---- a run -----------------------------------------------------------------------------------------------------------------


class Run:
    """The steps of a run (docs/journeys.md); tools/journey/journey.js documents their members."""

    def __init__(self, build, network, *sets, until="1s", paths="yes"):
        with tempfile.NamedTemporaryFile(suffix=".html") as page:
            command = [os.path.join(build, "xk"), "run", network, "--link", "sim", "--quiet", "--until", until, "--paths", paths,
                       "--journey", page.name]
            for text in sets:
                command += ["--set", text]
            subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            text = page.read().decode()
        document = json.loads(re.search(r'<script type="application/json" id="journey">(.*?)</script>', text, flags=re.S)[1])
        self.steps, self.hosts, self.types = document["steps"], document["hosts"], document["types"]
        self.places = document["places"]
        for number, step in enumerate(self.steps, 1):
            step["i"] = number
            step["host"] = self.hosts[step["h"]]["name"]
            for key in ("a", "b"):
                if key in step:
                    step[key] = self.hosts[step["h"]]["nodes"][step[key]]["name"]
            step["place"] = self.places[step["w"]] if "w" in step else ""

    def all(self, **wanted):
        return [step for step in self.steps if all(step.get(key) == value for key, value in wanted.items())]

    def first(self, **wanted):
        return self.all(**wanted)[0]

    def step(self, number):
        return self.steps[number - 1]

    def node(self, host, name):
        return next(n for h in self.hosts if h["name"] == host for n in h["nodes"] if n["name"] == name)

    def header(self, host, name):
        """Returns the length of a node's header in bytes, or 0."""
        return self.types[self.node(host, name)["type"]]["header"]

    def fields(self, host, name, data):
        """Yields (declared field, value as text, first bit) of a node's header in data, which is hexadecimal."""
        at, bits = 0, 4 * len(data)
        for field in self.types[self.node(host, name)["type"]]["fields"]:
            if at + field["bits"] > bits:
                return
            value = int(data, 16) >> (bits - at - field["bits"]) & ((1 << field["bits"]) - 1)
            yield field, as_text(field, value), at
            at += field["bits"]

    def values(self, host, name, data):
        return {field["name"]: text for field, text, _ in self.fields(host, name, data)}


def as_text(field, value):
    """Returns a field's value as traces print it."""
    names = {int(number): name for number, name in field.get("values", [])}
    if field.get("mask"):
        return "|".join(name for bit, name in names.items() if value & bit) or "0"
    if value in names:
        return names[value]
    if field["print"] == "host":
        return ".".join(str(value >> shift & 255) for shift in (24, 16, 8, 0))
    if field["print"] == "link":
        return re.sub("..(?=.)", r"\g<0>:", f"{value:012x}")
    return f"{value:0{(field['bits'] + 3) // 4}x}" if field["print"] == "hex" else str(value)


def microseconds(ns):
    return f"{ns / 1000:.1f} µs" if ns < 1000000 else f"{ns / 1000000:.2f} ms"


# ---- a drawing -------------------------------------------------------------------------------------------------------------

# Colours have the same meaning as in journeys. Only plain classes: few programs other than browsers support more of CSS.
LIGHT = {
    ".halo": "stroke:#ffffff", ".ground": "fill:#ffffff", "text": "fill:#1f2933", ".faint": "fill:#5d6976", ".box": "fill:#eef2f7;stroke:#8794a3",
    ".line": "stroke:#5d6976", ".tip": "fill:#5d6976", ".guide": "stroke:#ccd3db", ".payload": "fill:#ffffff;stroke:#8794a3",
    ".eth": "fill:#e6dcf4;stroke:#8a76ad", ".ip": "fill:#d5e5f7;stroke:#5f8fc2", ".udp": "fill:#d8eedd;stroke:#62a074",
    ".key": "fill:#fff0b8;stroke:#b39425", ".driver": "fill:#2f6db5;stroke:#2f6db5", ".thread": "fill:#e4e7eb;stroke:#8a929c",
    ".waits": "fill:#f7d6d2;stroke:#c0392b", ".red": "fill:#c0392b", ".redline": "stroke:#c0392b", ".lost": "fill:#a0691b",
    ".lostline": "stroke:#b07d2b", ".blue": "fill:#2f6db5", ".blueline": "stroke:#2f6db5", ".ondriver": "fill:#ffffff",
    ".varies": "fill:#ffffff;stroke:#8794a3", ".length": "fill:#d8eedd;stroke:#62a074", ".checksum": "fill:#fbe0c2;stroke:#c28a45",
    ".compared": "fill:#d5e5f7;stroke:#5f8fc2",
}
DARK = {
    ".halo": "stroke:#12161b", ".ground": "fill:#12161b", "text": "fill:#e6eaef", ".faint": "fill:#9aa6b2", ".box": "fill:#27303a;stroke:#6b7785",
    ".line": "stroke:#9aa6b2", ".tip": "fill:#9aa6b2", ".guide": "stroke:#3a444f", ".payload": "fill:#12161b;stroke:#6b7785",
    ".eth": "fill:#41355c;stroke:#8a76ad", ".ip": "fill:#21415f;stroke:#5f8fc2", ".udp": "fill:#244a30;stroke:#62a074",
    ".key": "fill:#564a14;stroke:#b39425", ".thread": "fill:#343d47;stroke:#8a929c", ".waits": "fill:#56231e;stroke:#e0695c",
    ".red": "fill:#f0796d", ".redline": "stroke:#e0695c", ".lost": "fill:#dba94f", ".lostline": "stroke:#dba94f",
    ".blue": "fill:#7fb0ea", ".blueline": "stroke:#7fb0ea", ".varies": "fill:#12161b;stroke:#6b7785",
    ".length": "fill:#244a30;stroke:#62a074", ".checksum": "fill:#5c3d17;stroke:#c28a45", ".compared": "fill:#21415f;stroke:#5f8fc2",
}
PLAIN = """text { font: 13px Helvetica, Arial, "DejaVu Sans", sans-serif }
.small { font-size: 11px } .bold { font-weight: bold } .large { font-size: 15px; font-weight: bold }
.mono { font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace }
.line, .guide, .redline, .lostline, .blueline { stroke-width: 1.5; fill: none }
.halo { paint-order: stroke; stroke-width: 4px } .skipped { opacity: 0.4 }
.guide { stroke-width: 1 } .dashed { stroke-dasharray: 5 3 } .dotted { stroke-dasharray: 2 3 } .thick { stroke-width: 3 }"""


class Drawing:
    def __init__(self, title, width, height):
        self.title, self.width, self.height, self.items = title, width, height, []

    def add(self, tag, text="", **attributes):
        words = "".join(f' {key.rstrip("_").replace("_", "-")}="{value:.6g}"' if isinstance(value, (int, float))
                        else f' {key.rstrip("_").replace("_", "-")}="{value}"' for key, value in attributes.items() if value != "")
        text = text.replace("&", "&amp;").replace("<", "&lt;")
        self.items.append(f"<{tag}{words}>{text}</{tag}>" if text else f"<{tag}{words}/>")

    def rect(self, x, y, width, height, class_, rx=3):
        self.add("rect", x=x, y=y, width=width, height=height, rx=rx, class_=class_)

    def text(self, x, y, text, class_="", anchor=""):
        self.add("text", text, x=x, y=y, class_=class_, text_anchor=anchor)

    def middle(self, x, y, text, class_=""):
        self.text(x, y, text, class_, "middle")

    def line(self, x1, y1, x2, y2, class_="line"):
        self.add("path", d=f"M{x1:.6g} {y1:.6g}L{x2:.6g} {y2:.6g}", class_=class_)

    def arrow(self, x1, y1, x2, y2, class_="line", tip="tip"):
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        self.line(x1, y1, x2 - 8 * dx, y2 - 8 * dy, class_)
        corners = [(x2, y2), (x2 - 9 * dx - 4 * dy, y2 - 9 * dy + 4 * dx), (x2 - 9 * dx + 4 * dy, y2 - 9 * dy - 4 * dx)]
        self.add("path", d="M" + "L".join(f"{x:.6g} {y:.6g}" for x, y in corners) + "Z", class_=tip)

    def block(self, x, y, width, text, class_, below=(), height=22):
        """Draws a piece of a message: its name, and lines of small text in it."""
        self.rect(x, y, width, height + 13 * len(below) + (3 if below else 0), class_)
        self.middle(x + width / 2, y + 15, text)
        for number, words in enumerate(below):
            self.middle(x + width / 2, y + 32 + 13 * number, words, "small")

    def protocol(self, x, y, name, virtual=False, width=84, class_="box"):
        self.rect(x - width / 2, y - 13, width, 26, class_ + (" dashed" if virtual else ""), 6)
        self.middle(x, y + 5, name, "bold" + (" ondriver" if class_ == "driver" else " skipped" if "skipped" in class_ else ""))

    def __str__(self):
        def rules(colours):
            return "\n".join(f"{name} {{ {colour} }}" for name, colour in colours.items())
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
                f'height="{self.height}" role="img">\n<title>{self.title}</title>\n<style>\n{PLAIN}\n{rules(LIGHT)}\n'
                f"@media (prefers-color-scheme: dark) {{\n{rules(DARK)}\n}}\n</style>\n"
                f'<rect class="ground" width="{self.width}" height="{self.height}"/>\n' + "\n".join(self.items) + "\n</svg>\n")


def short(text):
    """Shortens a link address to its last part, the only one that differs."""
    return "…" + text[-2:] if re.fullmatch("02(:..){5}", text) else text


# ---- the figures -----------------------------------------------------------------------------------------------------------


def encapsulation(build):
    """Draws headers that are added on send and removed on receive."""
    run = Run(build, PAIR, "client.udptest.rounds=1")
    message = run.first(host="client", a="udptest", k="down")["m"]
    down = run.all(host="client", k="down", m=message)
    up = run.all(host="server", k="up", m=message)[::-1]
    layers = [step["a"] for step in down] + [down[-1]["b"]]
    assert layers == [up[0]["b"]] + [step["a"] for step in up]
    shown = {"eth": ("destination", "source", "type"), "ip": ("protocol", "source", "destination"),
             "udp": ("source", "destination", "length")}
    gap, width, right = 92, 148, 596
    drawing = Drawing("Each protocol puts its header in front of the message, and its peer removes it", 860, 80 + gap * (len(layers) - 1) + 66)
    drawing.middle(68, 30, "client", "large")
    drawing.middle(792, 30, "server", "large")
    for number, name in enumerate(layers):
        y = 62 + gap * number
        for x, host in ((68, "client"), (792, "server")):
            drawing.protocol(x, y, name, run.node(host, name).get("virtual"))
    headers = []
    for number, (step, other) in enumerate(zip(down, up)):
        y = 62 + gap * number + gap / 2
        assert step["n"] == other["n"]
        size = run.header("client", step["a"])
        drawing.arrow(68, y - 32, 68, y + 32, "blueline", "blue")
        drawing.arrow(792, y + 32, 792, y - 32, "blueline", "blue")
        if size > 0:
            headers.append((step["a"], size, run.values("client", step["a"], step["x"][: 2 * size])))
        new = headers[-1][0] if size > 0 else ""
        drawing.block(right, y - 29, 90, f"payload, {step['n'] - sum(h[1] for h in headers)}", "payload")
        x = right
        for name, size, values in headers:
            x -= width + 3
            below = [f"{field} {short(values[field])}" for field in shown[name]] if name == new else ()
            drawing.block(x, y - 29, width, f"{name}, {size}", name, below)
        drawing.text(right + 98, y - 14, f"{step['n']} byte{'s' if step['n'] > 1 else ''}", "small bold")
    bottom = 62 + gap * (len(layers) - 1)
    drawing.line(68, bottom + 13, 68, bottom + 40)
    drawing.line(792, bottom + 13, 792, bottom + 40)
    drawing.arrow(68, bottom + 40, 700, bottom + 40)
    drawing.line(690, bottom + 40, 792, bottom + 40)
    drawing.middle(430, bottom + 33, f"the cable: {down[-1]['n']} bytes", "small faint")
    drawing.middle(430, bottom + 57, "Numbers in the boxes: bytes. vnet has no header.", "small faint")
    return drawing


def demultiplexing(build):
    """Draws the fields by which each protocol demultiplexes a message."""
    run = Run(build, PAIR, "graph.protocols=host.dot", "client.udptest.rounds=1", "client.icmptest.to=10.77.0.2", "client.icmptest.count=1")
    chosen_by = {"eth": "type", "ip": "protocol", "udp": "destination"}
    places = {"port": (210, 520), "eth": (210, 430), "arp": (290, 330), "vnet": (130, 330), "ip": (130, 230), "udp": (84, 130), "icmp": (270, 130),
              "udptest": (84, 40), "icmptest": (270, 40)}
    drawing = Drawing("The fields by which each protocol finds a message's receiver", 920, 560)
    host = next(h for h in run.hosts if h["name"] == "server")
    assert {n["name"] for n in host["nodes"]} == set(places)
    ups = {}
    for step in run.all(host="server", k="up"):
        ups.setdefault((step["a"], step["b"]), step)
    for upper, lower, kind in host["edges"]:
        upper, lower = host["nodes"][upper]["name"], host["nodes"][lower]["name"]
        (x1, y1), (x2, y2) = places[lower], places[upper]
        step = ups.get((lower, upper))
        if kind == "control":
            drawing.line(x1 - 42, y1, x2 + 42, y2, "line dotted")
            continue
        drawing.arrow(x1, y1 - 13, x2, y2 + 13)
        if step is None or lower not in chosen_by:
            continue
        before = run.step(step["c"])
        text = run.values("server", lower, before["x"][: 2 * run.header("server", lower)])[chosen_by[lower]]
        drawing.text((x1 + x2) / 2 + (12 if x2 >= x1 else -12), (y1 + y2) / 2 + 8, f"{chosen_by[lower]} {text}", "small bold halo", "" if x2 >= x1 else "end")
    for name, (x, y) in places.items():
        drawing.protocol(x, y, name, run.node("server", name).get("virtual"))
    request = run.first(host="server", b="udptest", k="up")["m"]
    drawing.text(380, 40, "The first request, at each protocol, from the bottom up", "bold")
    drawing.text(380, 58, "marked: the fields that name the session", "small faint")
    for step in run.all(host="server", k="up", m=request):
        name, x, (_, y) = step["b"], 380, places[step["b"]]
        size = run.header("server", name)
        if size == 0 and run.node("server", name).get("virtual"):
            drawing.text(x, y + 4, f"{name} has no header: its session is known from the one below", "small faint")
        if size == 0:
            continue
        fields = list(run.fields("server", name, step["x"][: 2 * size]))
        keys = [(f["name"], text) for f, text, _ in fields if f["kind"] == "names the session"]
        rest = [(f["name"], text) for f, text, _ in fields if f["kind"] == "fixed"][:1]
        drawing.text(x, y - 28, f"{name}, {size} bytes", "small bold")
        for field, text in rest + keys:
            drawing.block(x, y - 20, 128, text, "key" if (field, text) in keys else "payload", (field,))
            x += 132
    return drawing


def fragments(build):
    """Draws one datagram, its three frames, and the place of each fragment in the whole."""
    run = Run(build, PAIR, "client.udptest.rounds=1", "client.udptest.size=4000")
    whole = run.first(host="client", k="down", a="udp")
    parts = run.all(host="client", k="down", a="ip", m=whole["m"])
    scale, left, top = 640 / whole["n"], 200, 92
    drawing = Drawing(f"A datagram of {whole['n']} bytes in {len(parts)} fragments", 890, 440)
    header, first = run.header("client", "ip"), max(run.header("client", "udp") * scale, 5)
    drawing.text(20, 38, "udp hands ip", "bold")
    drawing.text(20, 54, f"{whole['n']} bytes", "small faint")
    drawing.rect(left, 24, 640, 34, "payload")
    drawing.rect(left, 24, first, 34, "udp")
    drawing.middle(left + 320, 46, "udp's header in front, its checksum over all")
    done = run.first(host="server", k="up", a="ip", m=whole["m"])
    for number, part in enumerate(parts):
        values = run.values("client", "ip", part["x"][: 2 * header])
        offset, length, y = 8 * int(values["offset"]), part["n"] - header, top + 84 * number
        x, width = left + offset * scale, length * scale
        for edge in (x, x + width):
            drawing.line(edge, 58, edge, y, "guide dashed")
        drawing.rect(x - 46, y, 22, 34, "eth")
        drawing.rect(x - 24, y, 24, 34, "ip")
        drawing.middle(x - 35, y + 22, "eth", "small")
        drawing.middle(x - 12, y + 22, "ip", "small")
        drawing.rect(x, y, width, 34, "payload")
        if offset == 0:
            drawing.rect(x, y, first, 34, "udp")
        drawing.middle(x + width / 2, y + 22, f"{length} bytes")
        more = "flags more: others follow" if "more" in values["flags"] else "flags 0: the last"
        drawing.text(20, y + 15, f"fragment {number + 1}", "bold")
        drawing.text(20, y + 31, f"frame of {part['n'] + run.header('client', 'eth')} bytes", "small faint")
        drawing.text(left, y + 52, f"identification {values['identification']}, offset {values['offset']} × 8 = {offset}, {more}", "small halo")
    y, start = top + 84 * len(parts) + 42, run.first(host="client", k="sent", m=whole["m"])["t"]
    span = done["t"] - start
    drawing.text(20, y - 4, "at the server", "bold")
    drawing.text(20, y + 12, "since the first one was sent", "small faint")
    drawing.arrow(left, y, left + 668, y)
    for step in run.all(host="server", k="arrived", m=whole["m"]):
        x = left + (step["t"] - start) / span * 600
        drawing.line(x, y - 7, x, y + 7)
        drawing.middle(x, y + 22, microseconds(step["t"] - start), "small")
    drawing.text(left, y + 44, f"ip keeps the fragments that have arrived; with the last missing one it hands {done['n']} bytes up to udp, "
                 f"in {len(done['segments'])} pieces, uncopied", "small")
    return drawing


def handoffs(build):
    """Draws the three reasons for which a message leaves the driver, each in a run of one server with two clients."""
    network, patient, hasty = "docs/examples/work-net.dot", "patient.udptest.rounds=3", "hasty.udptest.rounds=40"
    panels = (
        ("explicit", "handoff=explicit on an edge: a message that crosses it upward leaves the driver",
         Run(build, network, patient, hasty, "server.protocols=../../graphs/udptest-explicit.dot", "hasty.udptest.port=2001",
             paths="no")),
        ("implicit", "it must wait: the stack is parked, and a thread resumes it afterwards",
         Run(build, network, patient, hasty, "server.vwork.wait=500us", "server.vwork.up=100us", paths="no")),
        ("time", "budget=100us on the graph: it has kept the driver for longer",
         Run(build, network, patient, hasty, "server.graph.budget=100us", paths="no")),
    )
    drawing = Drawing("A message leaves the driver for three reasons", 880, 20 + 200 * len(panels))
    for number, (reason, words, run) in enumerate(panels):
        top = 30 + 200 * number
        lanes = {"driver": top + 44, "thread": top + 120}
        # the first such message during which the driver takes another one
        for handoff in run.all(k="handoff", reason=reason, host="server"):
            steps = [s for s in run.all(host="server", m=handoff["m"]) if s["k"] in ("up", "handoff")]
            route = steps[:next(i for i, s in enumerate(steps) if s is handoff) + 2]
            others = [s for s in run.all(host="server", k="up", a="port") if route[-3]["i"] < s["i"] < route[-1]["i"] and s["m"] != handoff["m"]]
            if others:
                break
        assert others and route[-1]["k"] == "up"
        drawing.text(20, top, reason, "large")
        drawing.text(100, top, words, "faint")
        for lane, y in lanes.items():
            drawing.text(20, y + 4, lane, "small")
            drawing.line(70, y, 860, y, "guide dotted")
        x, last = 114, None
        for step in route:
            if step is handoff and route[-1]["t"] == handoff["t"]:
                continue
            name = last["b"] if step is handoff else step["b"]
            lane = step["place"].split(" ")[0].rstrip(",")
            if last is not None and lane != "driver" and last["place"].startswith("driver"):
                drawing.arrow(x - 84 + 34, lanes["driver"] + 13, x - 18, lanes["thread"] - 14, "redline thick", "red")
                drawing.text(x, lanes["driver"] + 4, f"… continues: takes the next message at {(others[0]['t'] - route[0]['t']) / 1000:.1f}", "small halo")
            elif last is not None:
                drawing.arrow(x - 84 + 34, lanes[lane], x - 34, lanes[lane])
            drawing.protocol(x, lanes[lane], name, width=66, class_="driver" if lane == "driver" else "thread")
            drawing.middle(x, lanes[lane] + 28, f"{(step['t'] - route[0]['t']) / 1000:.1f}", "small faint")
            last = step
            x += 84
        drawing.text(x - 38, lanes["thread"] + 4, f"on {handoff['place']}", "small red halo")
    drawing.text(20, 20 + 200 * len(panels) - 14, "Numbers: the message's arrival there, in µs since the driver received it. Blue: in the driver; grey: on a thread.",
                 "small faint")
    return drawing


def at_most_once(build):
    """Draws a call whose request is lost once and whose reply is lost twice: it runs once."""
    run = Run(build, CALLS, "cable.loss=10%", "client.chantest.rounds=5", until="60s")
    begin = run.all(host="client", a="chantest", b="chan", k="down")[2]
    sequence = next(s for s in run.steps if s["i"] > begin["i"] and s["k"] == "down" and s["a"] == "chan" and s["host"] == "client")
    number = run.values("client", "chan", sequence["x"])["sequence"]
    following = run.all(host="client", a="chantest", b="chan", k="down")[3]
    rows = []
    for step in run.steps[begin["i"] - 1: following["i"] - 1]:
        if step["k"] == "sent":
            pushed = step
            while pushed is not None and not (pushed["k"] == "down" and pushed.get("a") == "chan"):
                pushed = run.step(pushed["c"]) if pushed.get("c") else None
            if pushed is None:
                continue
            values = run.values(pushed["host"], "chan", pushed["x"])
            fate = next(s for s in run.steps if s["k"] in ("arrived", "lost") and s.get("frame") == step["frame"])
            rows.append((step["t"], "frame", step["host"], "request" if values["from_client"] == "1" else "reply",
                         "again" in pushed or any(r[1] == "frame" and r[2] == step["host"] for r in rows), fate))
        elif step["k"] == "up" and step["b"] == "chantest" and not step.get("reply"):
            rows.append((step["t"], "runs", step["host"]))
        elif step["k"] == "drop" and step.get("a") == "chan":
            rows.append((step["t"], "drop", step["host"], step["reason"]))
        elif step.get("reply") and step["b"] == "chantest":
            rows.append((step["t"], "ends", step["host"]))
    gap, x = 46, {"client": 230, "server": 590}
    drawing = Drawing("One call, three losses, one execution", 820, 110 + gap * len(rows))
    bottom = 80 + gap * len(rows)
    for host, at in x.items():
        drawing.protocol(at, 34, host)
        drawing.line(at, 47, at, bottom, "line")
    drawing.text(20, 38, f"call {number} of the channel", "bold")
    last = None
    for row, event in enumerate(rows):
        y, host = 84 + gap * row, event[2]
        if event[0] != last:
            drawing.text(20, y + 4, microseconds(event[0]), "small faint")
        last = event[0]
        if event[1] == "frame":
            _, _, _, what, again, fate = event
            other = x["server" if host == "client" else "client"]
            lost = fate["k"] == "lost"
            to = x[host] + (other - x[host]) * (0.62 if lost else 1)
            slope = 16 * (0.62 if lost else 1)
            if lost:
                drawing.line(x[host], y, to, y + slope, "lostline dashed")
                drawing.line(to - 6, y + slope - 6, to + 6, y + slope + 6, "lostline thick")
                drawing.line(to - 6, y + slope + 6, to + 6, y + slope - 6, "lostline thick")
                drawing.text(to + (14 if other > to else -14), y + slope + 5, "lost", "small lost", "start" if other > to else "end")
            else:
                drawing.arrow(x[host], y, to, y + slope)
            drawing.middle((x["client"] + x["server"]) / 2, y - 2, what + (", again" if again else ""), "small bold")
        elif event[1] == "runs":
            drawing.rect(x[host] - 8, y - 12, 16, 24, "driver")
            drawing.text(x[host] + 18, y + 4, "the procedure runs", "bold blue")
        elif event[1] == "drop":
            drawing.text(x[host] + 18, y - 3, f"{event[3]}: not run again,", "small")
            drawing.text(x[host] + 18, y + 11, "the kept reply is sent", "small")
        else:
            drawing.text(x[host] - 18, y + 4, "the call ends", "bold", "end")
    counts = {"lost": 0, "came": 0, "ran": sum(event[1] == "runs" for event in rows)}
    for event in rows:
        if event[1] == "frame":
            counts["lost"] += event[5]["k"] == "lost"
            counts["came"] += event[5]["k"] == "arrived" and event[3] == "request"
    assert counts["ran"] == 1
    drawing.text(20, bottom + 22, f"{counts['lost']} messages were lost. The request arrived {counts['came']} times, and the procedure ran once.", "bold")
    return drawing


def path(build):
    """Draws the first request, layer by layer, and a later one, by path."""
    run = Run(build, PAIR, "client.udptest.rounds=20")
    later = run.all(host="server", k="up", b="udptest")
    later = next(step for step in later if step.get("path"))
    first = run.first(host="server", k="up", b="udptest")
    layers = ["udptest", "udp", "ip", "vnet", "eth", "port"]
    assert [step["a"] for step in run.all(host="server", k="up", m=first["m"])][::-1] == layers[1:]
    drawing = Drawing("Layer by layer, and by path", 880, 640)
    gap, top = 62, 84
    arrived = next(s for s in run.steps if s["k"] == "sent" and s.get("m") == later["m"])
    for x, words, step in ((170, "layer by layer: the first request", first), (580, "by path: a later one", later)):
        drawing.middle(x, 34, words, "large")
        passed = [run.hosts[step["h"]]["nodes"][index]["name"] for index in step.get("path", [])]
        for number, name in enumerate(layers):
            y = top + gap * number
            drawing.protocol(x, y, name, run.node("server", name).get("virtual"), class_="box skipped" if passed and 0 < number < len(layers) - 1 else "box")
            size = run.header("server", name)
            if number == 0:
                continue
            if not passed:
                drawing.arrow(x, y - 13, x, y - gap + 13, "blueline thick", "blue")
                if size:
                    keys = ", ".join(f["name"] for f, _, _ in run.fields("server", name, arrived["x"][:2 * size]) if f["kind"] == "names the session")
                    drawing.text(x + 52, y - 2, f"checks its {size} bytes,", "small")
                    drawing.text(x + 52, y + 12, f"finds a session by {keys}", "small")
                elif name == "vnet":
                    drawing.text(x + 52, y + 5, "the session above is known", "small")
        if passed:
            bottom = top + gap * (len(layers) - 1)
            drawing.line(x - 42, bottom, x - 80, bottom, "blueline thick")
            drawing.line(x - 80, bottom, x - 80, top, "blueline thick")
            drawing.arrow(x - 81, top, x - 42, top, "blueline thick", "blue")
            drawing.text(x + 56, top + 2.5 * gap - 8, "one comparison of the 42 bytes below,", "small")
            drawing.text(x + 56, top + 2.5 * gap + 8, "under a mask, finds udp's session", "small")
            drawing.text(x + 56, top + 2.5 * gap + 24, "and removes three headers", "small")
    at, y, unit = 20, 490, 20 / 8
    drawing.text(at, y - 20, "The three headers of that message, and the path's treatment of each field", "bold")
    kinds = {"fixed": "compared", "names the session": "compared", "length": "length", "checksum": "checksum", "varies": "varies"}
    offset = 0
    for name in ("eth", "ip", "udp"):
        size = run.header("server", name)
        drawing.middle(at + size * 10, y - 3, f"{name}, {size} bytes", "small faint")
        data = arrived["x"][2 * offset: 2 * (offset + size)]
        for field, _, bit in run.fields("server", name, data):
            kind = "compared" if field.get("rare") else kinds[field["kind"]]
            drawing.rect(at + bit * unit, y + 4, field["bits"] * unit, 30, kind, 0)
        for index in range(size):
            drawing.middle(at + index * 20 + 10, y + 24, data[2 * index: 2 * index + 2], "mono")
        at, offset = at + size * 20, offset + size
    for number, (kind, words) in enumerate((("compared", "compared: fixed, names the session, or hardly ever different"), ("length", "must be the frame's length"),
                                            ("checksum", "must be correct"), ("varies", "ignored"))):
        x, line = 20 + 430 * (number % 2), y + 62 + 26 * (number // 2)
        drawing.rect(x, line, 20, 16, kind, 0)
        drawing.text(x + 30, line + 13, words, "small")
    drawing.text(20, y + 134, "A message that does not fit (a fragment, an option, another host) goes layer by layer, unchanged.", "small faint")
    return drawing


FIGURES = {"encapsulation": encapsulation, "demultiplexing": demultiplexing, "fragments": fragments, "handoffs": handoffs,
           "at-most-once": at_most_once, "path": path}
# The pictures of graphs in docs/img.
PICTURES = {"chantest": "graphs/chantest.dot", "lan": "graphs/net/lan.dot", "udptest": "graphs/udptest-explicit.dot"}


def main():
    if not 2 <= len(sys.argv) <= 3 or not os.path.exists(os.path.join(sys.argv[1], "xk")):
        print("usage: docs/figures/figures.py BUILD [DIRECTORY]", file=sys.stderr)
        return 2
    build = os.path.abspath(sys.argv[1])
    for name, draw in FIGURES.items():
        with open(os.path.join(sys.argv[2] if len(sys.argv) == 3 else HERE, name + ".svg"), "w", encoding="utf-8") as out:
            out.write(str(draw(build)))
    for name, graph in PICTURES.items():
        out = os.path.join(sys.argv[2] if len(sys.argv) == 3 else os.path.join(ROOT, "docs/img"), name + ".svg")
        subprocess.run([os.path.join(build, "xk"), "draw", graph, "-o", os.path.abspath(out)], cwd=ROOT, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
