"""trips.py - tables and plots of round trips for several experiments."""
import lab as labs
import looks
import near
import published


def comma(numbers):
    return ",".join(map(str, numbers))


def measure(lab, program, *arguments, floor=False):
    """Measures on two cores or machines, and on one core. Returns (apart, together)."""
    return lab.trips(program, *arguments, floor=floor), lab.trips(program, *arguments, together=True, floor=floor)


def data(found):
    """Returns every repetition's measurements, for the JSON."""
    return {"machine": found.machine, "repetitions": [document["runs"] for document in found.documents], "floors_ns": found.floors}


def both_data(apart, together):
    return data(apart) | {"together": data(together)["repetitions"], "together_floors_ns": together.floors}


TIE = 1 / 3  # of a handoff in regular mode (table 2): smaller differences are ties
TIE_US = round(TIE * published.TABLE2["regular"], 1)


def tie_here_us(handoff_us):
    return TIE * handoff_us


def tie_rule(handoff_us):
    """Returns the rule for pairs. handoff_us: this machine's; None: not measured."""
    here = f"{tie_here_us(handoff_us):.2f} us of {handoff_us:.2f} here" if handoff_us else "unknown here because this run has no chapter on handoffs, so ties are unclear"
    return ("a tie is a difference of less than a third of a handoff in regular mode (table 2): "
            f"{TIE_US} us of {published.TABLE2['regular']} in 1994, {here}. A published tie agrees if the whole range of the difference is a tie here, and disagrees if none of it is. "
            "All other pairs agree if the difference has the published sign in every repetition, and are reversed if it has the opposite sign in every repetition")


def both_times(section, apart, together, table, rows, sizes, was):
    for found in (apart, together):
        times(section, found, f"After {table} of 1994: round trips in microseconds, {found.where}", rows, sizes, was)
        if found is apart or len(was) > 2:  # a single pair on one core is checked by compare_saved()
            check_orders(section, found, rows, sizes, was, bears=True)


def times(section, found, title, rows, sizes, was):
    """Adds a table with a row for each configuration, and its published times below it."""
    body = []
    for (mode, handoff), text in rows.items():
        body.append((text, *(labs.spread(found.median_us(mode, handoff, 1, size)) for size in sizes)))
        if (mode, handoff) in was:
            body.append(("published", *map(str, was[mode, handoff])))
        else:
            body.append(("published", *("-" for _ in sizes)))
    section.table(title, ("", *(labs.bytes_of(size) for size in sizes)), body,
                  checked=f"for each pair of published rows, which is less at each size (differences below {TIE_US} us are ties: see Method); not the times themselves, which are another machine's")


def check_orders(section, found, rows, sizes, was, bears=False):
    """
    Checks at each size and for each pair of published configurations whether the one that took less then takes less here, or
    whether both are ties. rows, was: by mode, handoff and, unless there is one, input threads.
    """
    names = [key for key in rows if key in was]
    for place, size in enumerate(sizes):
        orders, ties, off = [], [], {False: [], None: []}
        for i, one in enumerate(names):
            for other in names[i + 1:]:
                agrees, is_tie, text = order(found, one, other, size, was[one][place], was[other][place])
                (ties if is_tie else orders).append(agrees)
                if agrees is not True:
                    off[agrees].append(f"{rows[one]} against {rows[other]} {text}")
        where = f"{found.where[0].upper()}{found.where[1:]}, {labs.bytes_of(size)}"
        if len(names) == 2:
            result = f"{rows[names[0]]} against {rows[names[1]]} {text}"
        else:
            result = ", and ".join(f"{of.count(True)} of {len(of)} {words}" for of, words in ((orders, "pairs have the published order"), (ties, "ties are ties here")) if of)
            result += "".join(f"; {name}: {'; '.join(off[agrees])}" for agrees, name in ((False, "disagree"), (None, "unclear")) if off[agrees])
        section.check(near.all_of(orders + ties), f"{where}: {result}.", bears, rule=tie_rule(found.handoff_us), across=found.is_across)


def order(found, one, other, size, was_one, was_other):
    """Returns (whether a published tie is a tie here, or the difference has the published sign; whether it is a published tie; the difference as text)."""
    slower, faster = ((*key, *((1,) if len(key) == 2 else ()), size) for key in (one, other))
    more = found.saved_us(slower, faster)
    words = f"{more['median']:+.1f} us ({more['low']:+.1f} to {more['high']:+.1f}; published {was_one - was_other:+d})"
    if abs(was_one - was_other) < TIE_US:
        limit = tie_here_us(found.handoff_us or 0)
        return near.within(more, -limit, limit) if limit else None, True, words
    if was_one < was_other:
        more = labs.negated(more)
    return labs.is_saved(more), False, words


def handed(found, key):
    """Returns the handoffs at both ends together as a label for an edge: (text, whether there were any)."""
    runs = found.runs[key]
    handoffs, rounds = (sum(counts) for counts in zip(*((sum(run["handoffs"].values()), run["rounds"]) for run in runs)))
    return f"{handoffs or 'no'} handoffs in {rounds} round trips", handoffs > 0


