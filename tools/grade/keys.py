"""keys.py - what the instructor's key decides: each student's layout and seeds, as HMAC-SHA-256 of what they are for."""
import hashlib
import hmac
import os
import re

PUBLIC = b"public"  # seeds of runs without an instructor
KEY_LEAST = 16  # bytes


def is_id(name):
    """Names of students: no path, nothing that a shell or a spreadsheet takes for more than a word."""
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", name) is not None


def read(instructor):
    """Returns the key in an instructor's folder."""
    with open(os.path.join(instructor, "key"), "rb") as file:
        key = file.read().strip()
    if len(key) < KEY_LEAST:
        raise ValueError(f"{instructor}/key is shorter than {KEY_LEAST} bytes")
    return key


def number(key, *words):
    """Returns 64 bits for these words."""
    text = "\0".join(str(word) for word in words).encode()
    return int.from_bytes(hmac.new(key, text, hashlib.sha256).digest()[:8], "big")
