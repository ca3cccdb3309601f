"""policies.py - the policies that the 1994 report describes but does not measure: does the driver or a thread do long work?"""
import math

import lab as labs
import looks
import near
import real
import sweeps

WORKS = (0, 5, 10, 20, 35, 50, 100, 200, 500, 1000)
WORKS_QUICK = (0, 10, 35, 100, 1000)
PLACES = ((0.2, 20000), (0.5, 20000), (0.8, 20000), (0.5, 5000), (0.5, 80000))  # load, short questions per second
PLACES_QUICK = PLACES[::2]
BUDGETS = (5, 10, 20, 50, 100, 200, 500)
BUDGETS_QUICK = (10, 50, 200)
SWITCH_US = 6.5  # thread_switch in the cost preset `modern` (platform/sim/costs.c)
TOO_MUCH_US = (20, 100)
PAUSES = 0.5  # the highest load at which threads still have pauses
KINDS = {"equal": {"work_us": 50}, "unequal": {"work_us": 50, "tail": 8}}
POLICIES = {
    "in the driver": {"policy": "none"},
    "handed off at an edge": {"policy": "explicit"},
    "by a budget of 30 us": {"policy": "time", "budget_us": 30, "checkpoints": sweeps.PIECES},
    "regular mode": {"policy": "regular"},
}
WAIT = {"work_us": 50, "wait_us": 100}
WAITING = {
    "leaves the driver when it waits, resumes on a thread": {"policy": "implicit"},
    "... and resumes in the driver": {"policy": "implicit", "resume": "driver"},
    "... with a budget of 30 us": {"policy": "implicit", "resume": "driver", "budget_us": 30, "checkpoints": sweeps.PIECES},
    "handed off at an edge first": {"policy": "explicit"},
    "regular mode": {"policy": "regular"},
}


def run(lab):
    section = labs.Section(
        "policies", "Policies compared", "Which work should the driver do itself, and which should it hand off? How should a "
        "graph's author choose a budget?", virtual=True
    )
    section.text(
        "A server receives requests for work at random times, and does the work before it answers. Other clients send it short questions, "
        "20000 per second unless stated otherwise. Everything runs on virtual time, with the simulator's costs of a modern machine: a sleeping "
        f"thread resumes after {SWITCH_US} us. Load is the share of the one processor that the work takes, at "
        f"no more than {sweeps.WORK_RATE_MAX} requests per second. Each point is run with {lab.repeats} seeds. Policies are compared "
        "by mean response time over all requests, long and short. The 1994 report describes the policies but "
        "measures none of them: no figure here is published, and all checks of this chapter are the project's own."
    )
    section.text(source_of_switch(lab))
    with sweeps.Sweep(lab) as sweep:
        break_even(section, sweep)
        budgets(section, sweep)
        picture(section)
        places_of_work(section, sweep)
        overload(section, sweep)
        waiting(section, sweep)
    answer(section)
    section.data["real"] = real.compare(section, lab)
    section.text("On real hosts only the sign of the difference is compared, at these lengths of work; their break-even is not measured.")
    return section


def source_of_switch(lab):
    """Returns the source of the simulator's cost of a switch, and the effect of this machine's cost."""
    words = (f"The {SWITCH_US} us come from the simulator's preset `modern`, which was derived from round trips by `udptest --cores 0,0` on a virtual machine of 2026: an assumption "
             "here, not fitted to this run. ")
    if lab.handoff_us and lab.handoff_adds_us:
        words += (f"In this run, on one core, a message that is handed off reaches its protocol after {lab.handoff_us:.2f} us (chapter on handoffs). A handoff at the client adds "
                  f"{labs.spread(lab.handoff_adds_us)} us to a round trip, which includes the thread's going back to sleep (chapter on fragmentation). ")
    return words + (f"The rule's break-even, below, grows with the square root of T: with {PLACES[0][1]} short questions per second it is " + ", and ".join(
        f"{rule_us(PLACES[0][1], us):.0f} us of work for {us:.2f} us" for us in (lab.handoff_us, SWITCH_US) if us) + ".")


