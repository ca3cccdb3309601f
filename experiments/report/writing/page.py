"""page.py - writes the results of the experiments: an HTML page with its pictures, and JSON and CSV files."""
import csv
import html
import io
import json
import os
import re
import subprocess
import tempfile

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10,
    "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#010203")})  # see inline()
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

import hero
import lab as labs
import near
import repeated
import trips

INTRO = """A message arrives for a sleeping thread. In <b>regular</b> mode the driver wakes a thread, which carries the message up
through the protocols: one context switch per message. In <b>interrupt protocol processing</b> (IPP) the driver carries it up itself, and
hands it to a thread (a <b>handoff</b>) only where it must: at a marked edge of the graph, if a protocol has to wait, or if the message
exceeds the driver's time <b>budget</b>. What does that save, and when is it a mistake?"""

METHOD = """
<p>Configurations to be compared were measured in turn, in short blocks of one run, each following each other one equally often. Each run was made {repeats} times, unless its chapter
gives another number. A figure is the median of these unless it is called a mean; the brackets give the lowest and the highest, the <b>range of the
repetitions</b>. If repetitions were independent, this range would contain the true median with {confidence} confidence. They are not: the state
of the machine, or of the hypervisor below it, shifts all times of a chapter. The same quantity may therefore differ between chapters by more than its
ranges suggest (see <a href="#repeated">Measured more than once</a>). Nothing is corrected for the number of checks.</p>
<p>Times are full round trips unless they are called half a round trip. Savings and ratios are computed within each repetition; the page shows their median
and range, which may differ from the difference or quotient of two medians. A percentage saved is a share of the slower round trip. In
<code>measured.jsonl</code>, the n-th line of a name is its n-th repetition.</p>
<h3>Verdicts of checks and answers</h3>
<ul>
<li><b>A difference</b>: yes if it has the stated sign in every repetition; NO if it has the opposite sign in every repetition; otherwise unclear, also if it is
zero in one.</li>
<li><b>A ratio or a share</b>: yes if its whole range is within {near:.0%} of the published ratio (for a share, within {points:.0%} of the whole), or within the
limits that the check states; NO if none of the range is; otherwise unclear.</li>
<li><b>Each pair of rows in a table of 1994</b>: {ties}. Orders and ties are counted separately.</li>
<li><b>A break-even</b> is interpolated between two measured lengths of work, by the logarithm of the work.</li>
<li>Any other rule is in the check's text, or beside it in the chapter's JSON (<code>rule</code>).</li>
</ul>
<p>An answer rests on the checks marked {bears}, or on all checks of its chapter if none is marked. Marked checks cover what the answer states and what the paper
states about the same thing, not details. <b>Contradicted</b>: a marked check says NO, or more checks of the chapter say NO than yes. <b>Unclear</b>: a marked check
is unclear, fewer than half of all checks say yes, or other programs used a processor during the run (a disturbed run decides nothing). <b>Confirmed in part</b>: all
marked checks say yes, but some others do not. <b>Confirmed</b>: all say yes. If the cache-line time jumped, every check on times across cores counts as unclear in all
counts, lists and answers; it is marked {undecided}, followed by the verdict that its figures alone would give (in the JSON, <code>by_figures</code>).</p>
<h3>Threats to validity</h3>
<ul>
<li>The machines of 1993 to 2001 were slower, and some of their parts more so than others: compare curves and ratios, not microseconds.</li>
<li>Hosts are {hosts}. Across two cores, most of a round trip is waking a
halted processor; on one core no processor has to be woken. Both are therefore shown.</li>
<li>A "driver" is a thread that sleeps until an event descriptor is written to, not a kernel's interrupt handler.</li>
<li>Every figure across processors depends on the time that a cache line takes from one to the other.</li>
</ul>
"""

BEARS, UNDECIDED = "\u25cf", "\u25cb"  # marks: the answer rests on this check; a jump makes this check unclear
JUMP = "a jump in the cache-line time between the cores, which affects every time across cores"
JUMPED = """During this chapter the cache-line time between the cores jumped: from the last reading before the chapter to its last one, it ranged from {} to {} ns. The times across
cores mix several such values, so the checks on them are unclear: each is marked \u25cb, followed by the verdict that its figures alone would give. Times on one core, virtual time and counts are not
affected."""

