"""page.py - what the experiments found, as files: one page of HTML with its pictures, and beside it JSON and CSV."""
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
matplotlib.rcParams["svg.hashsalt"] = "report"
from matplotlib.figure import Figure

import lab as labs

INTRO = """
<p>A message arrives, and a thread is asleep that wants it. Usually the driver wakes a thread, which carries the message up
through the protocols: <b>regular</b> mode, a context switch for each message. In <b>interrupt protocol processing</b> (IPP) the
driver itself carries it up, and gives it to a thread (a <b>handoff</b>) only where it must: at an edge of the graph that is
marked so, when a protocol has to wait, or when it has kept the driver for too long (a <b>budget</b>). What does that save, and
when is it a mistake? M. Björkman asked it in 1994 ("Interrupt Protocol Processing in the x-kernel"); these are his tables,
made on this machine, and what he left open. Where a section says <b>published</b>, it means his figures.</p>
"""

STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5em; border-top: 1px solid #ccc; padding-top: 1em; }
.question { font-style: italic; font-size: 1.15em; }
table { border-collapse: collapse; margin: 1em 0; } caption { text-align: left; font-weight: bold; padding: .3em 0; }
th, td { padding: .25em .8em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th { white-space: normal; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; white-space: normal; }
table.machine td { text-align: left; white-space: normal; }
tr.published td { color: #888; }
ul.checks { list-style: none; padding-left: 0; } ul.checks li { padding-left: 5em; text-indent: -5em; }
ul.checks span { display: inline-block; width: 5em; text-indent: 0; font-weight: bold; }
.yes { color: #17692c; } .no { color: #a31515; } .unclear { color: #8a6100; }
figure { margin: 1.5em 0; } figure.graph { display: inline-block; vertical-align: top; width: 49%; }
figure svg { max-width: 100%; height: auto; } figcaption { font-weight: bold; }
.disturbed { background: #fff3cd; padding: .5em 1em; }
dt { font-weight: bold; margin-top: .6em; } dd { margin-left: 1.5em; }
"""


def svg_of(figure):
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    return inline(file.getvalue())


def inline(text):
    """An SVG document as a part of a page."""
    return text[text.index("<svg"):]


def plot(title, draw, out, name):
    figure = Figure(figsize=(9, 4), layout="tight")
    draw(figure.subplots())
    svg = svg_of(figure)
    with open(os.path.join(out, name), "w", encoding="utf-8") as file:
        file.write(svg)
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{svg}</figure>"


def picture(title, graph, labels, lab):
    """The graph as xk draws it, with words on some of its edges."""
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, "graph.dot")
        subprocess.run([os.path.join(lab.build, "xk"), "draw", lab.graph(graph), "-o", source], check=True)
        with open(source, encoding="utf-8") as file:
            text = file.read()
        names = {name: node for node, name in re.findall(r"^\s*(n\d+) \[.*<b>(\w+)</b>", text, re.M)}
        for (upper, lower), (words, marked) in labels.items():
            edge = f"{names[upper]} -> {names[lower]} ["
            look = 'fontcolor="#c03030", color="#c03030", penwidth=2, ' if marked else ""
            text = text.replace(edge, f'{edge}label="  {words}", {look}')
        svg = subprocess.run(["dot", "-Tsvg"], input=text, stdout=subprocess.PIPE, text=True, check=True).stdout
    return f'<figure class="graph"><figcaption>{html.escape(title)}</figcaption>{inline(svg)}</figure>'


def table(title, head, rows):
    lines = [f"<table><caption>{html.escape(title)}</caption>"]
    if any(head):
        lines.append("<tr>" + "".join(f"<th>{html.escape(text)}</th>" for text in head) + "</tr>")
    for row in rows:
        kind = ' class="published"' if "published" in row[0] else ""
        lines.append(f"<tr{kind}>" + "".join(f"<td>{html.escape(text)}</td>" for text in row) + "</tr>")
    return "\n".join(lines + ["</table>"])


def write_json(path, document):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)


def write_csv(path, head, rows):
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def checks(found):
    items = [
        f'<li><span class="{labs.VERDICTS[check["agrees"]].lower()}">{labs.VERDICTS[check["agrees"]]}</span> '
        f"{html.escape(check['text'])}</li>"
        for check in found
    ]
    return '<ul class="checks">' + "\n".join(items) + "</ul>"


def section_html(section, lab, out):
    lines = [f'<h2 id="{section.name}">{html.escape(section.title)}</h2>',
             f'<p class="question">{html.escape(section.question)}</p>']
    for number, (kind, *what) in enumerate(section.parts):
        name = f"{section.name}-{number}"
        if kind == "text":
            lines.append(f"<p>{html.escape(what[0])}</p>")
        elif kind == "table":
            lines.append(table(*what))
            write_csv(os.path.join(out, name + ".csv"), *what[1:])
        elif kind == "plot":
            lines.append(plot(*what, out, name + ".svg"))
        else:
            lines.append(picture(*what, lab))
    return "\n".join(lines + ["<p>What agrees with what was published, or is expected here:</p>", checks(section.checks)])


def answers(sections):
    """The page in short: each question, and what was found."""
    items = "".join(
        f'<dt><a href="#{s.name}">{html.escape(s.question)}</a></dt><dd>{html.escape(s.answer)}</dd>' for s in sections
    )
    return f"<dl>{items}</dl>"


def machine_html(lab):
    rows = "".join(f"<tr><td>{html.escape(what)}</td><td>{html.escape(value)}</td></tr>" for what, value in lab.machine.told())
    return (
        f'<table class="machine"><caption>Made on</caption>{rows}</table>'
        "<p>Every figure across processors moves with the time that a cache line takes, so compare shapes and ratios with the "
        "published ones, not microseconds.</p>"
        "<p>What is compared was measured in turn, in short blocks of one run, and each run was made six times. A figure is "
        "the median of the six; in brackets are the lowest and the highest, between which the true median lies with 95 % "
        "confidence.</p>"
    )


def disturbances(lab):
    cut = f'<div class="disturbed"><p>Cut short: {html.escape(lab.cut_short)}.</p></div>' if lab.cut_short else ""
    if not lab.disturbed:
        return cut
    items = "".join(f"<li>{html.escape(text)}</li>" for text in dict.fromkeys(lab.disturbed))
    words = "This run was disturbed; what is unclear or disagrees may come of it:"
    return f'{cut}<div class="disturbed"><p>{words}</p><ul>{items}</ul></div>'


def write(sections, lab, out):
    """index.html, and NAME.json and NAME-*.csv, NAME-*.svg of each section."""
    write_json(os.path.join(out, "machine.json"), lab.machine.data())
    for section in sections:
        document = {key: getattr(section, key) for key in ("title", "question", "answer", "data", "checks")}
        write_json(os.path.join(out, section.name + ".json"), document)
    body = "\n".join(section_html(section, lab, out) for section in sections)
    with open(os.path.join(out, "index.html"), "w", encoding="utf-8") as file:
        file.write(
            f'<!DOCTYPE html>\n<html lang="en"><meta charset="utf-8"><title>Interrupt protocol processing</title>'
            f"<style>{STYLE}</style>\n<h1>What interrupt protocol processing saves on this machine</h1>\n{INTRO}"
            f"{answers(sections)}{disturbances(lab)}{machine_html(lab)}\n{body}\n</html>\n"
        )