def of(results, key):
    return labs.interval([result[key] for result in results])


def answer(section):
    by_load = [f"{break_even_text(row)} us at a load of {row['load']:.0%}" for row in section.data["break_even"]
               if row["shorts"] == PLACES[0][1]]
    shorts = PLACES[0][1]
    fits = {fit: [f"{row['load']:.0%}" for row in section.data["break_even"] if row["shorts"] == shorts and fits_rule(row) is fit] for fit in (True, False, None)}
    section.answer = (
        f"The driver should do short work itself. On virtual time, where a sleeping thread resumes after {SWITCH_US} us, and with "
        f"{shorts} other messages per second, work longer than " + ", ".join(by_load)
        + f" is better handed off. The rule sqrt(2 T / s), with the cost T of a thread switch and the rate s of the other messages, gives {rule_us(shorts):.0f} us: it holds within "
        f"{near.NEAR:.0%} at a load of {' and '.join(fits[True]) or 'none of these'}" + "".join(
            f", {words} at {' and '.join(fits[fit])}" for fit, words in ((False, "not"), (None, "unclear")) if fits[fit])
        + ". Where work is unequal, choose a budget longer than that."
    )


def picture(section):
    """Draws the server with equal work, handed off at the marked edge, and the counts of its runs."""
    row = next(row for row in section.data["budgets"] if row["kind"] == "equal" and row["policy"] == "explicit")
    handed, works = (sum(run[key] for run in row["runs"]) for key in ("handoffs_explicit", "works"))
    section.picture("The server, where a request for work leaves the driver at a marked edge", sweeps.GRAPH,
                    {("vwork", "udp"): (f"{handed} handoffs for {works} requests", True)})


# ---- in the driver, or on a thread ----


def works(lab):
    return WORKS_QUICK if lab.quick else WORKS


def rule_us(shorts, switch_us=SWITCH_US):
    """Returns the work, in microseconds, at which a handoff costs what it saves: each of the `shorts` per second that meets the work waits half of it."""
    return math.sqrt(2 * switch_us / shorts * 1e6)


def fits_rule(row):
    at, rule = row["break_even_us"], rule_us(row["shorts"])
    return None not in at and near.near(labs.interval([us / rule for us in at]), 1)


def crossing(points):
    """Returns the work at which a line through points (work, cost of handing off) falls to 0, on a logarithmic scale of work, or None."""
    for (left, above), (right, below) in zip(points, points[1:]):
        if above > 0 >= below:
            part = above / (above - below)
            return right * part if left == 0 else left * (right / left) ** part
    return None


def break_even(section, sweep):
    lab = sweep.lab
    rows = section.data["break_even"] = []
    for load, shorts in PLACES_QUICK if lab.quick else PLACES:
        points = [{"policy": policy, "work_us": work, "load": load, "shorts": shorts}
                  for work in works(lab) for policy in ("none", "explicit")]
        done = len(rows) / len(PLACES)
        found = sweep.of(points, 0.5 * done, 0.5 * (done + 1 / len(PLACES)))
        costs = [[b["all_mean_us"] - a["all_mean_us"] for a, b in zip(*found[i:i + 2])] for i in range(0, len(found), 2)]
        at = [crossing(list(zip(works(lab), seed))) for seed in zip(*costs)]
        rows.append({
            "load": load, "shorts": shorts, "works_us": works(lab), "costs_us": costs, "break_even_us": at,
            **{key: {policy: [of(runs, key) for runs in found[i::2]] for i, policy in enumerate(("none", "explicit"))}
               for key in ("short_p50_us", "short_p99_us")},
        })
    report_break_even(section, rows)


