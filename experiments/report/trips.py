"""trips.py - tables and plots of round trips, as several experiments have them."""
import lab as labs
import looks
import near


def comma(numbers):
    return ",".join(map(str, numbers))


def measure(lab, program, *arguments, floor=False):
    """(apart, together): the same on two cores, or two machines, and on one core."""
    return lab.trips(program, *arguments, floor=floor), lab.trips(program, *arguments, together=True, floor=floor)


def data(found):
    """What the run has measured, for its JSON: every repetition."""
    return {"machine": found.machine, "repetitions": [document["runs"] for document in found.documents], "floors_ns": found.floors}


def both_data(apart, together):
    return data(apart) | {"together": data(together)["repetitions"], "together_floors_ns": together.floors}


ALIKE = 0.01  # published times that differ by less, as a part of them: no order was meant
ALIKE_HERE = 0.10  # how far they may then differ the other way here


def both_times(section, apart, together, table, rows, sizes, was):
    for found in (apart, together):
        times(section, found, f"After {table} of 1994: round trips in microseconds, {found.where}", rows, sizes, was)
        if found is apart or len(was) > 2:  # a single pair on one core is what compare_saved() judges
            judge_orders(section, found, rows, sizes, was)


def times(section, found, title, rows, sizes, was):
    """A row for each configuration, and below it what was published of it."""
    body = []
    for (mode, handoff), text in rows.items():
        body.append((text, *(labs.spread(found.median_us(mode, handoff, 1, size)) for size in sizes)))
        if (mode, handoff) in was:
            body.append(("published", *map(str, was[mode, handoff])))
        else:
            body.append(("published", *("-" for _ in sizes)))
    section.table(title, ("", *(labs.bytes_of(size) for size in sizes)), body,
                  judged="which of every two published rows is less, at each size; not the times themselves, of another machine")


def judge_orders(section, found, rows, sizes, was):
    """
    At each size, whether of every two published configurations the one that took less then takes less here. rows, was: by mode,
    handoff and, unless there is one, input threads.
    """
    names = [key for key in rows if key in was]
    for place, size in enumerate(sizes):
        told = {True: [], False: [], None: []}
        for i, one in enumerate(names):
            for other in names[i + 1:]:
                agrees, words = order(found, one, other, size, was[one][place], was[other][place])
                told[agrees].append(f"{rows[one]} against {rows[other]} {words}")
        where, pairs = f"{found.where[0].upper()}{found.where[1:]}, {labs.bytes_of(size)}", sum(map(len, told.values()))
        shown = "".join(f"; {name}: {'; '.join(told[agrees])}" for agrees, name in ((False, "reversed"), (None, "unclear")) if told[agrees])
        section.check(near.all_of(agrees for agrees, texts in told.items() if texts),
                      f"{where}: of every two rows, the one that took less takes less, in {len(told[True])} of {pairs} pairs{shown}." if pairs > 1 else
                      f"{where}: {''.join(sum(told.values(), []))}.")


def order(found, one, other, size, was_one, was_other):
    """(whether the difference has the published sign, or is small, if that was; the difference in words)."""
    slower, faster = ((*key, *((1,) if len(key) == 2 else ()), size) for key in (one, other))
    more = found.saved_us(slower, faster)
    words = f"{more['median']:+.1f} us ({more['low']:+.1f} to {more['high']:+.1f}; published {was_one - was_other:+d})"
    if was_one < was_other:
        more = {"low": -more["high"], "high": -more["low"]}
    if abs(was_one - was_other) < ALIKE * was_one:
        limit = -ALIKE_HERE * found.median_us(*slower)["median"]
        return (True if more["low"] >= limit else False if more["high"] < limit else None), words
    return labs.is_saved(more), words


def handed(found, key):
    """What was handed off in a run's rounds, at both ends together: (words, whether there was anything)."""
    runs = found.runs[key]
    handoffs, rounds = (sum(counts) for counts in zip(*((sum(run["handoffs"].values()), run["rounds"]) for run in runs)))
    return f"{handoffs or 'no'} handoffs in {rounds} round trips", handoffs > 0


def frames(found, key):
    """Frames that arrived at both ends, as words on an edge: nothing that is handed off."""
    runs = found.runs[key]
    return f"{sum(run['fragments'] for run in runs)} frames arrived", False


def was_saved(table, sizes, size, slower, faster):
    """What was published of the difference, in microseconds."""
    place = sizes.index(size)
    return table[slower][place] - table[faster][place]


def compare_saved(section, found, table, sizes, slower, faster, words):
    """What the one takes less than the other, here and then; words: what saves it."""
    for place, size in enumerate(sizes):
        saved, was = found.saved_us((*slower, 1, size), (*faster, 1, size)), was_saved(table, sizes, size, slower, faster)
        part = saved["median"] / found.median_us(*slower, 1, size)["median"]
        section.compare(f"{labs.bytes_of(size)}: {words} saves of a round trip, {found.where}", f"{labs.spread(saved)} us, {part:.0%}",
                        f"{was} us, {was / table[slower][place]:.0%}", labs.is_saved(saved), bears=True)


def plot_saved(section, found, rows, sizes):
    """What each configuration takes less than the first, by size."""
    first, *others = rows

    def draw(axes):
        width = 0.8 / len(others)
        for i, key in enumerate(others):
            saved = [found.saved_us((*first, 1, size), (*key, 1, size)) for size in sizes]
            places = [place + (i - (len(others) - 1) / 2) * width for place in range(len(sizes))]
            axes.bar(places, [s["median"] for s in saved], width, yerr=looks.error(saved), error_kw=looks.ERROR, label=rows[key],
                     **looks.bar(*key))
        axes.set_xticks(range(len(sizes)), sizes)
        axes.set_xlabel("bytes")
        axes.set_ylabel("µs saved per round trip")
        axes.axhline(0, color="#010203", linewidth=0.5)
        if len(others) > 1:
            axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(others), fontsize="small", columnspacing=1)

    section.plot(f"Time saved per round trip compared with {rows[first].lower()} mode, {found.where}; error bars are "
                 f"{labs.confidence(len(found.documents))} intervals.", draw)
