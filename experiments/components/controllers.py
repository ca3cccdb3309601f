#!/usr/bin/env python3
"""controllers.py BUILD - the parts of a round trip, by controller: the tables of C. A. Thekkath and H. M. Levy, "Limits to
Low-Latency Communication on High-Speed Networks" (1993), in the simulator. The parts of an exchange of packets are fitted to the
published parts. The calls of all machines are predicted from them and from the additional costs of a call on one machine.
Prints both beside the published figures. --help has the options.
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
NETWORK = os.path.join(ROOT, "experiments", "components", "network.dot")
ROUNDS = 20

# Microseconds of a round trip of the shortest and of the longest packet: table 1.
PARTS = ("wire", "controller", "transfer", "vectoring", "service")
PART_TITLES = {"wire": "Time on the wire", "controller": "Controller latency", "transfer": "Control and data transfer",
               "vectoring": "Vectoring the interrupt", "service": "Interrupt service"}
# Microseconds of a call without arguments, and with a packet of them: table 2. The reply is always empty.
STEPS = ("client call", "controller, call", "wire, call", "interrupt, server", "server receipt", "server reply", "controller, reply",
         "wire, reply", "interrupt, client", "client receipt")
# `written` is the share of writing in a longer packet's transfer; in table 2, 117 of a packet's 280 us.
CONTROLLERS = {
    "ethernet_dec": {
        "title": "Ethernet, DECstation", "how": "packets in the controller's memory, copied by the processor",
        "link": {"rate": "10Mb/s", "overhead": 12, "gap": 12, "min_frame": 60}, "frames": (60, 1514), "written": 117 / 280,
        "wire": (115, 2442), "controller": (51, 53), "transfer": (40, 600), "vectoring": (25, 25), "service": (26, 26),
        "measured": (253, 3137),
        "calls": ((28, 26, 58, 25, 39, 27, 25, 57, 26, 29), (145, 27, 1221, 25, 470, 27, 25, 57, 26, 29)), "measured_calls": (340, 2070)},
    "ethernet_sparc": {
        "title": "Ethernet, SPARCstation", "how": "DMA in both directions, scatter-gather",
        "link": {"rate": "10Mb/s", "overhead": 12, "gap": 12, "min_frame": 60}, "frames": (60, 1514), "written": 0.5,
        "wire": (115, 2442), "controller": (89, 103), "transfer": (6, 6), "vectoring": (12, 12), "service": (42, 42),
        "measured": (263, 2611),
        "calls": ((59, 45, 58, 27, 59, 46, 44, 57, 27, 49), (137, 54, 1221, 27, 169, 46, 44, 57, 27, 49)), "measured_calls": (496, 1997)},
    "fddi_dec": {
        "title": "FDDI, DECstation", "how": "DMA on receive, copied by the processor on send",
        "link": {"rate": "100Mb/s", "overhead": 22}, "frames": (60, 1514), "written": 1,
        "wire": (13, 245), "controller": (97, 230), "transfer": (40, 253), "vectoring": (25, 25), "service": (92, 140),
        "measured": (263, 894),
        "calls": ((46, 48, 4, 56, 42, 36, 49, 5, 56, 29), (173, 82, 122, 70, 42, 36, 82, 5, 56, 29)), "measured_calls": (380, 693)},
    "atm_dec": {
        "title": "ATM, DECstation", "how": "FIFO, written and read cell by cell",
        "link": {"rate": "140Mb/s", "cell": 53, "cell_payload": 48}, "frames": (48, 1392), "written": 117 / 280,
        "wire": (6, 176), "controller": (16, 161), "transfer": (17, 458), "vectoring": (25, 25), "service": (9, 20),
        "measured": (73, 746),
        "calls": ((25, 8, 3, 17, 29, 25, 8, 3, 17, 29), (159, 44, 88, 20, 347, 25, 44, 3, 17, 29)), "measured_calls": (170, 675)},
}
FITTED = "ethernet_dec"  # the machine from which a call's costs besides its packets are taken
PACKET_HEADERS = 14 + 6  # Ethernet and LLP
CALL_HEADERS = 14 + 24 + 20 + 2  # Ethernet, BID, CHAN and MARSHAL
BELOW_VWORK = 14 + 24


def linear_ns(controller, part):
    """Returns a part's time in one direction, as a function of the frame's length: (nanoseconds, nanoseconds per 1,000 bytes)."""
    (least, most), (short, long) = controller[part], controller["frames"]
    kb_ns = (most - least) * 1e6 / 2 / (long - short)
    return least * 1000 / 2 - kb_ns * short / 1000, kb_ns


def costs_of(controller):
    """Returns a machine's costs, each as (nanoseconds per frame, nanoseconds per 1,000 bytes)."""
    written = controller["written"]
    transfer = linear_ns(controller, "transfer")
    # Even where the processor copies only to send, the part that does not depend on the length is divided equally.
    write = (transfer[0] / 2, transfer[1] * written)
    read = (transfer[0] / 2, transfer[1] * (1 - written))
    return {"latency": linear_ns(controller, "controller"), "write": write, "read": read, "service": linear_ns(controller, "service"),
            "interrupt": (controller["vectoring"][0] * 1000 / 2, 0)}