def report_break_even(section, rows):
    section.table(
        "Where handing off begins to pay: work per request, in microseconds",
        ("load, short questions per second", "break-even", "by the rule"),
        [(f"{row['load']:.0%}, {row['shorts']}", break_even_text(row), f"{rule_us(row['shorts']):.0f}") for row in rows],
    )
    section.text("The break-even is interpolated between two measured points of work, on a logarithmic scale, where the cost of handing off falls to 0.")
    section.plot("The cost of a handoff to a request (above 0), or its saving (below 0).", lambda axes: plot_costs(axes, rows),
                 "A handoff pays from the break-even on.")
    section.plot("Response time of short questions, 99th percentile.", lambda axes: plot_short(axes, rows),
                 "Work that is handed off does not delay short questions.")
    section.text(
        "The rule: s short questions arrive per second, so s w of them meet a request that occupies the driver for w, and "
        "each waits w/2 on average. A handoff costs the request one thread switch T instead. The two costs are equal at w = sqrt(2 T / s), "
        "whatever the load: load changes only how often either is paid. The rule ignores that handed-off requests wait for each other and for "
        f"the driver, so it applies to threads that have pauses, here up to a load of {PAUSES:.0%}; above that a handoff costs more. It is checked at each load."
    )
    for row in rows:
        section.check(
            fits_rule(row),
            f"Load {row['load']:.0%}, {row['shorts']} short questions per second: handing off pays from {break_even_text(row)} us "
            f"of work; the rule gives {rule_us(row['shorts']):.0f} (within {near.NEAR:.0%}).", bears=row["load"] <= PAUSES,
        )
        slow, quick = (row["short_p99_us"][policy][-1] for policy in ("none", "explicit"))
        section.check(
            slow["low"] > 10 * quick["high"],
            f"... and at {row['works_us'][-1]} us of work the slowest 1 % of the short questions take {labs.spread(slow, 0)} us or more "
            f"if the driver does all the work, and {labs.spread(quick)} if it hands work off.",
        )
    check_loads(section, rows)


def check_loads(section, rows):
    low, high = (next(row for row in rows if (row["load"], row["shorts"]) == (load, 20000)) for load in (0.2, 0.8))
    section.check(None not in high["break_even_us"] + low["break_even_us"] and min(high["break_even_us"]) > max(low["break_even_us"]),
                  f"Where threads have hardly any pauses, a handoff costs more: it pays from {break_even_text(high)} us at a load of {high['load']:.0%}, from "
                  f"{break_even_text(low)} at {low['load']:.0%}.")


def break_even_text(row):
    at = row["break_even_us"]
    return "none" if None in at else labs.spread(labs.interval(at), 0)


