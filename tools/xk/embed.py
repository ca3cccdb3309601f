#!/usr/bin/env python3
"""embed.py OUT FILE...: files as a table in C, for `xk new` (tools/xk/xk_new.c)."""
import os
import sys

with open(sys.argv[1], "w", encoding="ascii") as out:
    out.write("/* Files of docs/examples; a NULL name ends the table. */\n"
              "static const struct {\n\tconst char *name, *text;\n} new_templates[] = {\n")
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            text = file.read()
        out.write('\t{ "%s",\n\t  "' % os.path.basename(path))
        out.write('"\n\t  "'.join("".join("\\%03o" % byte for byte in line) for line in text.splitlines(keepends=True)))
        out.write('" },\n')
    out.write("\t{ NULL, NULL },\n};\n")