STYLE = """
:root { --text: #1f2328; --faint: #667; --line: #d5d9de; --back: #fff; --box: #f5f6f8; }
@media (prefers-color-scheme: dark) { :root { --text: #dfe3e8; --faint: #99a; --line: #3a4048; --back: #15181c; --box: #1f242a; } }
* { box-sizing: border-box; } a { color: #0b57d0; }
@media (prefers-color-scheme: dark) { a { color: #7fb0ff; } }
body { font: 1rem/1.5 system-ui, sans-serif; margin: 0; color: var(--text); background: var(--back); }
main { max-width: 60rem; margin: 0 auto; padding: 1rem; }
nav { font-size: .85rem; } nav ol { padding-left: 1.4rem; margin: .3rem 0; } nav a { color: var(--faint); text-decoration: none; }
#contents { position: absolute; opacity: 0; } label { display: none; }
@media (min-width: 85rem) { body { display: grid; grid-template-columns: 17rem minmax(0, 62rem); }
  nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 2rem 0 0 1.5rem; } main { margin: 0; } }
@media (max-width: 85rem) { nav { padding: .5rem 1rem; border-bottom: 1px solid var(--line); } nav ol { columns: 2; } }
h1, h2, h3 { line-height: 1.25; } h1 { font-size: 1.7rem; margin: .5rem 0; } h2 { font-size: 1.15rem; margin: 0 0 .4rem; } h3 { font-size: 1rem; }
section { border-top: 1px solid var(--line); padding: .8rem 0 .3rem; }
.about { color: var(--faint); font-size: .85rem; } .about code { color: var(--text); }
code { display: inline-block; max-width: 100%; overflow-x: auto; white-space: nowrap; vertical-align: bottom; }
section > p { margin: .3rem 0; } .five li { margin: .35rem 0; }
.verdict { font-size: .78rem; font-weight: 600; border: 1px solid; border-radius: .8em; padding: .05em .6em; white-space: nowrap; }
table.answers td { text-align: left; } table.answers td + td + td { text-align: right; white-space: nowrap; padding: .18em .3em .18em 1em; }
.confirmed, .yes { color: #1a7f37; } .contradicted, .no { color: #c5302b; } .unclear { color: #9a6700; }
@media (prefers-color-scheme: dark) { .confirmed, .yes { color: #4ac26b; } .contradicted, .no { color: #ff7b72; } .unclear { color: #d29922; } }
.wide { overflow-x: auto; }
@media print, (min-width: 60rem) { .beside:has(figure):has(table) { display: grid; grid-template-columns: minmax(0, 2fr) minmax(0, 3fr); gap: 1.5rem; align-items: center; }
  .beside td, .beside th { white-space: normal; padding: .18em .4em; } }
table { border-collapse: collapse; margin: .6rem 0; font-size: .88rem; font-variant-numeric: tabular-nums; }
.note { color: var(--faint); font-size: .8rem; margin: -.3rem 0 .6rem; }
caption { text-align: left; color: var(--faint); padding: .2em 0; }
th, td { padding: .18em .7em; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: normal; padding-left: 0; }
table.words td { text-align: left; white-space: normal; }
tr.published td { color: var(--faint); }
details { margin: .3rem 0; } summary { cursor: pointer; color: var(--faint); font-size: .9rem; }
details > *:not(summary) { margin-left: 1rem; }
section > details { display: inline-block; vertical-align: top; margin-right: 2rem; } section > details[open] { display: block; }
ul.checks { list-style: none; padding-left: 0; font-size: .9rem; } ul.checks li { padding-left: 4.5em; text-indent: -4.5em; margin: .15em 0; }
ul.checks span { display: inline-block; width: 4.5em; text-indent: 0; font-weight: 600; }
figure { margin: .6rem 0; } figure svg { max-width: 100%; height: auto; } figcaption { font-size: .88rem; color: var(--faint); }
.narrow { display: none; }
figure.small { display: inline-block; vertical-align: top; width: 22rem; max-width: 100%; margin-right: 1rem; }
figure.graph { display: inline-block; vertical-align: top; margin-right: 2rem; } figure.graph svg { background: #fff; border-radius: 4px; }
.disturbed { background: var(--box); border-left: 4px solid #9a6700; padding: .4em 1em; font-size: .9rem; }
@media (max-width: 40rem) { main { overflow-wrap: break-word; } td, th { white-space: normal; padding: .18em .3em; }
  figure, figure.graph { overflow-x: auto; margin-right: 0; max-width: 100%; } figure svg { max-width: none; } .narrow svg { max-width: 100%; } figcaption { position: sticky; left: 0; }
  label { display: block; cursor: pointer; } label::before { content: "\\25b8  "; } #contents:checked + label::before { content: "\\25be  "; }
  #contents:focus-visible + label { outline: 2px solid; } #contents:not(:checked) ~ * { display: none; } #contents:not(:checked) + label { display: block; }
  .verdict { white-space: normal; display: inline-block; max-width: 100%; } table.answers { font-size: .8rem; } table.answers td + td + td { white-space: normal; padding-left: .3em; } .answers .verdict { border: 0; padding: 0; } .answers tr > :nth-child(4) { display: none; }
  .broad { display: none; } .narrow { display: block; } nav ol { columns: 1; } ul.five { padding-left: 1.1rem; } details > *:not(summary) { margin-left: 0; } }
@media print { html { font-size: 10px; } nav, section details { display: none; } body { display: block; } section { break-inside: avoid; } }
"""


