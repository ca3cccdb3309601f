#!/usr/bin/env python3
"""layers.py BUILD - checks which files refer to which, and which headers declare what files define.

- Files of xkernel/ refer to no protocol, graph or platform; those outside xkernel/support/ refer to none in it.
- At most CIRCLE files refer to one another in a circle, in the whole library and its programs. So Msg, Map, Event and the
  rest can be read, tested and used without the engine, whose files hand a shepherd to one another.
- A file's definitions for others are declared in a header of its own folder or the folder above: one with the file's name
  or its first words (upi.h for upi_drop.c), with the folder's name, or with a name that no file there has (process.h).

Reads the symbols of the objects in BUILD and the headers. It first proves itself on planted faults.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

CIRCLE = 4
GIVEN = {'xk_protocol_types'}  # the generated list of built-in protocols
LIBRARIES = ('libxkernel.a.p', 'libxkernel-dpdk.a.p', 'libxkernel-programs.a.p', 'tools/libtools.a.p')
ROOT = pathlib.Path(__file__).resolve().parent.parent


def symbols(path):
    """Returns the names that an object defines and those that it needs."""
    lines = subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return ({w[2] for w in words if len(w) == 3 and w[1] in 'TDBRVW'}, {w[1] for w in words if w[0] == 'U'} - GIVEN)


def objects_of(build):
    """Returns what objects define and need, by source file: this tree's, without tests and experiments."""
    found = {}
    for entry in json.loads((build / 'compile_commands.json').read_text()):
        source = (pathlib.Path(entry['directory']) / entry['file']).resolve()
        if entry['output'].startswith(LIBRARIES) and ROOT in source.parents and build.resolve() not in source.parents:
            found[str(source.relative_to(ROOT))] = symbols(build / entry['output'])
    return found


def references_of(objects):
    """Returns the files to which each file refers, with the names."""
    home = {name: file for file, (defined, _) in objects.items() for name in defined}
    references = {file: collections.defaultdict(set) for file in objects}
    for file, (_, needed) in objects.items():
        for name in needed & home.keys():
            if home[name] != file:
                references[file][home[name]].add(name)
    return references


def circles(references):
    """Returns the sets of files that refer to one another (Warshall: the graph is small)."""
    reached = {name: set(to) for name, to in references.items()}
    for middle in reached:
        for to in reached.values():
            if middle in to:
                to |= reached[middle]
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in reached}
    return [circle for circle in found if len(circle) > CIRCLE]


def room(file):
    """Returns a file's layer: 0 for the framework, 1 for the protocols' support, 2 for everything else."""
    return 2 if not file.startswith('xkernel/') else 1 if file.startswith('xkernel/support/') else 0


def declared(text):
    """Returns the functions and variables that a header declares for other files."""
    text = re.sub(r'/\*.*?\*/', '', text, flags=re.DOTALL)
    text = re.sub(r'^#(.*\\\n)*.*', '', text, flags=re.MULTILINE)
    text = re.sub(r'__attribute__\(\((?:[^()]|\([^()]*\))*\)\)', '', text)
    while re.search(r'\{[^{}]*\}', text):
        text = re.sub(r'\{[^{}]*\}', ';', text)
    names = set()
    for statement in text.split(';'):
        if not re.search(r'\b(static|typedef)\b', statement):
            names.update(re.findall(r'(\w+)\s*\(', statement)[:1] or re.findall(r'\bextern\b.*?(\w+)\s*(?:\[.*)?$', statement, re.DOTALL))
    return names


def is_at_home(file, header, files):
    """Returns true if header may declare what file defines."""
    file, header = pathlib.PurePath(file), pathlib.PurePath(header)
    stem = header.stem.removesuffix('_private')
    if header.parent not in (file.parent, file.parent.parent):
        return False
    return (file.stem + '_').startswith(stem + '_') or stem == header.parent.name or str(header.parent / stem) + '.c' not in files


def faults(objects, headers):
    """Yields the faults, in words. headers: the names that each declares."""
    references = references_of(objects)
    for file, to in references.items():
        for other, names in to.items():
            if room(file) < room(other):
                yield f'{file} refers to {", ".join(sorted(names))}, which is above it in {other}'
    for circle in circles(references):
        yield f'a circle of {len(circle)}: {", ".join(sorted(circle))}'
    for file, (defined, _) in objects.items():
        for header, names in headers.items():
            if not is_at_home(file, header, objects) and names & defined:
                yield f'{file} defines {", ".join(sorted(names & defined))}, which {header} declares'


def notices_planted():
    """Returns true if each kind of planted fault is found and nothing else."""
    ring = {f'p/{i}.c': ({f'f{i}'}, {f'f{(i + 1) % 5}'}) for i in range(5)}
    planted = {
        'refers to f, which is above': ({'xkernel/a.c': (set(), {'f'}), 'protocols/b.c': ({'f'}, set())}, {}),
        'refers to g, which is above': ({'xkernel/a.c': (set(), {'g'}), 'xkernel/support/b.c': ({'g'}, set())}, {}),
        'a circle of 5': (ring, {}),
        'defines f, which p/other.h declares': ({'p/a.c': ({'f'}, set()), 'p/other.c': (set(), set())}, {'p/other.h': declared('int f(void);')}),
        'defines g, which q/a.h declares': ({'p/a.c': ({'g'}, set())}, {'q/a.h': declared('__attribute__((format(printf, 1, 2))) int g(int);')}),
        'defines v, which p/b/a.h declares': ({'p/a.c': ({'v'}, set())}, {'p/b/a.h': declared('enum { A };\nextern const int v[];')}),
    }
    whole = {'p/a.c': ({'f', 'g', 'h'}, {'f0'}), 'p/a_b.c': ({'k'}, set()), 'p/q/c.c': ({'m'}, set()), **{n: ring[n] for n in list(ring)[:4]}}
    good = {'p/a.h': {'f', 'k'}, 'p/a_private.h': {'g'}, 'p/p.h': {'h', 'm'}, 'p/z.h': {'m'}, 'x/y.h': declared('static inline int f(void) { return g(); }')}
    said = {words: list(faults(*case)) for words, case in planted.items()}
    return [*faults(whole, good)] == [] and all(len(found) == 1 and words in found[0] for words, found in said.items())


def main(build):
    objects = objects_of(pathlib.Path(build))
    headers = {str(path.relative_to(ROOT)): declared(path.read_text()) for folder in ('xkernel', 'protocols', 'graphs', 'platform', 'tools')
               for path in (ROOT / folder).rglob('*.h')}
    found = list(faults(objects, headers))
    if len(objects) < 150 or sum(map(len, headers.values())) < 500:
        found.append(f'{len(objects)} objects in {build}, {sum(map(len, headers.values()))} names in headers')
    if not notices_planted():
        found.append('planted faults are not noticed')
    for words in found:
        print('layers:', words)
    return len(found) > 0


sys.exit(main(*sys.argv[1:]))
