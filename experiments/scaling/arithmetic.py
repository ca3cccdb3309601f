#!/usr/bin/env python3
"""arithmetic.py - the arithmetic of Heath, Kaur, Martin and Nguyen, "Quantifying the Impact of Architectural Scaling on Communication"
(HPCA 2001), and their published figures: LogP's parameters from bursts, the time of a message from its instructions and
its operations on the I/O bus (equation 1), and the number of instructions that a page's copy is worth (equations 2 and 3).

As a program, it prints the model's results from the published counts beside the published results.
"""
import os
import sys

# Tables 1 and 2, by MHz and messages of a burst: instructions, cycles and I/O bus operations (I/O and memory space) per message.
SPECIAL = {233: {4: (630, 895, 8.01), 128: (5326, 6277, 29.7)}, 550: {4: (630, 920, 2.25), 128: (5401, 6933, 36)}}
GENERAL = {233: {4: (3555, 7504, 11.0 + 5.5), 128: (15243, 32117, 29.3 + 14.3)},
           550: {4: (2411, 4764, 1.0 + 4.0), 128: (14611, 34687, 22.0 + 14.6)}}
# Table 2, parts in user mode (instructions, cycles) and in the kernel (with operations). They do not quite add up to the totals.
GENERAL_USER = {233: {4: (829, 1460), 128: (3409, 6963)}, 550: {4: (806, 1378), 128: (3420, 7273)}}
GENERAL_KERNEL = {233: {4: (2781, 6068, 11.0 + 5.5), 128: (11574, 25172, 30.2 + 14.1)}, 550: {4: (1696, 4456, 1.0 + 4.6), 128: (11398, 28308, 21.5 + 14.4)}}
# The published +- of the same; of operations, for I/O space and memory space.
WITHIN = {
    "AM-VIA": {233: {4: (6, 11, 0.02, 0.0), 128: (8, 21, 0.05, 0.0)}, 550: {4: (2, 4, 0.013, 0.0), 128: (12, 17, 0.5, 0.0)}},
    "AM-UDP": {233: {4: (24, 112, 0.1, 0.2), 128: (42, 55, 0.1, 0.1)}, 550: {4: (46, 237, 0.0, 0.1), 128: (72, 80, 0.2, 0.1)}},
    "AM-UDP, user": {233: {4: (37, 12), 128: (18, 33)}, 550: {4: (3.4, 18), 128: (25, 48)}},
    "AM-UDP, kernel": {233: {4: (32, 137, 0.1, 0.2), 128: (34, 36, 0.1, 0.1)}, 550: {4: (73, 222, 0.0, 0.2), 128: (48, 185, 0.1, 0.1)}},
}

MEASURED = {233: 4.0, 400: 3.3, 550: 3.7}  # o_s + o_r of the general layer, relative to the special one's, by MHz
PREDICTED = {233: 3.30, 550: 2.39, 5000: 2.12}  # the same, by the model
SHARES_MEASURED = {233: (0.21, 0.11), 550: (0.34, 0.25)}  # I/O's share of o_s + o_r, section 3.1: special, general
SHARES_PREDICTED = {5000: (0.65, 0.53)}  # section 3.2
SHARES = SHARES_MEASURED | SHARES_PREDICTED
CYCLES_PER_BYTE = 1.65  # of the special layer's long messages
BUDGET = 10240  # instructions that a page of 4096 bytes is worth to a processor that is fast enough
REGISTERED_US = 10  # approximate time of a page's registration with the card
REGISTERED_CYCLES, REGISTERED_MB = 3, 133  # approximate, per byte and per second, of registering more than 64 KB at 400 MHz, which "approaches copying cost"
MEMORY_GROWTH, CLOCK_GROWTH = 0.35, 0.40  # per year, of STREAM's memory bandwidth and of the clock
YEAR, AVAILABLE_MHZ, PREDICTED_YEAR = 2000, 1000, 2005  # when it was written, the processors of that time, and the year of its predictions
PAGE = 4096
CPI = 2.0  # the paper's assumption for page tables, "consistent with" the CPI of both layers

NOW_BUS = (9, 33e6)  # cycles of an operation, Hz
LATER_BUS = (7, 66e6)
FASTER_BUS = (7, 133e6)  # the footnote's "optimistic assumption"
FASTER = ((3000, LATER_BUS, 2.25), (3000, FASTER_BUS, 2.30), (5000, FASTER_BUS, 2.12))  # the footnote's ratios


def bus_of(mhz):
    """Returns the I/O bus that goes with a processor of the paper or of its predictions."""
    return NOW_BUS if mhz <= 550 else LATER_BUS


# ---- LogP from bursts ----


def parameters(os, g, rtt):
    """
    Returns o_r, L, and o_r by each of two rules: g = o_s + 2 o_r if the receiver is the slower end, as the paper assumes, and
    g = 2 o_s + o_r if the sender is. The paper's rule needs an o_r above o_s, and both rules agree on whether it is: o_r is by the rule
    that g supports. RTT = 3 o_s + 2 o_r + 2 L, in which an o_r below 0 counts as 0.
    """
    by_receiver, by_sender = (g - os) / 2, g - 2 * os
    o_r = by_receiver if by_receiver > os else by_sender
    return o_r, (rtt - 3 * os - 2 * max(0, o_r)) / 2, by_receiver, by_sender


