"""documents.py - checks the JSON that udptest, chantest and tcptest write; called by common.sh.

documents.py runs NAME FILE ROUNDS RUNS [EXPRESSION]
    checks that there are RUNS runs, each with the properties of a successful run, and EXPRESSION for each (r).
documents.py calls NAME FILE ROUNDS RUNS [EXPRESSION]
    the same for chantest.
documents.py streams NAME FILE ROUNDS RUNS [EXPRESSION]
    the same for tcptest.
documents.py one NAME FILE EXPRESSION
    checks EXPRESSION of the document (d; for a lone server also s, its counts, and drops, with 0 for missing ones).
Prints one line; exits 1 if a check fails.
"""

import collections
import json
import re
import sys

COUNTS = ("rounds", "messages", "fragments", "fallbacks", "overruns", "lost")
HANDOFFS = ("explicit", "implicit", "time")
TIMES = ("min", "p50", "p90", "p99", "max")
FRAGMENT = 1480


def fragments_of(size):
    return -(-(size + 8) // FRAGMENT)


def wrong_handoffs(r, has_budget):
    """Checks that explicit handoffs occur exactly where --handoff put them; a message handed off by time leaves only once."""
    ends = {"none": 0, "client": 1, "server": 1, "both": 2}
    explicit, by_time = r["handoffs"]["explicit"], r["handoffs"]["time"]
    expected = 0 if r["mode"] == "regular" else ends.get(r["handoff"])
    if r["mode"] == "regular" and any(r["handoffs"].values()):
        yield f"handoffs in regular mode: {r['handoffs']}"
    if expected is not None and not expected * r["rounds"] - by_time <= explicit <= expected * r["rounds"]:
        yield f"handoffs {r['handoffs']}, expected explicit {expected * r['rounds']}"
    if by_time != 0 and not has_budget:
        yield f"{by_time} handoffs by time without a budget"


def wrong_in_run(r, rounds, has_budget):
    for key in COUNTS:
        if type(r[key]) is not int or r[key] < 0:
            yield f"{key} is {r[key]!r}"
    if set(r["handoffs"]) != set(HANDOFFS):
        yield f"handoffs are {sorted(r['handoffs'])}"
    # A busy machine may stop a process for longer than a round trip's timeout.
    late = r["drops"].get("udptest.late", 0)
    if r["rounds"] != rounds or r["lost"] > min(late, 1 + rounds // 100) or r["late"] > late or r["bad"] != 0:
        yield f"rounds {r['rounds']}, lost {r['lost']}, late {r['late']}, bad {r['bad']}"
    if set(r["drops"]) - {"udptest.late"}:
        yield f"drops {r['drops']}"
    times = [r["rtt_ns"][key] for key in TIMES]
    if times[0] <= 0 or times != sorted(times) or not times[0] <= r["rtt_ns"]["mean"] <= times[-1]:
        yield f"rtt_ns {r['rtt_ns']}"
    # a lone client cannot ask its server
    ends = 1 if isinstance(r["context_switches"], dict) and r["context_switches"]["server"] is None else 2
    if not ends * rounds <= r["messages"] <= ends * (rounds + late):
        yield f"{r['messages']} messages"
    frames = ends * rounds * fragments_of(r["size"])
    if abs(r["fragments"] - frames) > 64 + frames / 50:
        yield f"{r['fragments']} fragments, expected about {frames}"
    if r["fallbacks"] != 0 or r["stalled"] != 0:
        yield f"fallbacks {r['fallbacks']}, stalled {r['stalled']}"
    yield from wrong_handoffs(r, has_budget)


# Retransmissions on a busy machine are dropped under these names, even after the end of a session; so are a new client's first messages.
AGAIN = {"chan.duplicate", "chan.stale", "chan.unasked", "chan.no_session", "chan.too_soon", "chan.busy", "vnet.no_session",
         "blast.no_session", "bid.no_session", "blast.duplicate", "blast.unknown", "blast.gave_up", "blast.nack_early", "blast.nack_unknown", "bid.unconfirmed", "bidctl.unasked"}
KEYS = {"mode", "handoff", "threads", "size", "channels", "rounds", "elapsed_ns", "rtt_ns", "messages", "fragments",
        "driver_switches", "context_switches", "process_switches", "handoffs", "fallbacks", "drops", "lost"}


def wrong_in_calls(r, rounds, has_budget):
    """As wrong_in_run; each caller may make one call more than those counted, in each block."""
    if not KEYS <= set(r):
        yield f"no {sorted(KEYS - set(r))}"
    for key in COUNTS:
        if type(r[key]) is not int or r[key] < 0:
            yield f"{key} is {r[key]!r}"
    if r["rounds"] != rounds or r["lost"] != 0 or r["bad"] != 0:
        yield f"rounds {r['rounds']}, lost {r['lost']}, bad {r['bad']}"
    if not set(r["drops"]) <= AGAIN:
        yield f"drops {r['drops']}"
    ends = 1 if r["context_switches"]["server"] is None else 2
    more = r["channels"] * max(1, min(20, rounds // 50))
    if not ends * rounds <= r["messages"] <= ends * (rounds + more):
        yield f"{r['messages']} messages"
    if r["fragments"] < ends * rounds:
        yield f"{r['fragments']} fragments"
    # With more fragments than stacks, some find none if the system preempts a thread that holds a lock.
    crowded = r["channels"] * fragments_of(r["size"]) > 64
    if r["fallbacks"] != 0 and not crowded or r["stalled"] != 0:
        yield f"fallbacks {r['fallbacks']}, stalled {r['stalled']}"
    if r["mode"] == "regular" and any(r["handoffs"].values()) or r["handoffs"]["time"] != 0:
        yield f"handoffs {r['handoffs']}"
    leaves = ends == 2 and r["mode"] == "ipp" and r["handoff"] in ("server", "both")
    # A call that had to wait for a lock left its driver before the edge.
    if leaves and r["handoffs"]["explicit"] + r["handoffs"]["implicit"] < rounds:
        yield f"handoffs {r['handoffs']}"


def wrong_in_streams(r, rounds, has_budget):
    """A message may come in pieces, or several as one; what drops at an end of a connection, or again, is no fault."""
    for key in COUNTS:
        if type(r[key]) is not int or r[key] < 0:
            yield f"{key} is {r[key]!r}"
    if r["rounds"] != rounds or r["lost"] != 0 or r["bad"] != 0:
        yield f"rounds {r['rounds']}, lost {r['lost']}, bad {r['bad']}"
    strange = {drop for drop in r["drops"] if not drop.startswith("tcp.")}
    if strange or {"tcp.bad_offset", "tcp.bad_options", "tcp.bad_checksum", "tcp.no_room"} & set(r["drops"]):
        yield f"drops {r['drops']}"
    ends = 1 if isinstance(r["context_switches"], dict) and r["context_switches"]["server"] is None else 2
    trips = rounds if r["flow"] in ("echo", "short") else 0
    if r["messages"] < max(ends * trips, ends - 1) or r["fragments"] < r["messages"]:
        yield f"{r['messages']} messages, {r['fragments']} fragments"
    if r["mode"] == "regular" and any(r["handoffs"].values()) or r["handoffs"]["time"] != 0:
        yield f"handoffs {r['handoffs']}"
    if ends == 2 and r["mode"] == "ipp" and r["handoff"] == "both" and r["handoffs"]["explicit"] < trips:
        yield f"handoffs {r['handoffs']}"


def wrong_in_document(d, rounds, count, expression, wrong_in=wrong_in_run):
    for key in ("program", "graph", "link", "driver", "machine"):
        if key not in d:
            yield f"no {key}"
    if len(d["runs"]) != count:
        yield f"{len(d['runs'])} runs instead of {count}"
    has_budget = "budget=" in open(d["graph"], encoding="utf-8").read()
    for r in d["runs"]:
        wrong = list(wrong_in(r, rounds, has_budget))
        if expression is not None and not eval(expression, {"r": r, "d": d, "fragments_of": fragments_of}):
            wrong.append(f"not so: {expression}")
        for what in wrong:
            yield f"{r['mode']}, {r['handoff']}, {r['threads']} threads, {r['size']} bytes: {what}"


WRONG_IN = {"runs": wrong_in_run, "calls": wrong_in_calls, "streams": wrong_in_streams}


def figures(expression, found):
    """Returns the values that the expression names, of the object or objects found, in one readable line."""
    keys = re.findall(r"\w+", expression)
    named = [{key: one[key] for key in keys if key in one} for one in (found if isinstance(found, list) else [found or {}])]
    return str(named)[:400]


def main(kind, name, file, *more):
    try:
        with open(file, encoding="utf-8") as stream:
            d = json.load(stream)
        if kind in WRONG_IN:
            wrong = list(wrong_in_document(d, int(more[0]), int(more[1]), more[2] if len(more) > 2 else None,
                                           WRONG_IN[kind]))
        else:
            server = d.get("server")
            drops = collections.Counter(server["drops"]) if server is not None else None
            names = {"d": d, "s": server, "drops": drops, "runs": d.get("runs")}
            wrong = [] if eval(more[0], names) else [f"{figures(more[0], server or d.get('runs'))}: not so: {more[0]}"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        wrong = [f"{file}: {error!r}"]
    print(f"FAIL {name}: {'; '.join(wrong)}" if wrong else f"ok {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