def plot_costs(axes, rows):
    for row in rows:
        middles = [labs.interval(seeds) for seeds in row["costs_us"]]
        line = axes.plot(row["works_us"], [m["median"] for m in middles], marker="o", markersize=3,
                         label=f"load {row['load']:.0%}, {row['shorts']} short per second")
        axes.fill_between(row["works_us"], [m["low"] for m in middles], [m["high"] for m in middles],
                          color=line[0].get_color(), alpha=0.2, linewidth=0)
    axes.axhline(0, color="#010203", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xlim(left=0)
    axes.set_yscale("symlog", linthresh=10)
    axes.set_xlabel("work per request, µs")
    axes.set_ylabel("µs")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def plot_short(axes, rows):
    for number, row in enumerate(row for row in rows if row["shorts"] == 20000):
        for policy, color in (("none", looks.IPP), ("explicit", looks.HANDOFF)):
            axes.plot(row["works_us"], [p["median"] for p in row["short_p99_us"][policy]], ("-", "--", ":")[number], color=color,
                      label=f"load {row['load']:.0%}, " + ("in the driver" if policy == "none" else "handed off"))
    axes.set_xscale("symlog", linthresh=5)
    axes.set_xlim(left=0)
    axes.set_yscale("log")
    axes.set_xlabel("work per request, µs")
    axes.set_ylabel("µs")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


# ---- budgets ----


def budgets(section, sweep):
    chosen = BUDGETS_QUICK if sweep.lab.quick else BUDGETS
    rows = section.data["budgets"] = []
    for number, (kind, work) in enumerate(KINDS.items()):
        points = [dict(work, policy="none"), dict(work, policy="explicit")]
        points += [dict(work, policy="time", budget_us=budget, checkpoints=pieces)
                   for pieces in (sweeps.PIECES, 0) for budget in chosen]
        for point, found in zip(points, sweep.of(points, 0.5 + 0.15 * number, 0.65 + 0.15 * number)):
            rows.append({"kind": kind, "policy": point["policy"], "budget_us": point.get("budget_us"),
                         "checkpoints": bool(point.get("checkpoints")), "runs": found})
    section.text(
        "A budget decides later: it hands off a message once it has occupied the driver for that long, and short work ends before "
        "that. Here requests take 50 us of work on average at a load of 50 %: either all the same, or unequal, with half of them 10 us and the "
        "longest 2560."
    )
    section.table(
        "Budgets, in microseconds: response times of short questions, and the average over all requests",
        ("work, policy", "short, median", "short, 99 %", "all, average", "handed off"), [budget_row(row) for row in rows],
    )
    section.plot(
        "Mean response time by budget, where the work itself checks its budget.", lambda axes: plot_budgets(axes, rows)
    )
    check_budgets(section, rows)


def budget_name(row):
    if row["policy"] != "time":
        return {"none": "in the driver", "explicit": "handed off at an edge"}[row["policy"]]
    return f"budget {row['budget_us']}" + ("" if row["checkpoints"] else ", no checkpoints")


def budget_row(row):
    runs = row["runs"]
    handed = sum(run["handoffs_explicit"] + run["handoffs_time"] for run in runs) / sum(run["works"] for run in runs)
    return (f"{row['kind']}, {budget_name(row)}", labs.spread(of(runs, "short_p50_us")), labs.spread(of(runs, "short_p99_us")),
            labs.spread(of(runs, "all_mean_us")), f"{handed:.0%}")


def waits(rows, kind, policy, checkpoints=False):
    """Returns (budget, mean response time) for one line of the plot."""
    return [(row["budget_us"], of(row["runs"], "all_mean_us")) for row in rows
            if (row["kind"], row["policy"], row["checkpoints"]) == (kind, policy, checkpoints)]


def plot_budgets(axes, rows):
    for number, kind in enumerate(KINDS):
        line = waits(rows, kind, "time", True)
        axes.plot([budget for budget, _ in line], [wait["median"] for _, wait in line], ("-", ":")[number], marker="o", color=looks.OTHER,
                  label=f"{kind}: budget")
        axes.fill_between([budget for budget, _ in line], [wait["low"] for _, wait in line],
                          [wait["high"] for _, wait in line], color=looks.OTHER, alpha=0.2, linewidth=0)
        for policy, color in (("none", looks.IPP), ("explicit", looks.HANDOFF)):
            axes.axhline(waits(rows, kind, policy)[0][1]["median"], linestyle=("-", ":")[number], color=color,
                         label=f"{kind}: " + ("in the driver" if policy == "none" else "handed off at an edge"))
    axes.axvline(rule_us(20000), color="#999999", linewidth=0.8, label="the rule's break-even")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("budget, µs")
    axes.set_ylabel("µs")
    axes.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))


