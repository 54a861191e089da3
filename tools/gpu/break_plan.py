"""Breaks a cubin's plan on purpose: the first product's notifications go to a counter that it waits for itself, so that its
consumers must end with a fault. Usage: break_plan.py IN.cubin OUT.cubin"""
import struct
import sys
from pathlib import Path

MAGIC = struct.pack("<I", 0x316B6D70)  # kPlanMagic of runtime/abi.h
HEADER, GRID = 16, 184
WAITS, NOTIFIES = 16, 24  # offsets of wait_base and notify_base in a grid's record


def broken(data):
    """A cubin's or a plan's bytes with that plan broken."""
    data, at = bytearray(data), data.find(MAGIC)
    if at < 0 or struct.unpack_from("<I", data, at + 4)[0] < 2:
        sys.exit("break_plan: error: no plan of two grids or more")
    record = at + HEADER + GRID  # of grid 1: grid 0 embeds
    waited = struct.unpack_from("<I", data, record + WAITS)[0]
    struct.pack_into("<I", data, record + NOTIFIES, waited)
    return bytes(data)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(broken(Path(sys.argv[1]).read_bytes()))
