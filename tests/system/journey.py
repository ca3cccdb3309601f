#!/usr/bin/env python3
"""journey.py check|print PAGE EXPRESSION - evaluates an expression of a --journey page's data (journey.sh)."""
import json
import re
import sys


def main(word, path, expression):
    with open(path, encoding="utf-8") as file:
        source = file.read()
    document = json.loads(re.search(r'<script type="application/json" id="journey">(.*?)</script>', source, flags=re.S)[1])
    steps, hosts = document["steps"], document["hosts"]
    for number, s in enumerate(steps):
        s["i"] = number + 1
        for cause in ("c", "because", "again"):
            assert s.get(cause, 0) < s["i"], f"step {s['i']} comes before what led to it"
        if s["k"] in ("up", "down"):
            assert 2 * s["n"] >= len(s["x"]) and "w" in s and "m" in s, s

    def host(name):
        return next(i for i, h in enumerate(hosts) if h["name"] == name)

    def names(number):
        return [n["name"] for n in hosts[number]["nodes"]]

    def name(s, index):
        return names(s["h"])[index]

    def node(number, wanted):
        return names(number).index(wanted)

    def matches(s, wanted):
        return all((name(s, s[k]) if k in ("a", "b") and k in s else s.get(k)) == v for k, v in wanted.items())

    def all_of(**wanted):
        return [s for s in steps if matches(s, wanted)]

    def first(**wanted):
        return all_of(**wanted)[0]

    def short(s):
        return f"{name(s, s['a'])}{'>' if s['k'] == 'down' else '<'}{name(s, s['b'])}"

    def crossing(at, wanted):
        return next(s for s in steps if s["k"] in ("up", "down") and s["h"] == host(at) and short(s) == wanted)

    def way(message):
        return [short(s) for s in steps if s["k"] in ("up", "down") and s["m"] == message]

    def fields(s):
        upper = hosts[s["h"]]["nodes"][s["a" if s["k"] == "down" else "b"]]
        bits = "".join(f"{int(digit, 16):04b}" for digit in s["x"])
        values, at = {}, 0
        for field in document["types"][upper["type"]]["fields"]:
            values[field["name"]] = int(bits[at:at + field["bits"]], 2)
            at += field["bits"]
        return values

    words = {
        "document": document, "steps": steps, "hosts": hosts, "source": source, "size": len(source.encode()), "host": host,
        "names": names, "name": name, "node": node, "all_of": all_of, "first": first, "crossing": crossing, "way": way,
        "fields": fields, "step": lambda number: steps[number - 1], "place": lambda s: document["places"][s["w"]],
        "frames": lambda: len(all_of(k="sent")),
        "message_of": lambda at, top: first(h=host(at), a=top, k="down")["m"],
    }
    value = eval("(" + expression + ")", words)
    if word == "print":
        print(value)
    elif not value:
        print(f"it is {value!r}; {len(steps)} steps")
        return 1
    return 0


sys.exit(main(*sys.argv[1:]))
