"""looks.py - the styles of all figures, distinguishable without colour."""

REGULAR, IPP, HANDOFF, OTHER = "#8a929c", "#2f6db5", "#c0392b", "#5b8c5a"
FLOOR = {"linestyle": "--", "linewidth": 1.2, "color": "#010203"}
ERROR = {"capsize": 2.5, "elinewidth": 0.9, "ecolor": "#010203"}
DRIVERS = {"interrupt": (IPP, "o", "-"), "adaptive": (OTHER, "D", "-."), "poll": ("#b07d2b", "s", ":")}


def bar(mode, handoff):
    """Returns the style of a mode's bar."""
    if mode == "regular":
        return {"color": REGULAR}
    if handoff in ("-", "none", "graph"):
        return {"color": IPP}
    hatch = {"client": "//", "server": "\\\\"}.get(handoff, "xx")
    return {"color": HANDOFF, "hatch": hatch, "edgecolor": "white", "linewidth": 0}


def error(values):
    """Returns intervals as error bars for matplotlib."""
    return [[v["median"] - v["low"] for v in values], [v["high"] - v["median"] for v in values]]

