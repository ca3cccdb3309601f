"""keys.py - what the instructor's key decides: each student's layout and seeds, as HMAC-SHA-256 of what they are for.

A seed also depends on the files handed in. Marks name the seeds of lost runs, so that students can repeat those; seeds for
other files cannot be predicted from them.
"""
import hashlib
import hmac
import os
import random
import re

PUBLIC = b"public"  # seeds of runs without an instructor
KEY_LEAST = 16  # bytes


def is_id(name):
    """Names of students: no path, nothing that a shell or a spreadsheet takes for more than a word."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", name) is not None


def read(instructor):
    """Returns the key in an instructor's folder."""
    path = os.path.join(instructor, "key")
    if not os.path.exists(path):
        raise ValueError(f"{path} is missing; make one: head -c 24 /dev/urandom | base64 > {path}")
    with open(path, "rb") as file:
        key = file.read().strip()
    if len(key) < KEY_LEAST:
        raise ValueError(f"{instructor}/key is shorter than {KEY_LEAST} bytes")
    return key


def number(key, *words):
    """Returns 64 bits for these words."""
    text = "\0".join(str(word) for word in words).encode()
    return int.from_bytes(hmac.new(key, text, hashlib.sha256).digest()[:8], "big")


def seed(key, files, *words):
    """Returns the seed of a run of files ({name: contents}): 53 bits, exact in JSON, and too many to be tried one by one."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(f"{name}\0{len(files[name])}\0".encode() + files[name])
    return number(key, "seed", *words, digest.hexdigest()) >> 11


class Draws(random.Random):
    """Random numbers for one purpose, which cannot be predicted from numbers already seen, or drawn for another purpose."""

    def __init__(self, seed_, purpose):
        super().__init__()
        self.key, self.count = hashlib.sha256(f"{purpose} {seed_}".encode()).digest(), 0

    def getrandbits(self, bits):
        self.count += 1
        drawn = hashlib.shake_256(self.key + self.count.to_bytes(8, "big")).digest((bits + 7) // 8)
        return int.from_bytes(drawn, "big") >> -bits % 8

    def random(self):
        return self.getrandbits(53) / (1 << 53)
