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

INTRO = """A message arrives for a sleeping thread. Usually the driver wakes a thread, which carries the message up through the
protocols: <b>regular</b> mode, one context switch per message. In <b>interrupt protocol processing</b> (IPP) the driver carries it up
itself, and gives it to a thread (a <b>handoff</b>) only where it must: at a marked edge of the graph, when a protocol has to wait, or
when the message has kept the driver too long (a <b>budget</b>). What does that save, and when is it a mistake?"""

METHOD = """
<p>Configurations that are compared were measured in turn, in short blocks of one run, in which each follows each other one equally often; each run was made {repeats} times, unless its chapter
names another number. A figure is the median of these, unless it is called a mean; the lowest and highest, in brackets, are the <b>range of the
repetitions</b>. Of independent draws, such a range would hold the true median with {confidence} confidence. Repetitions are not independent: what
the machine does, or the one below it, moves all times of a chapter, so that the same quantity in two chapters may differ by more than its
ranges say (see <a href="#repeated">Measured more than once</a>). Nothing is corrected for the number of checks.</p>
<p>Times are full round trips, unless half of one is named. What one configuration saves, and how many times as long it takes, is computed within
each repetition; shown are the median and the range of these, which need not be the difference or quotient of two medians. A percentage saved is of
the slower round trip. In <code>measured.jsonl</code>, the n-th line of a name is its n-th repetition.</p>
<h3>Verdicts of checks and answers</h3>
<ul>
<li><b>Of a difference</b>: yes, if it has the stated sign in every repetition; NO, if the opposite one in every repetition; otherwise unclear, also where
there is none in one.</li>
<li><b>Of a ratio or a share</b>: yes, if the whole range is within {near:.0%} of the published ratio ({points:.0%} of the whole, of a share), or within what the
check states; NO, if none of the range is; otherwise unclear.</li>
<li><b>Of every two rows of a table of 1994</b>: {ties}. Orders and ties are counted apart.</li>
<li><b>A break-even</b> is interpolated between two measured lengths of work, by the work's logarithm.</li>
<li>Other rules are in a check's words, or beside it in its chapter's JSON (<code>rule</code>).</li>
</ul>
<p>An answer stands on the checks marked {bears}, or on all of its chapter if none is: those of what it says, those of what the paper says of the same,
and not on details. <b>Contradicted</b>: one of them says NO, or of all checks of the chapter more say NO than yes. <b>Unclear</b>: one of them cannot tell, or
less than half of all say yes, or other programs used a processor meanwhile: a disturbed run decides nothing. <b>Confirmed in part</b>: those it stands on say yes,
others do not. <b>Confirmed</b>: all say yes. Where the time of a cache line jumped, every check on times across cores is unclear, in every count, list and answer; it
is marked {undecided}, and beside that stands what its figures alone would say (in the JSON, <code>by_figures</code>).</p>
<h3>Threats to validity</h3>
<ul>
<li>The machines of 1993 to 2001 were slower, and not all of their parts by as much: compare curves and ratios, not microseconds.</li>
<li>Hosts are {hosts}. Across two cores, most of a round trip is waking a
halted processor; on one core nothing has to be woken. So both are shown.</li>
<li>A "driver" is a thread that sleeps until an event descriptor is written to, not an interrupt handler of a kernel.</li>
<li>Every figure across processors moves with the time that a cache line takes from one to the other.</li>
</ul>
"""

BEARS, UNDECIDED = "\u25cf", "\u25cb"  # an answer stands on a check; a check is unclear because of a jump
JUMP = "a jump of a cache line's time between the cores, with which every time across cores changes"
JUMPED = """Meanwhile a cache line's time between the cores jumped: from the last reading before this chapter to its last one, it was {} to {} ns. The times across
cores are of more than one such time, and the checks on them are unclear: they are marked \u25cb, with what their figures alone would say. Those on one core, on virtual time, and counts, are not
concerned."""

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
.judged { color: var(--faint); font-size: .8rem; margin: -.3rem 0 .6rem; }
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
    """An SVG document as a part of a page, in the page's colour and font."""
    text = text[text.index("<svg"):].replace("#010203", "currentColor")
    return re.sub(r"font: ([\d.]+px) [^;\"]*", r"font: \1 system-ui, sans-serif", text)


