"""Breaks a cubin's plan on purpose: the first product's notifications go to a counter that it waits for itself, so that its
consumers must end with a fault. Usage: break_plan.py IN.cubin OUT.cubin"""
import struct
import sys
from pathlib import Path

MAGIC = struct.pack("<I", 0x316B6D70)  # kPlanMagic of runtime/abi.h
HEADER, GRID = 16, 200
WAITS, NOTIFIES, OPERANDS = 16, 24, range(40, 152, 8)  # offsets of wait_base, notify_base, operand in a grid's record


def broken(data):
    """A cubin's or a plan's bytes with that plan broken."""
    data, at = bytearray(data), data.find(MAGIC)
    if at < 0 or struct.unpack_from("<I", data, at + 4)[0] < 2:
        sys.exit("break_plan: error: no plan of two grids or more")
    record = at + HEADER + GRID  # of grid 1: grid 0 embeds
    waited = struct.unpack_from("<I", data, record + WAITS)[0]
    struct.pack_into("<I", data, record + NOTIFIES, waited)
    return bytes(data)


def misled(data, grid, right, wrong):
    """A plan in which a grid reads what lies at another offset than at the right one."""
    data = bytearray(data)
    record = data.find(MAGIC) + HEADER + GRID * grid
    places = [at for at in (record + n for n in OPERANDS) if struct.unpack_from("<Q", data, at)[0] == right]
    if len(places) != 1:
        raise ValueError(f"grid {grid}: {len(places)} operands at {right}, expected 1")
    struct.pack_into("<Q", data, places[0], wrong)
    return bytes(data)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(broken(Path(sys.argv[1]).read_bytes()))
