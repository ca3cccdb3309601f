#!/usr/bin/env python3
"""myrinet.py BUILD - GM, GM+ and BIP on Myrinet: table 1 and the bandwidths of J. Chen and W. Watson, "User Level Communication on Alpha
Linux Systems" (2000), in the simulator. A few costs of the hosts and their cards are fitted to some of the figures; the others are
predicted. Prints both beside the published figures. --help has the options.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.dont_write_bytecode = True
from programs import exit_with, find_and_print

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
FIGURES = ("half_rtt_ns", "g_ns", "os_ns", "or_ns", "l_ns")
TITLES = dict(zip(FIGURES, ("RTT/2", "g", "Os", "Or", "L")))
PUBLISHED = {"GM": (14.76, 18.23, 0.86, 1.93, 11.91), "GM+": (12.78, 8.55, 2.02, 1.29, 9.47), "BIP": (6.65, 5.65, 5.04, 0.48, 1.13)}
# Fitted figures. Where three of RTT/2 = Os + Or + L are fitted, the fourth follows.
GIVEN = {"GM": ("half_rtt_ns", "os_ns", "or_ns", "l_ns"), "GM+": ("os_ns",), "BIP": ("half_rtt_ns", "os_ns", "or_ns", "l_ns")}
# Nothing is lost on this link, and gm's default timeout_min is shorter than the wait of an acknowledgement behind 64 KB in the other direction: timers().
TIMEOUT = "gm.timeout_min=20ms"
GRAPHS = {"GM": ("gm.dot", (TIMEOUT,)), "GM+": ("gm.dot", (TIMEOUT, "gm.small=unreliable")), "BIP": ("bip.dot", ())}
SIZE, SMALL = 8, 256  # bytes: table 1's messages, and the longest that the processor writes
LINK = "lanai,mtu=65000"  # 5 m of cable, no switch; its card is GM's, as fitted here
BYTE_NS = 8 / 1.28  # a byte's time on that link
GM_FRAME, BIP_FRAME = 14 + 24 + 40, 14 + 8  # bytes around a message: Ethernet, BID and GM; Ethernet and BIP
DMA_MB = 140  # the highest bandwidth that the authors measured
TOOTH = 4096  # bytes of GM's longest fragment
# Points of the curves: dense around the knee, and on both sides of each tooth.
SIZES = (8, 16, 32, 64, 128, 192, 224, 256, 257, 320, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 4097, 5120, 6144, 8192, 8193, 10240, 12288, 12289,
         16384, 16385, 24576, 32768, 49152, 64992)
TIMED = (4096, 4160, 6144, 8192, 10240)  # bytes of the messages in timers()
TIMERS = {"1 ms": ("gm.timeout_min=1ms",), "2 ms": ("gm.timeout_min=2ms",), "20 ms": (TIMEOUT,), "none, sent once": ("gm.reliable=no",)}
PATTERNS = ("one_way", "ping_pong", "both_ways")
MESSAGES = 64  # messages of a batch
GRAIN_NS, STEPS = 1, 12


def published_ns(name, figure):
    return 1000 * PUBLISHED[name][FIGURES.index(figure)]


def card_of(card_ns, dma_ns, pio_bytes, write_kb_ns, waits=False):
    return {"card": card_ns, "card_kb": 1e6 / DMA_MB, "dma": dma_ns, "pio": pio_bytes, "write_kb": write_kb_ns, "waits": waits}


def text_of(value):
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(round(value))


def measure(build, name, host, card, sizes=(SIZE,), sets=None):
    """Returns {size: {figure: its median}} in nanoseconds and bytes per second, by logp on virtual time. sets: settings in place of the system's usual ones."""
    times = ("card", "card_kb", "dma", "write_kb")
    link = ",".join([LINK, *(f"{key}={text_of(value)}{'ns' if key in times else ''}" for key, value in card.items())])
    return measure_on(build, name, link, f"none,frame_out={round(host[0])}ns,frame_in={round(host[1])}ns", sizes, sets)


def measure_on(build, name, link, host, sizes, sets=None):
    graph, usual = GRAPHS[name]
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [os.path.join(build, "logp"), "--link", "sim", "--mode", "ipp", "--preset", link, "--graph", os.path.join(ROOT, "graphs", graph),
                   "--costs", host, "--size", ",".join(map(str, sizes)), "--messages", str(MESSAGES), "--repeats", "1", "--rounds", "3", "--json", file.name]
        for text in usual if sets is None else sets:
            command += ["--set", text]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        runs = json.load(file)["runs"]
    if any(run["lost"] for run in runs):
        raise ValueError(f"{name}: batches were lost")
    return {run["size"]: {figure: run[figure]["median"] for figure in (*FIGURES, *PATTERNS)} for run in runs}