def slim(dot, names):
    """The drawing of a graph with these nodes alone."""
    kept = {node for node, name in re.findall(r"^\s*(n\d+) \[.*<b>(\w+)</b>", dot, re.M) if name in names}
    lines = [line for line in dot.splitlines() if not (found := re.findall(r"\bn\d+\b(?= ->| \[|$)", line.split("[")[0] + "["))
             or set(found) <= kept]
    return "\n".join(line for line in lines if not line.lstrip().startswith("label="))


USUAL, SMALL = (8.6, 3), (3.6, 2.6)  # inches of a plot; two small ones stand side by side, or one on a narrow page


class Page:
    """What is written, with one number for each table and figure."""

    def __init__(self, lab, out):
        self.lab, self.out = lab, out
        self.tables = self.figures = 0

    def plot(self, title, draw, name, size, narrow=None):
        """narrow: another size, for a narrow page."""
        self.figures += 1
        drawn = self.drawn(draw, name, size)
        if narrow:
            drawn = f'<div class="broad">{drawn}</div><div class="narrow">{self.drawn(draw, None, narrow)}</div>'
        return f"<figure{' class=small' * (size == SMALL)}>{drawn}<figcaption>Figure {self.figures}. {text_of(title)}</figcaption></figure>"

    def drawn(self, draw, name, size):
        """The picture as a part of the page, and as a file of this name (None: not)."""
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
        # a salt of its own: a hatch that another figure names alike would not be drawn while that one is hidden
        with matplotlib.rc_context({"svg.hashsalt": f"{self.figures} {size}"}):
            figure.savefig(file, format="svg", metadata={"Date": None})
        if name:
            with open(os.path.join(self.out, name + ".svg"), "w", encoding="utf-8") as svg:
                svg.write(re.sub("<svg[^>]*>", r'\g<0><rect width="100%" height="100%" fill="#ffffff"/>', file.getvalue(), count=1))
        return inline(file.getvalue())

    def picture(self, title, graph, labels):
        """The edges of a graph that have words, as xk draws it."""
        with tempfile.TemporaryDirectory() as work:
            source = os.path.join(work, "graph.dot")
            subprocess.run([os.path.join(self.lab.build, "xk"), "draw", self.lab.graph(graph), "-o", source], check=True)
            with open(source, encoding="utf-8") as file:
                dot = file.read()
        if labels:
            dot = slim(dot, {name for edge in labels for name in edge})
        names = {name: node for node, name in re.findall(r"^\s*(n\d+) \[.*<b>(\w+)</b>", dot, re.M)}
        for (upper, lower), (words, marked) in labels.items():
            edge = f"{names[upper]} -> {names[lower]} ["
            look = 'fontcolor="#c0392b", color="#c0392b", penwidth=2, ' if marked else ""
            dot = dot.replace(edge, f'{edge}label="  {words}", {look}')
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
        return "\n".join(lines + ["</table></div>"] + [f'<p class="judged">{text_of(checked)}</p>'] * bool(checked))

    # ---- a question ----

    def section(self, number, section):
        shown, folded = [], []
        for place, (kind, *what) in enumerate(section.parts):
            name = f"{section.name}-{place}"
            if kind == "text":
                folded.append(("text", what[0]))
            elif kind == "plot":
                title, draw, seen, small = what
                folded.append(("plot", f"{title} {seen if section.verdict() else ''}".strip(), draw, name, SMALL if small else USUAL))
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
    """Whether the answer stands on a check, and what an undecided one would say."""
    bears = f"{BEARS} " * any(check is bearing for bearing in section.bearing())
    return bears if section.decides(check) else f"{bears}{UNDECIDED} ({labs.AGREES[check['agrees']]}) "