def at(cost, frame):
    return cost[0] + cost[1] * frame / 1000


def wire_ns(controller, frame):
    link = controller["link"]
    size = max(frame, link.get("min_frame", 0)) + link.get("overhead", 0)
    if "cell" in link:
        size = -(-frame // link["cell_payload"]) * link["cell"]
    return size * 8e9 / (int(link["rate"][:-4]) * 1e6)


def time_text(ns):
    if round(ns) < 0:
        raise ValueError(f"a part takes {ns:.0f} ns: the published parts are inconsistent")
    return f"{round(ns)}ns"


def simulate(build, controller, settings):
    """Returns the client's counters in the simulator, on that controller's machines."""
    costs = costs_of(controller)
    settings = dict(settings)
    settings |= {f"cable.{name}": value for name, value in controller["link"].items()}
    service = costs.pop("service")
    costs["read"] = tuple(a + b for a, b in zip(costs["read"], service))
    settings["graph.interrupt"] = time_text(costs.pop("interrupt")[0])
    for name, (frame_ns, kb_ns) in costs.items():
        settings |= {f"cable.{name}": time_text(frame_ns), f"cable.{name}_kb": time_text(kb_ns)}
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [os.path.join(build, "xk"), "run", NETWORK, "--link", "sim", "--quiet", "--until", "1s", "--json", file.name]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        return json.load(file)["hosts"]["client"]


def exchange_us(build, controller, frame):
    """Returns the round trip time of frames."""
    counters = simulate(build, controller, {"client.pingpong.peer": "10.77.0.2", "client.pingpong.repeats": 1,
                                            "client.pingpong.rounds": ROUNDS, "client.pingpong.size": frame - PACKET_HEADERS})
    if counters["pingpong.runs"] != 1:
        raise ValueError(f"{controller['title']}, {frame} bytes: no run ended")
    return counters["pingpong.min_ns"] / 1000


def call_extra():
    """Returns a call's costs besides its packets at each of its four steps: (nanoseconds, nanoseconds per 1,000 bytes)."""
    machine = CONTROLLERS[FITTED]
    costs = costs_of(machine)
    short, long = machine["frames"]
    least, most = ({step: us * 1000 for step, us in zip(STEPS, call)} for call in machine["calls"])
    extra = {}
    for step, part in (("client call", "write"), ("server receipt", "read"), ("server reply", "write"), ("client receipt", "read")):
        kb_ns = 0
        if most[step] != least[step]:
            kb_ns = (most[step] - at(costs[part], long) - least[step] + at(costs[part], short)) * 1000 / (long - short)
        extra[step] = (least[step] - at(costs[part], short) - kb_ns * short / 1000, kb_ns)
    return extra


def call_steps(controller, frame, extra):
    """Returns the predicted microseconds of each step, in order, of a call with such a frame and an empty reply."""
    costs = costs_of(controller)
    reply = max(controller["link"].get("min_frame", 0), CALL_HEADERS)

    def interrupt_ns(size):
        return costs["interrupt"][0] + at(costs["service"], size)

    ns = (at(costs["write"], frame) + at(extra["client call"], frame), at(costs["latency"], frame), wire_ns(controller, frame),
          interrupt_ns(frame), at(costs["read"], frame) + at(extra["server receipt"], frame),
          at(costs["write"], reply) + at(extra["server reply"], reply), at(costs["latency"], reply), wire_ns(controller, reply),
          interrupt_ns(reply), at(costs["read"], reply) + at(extra["client receipt"], reply))
    return [step_ns / 1000 for step_ns in ns]


def call_us(build, controller, frame, extra):
    """Returns the simulated time of a call with such a frame and an empty reply."""
    settings = {"client.chantest.peer": "10.77.0.2", "client.chantest.rounds": ROUNDS, "client.chantest.size": frame - CALL_HEADERS,
                "graph.chantest.reply": 0}
    for setting, step in (("client.vwork.down", "client call"), ("server.vwork.up", "server receipt"),
                          ("server.vwork.down", "server reply"), ("client.vwork.up", "client receipt")):
        settings |= {setting: time_text(at(extra[step], BELOW_VWORK)), f"{setting}_kb": time_text(extra[step][1])}
    counters = simulate(build, controller, settings)
    if counters["chantest.rounds"] != ROUNDS or counters["chantest.failed"] or counters["chan.retransmitted"]:
        raise ValueError(f"{controller['title']}, {frame} bytes: calls failed")
    return counters["chantest.rtt_min_ns"] / 1000


def find(build):
    """Returns all results as one document."""
    extra = call_extra()
    machines = {}
    for name, controller in CONTROLLERS.items():
        exchanges = []
        for i, frame in enumerate(controller["frames"]):
            published = {part: controller[part][i] for part in PARTS}
            exchanges.append({"frame": frame, "published": published, "sum_us": sum(published.values()),
                              "measured_us": controller["measured"][i], "us": exchange_us(build, controller, frame)})
        calls = []
        for i, frame in enumerate((CALL_HEADERS, controller["frames"][1])):
            calls.append({"frame": frame, "published": controller["calls"][i], "measured_us": controller["measured_calls"][i],
                          "steps_us": call_steps(controller, frame, extra), "us": call_us(build, controller, frame, extra),
                          "fitted": name == FITTED})
        machines[name] = {"title": controller["title"], "how": controller["how"], "exchanges": exchanges, "calls": calls}
    return {"parts": PART_TITLES, "steps": STEPS, "extra_ns": extra, "machines": machines}


def error(us, published_us):
    return f"{100 * (us / published_us - 1):+.1f} %"


def print_found(found):
    print(f"{'us per round trip':26}{'bytes':>6}{'sum':>7}{'model':>9}{'measured':>10}{'error':>9}")
    for machine in found["machines"].values():
        for row in machine["exchanges"]:
            print(f"{machine['title']:26}{row['frame']:6}{row['sum_us']:7}{row['us']:9.1f}{row['measured_us']:10}"
                  f"{error(row['us'], row['measured_us']):>9}")
    print(f"\n{'us per call':26}{'bytes':>6}{'model':>16}{'measured':>10}{'error':>9}")
    for machine in found["machines"].values():
        for row in machine["calls"]:
            print(f"{machine['title']:26}{row['frame']:6}{row['us']:16.1f}{row['measured_us']:10}{error(row['us'], row['measured_us']):>9}"
                  f"{'  fitted' if row['fitted'] else ''}")
    print("\nA call's steps, without and with arguments, model (published):")
    for i, step in enumerate(found["steps"]):
        cells = (f"{row['steps_us'][i]:.0f} ({row['published'][i]})" for machine in found["machines"].values() for row in machine["calls"])
        print(f"{step:20}" + "".join(f"{cell:>13}" for cell in cells))


def main():
    parser = argparse.ArgumentParser(description="the paper's machines on virtual time")
    parser.add_argument("build", help="directory of the programs")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    options = parser.parse_args()
    return find_and_print("controllers", lambda: find(options.build), print_found, options.json)


exit_with(main)
