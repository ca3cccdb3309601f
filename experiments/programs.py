"""programs.py - shared by the experiments' programs: errors, ending with the parent process, and printing results."""
import ctypes
import errno
import json
import os
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the checkout


class Failed(Exception):
    """A measurement failed; the text is the reason."""


def die_with_parent():
    """Makes a started program end when its parent ends, in whatever way."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def await_standing(process):
    """Waits until a host reports on its standard error that it stands. Returns the lines so far: its trace may begin earlier."""
    lines = []
    while not lines or " stands at " not in lines[-1]:
        line = process.stderr.readline()
        if not line:
            raise Failed(lines[-1].strip() if lines else "a host ended unexpectedly")
        lines.append(line.decode() if isinstance(line, bytes) else line)
    return lines


def error_text(why):
    """Returns an error as text: its object, its reason and a remedy."""
    if isinstance(why, OSError) and why.filename is not None:
        helps = {errno.ENOENT: "is the name right, and is it built (./run build)?", errno.ENOTDIR: "is the name right?"}
        return f"{why.filename}: {why.strerror}: {helps.get(why.errno, 'name another path, or correct this one')}"
    if isinstance(why, subprocess.CalledProcessError):
        said = why.stderr.decode(errors="replace") if isinstance(why.stderr, bytes) else why.stderr or ""
        return f"{' '.join(map(str, why.cmd))} ended with status {why.returncode}: {said.strip()[-200:] or 'see above'}"
    if isinstance(why, json.JSONDecodeError):
        return f"invalid JSON ({why}): {why.doc[:60]!r}"
    return str(why)


def exit_with(main):
    """Ends this program with the status that main() returns. Reports a failure in one line."""
    name = os.path.splitext(os.path.basename(sys.argv[0]))[0]
    try:
        status = main()
        sys.stdout.flush()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        status = 128 + signal.SIGINT
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # exiting flushes the rest of the output
        status = 1
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as why:
        print(f"{name}: {error_text(why)}", file=sys.stderr)
        status = 1
    sys.exit(status)


def touch(file):
    """Raises Failed if a document cannot be written to file. Call it before measuring."""
    try:
        open(file, "a", encoding="utf-8").close()
    except OSError as why:
        raise Failed(f"{file} cannot be written: {why.strerror}: name another path, or create its directory") from None


def find_and_print(name, find, show, file):
    """Shows the document that find() returns, and writes it to file as JSON (None: not at all). Returns the exit status."""
    try:
        if file:
            touch(file)
        found = find()
    except (Failed, OSError, ValueError, subprocess.SubprocessError) as why:
        print(f"{name}: {error_text(why)}", file=sys.stderr)
        return 1
    show(found)
    if file:
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(found, stream, indent=1)
    return 0
