#!/usr/bin/env python3
"""metrics.py [ALERTS] - checks that standard input is in Prometheus' text format, follows its rules for names, and has every
metric that the file ALERTS asks for."""
import re
import sys


def require(condition, *why):
    if not condition:
        sys.exit(" ".join(str(word) for word in why))


def check_metrics(text):
    """Returns the names of all metrics."""
    name = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
    label = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
    sample = re.compile(rf"({name})(?:\{{({label}(?:,{label})*)\}})? (-?[0-9.e+]+|NaN)")
    family, types, seen = None, {}, set()
    lines = text.split("\n")
    require(lines.pop() == "", "the last line does not end")
    for line in lines:
        words = line.split(" ", 3)
        if line.startswith("# HELP "):
            require(words[2] not in types, "a family twice:", line)
            family = words[2]
        elif line.startswith("# TYPE "):
            require(words[2] == family and words[3] in ("counter", "gauge", "untyped"), line)
            require((words[3] == "counter") == family.endswith("_total"), "a counter's name ends with _total:", line)
            types[family] = words[3]
        else:
            match = sample.fullmatch(line)
            require(match is not None and match.group(1) == family and family in types, line)
            require((family, match.group(2)) not in seen, "a sample twice:", line)
            seen.add((family, match.group(2)))
    return set(types)


def main(alerts=None):
    known = check_metrics(sys.stdin.read())
    if alerts is None:
        return
    with open(alerts, encoding="ascii") as stream:
        asked = set(re.findall(r"\bxk_\w+", stream.read()))
    require(asked and asked <= known, "unknown:", *sorted(asked - known))


if __name__ == "__main__":
    main(*sys.argv[1:])