def check_budgets(section, rows):
    none, mark = (waits(rows, "unequal", policy)[0][1] for policy in ("none", "explicit"))
    line = waits(rows, "unequal", "time", True)
    budget, best = min(line, key=lambda point: point[1]["median"])
    section.check(
        best["median"] < min(none["low"], mark["low"]) and budget > rule_us(20000),
        f"Unequal work: with a budget of {budget} us, longer than the break-even, a request takes {labs.spread(best)} us on average, less than in the "
        f"driver ({labs.spread(none)}) or handed off at an edge ({labs.spread(mark)}).", bears=True,
    )
    good = [budget for budget, wait in line if wait["median"] < 2 * best["median"]]
    section.check(
        max(good) >= 4 * min(good),
        f"The budget need not be exact: from {min(good)} to {max(good)} us, response times are within a factor of two of the best. The break-even "
        f"of handing off is {rule_us(20000):.0f} us.",
    )
    marked = next(row["runs"] for row in rows if (row["kind"], row["policy"]) == ("equal", "explicit"))
    for row in rows:
        if row["kind"] == "equal" and row["checkpoints"] and row["budget_us"] < KINDS["equal"]["work_us"]:
            more = labs.interval([a["all_mean_us"] - b["all_mean_us"] for a, b in zip(row["runs"], marked)])
            section.check_saved(more, f"Equal work: with a budget of {row['budget_us']} us, shorter than the work, a request pays for both, and takes {labs.spread(more)} us "
                                "longer on average than handed off at an edge.", bears=False)
    late = waits(rows, "unequal", "time", False)
    section.check(
        all(wait["median"] >= 0.99 * none["median"] for _, wait in late),
        f"A budget that is not checked within the work saves nothing: at {budget} us a request takes "
        f"{labs.spread(dict(late)[budget])}. The next crossing finds the budget spent only after the work, too late, and adds the cost of a handoff.",
    )
    section.text(
        "Rule of thumb: if all work behind an edge takes about the same time, do not use a budget. Leave the work in the driver below the "
        "break-even, and mark the edge above it; a budget shorter than the work makes each request pay for both. If the work is unequal "
        "or unknown, choose a budget between the break-even sqrt(2 T / s) and four times that, not below the work of the "
        "usual request, and call xk_checkpoint in any code that may take longer. T is what a handoff adds to a round trip on one core of your "
        "machine (`xk bench handoff` measures the part until the message arrives, a lower bound), and s is the rate of other messages per "
        "second. Err on the long side: handed-off work queues behind the longest, so nearly finished work should stay."
    )


# ---- the place of the work, overload, and work that waits ----


def places_of_work(section, sweep):
    """Shows where a spent budget is noticed."""
    budget = {"policy": "time", "budget_us": 20}
    points = {
        "before the last crossing, with checkpoints": dict(budget, work_us=100, checkpoints=sweeps.PIECES),
        "before the last crossing": dict(budget, work_us=100),
        "after it": dict(budget, work_us=100, after=True),
    }
    found = dict(zip(points, sweep.of(list(points.values()), 0.8, 0.84)))
    section.data["places"] = found
    section.table(
        "A budget of 20 us and 100 us of work: counts per hundred requests",
        ("the work is", "handed off", "overruns", "short, 99 %, us"),
        [(name, *(f"{100 * sum(r[key] for r in runs) / sum(r['works'] for r in runs):.0f}"
                  for key in ("handoffs_time", "overruns")),
          labs.spread(of(runs, "short_p99_us"))) for name, runs in found.items()],
    )
    runs = found["after it"]
    section.check(
        all(run["overruns"] == run["works"] for run in runs),
        "A budget that runs out after a message's last crossing is counted as an overrun each time: overruns show "
        "that a graph needs a checkpoint.",
    )