def fit(build, name, host_of, card_of_work):
    """Finds the card's work on a frame with which half a round trip takes as long as published, by the secant method."""
    def error(work):
        return measure(build, name, host_of(work), card_of_work(work))[SIZE]["half_rtt_ns"] - published_ns(name, "half_rtt_ns")

    before, work = 0, 1000
    error_before, now = error(before), error(work)
    for _ in range(STEPS):
        if abs(now) <= GRAIN_NS or now == error_before:
            break
        before, work, error_before = work, max(0, round(work - now * (work - before) / (now - error_before))), now
        now = error(work)
    if abs(now) > 10:
        raise ValueError(f"{name}: no fit: {now:.0f} ns remain")
    return work


def costs(build):
    """Returns {system: (host, card)} and the fitted costs."""
    gm_frame, bip_frame = SIZE + GM_FRAME, SIZE + BIP_FRAME
    # GM+'s processor is busy longer than GM's because it writes the frame
    write_kb_ns = (published_ns("GM+", "os_ns") - published_ns("GM", "os_ns")) * 1000 / gm_frame
    # writing and fetching take as long for 256 bytes
    dma_ns = SMALL * (write_kb_ns - 1e6 / DMA_MB) / 1000
    gm_host = (published_ns("GM", "os_ns"), published_ns("GM", "or_ns"))

    def gm_card(work):
        return card_of(work, dma_ns, GM_FRAME, 0)  # an acknowledgement is made on the card and has no bytes from the host

    def bip_card(work):
        return card_of(work, dma_ns, SMALL + BIP_FRAME, write_kb_ns, waits=True)

    def bip_host(work):
        waited = write_kb_ns * bip_frame / 1000 + work + BYTE_NS * (bip_frame + 2)
        return max(0, published_ns("BIP", "os_ns") - waited), published_ns("BIP", "or_ns")

    gm_work = fit(build, "GM", lambda work: gm_host, gm_card)
    bip_work = fit(build, "BIP", bip_host, bip_card)
    fitted = {"write_kb_ns": write_kb_ns, "dma_ns": dma_ns, "card_kb_ns": 1e6 / DMA_MB, "gm_card_ns": gm_work, "bip_card_ns": bip_work,
              "gm_out_ns": gm_host[0], "gm_in_ns": gm_host[1], "bip_out_ns": bip_host(bip_work)[0], "bip_in_ns": bip_host(bip_work)[1]}
    return {"GM": (gm_host, gm_card(gm_work)), "GM+": (gm_host, card_of(gm_work, dma_ns, SMALL + GM_FRAME, write_kb_ns)),
            "BIP": (bip_host(bip_work), bip_card(bip_work))}, fitted


def timers(build, host, card):
    """Returns {least timeout: {size: bytes per second}} of GM in both directions at once."""
    return {name: {size: run["both_ways"] for size, run in measure(build, "GM", host, card, TIMED, sets).items()} for name, sets in TIMERS.items()}


def copies(fitted):
    """Returns {method: {size: bytes per second}} of copies to the card, by the costs."""
    return {"DMA": {size: 1e9 * size / (fitted["dma_ns"] + size * fitted["card_kb_ns"] / 1000) for size in SIZES},
            "PIO": {size: 1e12 / fitted["write_kb_ns"] for size in SIZES}}


