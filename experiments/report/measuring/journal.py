"""journal.py - a file with a line per measurement, from which a report can be resumed or made again."""
import json
import os
import threading

from programs import ROOT, Failed


def text_of(what):
    """Returns a result, or its name, as JSON that does not depend on the checkout's directory."""
    return json.dumps(what).replace(ROOT + os.sep, "")


def load(data, path):
    """Returns (what the results depend on, {name: results}) from a file's complete lines."""
    try:
        about, *lines = [json.loads(line) for line in data.splitlines()]
        kept = {}
        for key, result in lines:
            kept.setdefault(key, []).append(result)
    except ValueError as why:
        raise Failed(f"{path} is not a record of a report's measurements: {why}") from None
    return about, kept


class Journal:
    """
    A file of measured results. about: what all of them depend on; resuming refuses a file with another. first: other facts about
    the report, from its start.
    """

    def __init__(self, path, about, first, resumes):
        self.lock = threading.Lock()  # measurements on virtual time run in parallel
        self.kept = {}
        self.about = about | first
        if resumes:
            self.read(path, about)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(self.about) + "\n")
        self.file = open(path, "a", encoding="utf-8")

    def read(self, path, about):
        try:
            with open(path, "r+b") as file:
                data = file.read()
                whole = data.rfind(b"\n") + 1  # the last line may be incomplete
                file.truncate(whole)
        except OSError as why:
            raise Failed(f"--resume: nothing to resume: {why}") from None
        self.about, self.kept = load(data[:whole], path)
        other = [f"{key} {self.about.get(key)} instead of {value}" for key, value in about.items() if self.about.get(key) != value]
        if other:
            raise Failed(f"--resume: {path} was measured with {', '.join(other)}")

    def once(self, what, measure):
        """Returns and removes the next kept result of this name, or measures one and writes it."""
        key = text_of(what)
        with self.lock:
            if self.kept.get(key):
                return self.kept[key].pop(0)
        # As read back from the file: numeric keys become text, and tuples lists.
        text = text_of(measure())
        with self.lock:
            self.file.write(json.dumps([key, json.loads(text)]) + "\n")
            self.file.flush()
        return json.loads(text)


class Record:
    """A read-only journal, from which a report is made again without measuring."""

    def __init__(self, path):
        self.path = path
        with open(path, "rb") as file:
            self.about, self.kept = load(file.read(), path)

    def once(self, what, _):
        try:
            return self.kept[text_of(what)].pop(0)
        except (KeyError, IndexError):
            raise Failed(f"{self.path} has no result of {text_of(what)}: it is of another version, or incomplete") from None
