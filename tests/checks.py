"""checks.py - for scripts that are tests: a line for each check, `ok` or `FAIL`, and how many have failed."""

import re

failures = 0


def shown(words):
    """As a report's page writes it."""
    return re.sub(r"\bus\b", "µs", words).replace("`", "")


def tell(good, what, why=""):
    global failures
    print(f"{'ok  ' if good else 'FAIL'} {what}", flush=True)
    if not good:
        failures += 1
        for line in why.splitlines()[:40]:
            print("     " + line, flush=True)
