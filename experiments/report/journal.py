"""journal.py - what has been measured, line by line, so that an interrupted report can go on where it ended."""
import json
import threading

from programs import Failed


class Journal:
    """Results of measurements, in a file. about: what all of them depend on; a file about something else is not gone on with."""

    def __init__(self, path, about, resumes):
        self.lock = threading.Lock()  # measurements on virtual time are made several at a time
        self.kept = {}
        if resumes:
            self.read(path, about)
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(json.dumps(about) + "\n")
        self.file = open(path, "a", encoding="utf-8")

    def read(self, path, about):
        try:
            with open(path, encoding="utf-8") as file:
                was, *lines = file.read().splitlines(keepends=True)
        except (OSError, ValueError) as why:
            raise Failed(f"--resume: there is nothing to go on with: {why}") from None
        was = json.loads(was)
        other = [f"{key} {was.get(key)} instead of {value}" for key, value in about.items() if was.get(key) != value]
        if other:
            raise Failed(f"--resume: {path} was measured with {', '.join(other)}")
        for line in lines:
            if line.endswith("\n"):  # the last may have been cut off
                key, result = json.loads(line)
                self.kept.setdefault(key, []).append(result)

    def once(self, what, measure):
        """What was measured before under this name, one result after the other; then what is measured now."""
        key = json.dumps(what)
        with self.lock:
            if self.kept.get(key):
                return self.kept[key].pop(0)
        # As a reader of the file will get it: numbers as keys become text, and tuples lists.
        text = json.dumps(measure())
        with self.lock:
            self.file.write(json.dumps([key, json.loads(text)]) + "\n")
            self.file.flush()
        return json.loads(text)