def features(bandwidths, sent_once):
    """
    Returns the paper's statements on its figures 5 to 8: (name, text, whether the model agrees). sent_once: GM's half round trips without
    acknowledgements. BIP's knee at 256 bytes is left out: the size at which it begins to fetch, and both costs per byte, are given.
    """
    def rate(name, pattern, size):
        return bandwidths[name][pattern][size]

    def half_ns(name, size):
        return 1e9 * size / rate(name, "ping_pong", size)

    small = [size for size in SIZES if size <= SMALL]
    usable = [size for size in SIZES if 4096 <= size <= 10240]
    highest = [max(rates.values()) for patterns in bandwidths.values() for rates in patterns.values()]
    return [
        ("small", "One way, up to 256 bytes GM is below GM+ and BIP.",
         all(rate("GM", "one_way", size) < rate(other, "one_way", size) for other in ("GM+", "BIP") for size in small)),
        ("usable", "One way, from 4 to 10 KB GM and GM+ are above BIP.",
         all(rate(name, "one_way", size) > rate("BIP", "one_way", size) for name in ("GM", "GM+") for size in usable)),
        ("sawtooth", "One way, GM and GM+ have a sawtooth of 4 KB, and BIP has none.",
         all((rate(name, "one_way", size + 1) < 0.99 * rate(name, "one_way", size)) == (name != "BIP")
             for name in GRAPHS for size in (TOOTH, 2 * TOOTH, 3 * TOOTH, 4 * TOOTH))),
        ("highest", "One way, GM's highest bandwidth is the highest of all.",
         max(bandwidths["GM"]["one_way"].values()) >= max(max(patterns["one_way"].values()) for patterns in bandwidths.values())),
        ("ping_pong", "In ping-pong, BIP is above GM and GM+ up to 4 KB.",
         all(rate("BIP", "ping_pong", size) > rate(name, "ping_pong", size) for name in ("GM", "GM+") for size in SIZES if size <= 4096)),
        ("long_ping_pong", "In ping-pong, BIP is above GM and GM+ for messages of more than 4 KB.",
         all(rate("BIP", "ping_pong", size) > rate(name, "ping_pong", size) for name in ("GM", "GM+") for size in SIZES if size > 4096)),
        ("acknowledgements", "In ping-pong, acknowledgements are the reason (more than half of GM's extra time over BIP, up to 256 bytes).",
         all(half_ns("GM", size) - sent_once[size] > (half_ns("GM", size) - half_ns("BIP", size)) / 2 for size in small)),
        ("both_ways", "Both ways at once, up to 256 bytes BIP and GM+ are above GM.",
         all(rate(other, "both_ways", size) > rate("GM", "both_ways", size) for other in ("GM+", "BIP") for size in small)),
        ("long_both_ways", "Both ways at once, BIP is above GM for messages of more than 256 bytes.",
         all(rate("BIP", "both_ways", size) > rate("GM", "both_ways", size) for size in SIZES if size > SMALL)),
        ("saved", "Half a round trip of GM+ is about 2 us shorter than GM's up to 256 bytes (within 15 %).",
         all(abs((half_ns("GM", size) - half_ns("GM+", size)) / 2000 - 1) <= 0.15 for size in small)),
        # of all systems and patterns; DMA_MB is given, so the upper end only shows that it is reached
        ("range", "The highest bandwidths are between 50 and 140 MB/s, both within 15 %.",
         abs(min(highest) / 50e6 - 1) <= 0.15 and abs(max(highest) / (1e6 * DMA_MB) - 1) <= 0.15),
    ]


def find(build):
    """Returns all results as one document."""
    found, fitted = costs(build)
    runs = {name: measure(build, name, host, card, SIZES) for name, (host, card) in found.items()}
    table = {name: {figure: runs[name][SIZE][figure] for figure in FIGURES} for name in GRAPHS}
    bandwidths = {name: {pattern: {size: runs[name][size][pattern] for size in SIZES} for pattern in PATTERNS} for name in GRAPHS}
    small = tuple(size for size in SIZES if size <= SMALL)
    sent_once = {size: run["half_rtt_ns"] for size, run in measure(build, "GM", *found["GM"], small, ("gm.reliable=no",)).items()}
    return {"figures": TITLES, "published_us": {name: dict(zip(FIGURES, row)) for name, row in PUBLISHED.items()}, "given": GIVEN,
            "fitted": fitted, "wire_byte_ns": BYTE_NS, "preset_ns": measure_on(build, "GM", LINK, "alpha", (SIZE,))[SIZE], "table_ns": table, "bandwidths": bandwidths,
            "sent_once_ns": sent_once, "timers": timers(build, *found["GM"]), "copies": copies(fitted),
            "features": [{"name": name, "text": words, "agrees": agrees} for name, words, agrees in features(bandwidths, sent_once)]}


def print_found(found):
    print("us of 8 bytes" + "".join(f"{title:>22}" for title in found["figures"].values()))
    for name, row in found["table_ns"].items():
        cells = []
        for figure, ns in row.items():
            published = found["published_us"][name][figure]
            how = "fitted" if figure in found["given"][name] else f"{100 * (ns / 1000 / published - 1):+.0f} %"
            cells.append(f"{ns / 1000:.2f} ({published}) {how}")
        print(f"{name:13}" + "".join(f"{cell:>22}" for cell in cells))
    print("\nFitted: " + ", ".join(f"{name[:-3]} {ns:.0f} ns" for name, ns in found["fitted"].items()))
    for pattern in PATTERNS:
        print(f"\n{pattern.replace('_', ' ')}, MB/s" + "".join(f"{size:7}" for size in SIZES))
        for name, patterns in found["bandwidths"].items():
            print(f"{name:16}" + "".join(f"{patterns[pattern][size] / 1e6:7.1f}" for size in patterns[pattern]))
    print("\nGM both ways at once, MB/s, by its least timeout" + "".join(f"{size:7}" for size in TIMED))
    for name, rates in found["timers"].items():
        print(f"{name:48}" + "".join(f"{rates[size] / 1e6:7.1f}" for size in TIMED))
    print()
    for feature in found["features"]:
        print(f"{'as published' if feature['agrees'] else 'OTHERWISE':14}{feature['text']}")


def main():
    parser = argparse.ArgumentParser(description="the paper's systems on virtual time")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    return find_and_print("myrinet", lambda: find(options.build), print_found, options.json)


exit_with(main)