def text_of(words):
    return re.sub("`([^`]+)`", r"<code>\1</code>", re.sub(r"\bus\b", "µs", html.escape(words)))


def inline(text):
    """Returns an SVG document for embedding in the page, with the page's colour and font."""
    text = text[text.index("<svg"):].replace("#010203", "currentColor")
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text)


def slim(dot, names):
    """Returns the drawing of a graph, reduced to these nodes."""
    kept = {node for node, name in re.findall(r"^\s*(n\d+) \[.*<b>(\w+)</b>", dot, re.M) if name in names}
    lines = [line for line in dot.splitlines() if not (found := re.findall(r"\bn\d+\b(?= ->| \[|$)", line.split("[")[0] + "["))
             or set(found) <= kept]
    return "\n".join(line for line in lines if not line.lstrip().startswith("label="))


USUAL, SMALL = (8.6, 3), (3.6, 2.6)  # inches of a plot; two small ones fit side by side, or one on a narrow page


class Page:
    """The page being written; numbers its tables and figures."""

    def __init__(self, lab, out):
        self.lab, self.out = lab, out
        self.tables = self.figures = 0

    def plot(self, title, draw, name, size, narrow=None):
        """Returns the plot as HTML. narrow: another size, for a narrow page."""
        self.figures += 1
        drawn = self.drawn(draw, name, size)
        if narrow:
            drawn = f'<div class="broad">{drawn}</div><div class="narrow">{self.drawn(draw, None, narrow)}</div>'
        return f"<figure{' class=small' * (size == SMALL)}>{drawn}<figcaption>Figure {self.figures}. {text_of(title)}</figcaption></figure>"

    def drawn(self, draw, name, size):
        """Returns the picture for embedding in the page, and writes it to a file of this name (None: no file)."""
        figure = Figure(figsize=size, layout="tight")
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        axes.patch.set_alpha(0)
        draw(axes)
        for axis, kind in ((axes.xaxis, axes.get_xscale()), (axes.yaxis, axes.get_yscale())):
            if "log" in kind:
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter(NullFormatter())
        file = io.StringIO()
        # a salt per figure: otherwise figures share hatch ids, and a hatch is not drawn while the figure that defines it is hidden
        with matplotlib.rc_context({"svg.hashsalt": f"{self.figures} {size}"}):
            figure.savefig(file, format="svg", metadata={"Date": None})
        if name:
            with open(os.path.join(self.out, name + ".svg"), "w", encoding="utf-8") as svg:
                svg.write(re.sub("<svg[^>]*>", r'\g<0><rect width="100%" height="100%" fill="#ffffff"/>', file.getvalue(), count=1))
        return inline(file.getvalue())

    def picture(self, title, graph, labels):
        """Returns a graph as xk draws it, with labels on its edges, reduced to the nodes of labelled edges (no labels: all nodes)."""
        with tempfile.TemporaryDirectory() as work:
            source = os.path.join(work, "graph.dot")
            subprocess.run([os.path.join(self.lab.build, "xk"), "draw", self.lab.graph(graph), "-o", source], check=True)
            with open(source, encoding="utf-8") as file:
                dot = file.read()
        if labels:
            dot = slim(dot, {name for edge in labels for name in edge})
        names = {name: node for node, name in re.findall(r"^\s*(n\d+) \[.*<b>(\w+)</b>", dot, re.M)}
        for (upper, lower), (text, is_stressed) in labels.items():
            edge = f"{names[upper]} -> {names[lower]} ["
            style = 'fontcolor="#c0392b", color="#c0392b", penwidth=2, ' if is_stressed else ""
            dot = dot.replace(edge, f'{edge}label="  {text}", {style}')
        svg = subprocess.run(["dot", "-Tsvg"], input=dot, stdout=subprocess.PIPE, text=True, check=True).stdout
        self.figures += 1
        return (f'<figure class="graph">{inline(svg)}<figcaption>Figure {self.figures}. {text_of(title)}</figcaption></figure>')

    def table(self, title, head, rows, checked="", name=None):
        self.tables += 1
        link = f' (<a href="{name}.csv">CSV</a>)' if name else ""
        lines = [f'<div class="wide"><table><caption>Table {self.tables}. {text_of(title)}{link}</caption>']
        if any(head):
            lines.append("<tr>" + "".join(f"<th>{text_of(text)}</th>" for text in head) + "</tr>")
        for row in rows:
            kind = ' class="published"' if "published" in row[0] else ""
            lines.append(f"<tr{kind}>" + "".join(f"<td>{text_of(text)}</td>" for text in row) + "</tr>")
        if name:
            with open(os.path.join(self.out, name + ".csv"), "w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([head, *rows])
        return "\n".join(lines + ["</table></div>"] + [f'<p class="note">{text_of(checked)}</p>'] * bool(checked))

    # ---- a question ----

    def section(self, number, section):
        shown, folded = [], []
        for place, (kind, *what) in enumerate(section.parts):
            name = f"{section.name}-{place}"
            if kind == "text":
                folded.append(("text", what[0]))
            elif kind == "plot":
                title, draw, shows, small = what
                folded.append(("plot", f"{title} {shows if section.verdict() else ''}".strip(), draw, name, SMALL if small else USUAL))
            elif kind == "table":
                folded.append(("table", *what, name))
            else:
                folded.append(("graph", *what))
        first = next((part for part in folded if part[0] == "plot"), None)
        if section.compared:
            shown.append(self.table("Measured here, and published.", ("", "here", "published", "agrees"), section.compared_rows()))
        if first:
            shown.append(self.plot(*first[1:4], (5.4, 2.6) if section.compared else (8.6, 2.5)))
            folded.remove(first)
        write = {"text": lambda words: f"<p>{text_of(words)}</p>", "plot": self.plot, "table": self.table, "graph": self.picture}
        body = "\n".join(write[kind](*what) for kind, *what in folded)
        return (f'<section id="{section.name}"><h2>{number}. {text_of(section.question)}</h2><p>{answer(section)}</p>{jumped(section)}'
                + '<div class="beside">' + "\n".join(shown) + "</div>"
                + f'<details><summary>How it was measured, with all tables (<a href="{section.name}.json">JSON</a>)</summary>{body}</details>'
                + checks(section) + "</section>")


def badge(section, more=""):
    return f'<span class="verdict {labs.VERDICTS[section.verdict()]}">{section.verdict_text()}{more}</span>'


def verdict(section):
    agree, _, _ = section.counts()
    bear, _, _ = section.counts(section.bearing())
    return badge(section, f": {bear} of {len(section.bearing())} {BEARS} agree, {agree} of {len(section.checks)} in all")


def mark(section, check):
    """Returns a check's marks: whether the answer rests on it and, if a jump makes it unclear, the verdict of its figures."""
    bears = f"{BEARS} " * any(check is bearing for bearing in section.bearing())
    return bears if section.decides(check) else f"{bears}{UNDECIDED} ({labs.AGREES[check['agrees']]}) "


def answer(section):
    return f"{text_of(section.answer_text())} {verdict(section)}"


def jumped(section):
    return f"<p class=\"note\">{JUMPED.format(*section.line_ns)}</p>" if section.jumped() else ""


def checks(section):
    words = [labs.AGREES[section.counted(check)] for check in section.checks]
    items = "\n".join(f'<li id="{section.name}-check-{number}"><span class="{word.lower()}">{word}</span> {mark(section, check)}{text_of(check["text"])}</li>'
                      for number, (word, check) in enumerate(zip(words, section.checks), 1))
    return f'<details><summary>{section.counts()[0]} of {len(section.checks)} agree</summary><ul class="checks">{items}</ul></details>'


# ---- the page ----


def about(lab):
    run = lab.about
    return (f'<p class="about">{html.escape(run["date"])}, commit {html.escape(run["commit"])}, {run["minutes"]} minutes on '
            f'{html.escape(lab.machine.doctor["machine"]["processor"])}. To repeat: <code>{html.escape(run["command"])}</code></p>')


def warnings(lab, named):
    cut = f'<div class="disturbed"><p>Cut short: {html.escape(lab.cut_short)}. <code>--resume</code> measures the rest.</p></div>'
    if not lab.disturbed:
        return cut if lab.cut_short else ""
    titles = [re.sub(r"^(\w+):", lambda name: f"{named[name[1]].title}:" if name[1] in named else name[0], text) for text in lab.disturbed]
    items = "".join(f"<li>{text_of(text)}</li>" for text in dict.fromkeys(titles))
    words = "Other activity disturbed this run; the answers affected are marked unclear."
    return ((cut if lab.cut_short else "")
            + f'<div class="disturbed"><details><summary>{words}</summary><ul>{items}</ul></details></div>')


def answers(sections):
    """Returns the table of the verdicts on all chapters' answers."""
    rows = "\n".join(f'<tr><td><a href="#{section.name}">{text_of(section.title)}</a></td><td>{badge(section)}</td>'
                     + "".join(f"<td>{counts_text(section, found)}</td>" for found in (section.bearing(), section.checks)) + "</tr>" for section in sections)
    return (f'<div class="wide"><table class="answers"><tr><th>The answers of all chapters</th><th></th><th>checks it rests on ({BEARS})</th><th>all checks</th></tr>\n{rows}</table></div>'
            '<p class="note">Verdicts of the checks. <a href="#method">Method</a> explains when they make an answer confirmed, unclear or contradicted.</p>')


def counts_text(section, found):
    """Returns the counts of these checks' verdicts, and whether the run was disturbed."""
    words = [f"{count}\u00a0{word}" for count, word in zip(section.counts(found), labs.AGREES.values()) if count]
    return ", ".join(words + ["disturbed"] * bool(section.disturbed and not section.virtual))


def measured_again(page, found):
    """Returns the section on quantities that several chapters measured."""
    if not found:
        return ""
    rows = [(row["what"], "; ".join(f"{chapter}: {labs.spread(us)}" for chapter, us in row["found"].items()), f"{row['ratio']:.2f}") for row in found]
    return ('<section id="repeated"><h2>Measured more than once</h2><p>Several chapters measure these quantities, independently and minutes apart. They show how reproducible a time is; '
            "the range of one chapter's repetitions does not. Checks compare only what one chapter measured in turn, except the check on a wake-up.</p>"
            + page.table("The same quantity in several chapters, in microseconds", ("", "median and range of its repetitions", "highest median / lowest"), rows)
            + "</section>\n")


def begun(section, number, check):
    """Returns the beginning of a check, with a link to all of it."""
    text = labs.short(check["text"])
    more = f' <a href="#{section.name}-check-{number}">...</a>' if text != check["text"] else ""
    return f"{mark(section, check)}{text_of(text.removesuffix(' ...') if more else text)}{more}"


def summary(sections):
    """Returns the lists of all checks that disagree or are unclear, and of all comparisons that are not checked."""
    count = sum(len(section.checks) for section in sections)
    found = {words: [(section, begun(section, number, check)) for section in sections for number, check in enumerate(section.checks, 1) if section.counted(check) is agrees]
             for words, agrees in (("disagree", False), ("are unclear", None))}
    found[""] = [(section, text_of(f"{what}: {why}.")) for section in sections for what, why in section.unchecked]
    lists = []
    for words, texts in found.items():
        items = "".join(f'<li><a href="#{section.name}">{text_of(section.title)}</a><ul>{"".join(mine)}</ul></li>' for section in sections
                        if (mine := [f"<li>{text}</li>" for one, text in texts if one is section]))
        head = f"{len(texts)} of {count} checks {words}" if words else f"{len(texts)} comparisons with published figures are not checked"
        lists.append(f"<details><summary>{head}</summary><ul>{items}</ul></details>" if texts else f"<p>{head}</p>")
    met = "".join(f'<li><a href="#{section.name}">{text_of(section.title)}</a>: {section.line_ns[0]} to {section.line_ns[1]} ns</li>'
                  for section in sections if section.jumped())
    lists.append(f"<details><summary>Experiments with {JUMP}</summary><ul>{met}</ul></details>" if met else f"<p>No experiment had {JUMP}</p>")
    return "\n".join(lists)


def machine(lab):
    rows = "".join(f"<tr><td>{text_of(what)}</td><td>{text_of(value)}</td></tr>" for what, value in lab.machine.facts())
    return f'<div class="wide"><table class="words">{rows}</table></div><p><a href="machine.json">JSON</a></p>'


def write_json(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)


def write(sections, lab, out):
    """Writes index.html, machine.json and hero.svg, and NAME.json, NAME-*.csv and NAME-*.svg of each section."""
    page = Page(lab, out)
    named = {section.name: section for section in sections}
    top = page.plot(hero.TITLE, lambda axes: hero.draw(axes, named), "hero", (8.6, 3.2), (4.1, 3.4)) if hero.can(named) else ""
    five = "".join(f'<li><a href="#{name}">{text_of(named[name].question)}</a> {answer(named[name])}</li>'
                   for name in hero.FIVE if name in named)
    again = repeated.rows(named, lab.apart())
    body = "\n".join(page.section(number, section) for number, section in enumerate(sections, 1))
    method = METHOD.format(repeats=lab.repeats, confidence=labs.confidence(lab.repeats), hosts=lab.hosts(), near=near.NEAR, points=near.POINTS, ties=text_of(trips.tie_rule(lab.handoff_us)),
                           bears=BEARS, undecided=UNDECIDED)
    links = "".join(f'<li><a href="#{section.name}">{text_of(section.title)}</a></li>' for section in sections)
    with open(os.path.join(out, "index.html"), "w", encoding="utf-8") as file:
        file.write(
            '<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Interrupt protocol processing</title><style>{STYLE}</style>\n"
            f'<nav><input type="checkbox" id="contents"><label for="contents">Contents</label><ol>{links}</ol><a href="#repeated">Measured more than once</a><br><a href="#machine">The machine</a><br><a href="#method">Method</a></nav>\n<main>'
            f"<h1>What interrupt protocol processing saves on this machine</h1>{about(lab)}{warnings(lab, named)}<p>{INTRO}</p>{top}"
            f'{answers(sections)}<ul class="five">{five}</ul>\n{summary(sections)}\n{body}\n{measured_again(page, again)}<section id="machine"><h2>The machine</h2>{machine(lab)}</section>\n'
            f'<section id="method"><h2>Method</h2>{method}</section></main>\n</html>\n')
    write_json(os.path.join(out, "machine.json"), lab.machine.data() | {"repeated": again, "repeated_told": [
        [f"{us[name]:.1f}" for us in row["found"].values() for name in us] + [f"{row['ratio']:.2f}"] for row in again]})
    for section in sections:
        document = {key: getattr(section, key) for key in ("title", "question", "answer", "why", "data", "disturbed", "line_ns")}
        document["checks"] = section.checks_document()
        document["verdict"] = section.verdict_text()
        document["told"] = section.answer_text()
        document["counts"] = {name: dict(zip(labs.AGREES.values(), section.counts(found)), all=len(found)) for name, found in
                              (("stands_on", section.bearing()), ("all", section.checks))}
        document["parts"] = [[what for what in part if not callable(what)] for part in section.parts if part[0] != "graph"]
        document["pictures"] = [[title, os.path.relpath(lab.graph(graph), labs.ROOT), list(labels.values())] for kind, title, graph, labels in
                                (part for part in section.parts if part[0] == "graph")]
        document["compared"] = section.compared_rows()
        document["unjudged"] = section.unchecked
        write_json(os.path.join(out, section.name + ".json"), document)