def kernel_shares(mhz, messages):
    """Returns the kernel's part of the general layer's cycles by three readings of table 2: kernel / total, kernel / (user + kernel), 1 - user / total."""
    total, user, kernel = (table[mhz][messages][1] for table in (GENERAL, GENERAL_USER, GENERAL_KERNEL))
    return kernel / total, kernel / (user + kernel), 1 - user / total


def growth(before, after, years):
    """Returns the growth per year."""
    return (after / before) ** (1 / years) - 1


def events(short, long):
    """
    Returns the events of receiving a message, from a sender's events per message in short and in long bursts: by the rule for the special
    layer, whose sender receives twice, and by the rule for the general layer, whose sender sends twice.
    """
    return (long - short) / 2, long - 2 * short


# ---- equation 1 ----


def seconds(instructions, cpi, hz, operations, bus):
    """Returns the seconds of (instructions, I/O bus operations)."""
    cycles, bus_hz = bus
    return instructions * cpi / hz, operations * cycles / bus_hz


def overheads(table, sends_twice):
    """Returns the instructions, cycles and operations of o_s + o_r. The paper does not state how its authors derived them from their tables."""
    return tuple(short + events(short, long)[sends_twice] for short, long in zip(table[4], table[128]))


def sending(table, mhz, bus=None, cpi=CPI):
    """Returns the seconds of (instructions, bus operations) of o_s alone, by the counts of 233 MHz."""
    instructions, _, operations = table[233][4]
    return seconds(instructions, cpi, mhz * 1e6, operations, bus or bus_of(mhz))


def share(times):
    """Returns the share of the time that does not shrink as the clock grows."""
    return times[1] / sum(times)


class Reading:
    """A reading of the published counts of 233 MHz, which are taken to hold at any clock."""

    def __init__(self, name, sends_twice, cpi):
        self.name = name
        self.layers = []
        for table, general in ((SPECIAL, False), (GENERAL, True)):
            instructions, cycles, operations = overheads(table[233], sends_twice and general)
            self.layers.append((instructions, cpi or cycles / instructions, operations))

    def times(self, mhz, bus=None):
        """Returns the seconds of (instructions, bus operations) of the special layer and of the general one."""
        return [seconds(instructions, cpi, mhz * 1e6, operations, bus or bus_of(mhz)) for instructions, cpi, operations in self.layers]

    def of(self, mhz, bus=None):
        """Returns (ratio of general to special, share of I/O in the special layer, in the general one)."""
        times = self.times(mhz, bus)
        special, general = (sum(parts) for parts in times)
        return general / special, times[0][1] / special, times[1][1] / general

    def limit(self):
        """Returns the ratio if instructions took no time."""
        return self.layers[1][2] / self.layers[0][2]

    def error(self):
        """Returns the greatest relative error of the predicted ratios."""
        return max(abs(self.of(mhz)[0] / ratio - 1) for mhz, ratio in PREDICTED.items())


def readings():
    return [Reading(f"{rule}, {words}", twice, cpi) for twice, rule in ((True, "each layer's rule for events"), (False, "both by g = o_s + 2 o_r"))
            for cpi, words in ((None, "CPI as in the tables"), (CPI, f"CPI {CPI}"))]


def nearest():
    return min(readings(), key=Reading.error)


def from_shares(mhz, bus=None):
    """Returns the same as Reading.of, from the values published for 233 MHz: the predicted ratio, and the shares of I/O."""
    parts = []
    for whole, share in zip((1, PREDICTED[233]), SHARES[233]):
        cycles, hz = bus or bus_of(mhz)
        parts.append((whole * (1 - share) * 233 / mhz, whole * share * (cycles / hz) / (NOW_BUS[0] / NOW_BUS[1])))
    special, general = (sum(part) for part in parts)
    return general / special, parts[0][1] / special, parts[1][1] / general


# ---- equations 2 and 3 ----


def budget(copy_s, hz, cpi=CPI):
    """Returns the number of instructions that the time of a copy is worth."""
    return copy_s * hz / cpi


def cycles_per_byte(instructions, page=PAGE, cpi=CPI):
    """Returns the processor cycles of a byte's copy, if a page's copy is worth this many instructions."""
    return instructions * cpi / page


# ---- in place of the I/O bus today ----

LINE = 64
RING_HEADER = 12  # virtio's, in front of each frame


def lines(frame, in_batches):
    """
    Returns the cache lines that move from one core to the other for a frame over virtio: its bytes, and its part of the ring.
    A descriptor has 16 bytes, an available entry 2, a used entry 8. A frame alone moves one line of each, and the lines of both indices;
    in a batch, it moves only the part of the lines that it fills.
    """
    data = -(-(RING_HEADER + frame) // LINE)
    return data + ((16 + 2 + 8) / LINE if in_batches else 5)


def main():
    print(f"{'':46} {'233 MHz':>20} {'550 MHz':>20} {'5 GHz':>20} {'error':>6}\n{'':46}" + 3 * f"{'ratio, I/O of both':>21}")
    rows = [(reading.name, reading.of, f"{reading.error():6.0%}") for reading in readings()]
    rows += [("from the published shares of I/O", from_shares, ""), ("published", lambda mhz: (PREDICTED[mhz], *SHARES[mhz]), "")]
    for name, of, error in rows:
        cells = ("{:.2f}  {:.0%}  {:.0%}".format(*of(mhz)) for mhz in PREDICTED)
        print(f"{name:46} " + " ".join(f"{cell:>20}" for cell in cells) + f" {error}")
    print(f"\n{BUDGET} instructions per page at CPI {CPI}: {cycles_per_byte(BUDGET):.1f} cycles per byte")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from programs import exit_with
    exit_with(main)
