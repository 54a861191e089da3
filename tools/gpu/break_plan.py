"""Breaks a cubin's plan on purpose: the first product's notifications go to a counter that nobody waits for any
more, so that its consumers must end with a fault. Usage: break_plan.py IN.cubin OUT.cubin"""
import struct
import sys

MAGIC = struct.pack("<I", 0x316B6D70)  # kPlanMagic of runtime/abi.h
HEADER, GRID = 16, 152
WAITS, NOTIFIES = 16, 24  # offsets of wait_base and notify_base in a grid's record


def main():
    data = bytearray(open(sys.argv[1], "rb").read())
    at = data.find(MAGIC)
    grids = struct.unpack_from("<I", data, at + 4)[0]
    assert at >= 0 and grids > 2, "no plan"
    record = at + HEADER + GRID  # of grid 1: grid 0 embeds
    waited = struct.unpack_from("<I", data, record + WAITS)[0]
    struct.pack_into("<I", data, record + NOTIFIES, waited)
    open(sys.argv[2], "wb").write(data)


main()
