#!/usr/bin/env python3
"""This quick assembler makes an ELF file of the PTX's globals. The code section holds the target's option and
the PTX.
"""
import re
import struct
import sys
from pathlib import Path

VERSION = "V13.0.1"
SYMBOL = "<IBBHQQ"


def section(kind, offset, size, link=0):
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 1, 0)


def elf(code, objects):
    """Returns an ELF file with these sections: none, symbols, their names, one for each object, the code."""
    names, symbols, header, parts = b"\0", struct.pack(SYMBOL, 0, 0, 0, 0, 0, 0), 64, []
    for number, (name, data) in enumerate(objects.items()):
        symbols += struct.pack(SYMBOL, len(names), 0, 0, 3 + number, 0, len(data))
        names += name.encode() + b"\0"
    at, table = header, section(0, 0, 0)
    for kind, data in [(2, symbols), (3, names), *((1, data) for data in objects.values()), (1, code)]:
        table += section(kind, at, len(data), 2)
        parts.append(data)
        at += len(data)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    return ident + struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, at, 0, 64, 56, 0, 64, len(table) // 64, 2) + b"".join(parts) + table


def main():
    if sys.argv[1] == "--version":
        return print(f"release 13.0, {VERSION}")
    ptx = Path(sys.argv[4]).read_text()
    objects = {name: b"".join(struct.pack("<Q", int(word, 0)) for word in words.split(","))
               for name, words in re.findall(r"\.b64 (mk_\w+)\[\d+\] = \{([^}]*)\};", ptx)}
    Path(sys.argv[6]).write_bytes(elf((sys.argv[3] + ptx).encode(), objects))


main()
