#!/usr/bin/env python3
"""counters.py XK FILE - every counter that there is was reached by some test.

XK is the program, whose `protocols --counters` lists what there is; FILE is where the kernels of a test run have noted what
was not zero (XK_COUNTERS_FILE, debug builds). From the checkout's root.

Names are those of the kernel and of protocols, the drop reasons of their own and the reasons that all protocols share. Of
the shared ones a protocol must have reached those that its own source drops messages for, and those that the framework
does by its header's lengths and checksums (XK_MESSAGES); each must have been reached by somebody.
"""
import glob
import re
import subprocess
import sys

# enum xk_drop_reason (xkernel/upi.h)
SHARED = ("short", "no_session", "no_buffer", "no_memory", "no_stack", "refused", "unexpected", "bad_length", "bad_checksum",
          "unsummed", "too_big")
# What of a header leads to a shared reason, in protocols whose messages the framework receives and sends (xkernel/receive.h).
BY_FIELDS = {"bad_length": "XK_LENGTH", "too_big": "XK_LENGTH", "bad_checksum": "XK_CHECKSUM", "unsummed": "XK_COVERS_PSEUDO"}

# What no test can be sure to reach, and why.
EXEMPT = {}


def listed(xk):
    """Every counter, in the order of `xk protocols --counters`."""
    lines = subprocess.run([xk, "protocols", "--counters"], check=True, capture_output=True, text=True).stdout
    return lines.split()


def sources(protocol):
    """The text of a protocol and of the files that it was divided into."""
    return "".join(open(path, encoding="utf-8").read() for path in
                   glob.glob(f"protocols/**/{protocol}.c", recursive=True) +
                   glob.glob(f"protocols/**/{protocol}_*.[ch]", recursive=True))


def is_wanted(name):
    """Whether a test must reach it: shared reasons only where the protocol gives them."""
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
        print(f"{name} is exempt, and is not there")
    print(f"{len(wanted)} counters must be reached, {len(missing)} are not; {len(EXEMPT)} exempt")
    sys.exit(1 if missing or stale else 0)


if __name__ == "__main__":
    main()
