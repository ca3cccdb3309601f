"""spent.py PID - prints what a process and its children have used so far, as JSON."""
import json
import os
import re
import sys
import time


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def of(pid):
    """Returns processor seconds and voluntary switches of all threads of the process and its children, and the time of reading."""
    found = {"time_s": 0.0, "switches": 0, "at_s": time.monotonic()}
    for process in (pid, *read(f"/proc/{pid}/task/{pid}/children").split()):
        for task in os.listdir(f"/proc/{process}/task"):
            found["time_s"] += int(read(f"/proc/{process}/task/{task}/schedstat").split()[0]) / 1e9
            found["switches"] += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", read(f"/proc/{process}/task/{task}/status"), re.M)[1])
    return found


if __name__ == "__main__":
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        sys.exit("usage: spent.py PID")
    print(json.dumps(of(int(sys.argv[1]))))