def answer(section):
    return f"{text_of(section.answer_text())} {verdict(section)}"


def jumped(section):
    return f"<p class=\"judged\">{JUMPED.format(*section.line_ns)}</p>" if section.jumped() else ""


def checks(section):
    words = [labs.AGREES[section.counted(check)] for check in section.checks]
    items = "\n".join(f'<li id="{section.name}-check-{number}"><span class="{word.lower()}">{word}</span> {mark(section, check)}{text_of(check["text"])}</li>'
                      for number, (word, check) in enumerate(zip(words, section.checks), 1))
    return f'<details><summary>{section.counts()[0]} of {len(section.checks)} agree</summary><ul class="checks">{items}</ul></details>'


# ---- the page ----


def about(lab):
    told = lab.about
    return (f'<p class="about">{html.escape(told["date"])}, commit {html.escape(told["commit"])}, {told["minutes"]} minutes on '
            f'{html.escape(lab.machine.doctor["machine"]["processor"])}. To repeat: <code>{html.escape(told["command"])}</code></p>')


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
    """What became of every chapter's answer."""
    rows = "\n".join(f'<tr><td><a href="#{section.name}">{text_of(section.title)}</a></td><td>{badge(section)}</td>'
                     + "".join(f"<td>{counts_text(section, found)}</td>" for found in (section.bearing(), section.checks)) + "</tr>" for section in sections)
    return (f'<div class="wide"><table class="answers"><tr><th>The answers of all chapters</th><th></th><th>checks it stands on ({BEARS})</th><th>all checks</th></tr>\n{rows}</table></div>'
            '<p class="judged">What the checks say. <a href="#method">Method</a> has the rule by which they make an answer confirmed, unclear or contradicted.</p>')


def counts_text(section, found):
    """What these checks say, and whether that decides nothing."""
    words = [f"{count}\u00a0{word}" for count, word in zip(section.counts(found), labs.AGREES.values()) if count]
    return ", ".join(words + ["disturbed"] * bool(section.disturbed and not section.virtual))


def measured_again(page, found):
    """The section on what several chapters have measured."""
    if not found:
        return ""
    rows = [(row["what"], "; ".join(f"{chapter}: {labs.spread(us)}" for chapter, us in row["found"].items()), f"{row['ratio']:.2f}") for row in found]
    return ('<section id="repeated"><h2>Measured more than once</h2><p>Quantities that several chapters measure, each for itself and minutes apart. They show how reproducible a time is, '
            "which the range of one chapter's repetitions does not. Checks compare what was measured in turn within one chapter, but for the one of a wake-up.</p>"
            + page.table("The same quantity in several chapters, in microseconds", ("", "median, and range of its repetitions", "greatest median, in times of the least"), rows)
            + "</section>\n")


def begun(section, number, check):
    """A check's beginning; a link leads to all of it."""
    text = labs.short(check["text"])
    more = f' <a href="#{section.name}-check-{number}">...</a>' if text != check["text"] else ""
    return f"{mark(section, check)}{text_of(text.removesuffix(' ...') if more else text)}{more}"


def summary(sections):
    """All checks that fail or cannot tell, and all that is not checked, in one place."""
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
    lists.append(f"<details><summary>Experiments that met {JUMP}</summary><ul>{met}</ul></details>" if met else f"<p>No experiment met {JUMP}</p>")
    return "\n".join(lists)


def machine(lab):
    rows = "".join(f"<tr><td>{text_of(what)}</td><td>{text_of(value)}</td></tr>" for what, value in lab.machine.facts())
    return f'<div class="wide"><table class="words">{rows}</table></div><p><a href="machine.json">JSON</a></p>'


def write_json(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)


def write(sections, lab, out):
    """index.html, and NAME.json and NAME-*.csv, NAME-*.svg of each section."""
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