def frames(found, key):
    """Returns the frames that arrived at both ends as a label for an edge: (text, False: no handoff)."""
    runs = found.runs[key]
    return f"{sum(run['fragments'] for run in runs)} frames arrived", False


def was_saved(table, sizes, size, slower, faster):
    """Returns the published difference in microseconds."""
    place = sizes.index(size)
    return table[slower][place] - table[faster][place]


def compare_saved(section, found, table, sizes, slower, faster, words):
    """Compares the saving here with the published one. words: the configuration that saves."""
    for place, size in enumerate(sizes):
        saved, was = found.saved_us((*slower, 1, size), (*faster, 1, size)), was_saved(table, sizes, size, slower, faster)
        part = saved["median"] / found.median_us(*slower, 1, size)["median"]
        section.compare(f"{labs.bytes_of(size)}: {words} shortens the round trip, {found.where}", f"{labs.spread(saved)} us, {part:.0%}",
                        f"{was} us, {was / table[slower][place]:.0%}", labs.is_saved(saved), bears=True, rule=labs.SIGNS, across=found.is_across)
    compare_dependence_on_size(section, found, table, sizes, slower, faster, words)
    section.why = why_by_size(found, sizes, slower, faster)


def each_saved(found, sizes, slower, faster):
    """Returns the saving at each size, by repetition."""
    return list(zip(*(found.each_saved_us((*slower, 1, size), (*faster, 1, size)) for size in sizes)))


def most_saved(found, sizes, slower, faster):
    """Returns the largest saving of all sizes relative to the smallest."""
    here = each_saved(found, sizes, slower, faster)
    return labs.quotients(map(max, here), map(min, here))


def compare_dependence_on_size(section, found, table, sizes, slower, faster, words):
    """Checks that the saving depends on the size as little as published, and shows its share of a round trip."""
    was = [was_saved(table, sizes, size, slower, faster) for size in sizes]
    here = each_saved(found, sizes, slower, faster)
    whole = list(zip(*([run["rtt_ns"]["p50"] / 1000 for run in found.runs[*slower, 1, size]] for size in sizes)))
    most, was_most = most_saved(found, sizes, slower, faster), max(was) / min(was)
    section.compare(f"{words}: largest saving of the {len(sizes)} sizes relative to the smallest, {found.where}", labs.spread(most, 2), f"{was_most:.2f}",
                    near.within(most, 1, was_most * (1 + near.NEAR)), bears=True, rule=f"at most {near.NEAR:.0%} more than published", across=found.is_across)
    parts = [labs.quotients([row[i] for row in here], [row[i] for row in whole]) for i in range(len(sizes))]
    then = [part / all_us for part, all_us in zip(was, table[slower])]
    here_text, then_text = (", ".join(f"{share:.0%}" for share in shares) for shares in ([part["median"] for part in parts], then))
    section.compare(f"{words}: share of the round trip saved for {bytes_list_of(sizes)}, {found.where}", here_text, then_text,
                    "the paper states no such share, and its round trips include a wire, these do not")


def switches(run):
    """Returns the thread switches per round trip at both ends, as counted by the operating system."""
    return sum(run["process_switches"].values()) / run["rounds"]


def why_by_size(found, sizes, slower, faster):
    """Returns a text on why the saving may depend on the size when both hosts share a core."""
    runs = {size: (found.runs[*slower, 1, size], found.runs[*faster, 1, size]) for size in sizes}
    regular_and_ipp = [[f"{labs.median([switches(run) for run in mode]):.1f}" for mode in runs[size]] for size in (sizes[0], sizes[-1])]
    each = [labs.quotients(found.each_saved_us((*slower, 1, size), (*faster, 1, size)), [switches(a) - switches(b) for a, b in zip(*runs[size])])["median"] for size in sizes]
    return (f"Hosts that share a core also take turns between a message's frames: a round trip of {labs.bytes_of(sizes[0])} takes {regular_and_ipp[0][0]} thread switches in "
            f"regular mode and {regular_and_ipp[0][1]} in IPP, one of {labs.bytes_of(sizes[-1])} {regular_and_ipp[1][0]} and {regular_and_ipp[1][1]}, as counted by the operating system. Each switch avoided saves {list_of(f'{us:.1f}' for us in each)} us for {bytes_list_of(sizes)}.")


def list_of(items):
    """'1, 2 and 3'"""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last


def bytes_list_of(sizes):
    """'1, 2 and 3 bytes'"""
    return list_of([*sizes[:-1], labs.bytes_of(sizes[-1])])


def answer_saved(found, table, sizes, slower, faster):
    """Returns the saving at each size, here and published, as text for an answer."""
    medians = list_of(f"{found.saved_us((*slower, 1, size), (*faster, 1, size))['median']:.1f}" for size in sizes)
    return f"{medians} us for {bytes_list_of(sizes)} (in 1994: {list_of(was_saved(table, sizes, size, slower, faster) for size in sizes)})"


def plot_saved(section, found, rows, sizes):
    """Plots how much each configuration saves compared with the first, by size."""
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

    section.plot(f"Time saved per round trip compared with {rows[first].lower()} mode, {found.where}; error bars are the "
                 "range of the repetitions.", draw)
