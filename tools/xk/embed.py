#!/usr/bin/env python3
"""embed.py OUT NAME FILE...: writes files as a table NAMEs of struct NAME in C, each with the hash for content policies of HTML."""
import base64
import hashlib
import os
import sys

out_path, name, *paths = sys.argv[1:]
with open(out_path, "w", encoding="ascii") as out:
    out.write("/* Files; terminated by a NULL name. */\n"
              f"static const struct {name} {{\n\tconst char *name, *text, *sha256;\n}} {name}s[] = {{\n")
    for path in paths:
        with open(path, "rb") as file:
            text = file.read()
        out.write('\t{ "%s",\n\t  "' % os.path.basename(path))
        out.write('"\n\t  "'.join("".join("\\%03o" % byte for byte in line) for line in text.splitlines(keepends=True)))
        out.write('",\n\t  "%s" },\n' % base64.b64encode(hashlib.sha256(text).digest()).decode())
    out.write("\t{ NULL, NULL, NULL },\n};\n")
