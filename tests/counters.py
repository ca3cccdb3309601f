#!/usr/bin/env python3
"""counters.py XK FILE - checks that the tests have reached every counter.

XK is the program whose `protocols --counters` lists the counters; FILE is where the kernels of a test run recorded counters
that were not zero (XK_COUNTERS_FILE, debug builds). Run it from the checkout's root.

Counters are the kernel's, the protocols' own, their own drop reasons, and the drop reasons shared by all protocols. A
protocol must reach a shared reason if its source drops messages for it, or if the framework does for its header's lengths
and checksums (XK_MESSAGES). Each shared reason must be reached by some protocol.
"""
import glob
import re
import subprocess
import sys

# enum xk_drop_reason (xkernel/upi.h)
SHARED = ("short", "no_session", "no_buffer", "no_memory", "no_stack", "refused", "unexpected", "bad_length", "bad_checksum",
          "unsummed", "too_big")
# The kinds of fields for which the framework drops messages for a shared reason (xkernel/receive.h).
BY_FIELDS = {"bad_length": "XK_LENGTH", "too_big": "XK_LENGTH", "bad_checksum": "XK_CHECKSUM", "unsummed": "XK_COVERS_PSEUDO"}

# Counters that no test can be sure to reach, with reasons.
EXEMPT = {}


def listed(xk):
    """Returns every counter, in the order of `xk protocols --counters`."""
    lines = subprocess.run([xk, "protocols", "--counters"], check=True, capture_output=True, text=True).stdout
    return lines.split()


def sources(protocol):
    """Returns the text of all source files of a protocol."""
    return "".join(open(path, encoding="utf-8").read() for path in
                   glob.glob(f"protocols/**/{protocol}.c", recursive=True) +
                   glob.glob(f"protocols/**/{protocol}_*.[ch]", recursive=True))


def is_wanted(name):
    """Returns true if a test must reach the counter: a shared reason only if the protocol uses it."""
    protocol, counter = name.split(".", 1)
    if protocol == "kernel" or counter not in SHARED:
        return True
    text = sources(protocol)
    if "XK_MESSAGES(" in text and BY_FIELDS.get(counter, "no field") in text:
        return True
    return re.search(rf"\bXK_DROP_{counter.upper()}\b", text) is not None


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__.splitlines()[0])
    with open(sys.argv[2], encoding="utf-8") as stream:
        reached = set(stream.read().split())
    names = listed(sys.argv[1])
    wanted = [name for name in names if is_wanted(name)]
    missing = [name for name in wanted if name not in reached and name not in EXEMPT]
    missing += [f"*.{reason}" for reason in SHARED if not any(name.endswith("." + reason) for name in reached)]
    stale = [name for name in EXEMPT if name not in names]
    for name in missing:
        print(f"no test reaches {name}")
    for name in stale:
        print(f"{name} is exempt but does not exist")
    print(f"{len(wanted)} counters must be reached, {len(missing)} are not; {len(EXEMPT)} exempt")
    sys.exit(1 if missing or stale else 0)


if __name__ == "__main__":
    main()
