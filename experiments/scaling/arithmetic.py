#!/usr/bin/env python3
"""arithmetic.py - the arithmetic of Heath, Kaur, Martin and Nguyen, "Quantifying the Impact of Architectural Scaling on Communication"
(HPCA 2001), and the figures that they published: LogP's parameters from bursts, the time of a message from its instructions and
its operations on the I/O bus (equation 1), and how many instructions a page's copy is worth (equations 2 and 3).

Run by itself, it prints what the model makes of the published counts, and what they published.
"""
import os
import sys

# Tables 1 and 2, by MHz and messages of a burst: instructions, cycles, operations on the I/O bus (I/O and memory space) a message.
SPECIAL = {233: {4: (630, 895, 8.01), 128: (5326, 6277, 29.7)}, 550: {4: (630, 920, 2.25), 128: (5401, 6933, 36)}}
GENERAL = {233: {4: (3555, 7504, 11.0 + 5.5), 128: (15243, 32117, 29.3 + 14.3)},
           550: {4: (2411, 4764, 1.0 + 4.0), 128: (14611, 34687, 22.0 + 14.6)}}
# Table 2, of which in user mode: instructions, cycles; and in the kernel, with its operations. They do not quite add up to the totals.
GENERAL_USER = {233: {4: (829, 1460), 128: (3409, 6963)}, 550: {4: (806, 1378), 128: (3420, 7273)}}
GENERAL_KERNEL = {233: {4: (2781, 6068, 11.0 + 5.5), 128: (11574, 25172, 30.2 + 14.1)}, 550: {4: (1696, 4456, 1.0 + 4.6), 128: (11398, 28308, 21.5 + 14.4)}}
# What they give as +-, of the same; of operations for I/O and memory space.
WITHIN = {
    "AM-VIA": {233: {4: (6, 11, 0.02, 0.0), 128: (8, 21, 0.05, 0.0)}, 550: {4: (2, 4, 0.013, 0.0), 128: (12, 17, 0.5, 0.0)}},
    "AM-UDP": {233: {4: (24, 112, 0.1, 0.2), 128: (42, 55, 0.1, 0.1)}, 550: {4: (46, 237, 0.0, 0.1), 128: (72, 80, 0.2, 0.1)}},
    "AM-UDP, user": {233: {4: (37, 12), 128: (18, 33)}, 550: {4: (3.4, 18), 128: (25, 48)}},
    "AM-UDP, kernel": {233: {4: (32, 137, 0.1, 0.2), 128: (34, 36, 0.1, 0.1)}, 550: {4: (73, 222, 0.0, 0.2), 128: (48, 185, 0.1, 0.1)}},
}

MEASURED = {233: 4.0, 400: 3.3, 550: 3.7}  # o_s + o_r of the general layer, relative to the special one's, by MHz
PREDICTED = {233: 3.30, 550: 2.39, 5000: 2.12}  # the same, by the model
SHARES_MEASURED = {233: (0.21, 0.11), 550: (0.34, 0.25)}  # of I/O in o_s + o_r, in section 3.1: special, general
SHARES_PREDICTED = {5000: (0.65, 0.53)}  # in section 3.2
SHARES = SHARES_MEASURED | SHARES_PREDICTED
CYCLES_PER_BYTE = 1.65  # of the special layer's long messages
BUDGET = 10240  # instructions that a page of 4096 bytes is worth, of a processor that is fast enough
REGISTERED_US = 10  # about what a page's registration with the card took
REGISTERED_CYCLES, REGISTERED_MB = 3, 133  # about, a byte and a second, of registering more than 64 KB at 400 MHz, which "approaches copying cost"
MEMORY_GROWTH, CLOCK_GROWTH = 0.35, 0.40  # a year, of STREAM's memory bandwidth and of the clock
YEAR, AVAILABLE_MHZ, PREDICTED_YEAR = 2000, 1000, 2005  # when it was written, the processors of that time, and what it predicts for
PAGE = 4096
CPI = 2.0  # which the paper assumes for page tables, "consistent with" those of both layers

NOW_BUS = (9, 33e6)  # cycles of an operation, Hz
LATER_BUS = (7, 66e6)
FASTER_BUS = (7, 133e6)  # the footnote's "optimistic assumption"
FASTER = ((3000, LATER_BUS, 2.25), (3000, FASTER_BUS, 2.30), (5000, FASTER_BUS, 2.12))  # the ratios that it gives


def bus_of(mhz):
    """The I/O bus that goes with a processor of the paper's, or of its predictions."""
    return NOW_BUS if mhz <= 550 else LATER_BUS


# ---- LogP from bursts ----


def parameters(os, g, rtt):
    """
    o_r, L, and o_r by each of two rules: of a receiver that is the slower end, g = o_s + 2 o_r, which the paper uses, and of a sender
    that is, g = 2 o_s + o_r. The paper's needs an o_r above o_s, and both say the same of that: o_r is by the rule that g supports.
    RTT = 3 o_s + 2 o_r + 2 L, in which an o_r below 0 counts as 0.
    """
    by_receiver, by_sender = (g - os) / 2, g - 2 * os
    o_r = by_receiver if by_receiver > os else by_sender
    return o_r, (rtt - 3 * os - 2 * max(0, o_r)) / 2, by_receiver, by_sender


