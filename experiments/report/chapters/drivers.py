"""drivers.py - how a driver waits: processor time beside latency."""
import contextlib
import json
import os
import shlex
import signal
import subprocess
import tempfile
import time

import lab as labs
import looks
import near
import spent
from programs import await_standing

DRIVERS = ("interrupt", "adaptive", "poll")
ATTEMPTS = 4
INTERVALS_US = (100, 1000, 10000)
SECONDS = 0.5


def run(lab):
    section = labs.Section(
        "drivers", "Drivers that sleep, poll, or both", "What does a driver that never sleeps gain, and what does it cost?", across=True
    )
    repeats = lab.repeats
    rows = section.data["rows"] = [{"driver": driver, "interval_us": interval, "runs": []}
                                   for interval in INTERVALS_US for driver in DRIVERS]
    for turn in range(repeats):
        for number, row in enumerate(rows):
            driver, interval_us = row["driver"], row["interval_us"]
            row["runs"].append(lab.once([driver, interval_us], lambda driver=driver, us=interval_us: measure(lab, driver, us)))
            lab.progress((turn + (number + 1) / len(rows)) / repeats)
    polled = of({"runs": [run for row in rows if row["driver"] == "poll" for run in row["runs"]]}, "processor_percent")
    if polled["low"] < 190:
        lab.disturbed.append(f"two polling drivers got only {labs.spread(polled, 0)} % of a processor instead of 200")
    section.text(
        f"Pings at a fixed interval between two processes{f', {lab.apart()}' if lab.far else ' over virtio'}. Processor time is the operating "
        "system's count for all threads of both processes, while pings are in progress: 200 % means two processors."
    )
    section.table(
        "Round trips in microseconds, and processor time of both ends",
        ("interval, driver", "median", "99 %", "processor time", "switches per ping"), [table_row(row) for row in rows],
    )
    answer(section, rows)
    section.plot("Latency against processor time, one point per interval.", lambda axes: plot(axes, rows),
                 "Polling buys short round trips at the price of whole processors.")
    assess(section, rows)
    return section


def measure(lab, driver, interval_us):
    """Pings, and again for longer if no ping is answered: a busy machine may give the processes too little time."""
    for attempt in range(ATTEMPTS):
        result = ping(lab, driver, interval_us, lab.rounds(SECONDS, SECONDS / 4) * 2**attempt)
        if result is not None:
            return result
    raise labs.Failed(f"icmptest --driver {driver}: no ping was answered in {ATTEMPTS} attempts")


ANSWERER = os.path.join(labs.ROOT, "graphs", "icmptest.dot")
SPENT = os.path.join(labs.REPORT, "measuring", "spent.py")
ADDRESS = "10.77.0.2"


