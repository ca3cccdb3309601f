"""drivers.py - how a driver waits: processor time beside latency."""
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import lab as labs

DRIVERS = ("interrupt", "adaptive", "poll")
ATTEMPTS = 4
INTERVALS_US = (100, 1000, 10000)
SECONDS = 0.5


def run(lab):
    section = labs.Section(
        "drivers", "Drivers that sleep, poll, or both", "What does a driver that never sleeps gain, and what does it use up?"
    )
    repeats = labs.REPEATS
    rows = section.data["rows"] = [{"driver": driver, "interval_us": interval, "runs": []}
                                   for interval in INTERVALS_US for driver in DRIVERS]
    for turn in range(repeats):
        for number, row in enumerate(rows):
            row["runs"].append(measure(lab, row["driver"], row["interval_us"]))
            lab.progress((turn + (number + 1) / len(rows)) / repeats)
    polled = of({"runs": [run for row in rows if row["driver"] == "poll" for run in row["runs"]]}, "processor_percent")
    if polled["low"] < 190:
        lab.disturbed.append(f"two drivers that poll got only {labs.spread(polled, 0)} % of a processor instead of 200")
    section.text(
        "Pings at an interval, between two processes over virtio. Processor time is that of both together, of all their threads, "
        "as the operating system counts it, while pings are under way: 200 % are two processors."
    )
    section.table(
        "Round trips in microseconds, and processor time of both ends",
        ("interval, driver", "median", "99 %", "processor time", "switches for each ping"), [told(row) for row in rows],
    )
    answer(section, rows)
    section.plot("Latency and its price", lambda axes: plot(axes, rows))
    judge(section, rows)
    return section


def spent(process):
    """(nanoseconds on a processor, switches) of all threads of a process and of those that it has started."""
    children = read(f"/proc/{process.pid}/task/{process.pid}/children").split()
    time_ns = switches = 0
    for pid in [str(process.pid), *children]:
        for task in os.listdir(f"/proc/{pid}/task"):
            time_ns += int(read(f"/proc/{pid}/task/{task}/schedstat").split()[0])
            switches += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", read(f"/proc/{pid}/task/{task}/status"), re.M)[1])
    return time_ns, switches


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def measure(lab, driver, interval_us):
    """As ping; a machine that is busy elsewhere may give the processes so little time that no ping is answered."""
    for attempt in range(ATTEMPTS):
        result = ping(lab, driver, interval_us, lab.rounds(SECONDS, SECONDS / 4) * 2**attempt)
        if result is not None:
            return result
    raise labs.Failed(f"icmptest --driver {driver}: no ping was answered, {ATTEMPTS} times")


def ping(lab, driver, interval_us, seconds):
    """Pings until it is enough; what is used up is counted from when they are under way. None: no ping was answered."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [os.path.join(lab.build, "icmptest"), "--driver", driver, "--interval", f"{interval_us}us", "--count", "0",
                   "--timeout", f"{min(3000000, 3000 * interval_us)}us", "--quiet", "--json", file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            before, started = spent(process), time.monotonic()
            time.sleep(seconds)
            after, lasted = spent(process), time.monotonic() - started
            process.send_signal(signal.SIGINT)
            _, said = process.communicate()
        if process.returncode == 1 and not said.strip():
            return None
        if process.returncode != 0:
            raise labs.Failed(f"{' '.join(command)}: exit status {process.returncode}: {said.strip()}")
        result = json.load(file)
    return {
        "p50_us": result["rtt_ns"]["p50"] / 1000, "p99_us": result["rtt_ns"]["p99"] / 1000, "lost": result["lost"],
        "processor_percent": (after[0] - before[0]) / lasted / 1e7,
        "switches": (after[1] - before[1]) / (lasted * 1e6 / interval_us),
    }


def answer(section, rows):
    asleep, polling = ({key: of(row, key)["median"] for key in ("p50_us", "processor_percent")} for row in rows[:len(DRIVERS):2])
    section.answer = (
        f"{polling['p50_us']:.1f} us a round trip instead of {asleep['p50_us']:.1f}, for {polling['processor_percent']:.0f} % of a "
        f"processor instead of {asleep['processor_percent']:.0f} (a ping each {interval_text(rows[0])})."
    )


def of(row, key):
    return labs.interval([run[key] for run in row["runs"]])


def interval_text(row):
    return f"{row['interval_us'] / 1000:g} ms"


def told(row):
    return (f"{interval_text(row)}, {row['driver']}", labs.spread(of(row, "p50_us")), labs.spread(of(row, "p99_us")),
            labs.spread(of(row, "processor_percent"), 0) + " %", labs.spread(of(row, "switches")))


def plot(axes, rows):
    for number, driver in enumerate(DRIVERS):
        mine = [row for row in rows if row["driver"] == driver]
        for row, marker in zip(mine, "osD"):
            axes.plot(of(row, "processor_percent")["median"], of(row, "p50_us")["median"], marker, color=f"C{number}",
                      label=f"{driver}, each {interval_text(row)}")
    axes.set_yscale("log")
    axes.set_xlabel("processor time of both ends, %")
    axes.set_ylabel("median round trip, us")
    axes.legend(fontsize="small")


def judge(section, rows):
    for interval in INTERVALS_US:
        mine = {row["driver"]: row for row in rows if row["interval_us"] == interval}
        trips = {driver: of(mine[driver], "p50_us") for driver in DRIVERS}
        times = {driver: of(mine[driver], "processor_percent") for driver in DRIVERS}
        section.check(
            trips["poll"]["high"] < trips["interrupt"]["low"] and times["interrupt"]["high"] < times["poll"]["low"],
            f"A ping each {interval / 1000:g} ms: polling takes {labs.spread(trips['poll'])} us instead of "
            f"{labs.spread(trips['interrupt'])}, for {labs.spread(times['poll'], 0)} % of a processor instead of "
            f"{labs.spread(times['interrupt'], 0)}; adaptive, {labs.spread(trips['adaptive'])} us for "
            f"{labs.spread(times['adaptive'], 0)} %.",
        )