def overload(section, sweep):
    points = [dict(policy, work_us=work, load=1.5, ms=100) for work in TOO_MUCH_US for policy in POLICIES.values()]
    names = [(work, name) for work in TOO_MUCH_US for name in POLICIES]
    found = section.data["overload"] = [
        {"work_us": work, "way": name, "runs": runs} for (work, name), runs in zip(names, sweep.of(points, 0.84, 0.92))
    ]
    section.table(
        "Load 150 %: requests for work answered per second; response times of short questions, in milliseconds",
        ("work, policy", "answered", "short, median", "short, 99 %"),
        [(f"{row['work_us']} us, {row['way']}", labs.spread(of(row["runs"], "worked_per_s"), 0),
          *(labs.spread({k: v / 1000 for k, v in of(row["runs"], key).items()}, 2) for key in ("short_p50_us", "short_p99_us")))
         for row in found],
    )
    for work in TOO_MUCH_US:
        rates = {row["way"]: of(row["runs"], "worked_per_s") for row in found if row["work_us"] == work}
        least = min(rate["low"] for name, rate in rates.items() if name != "regular mode")
        section.check(
            least > 0.9 * rates["in the driver"]["high"],
            f"Overload with {work} us of work: with every policy of IPP, at least {least:.0f} requests per second are answered, against "
            f"{labs.spread(rates['in the driver'], 0)} in the driver; in regular mode {labs.spread(rates['regular mode'], 0)}.",
        )
    least = min(of(row["runs"], "short_p50_us")["low"] for row in found)
    usual = waits_of_short(section.data["budgets"])
    section.check(
        least > 100 * usual["high"],
        f"No policy protects short questions from overload: their median is at least {least / 1000:.2f} ms, more than 100 times the "
        f"{labs.spread(usual)} us at a load of 50 %.",
    )
    section.text(
        "When all stacks are handed off, the driver does the work itself (fallbacks), as if there were no policy, and short questions wait "
        "until the queue ahead of them is empty. Throughput suffers little: threads that always have work need not be woken."
    )


def waits_of_short(rows):
    """Returns the median response time of short questions beside equal work done in the driver."""
    return next(of(row["runs"], "short_p50_us") for row in rows if (row["kind"], row["policy"]) == ("equal", "none"))


def explain_overload(section, runs):
    """Explains why requests wait so long in regular mode."""
    asked, most = sweeps.work_rate(WAIT["work_us"], 0.5), 1e6 / (WAIT["work_us"] + WAIT["wait_us"])
    section.text(
        f"In regular mode the only input thread waits with its request, and carries no other message meanwhile: of {asked} requests per second it can answer at most {most:.0f}, "
        f"and answers {labs.spread(of(runs, 'worked_per_s'), 0)}. The queue ahead of it fills, and {sum(run['full'] for run in runs)} frames find it full and are lost. "
        "The times reflect a full queue, not the cost of a switch; more input threads could wait at the same time."
    )


def waiting(section, sweep):
    points = [dict(policy, **WAIT) for policy in WAITING.values()]
    found = section.data["waiting"] = dict(zip(WAITING, sweep.of(points, 0.92, 1)))
    section.table(
        "Requests that wait 100 us, as for a disk, and then take 50 us of work; load 50 %, microseconds",
        ("policy", "short, median", "short, 99 %", "a request, average", "switches per request"),
        [(name, *(labs.spread(of(runs, key)) for key in ("short_p50_us", "short_p99_us", "work_mean_us")),
          f"{sum(run['thread_switches'] for run in runs) / sum(run['works'] for run in runs):.2f}")
         for name, runs in found.items()],
    )
    explain_overload(section, found["regular mode"])
    thread, mark = (of(found[name], "work_mean_us") for name in list(WAITING)[::3])
    section.check(
        thread["high"] < mark["low"],
        f"Work that waits anyway need not be handed off first: it leaves the driver once it waits, and a request takes "
        f"{labs.spread(thread)} us instead of {labs.spread(mark)}.",
    )
    thread, driver = (sum(run["thread_switches"] for run in found[name]) for name in list(WAITING)[:2])
    section.check(driver == 0 < thread, f"Work that waited resumes in the driver without a thread switch; on a thread, all requests take {thread} switches.")
    driver, both = (of(found[name], "short_p99_us") for name in list(WAITING)[1:3])
    section.check(
        both["high"] < driver["low"],
        f"If the driver resumes it, its work delays the short questions as any work does: 99 % within {labs.spread(driver)} "
        f"us. A budget helps here, too: {labs.spread(both)}.",
    )