@contextlib.contextmanager
def answering(lab, driver):
    """Runs the answering host on the other machine and yields its process id there; on one machine yields None: icmptest starts the host."""
    if lab.far is None:
        yield None
        return
    host = [os.path.join(lab.build, "xk"), "run", ANSWERER, "--end", "server", "--driver", driver, "--cores", lab.far.cores[1], *lab.far.of_end(1)]
    with lab.far.start(["sh", "-c", 'echo $$ && exec "$@"', "sh", *host], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            pid = process.stdout.readline()
            await_standing(process)
            yield int(pid)
        finally:
            process.terminate()


def used(lab, pid, there):
    """Returns what the pinging and the answering process have used so far, by machine."""
    return [spent.of(pid), *([json.loads(lab.far.output(shlex.join(["python3", SPENT, str(there)])))] if there else [])]


def per_second(before, after, key):
    return sum((b[key] - a[key]) / (b["at_s"] - a["at_s"]) for a, b in zip(before, after))


def ping(lab, driver, interval_us, seconds):
    """Pings for this many seconds, and counts what is used once pings are in progress. Returns None if no ping was answered."""
    with answering(lab, driver) as there, tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [os.path.join(lab.build, "icmptest"), *((ADDRESS, *lab.far.of_end(0)) if there else ()), "--driver", driver, "--interval",
                   f"{interval_us}us", "--count", "0", "--timeout", f"{min(3000000, 3000 * interval_us)}us", "--quiet", "--json", file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            before = used(lab, process.pid, there)
            time.sleep(seconds)
            after = used(lab, process.pid, there)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        if process.returncode == 1 and not errors.strip():
            return None
        if process.returncode != 0:
            raise labs.Failed(f"{' '.join(command)}: exit status {process.returncode}: {errors.strip()}")
        result = json.load(file)
    return {
        "p50_us": result["rtt_ns"]["p50"] / 1000, "p99_us": result["rtt_ns"]["p99"] / 1000, "lost": result["lost"],
        "processor_percent": 100 * per_second(before, after, "time_s"),
        "switches": per_second(before, after, "switches") * interval_us / 1e6,
    }


def answer(section, rows):
    asleep, polling = ({key: of(row, key)["median"] for key in ("p50_us", "processor_percent")} for row in rows[:len(DRIVERS):2])
    section.answer = (
        f"With a ping every {interval_text(rows[0])}, a round trip between polling drivers takes {polling['p50_us']:.1f} us instead of "
        f"{asleep['p50_us']:.1f}, and uses {polling['processor_percent']:.0f} % of a processor instead of {asleep['processor_percent']:.0f}."
    )


def of(row, key):
    return labs.interval([run[key] for run in row["runs"]])


def interval_text(row):
    return f"{row['interval_us'] / 1000:g} ms"


def table_row(row):
    return (f"{interval_text(row)}, {row['driver']}", labs.spread(of(row, "p50_us")), labs.spread(of(row, "p99_us")),
            labs.spread(of(row, "processor_percent"), 0) + " %", labs.spread(of(row, "switches")))


def plot(axes, rows):
    for driver in DRIVERS:
        color, marker, style = looks.DRIVERS[driver]
        mine = [row for row in rows if row["driver"] == driver]
        points = [(of(row, "processor_percent")["median"], of(row, "p50_us")["median"]) for row in mine]
        axes.plot(*zip(*points), style, marker=marker, color=color, label=driver)
        for (x, y), row in zip(points, mine):
            axes.annotate(f"{row['interval_us'] / 1000:g} ms", (x, y), xytext=(5, 4), textcoords="offset points", fontsize="x-small")
    axes.set_yscale("log")
    axes.set_xlabel("processor time of both ends, %")
    axes.set_ylabel("median round trip, µs")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))


def assess(section, rows):
    for interval in INTERVALS_US:
        mine = {row["driver"]: row for row in rows if row["interval_us"] == interval}
        trips = {driver: of(mine[driver], "p50_us") for driver in DRIVERS}
        times = {driver: of(mine[driver], "processor_percent") for driver in DRIVERS}
        words = f"A ping every {interval_text(mine['poll'])}"
        section.check(
            trips["poll"]["high"] < trips["interrupt"]["low"] and times["interrupt"]["high"] < times["poll"]["low"],
            f"{words}: polling takes {labs.spread(trips['poll'])} us instead of {labs.spread(trips['interrupt'])}, for "
            f"{labs.spread(times['poll'], 0)} % of a processor instead of {labs.spread(times['interrupt'], 0)}.", bears=True,
        )
        saved = {key: labs.is_saved(labs.interval([a[key] - b[key] for a, b in zip(mine[more]["runs"], mine["adaptive"]["runs"])]))
                 for more, key in (("interrupt", "p50_us"), ("poll", "processor_percent"))}
        section.check(
            near.all_of(saved.values()),
            f"{words}: an adaptive driver takes {labs.spread(trips['adaptive'])} us for {labs.spread(times['adaptive'], 0)} % of a processor: less time than "
            "a sleeping one, less of a processor than a polling one.",
        )
