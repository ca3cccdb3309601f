"""labs.py - what the labs have in common: keyed layouts, their header files, checks.

A layout is where the fields of a lab's header are, and the lab's numbers: kinds, windows, times. It follows from a number of
64 bits: 0 is the public one of the pages; a student's is made of the instructor's key and the student's name (keys.py).
"""
import hashlib
import random
import struct

ETHERTYPE = 0x88B5  # IEEE 802's for local experiments


class Field:
    """A field of a header: size in bytes; kind, print and help as in xkernel/header.h; values: names of numbers."""

    def __init__(self, name, size, help, kind="XK_VARIES", print_as=None, covers=None, values=()):
        self.name, self.size, self.help, self.kind = name, size, help, kind
        self.print_as, self.covers, self.values = print_as, covers, values


class Layout:
    """fields: in wire order; numbers: {name: (value, comment)}, constants of the header file."""

    def __init__(self, lab, number, fields, numbers):
        self.lab, self.number, self.fields, self.numbers = lab, number, fields, numbers
        self.at, at = {}, 0
        for field in fields:
            self.at[field.name] = at
            at += field.size
        self.size = at
        self.by_name = {field.name: field for field in fields}

    ethertype, below = ETHERTYPE, 14  # of the lab's frames; bytes before the header

    def part(self, frame):
        """Returns what a frame carries for the lab's protocol, or None: another's frame."""
        return frame[self.below :] if frame[12:14] == self.ethertype.to_bytes(2, "big") else None

    def __getitem__(self, name):
        return self.numbers[name][0]

    def pack(self, **values):
        """Returns a header: fields by name; others are 0."""
        header = bytearray(self.size)
        for name, value in values.items():
            at, size = self.at[name], self.by_name[name].size
            header[at : at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "big")
        return bytes(header)

    def unpack(self, data):
        """Returns {name: value} of the header at the beginning of data, or None if data is shorter."""
        if len(data) < self.size:
            return None
        return {field.name: int.from_bytes(data[self.at[field.name] : self.at[field.name] + field.size], "big")
                for field in self.fields}

    def title(self, data):
        """Returns what a frame is, in a few words, such as `DATA 7`."""
        values = self.unpack(data)
        for name in self.by_name["kind"].values if values else ():
            if self[name] == values["kind"]:
                return f"{name.upper()} {values['number']}" if name in ("data", "ack") else name.upper()
        return f"{len(data)} bytes"

    def header(self):
        """Returns the text of the student's header file."""
        lab, upper = self.lab, self.lab.upper()
        lines = ["/*", f" * {lab}.h - the header of the lab {lab} on the wire, and its numbers: layout {self.number:016x}.",
                 " * ./run grade wrote this file; yours may differ from others'.", " */", f"#ifndef {upper}_H",
                 f"#define {upper}_H", "", '#include "xkernel/header.h"', "", "/* Offsets of the fields, in bytes. */", "enum {"]
        lines += [f"\t{upper}_{field.name.upper()} = {self.at[field.name]}," for field in self.fields]
        lines += [f"\t{upper}_HEADER_LEN = {self.size},", "};"]
        for name, (value, comment) in self.numbers.items():
            lines += (["", f"/* {comment} */"] if comment else []) + [f"#define {upper}_{name.upper()} {value}"]
        lines += ["", "/* For dissectors, traces and tests. */", "/* clang-format off */"]
        for field in self.fields:
            if field.values:
                values = ", ".join(f'{{ {upper}_{value.upper()}, "{value.upper()}" }}' for value in field.values)
                lines += [f"static const struct xk_field_value {lab}_{field.name}s[] = {{ {values}, {{ 0, NULL }} }};"]
        lines += [f"static const struct xk_field {lab}_fields[] = {{"]
        for field in self.fields:
            parts = [f'.name = "{field.name}"', f".bits = {8 * field.size}", f".kind = {field.kind}"]
            parts += [f".print = {field.print_as}"] if field.print_as else []
            parts += [f".covers = {field.covers}"] if field.covers else []
            parts += [f".values = {lab}_{field.name}s"] if field.values else []
            lines += [f'\t{{ {", ".join(parts)},', f'\t  .help = "{field.help}" }},']
        return "\n".join(lines + ["\t{ .name = NULL },", "};", "/* clang-format on */", "", "#endif", ""])


class Choice:
    """The choices that follow from a layout's number. The public layout has the default values."""

    def __init__(self, lab, number):
        self.number = number
        self.random = random.Random(hashlib.sha256(f"{lab} {number:016x}".encode()).digest())

    def of(self, usual, values):
        chosen = values[int(self.random.random() * len(values))]
        return usual if self.number == 0 else chosen

    def between(self, usual, low, high):
        chosen = low + int(self.random.random() * (high - low + 1))
        return usual if self.number == 0 else chosen

    def different(self, usual, low, high):
        """Returns as many different numbers as there are default ones."""
        chosen = []
        while len(chosen) < len(usual):
            number = low + int(self.random.random() * (high - low + 1))
            if number not in chosen:
                chosen.append(number)
        return list(usual) if self.number == 0 else chosen

    def order(self, fields):
        chosen = list(fields)
        for i in range(len(chosen) - 1, 0, -1):
            j = int(self.random.random() * (i + 1))
            chosen[i], chosen[j] = chosen[j], chosen[i]
        return list(fields) if self.number == 0 else chosen


class Check:
    """A mark or several: run(world) raises Wrong, for some of `seeds` seeds or, with `choose`, for some list of these unusual
    choices (search.py), if the host does not deserve them."""

    def __init__(self, name, marks, what, run, seeds=3, choose=()):
        self.name, self.marks, self.what, self.run, self.seeds, self.choose = name, marks, what, run, seeds, choose


class Lab:
    """layout(number) returns a Layout; story names the check whose run is asked about.

    questions(run, chance) yields questions of the lab's own and their answers (questions.py). over_ip: the protocol has ports
    and is above IP."""

    def __init__(self, number, name, layout, checks, story, questions, over_ip=False):
        self.over_ip = over_ip
        self.number, self.name, self.layout, self.checks, self.story, self.questions = number, name, layout, checks, story, questions
        self.marks = sum(check.marks for check in checks)

    def check(self, name):
        return next((check for check in self.checks if check.name == name), None)


def checksum(data):
    """The Internet checksum (RFC 1071) of data: 0 if data contains a right one."""
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
