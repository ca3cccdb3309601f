"""trips.py - tables and plots of round trips, as several experiments have them."""
import lab as labs
import looks


def comma(numbers):
    return ",".join(map(str, numbers))


def measure(lab, program, *arguments):
    """(apart, together): the same on two cores, or two machines, and on one core."""
    return lab.trips(program, *arguments), lab.trips(program, *arguments, together=True)


def data(found):
    """What the run has measured, for its JSON: every repetition."""
    return {"machine": found.machine, "repetitions": [document["runs"] for document in found.documents]}


def both_data(apart, together):
    return data(apart) | {"together": data(together)["repetitions"]}


def both_times(section, apart, together, table, *arguments):
    for found in (apart, together):
        times(section, found, f"After {table} of 1994: round trips in microseconds, {found.where}", *arguments)


def times(section, found, title, rows, sizes, was):
    """A row for each configuration, and below it what was published of it."""
    body = []
    for (mode, handoff), text in rows.items():
        body.append((text, *(labs.spread(found.median_us(mode, handoff, 1, size)) for size in sizes)))
        if (mode, handoff) in was:
            body.append(("published", *map(str, was[mode, handoff])))
        else:
            body.append(("published", *("-" for _ in sizes)))
    section.table(title, ("", *(labs.bytes_of(size) for size in sizes)), body)


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


def compare_saved(section, found, table, sizes, slower, faster):
    """What the one takes less than the other, here and then."""
    for place, size in enumerate(sizes):
        saved, was = found.saved_us((*slower, 1, size), (*faster, 1, size)), was_saved(table, sizes, size, slower, faster)
        part = saved["median"] / found.median_us(*slower, 1, size)["median"]
        section.compare(f"{labs.bytes_of(size)}: saved per round trip, {found.where}", f"{labs.spread(saved)} us, {part:.0%}",
                        f"{was} us, {was / table[slower][place]:.0%}")


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
        axes.set_xticks(range(len(sizes)), [labs.bytes_of(size) for size in sizes])
        axes.set_ylabel("µs saved per round trip")
        axes.axhline(0, color="#010203", linewidth=0.5)
        if len(others) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))

    section.plot(f"Time saved per round trip compared with {rows[first].lower()} mode, {found.where}; error bars are "
                 f"{labs.confidence(len(found.documents))} intervals.", draw)
