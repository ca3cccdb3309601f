"""journal.py - what has been measured, line by line, so that an interrupted report can go on where it ended."""
import json
import threading

from programs import Failed


class Journal:
    """Results of measurements, in a file. about: what all of them depend on; a file about something else is refused."""

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
            with open(path, "r+b") as file:
                data = file.read()
                file.truncate(data.rfind(b"\n") + 1)  # the last line may have been cut off
            was, *lines = [json.loads(line) for line in data[:data.rfind(b"\n") + 1].splitlines()]
        except (OSError, ValueError) as why:
            raise Failed(f"--resume: nothing to resume: {why}") from None
        other = [f"{key} {was.get(key)} instead of {value}" for key, value in about.items() if was.get(key) != value]
        if other:
            raise Failed(f"--resume: {path} was measured with {', '.join(other)}")
        for key, result in lines:
            self.kept.setdefault(key, []).append(result)

    def once(self, what, measure):
        """Returns the next kept result of this name, or measures one and keeps it."""
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
