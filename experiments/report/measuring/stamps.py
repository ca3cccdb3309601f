"""stamps.py - makes round trips and their parts from the records of a vstamp on each edge of both ends."""
import os
import re
import tempfile

import lab as labs

ENDS = ("client", "server")
AWAKE = ("wake", "receive", "received")
DONE = ("transmit", "sent")


def nodes_of(graph):
    """Returns a graph's vstamps in the order of the file, which is from the top down."""
    with open(graph, encoding="utf-8") as file:
        return re.findall(r"^\t(\w+) \[protocol=vstamp", file.read(), re.M)


def read(path):
    """Returns (a stamp's cost in nanoseconds, [(nanoseconds, what)])."""
    with open(path, encoding="utf-8") as file:
        count, cost = re.search(r"; (\d+) cost (\d+) ns", file.readline()).groups()
        return int(cost) / int(count), [(int(ns), what) for ns, what in map(str.split, file)]


def marks_of(nodes, sleeps):
    """Returns the marks between a driver's wake-up and its next sleep, in order, if one message arrives and one leaves."""
    port = nodes[-1]
    marks = [(port, what) for what in (AWAKE if sleeps else AWAKE[1:])]
    marks += [(node, "up") for node in reversed(nodes)] + [(node, "down") for node in nodes]
    return marks + [(port, what) for what in DONE] + ([(port, "sleep")] if sleeps else [])


class End:
    """The visits of messages at one end: the times of each visit's marks, in nanoseconds."""

    def __init__(self, prefix, nodes, marks):
        rank = {mark: number for number, mark in enumerate(marks)}
        stamps, costs = [], []
        for node in nodes:
            cost, found = read(prefix + node)
            costs.append(cost)
            stamps += [(ns, rank[node, what]) for ns, what in found if (node, what) in rank]
        self.cost_ns = labs.median(costs)
        self.begun = sum(number == 0 for _, number in stamps)
        self.visits = cut(sorted(stamps), len(marks))


def cut(stamps, length):
    """Returns complete visits only, without those in which another message intervened or the driver did not sleep."""
    numbers, wanted = [number for _, number in stamps], list(range(length))
    starts = [at for at, number in enumerate(numbers) if number == 0 and numbers[at:at + length] == wanted]
    return [[ns for ns, _ in stamps[at:at + length]] for at in starts]


def steps(visit, last):
    return [after - before for before, after in zip(visit, visit[1:last + 1])]


def trips(client, server, last):
    """
    Returns round trips, each from one visit of the client to the next, as (nanoseconds in total, outside both ends, the client's
    steps, the server's steps). The clocks of two processes are not compared: the time outside is the client's pause minus the
    server's visit within it. last: the number of the mark `sent`.
    """
    found, at = [], 0
    for before, after in zip(client.visits, client.visits[1:]):
        begin, end, inside = before[last], after[0], []
        while at < len(server.visits) and server.visits[at][0] + server.visits[at][last] < 2 * end:
            visit = server.visits[at]
            if visit[0] + visit[last] > 2 * begin:
                inside.append(visit)
            at += 1
        if len(inside) == 1:
            outside = end - begin - (inside[0][last] - inside[0][0])
            found.append((end - before[0], outside, steps(before, last), steps(inside[0], last)))
    return found


def mean(columns):
    return [sum(column) / len(column) for column in zip(*columns)]


def average(found):
    """Returns the means of round trips, in the form of trips()."""
    total, outside, client, server = zip(*found)
    return *mean(zip(total, outside)), mean(client), mean(server)


def typical(found):
    """Returns the average of the middle fifth of a run's trips() by duration, so that the parts add up to nearly the median."""
    return average(sorted(found)[len(found) * 2 // 5:len(found) * 3 // 5])


class Pool:
    """The round trips of several runs of one graph."""

    def __init__(self, graph, driver):
        self.graph, self.driver = graph, driver
        self.nodes = nodes_of(graph)
        self.marks = marks_of(self.nodes, driver != "poll")
        self.last = self.marks.index((self.nodes[-1], "sent"))
        self.costs, self.documents, self.begun, self.trips, self.typicals = [], [], 0, 0, []

    def run(self, lab, program, rounds):
        found = lab.once(["stamps", self.graph, self.driver, program, rounds], lambda: self.measure(lab, program, rounds))
        self.documents.append(found["document"])
        self.costs += found["costs_ns"]
        self.begun += found["begun"]
        self.trips += found["trips"]
        self.typicals.append(found["typical_ns"])

    def measure(self, lab, program, rounds):
        with tempfile.TemporaryDirectory() as work:
            prefix = {end: os.path.join(work, end + ".") for end in ENDS}
            there = lab.far.output("mktemp -d").strip() if lab.far else work
            files = [f"--set={end}:{node}.file={place}/{end}.{node}" for end, place in zip(ENDS, (work, there)) for node in self.nodes]
            try:
                document = lab.run_now(program, *plain(lab, self.driver, rounds), "--graph", self.graph, *files)
                if lab.far:
                    self.fetch(lab, there, prefix["server"])
            finally:
                if lab.far:
                    lab.far.remove(there)
            client, server = (End(prefix[end], self.nodes, self.marks) for end in ENDS)
        found = trips(client, server, self.last)
        if len(found) < 5:
            raise labs.Failed(f"{self.graph}: only {len(found)} of {client.begun} round trips are usable")
        return {"document": document, "costs_ns": [client.cost_ns, server.cost_ns], "begun": client.begun, "trips": len(found), "typical_ns": typical(found)}

    def fetch(self, lab, there, prefix):
        """Copies the server's stamps from the other machine."""
        for node in self.nodes:
            with open(prefix + node, "w", encoding="utf-8") as file:
                file.write(lab.far.output(f"cat {there}/server.{node}"))

    def typical(self):
        """Returns the mean of all runs' typical()."""
        return average(self.typicals)


def plain(lab, driver, rounds):
    """Returns the options of a program without handoffs."""
    return [*lab.ends(), "--mode", "ipp", "--handoff", "none", "--driver", driver, "--rounds", str(rounds)]
