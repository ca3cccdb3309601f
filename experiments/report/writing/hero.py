"""hero.py - the report in one figure, and the chapters whose answers are beside it."""
import lab as labs
import looks

TITLE = ("The round trip of a 1-byte datagram, and what carrying it in the driver saves. Error bars are the range of the repetitions; the dashed line is "
         "DPDK alone, also with sleeping ends. None is drawn between cores that halt: there the time to wake one depends on what ran just before.")
FIVE = ("handoff", "fragments", "rpc", "policies", "anatomy")
ROWS = {("regular", "-"): "regular", ("ipp", "client"): "IPP, handoff at the client", ("ipp", "server"): "IPP, handoff at the server", ("ipp", "none"): "IPP"}


def can(named):
    return "fragments" in named


def draw(axes, named):
    """Draws the experiment with datagrams: both placements of the hosts, and DPDK alone on one core, which was measured in turn."""
    found = named["fragments"].trips
    place, ticks = 0, []
    for trips in found:
        has_floor = trips.floors and not trips.is_across
        top, floor = place - 0.6, labs.median(trips.floors) / 1000 if has_floor else 0
        for (mode, handoff), words in ROWS.items():
            us = trips.median_us(mode, handoff, 1, 1)
            axes.barh(place, us["median"], height=0.8, xerr=looks.error([us]), error_kw=looks.ERROR, **looks.bar(mode, handoff))
            axes.annotate(f"{us['median']:.1f} µs", (max(us["high"], floor), place), xytext=(6, 0), textcoords="offset points", va="center")
            ticks.append((place, words))
            place += 1
        if has_floor:
            axes.plot([floor] * 2, [top, place - 0.4], **looks.FLOOR)
        axes.text(0, top - 0.15, trips.where, va="bottom", fontweight="bold")
        place += 1.1
    axes.set_yticks([at for at, _ in ticks], [words for _, words in ticks])
    axes.invert_yaxis()
    axes.set_xlabel("µs")