def kernel_shares(mhz, messages):
    """The kernel's part of the general layer's cycles, as three ways to read table 2: kernel of total, of user and kernel, and what the user's part leaves of the total."""
    total, user, kernel = (table[mhz][messages][1] for table in (GENERAL, GENERAL_USER, GENERAL_KERNEL))
    return kernel / total, kernel / (user + kernel), 1 - user / total


def growth(before, after, years):
    """A year."""
    return (after / before) ** (1 / years) - 1


def events(short, long):
    """
    What a message's receiving causes, of what sender's messages cause in short and in long bursts: by the rule for the special
    layer, whose sender receives twice, and by the one for the general layer, whose sender sends twice.
    """
    return (long - short) / 2, long - 2 * short


# ---- equation 1 ----


def seconds(instructions, cpi, hz, operations, bus):
    """(of the processor's instructions, of the I/O bus's operations)"""
    cycles, bus_hz = bus
    return instructions * cpi / hz, operations * cycles / bus_hz


def overheads(table, sends_twice):
    """Of o_s + o_r: instructions, cycles, operations. The published tables do not say what their authors made of them."""
    return tuple(short + events(short, long)[sends_twice] for short, long in zip(table[4], table[128]))


def sending(table, mhz, bus=None, cpi=CPI):
    """Of o_s alone, by the counts of 233 MHz: (seconds of instructions, of bus operations)."""
    instructions, _, operations = table[233][4]
    return seconds(instructions, cpi, mhz * 1e6, operations, bus or bus_of(mhz))


def share(times):
    """Of what does not grow with the clock."""
    return times[1] / sum(times)


class Reading:
    """A way to read the published counts: those of 233 MHz, which stay as they are."""

    def __init__(self, name, sends_twice, cpi):
        self.name = name
        self.layers = []
        for table, general in ((SPECIAL, False), (GENERAL, True)):
            instructions, cycles, operations = overheads(table[233], sends_twice and general)
            self.layers.append((instructions, cpi or cycles / instructions, operations))

    def times(self, mhz, bus=None):
        """Of the special layer and of the general one: (seconds of instructions, of bus operations)."""
        return [seconds(instructions, cpi, mhz * 1e6, operations, bus or bus_of(mhz)) for instructions, cpi, operations in self.layers]

    def of(self, mhz, bus=None):
        """(ratio of general to special, share of I/O in the special layer, in the general one)"""
        times = self.times(mhz, bus)
        special, general = (sum(parts) for parts in times)
        return general / special, times[0][1] / special, times[1][1] / general

    def limit(self):
        """The ratio if instructions took no time."""
        return self.layers[1][2] / self.layers[0][2]

    def error(self):
        """The greatest, of the predicted ratios."""
        return max(abs(self.of(mhz)[0] / ratio - 1) for mhz, ratio in PREDICTED.items())


def readings():
    return [Reading(f"{rule}, {told}", twice, cpi) for twice, rule in ((True, "each layer's rule for events"), (False, "both by g = o_s + 2 o_r"))
            for cpi, told in ((None, "CPI as in the tables"), (CPI, f"CPI {CPI}"))]


def nearest():
    return min(readings(), key=Reading.error)


def from_shares(mhz, bus=None):
    """As Reading.of, from what was published of 233 MHz: the predicted ratio, and the shares of I/O."""
    parts = []
    for whole, share in zip((1, PREDICTED[233]), SHARES[233]):
        cycles, hz = bus or bus_of(mhz)
        parts.append((whole * (1 - share) * 233 / mhz, whole * share * (cycles / hz) / (NOW_BUS[0] / NOW_BUS[1])))
    special, general = (sum(part) for part in parts)
    return general / special, parts[0][1] / special, parts[1][1] / general


# ---- equations 2 and 3 ----


def budget(copy_s, hz, cpi=CPI):
    """How many instructions the time of a copy is worth."""
    return copy_s * hz / cpi


def cycles_per_byte(instructions, page=PAGE, cpi=CPI):
    """How many cycles of the processor a byte's copy takes, if a page's is worth so many instructions."""
    return instructions * cpi / page


# ---- what stands for the I/O bus today ----

LINE = 64
RING_HEADER = 12  # virtio's, before each frame


def lines(frame, in_batches):
    """
    Cache lines that go from one core to the other for a frame of so many bytes over virtio: its bytes, and its part of the ring.
    A descriptor has 16 bytes, an available entry 2, a used one 8. Alone, a frame moves a line of each, and those of both indices;
    in batches, what it fills of them.
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
    print(f"\n{BUDGET} instructions a page at CPI {CPI}: {cycles_per_byte(BUDGET):.1f} cycles a byte")
    return 0


if __name__ == "__main__":
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from programs import exit_with
    exit_with(main)
