"""programs.py - what the experiments' programs share: how they fail, end with whoever started them, and tell what they found."""
import ctypes
import json
import signal
import subprocess
import sys


class Failed(Exception):
    """Something could not be measured; says why."""


def die_with_parent():
    """For programs that are started: ends them with the one that starts them, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def find_and_tell(name, find, tell, file):
    """Tells the document that find() returns, and writes it as JSON to file (None: nowhere). Returns the exit status."""
    try:
        found = find()
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as why:
        print(f"{name}: {why}", file=sys.stderr)
        return 1
    tell(found)
    if file:
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(found, stream, indent=1)
    return 0
