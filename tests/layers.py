#!/usr/bin/env python3
"""layers.py BUILD: the files of xkernel/ refer to one another in layers, and to no protocol, graph or platform.

Reads the symbols of the objects in BUILD. A circle of references may hold only the files of ENGINE, which hand a shepherd to
one another; so Msg, Map, Event and the rest can be read, tested and used without the engine.
"""
import pathlib
import subprocess
import sys

ENGINE = {'engine_driver.c', 'engine_pool.c', 'engine_shepherd.c', 'engine_transmit.c', 'engine_path.c'}
GIVEN = {'xk_protocol_types'}  # the list of what was built in


def symbols(path):
    """The names that an object defines, and those that it needs."""
    lines = subprocess.run(['nm', path], capture_output=True, text=True, check=True).stdout.splitlines()
    words = [line.split() for line in lines]
    return ({w[2] for w in words if len(w) == 3 and w[1] in 'TDBRVW'}, {w[1] for w in words if w[0] == 'U'})


def circles(references):
    """The sets of files that refer to one another (Warshall: the graph is small)."""
    reached = {name: set(to) for name, to in references.items()}
    for middle in reached:
        for to in reached.values():
            if middle in to:
                to |= reached[middle]
    found = {frozenset(other for other in reached[name] if name in reached[other]) for name in reached}
    return [circle for circle in found if len(circle) > 1]


def main(build):
    objects = {path.stem.removeprefix('xkernel_'): symbols(path)
               for path in pathlib.Path(build, 'libxkernel.a.p').glob('xkernel_*.c.o')}
    others = set().union(*(symbols(path)[0] for path in pathlib.Path(build).glob('lib*.a.p/*.o')
                           if not path.name.startswith('xkernel_')))
    home = {name: file for file, (defined, _) in objects.items() for name in defined}
    references = {file: {home[name] for name in needed if name in home} - {file}
                  for file, (_, needed) in objects.items()}
    failed = len(objects) < 30
    if failed:
        print(f'layers: {len(objects)} objects in {build}')
    for file, (_, needed) in objects.items():
        for name in sorted(needed & others - GIVEN - set(home)):
            failed = True
            print(f'layers: {file} refers to {name}, which is above xkernel/')
    for circle in circles(references):
        if not circle <= ENGINE:
            failed = True
            print('layers: a circle:', ', '.join(sorted(circle)))
    return failed


sys.exit(main(*sys.argv[1:]))
