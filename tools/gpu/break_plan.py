"""Breaks a cubin's plan on purpose. The first product's notifications go to a counter that it waits for itself, so
its consumers must end with a fault. The manifest says the same, as the runtime compares both. The seal is broken.

Usage: break_plan.py IN.cubin OUT.cubin
"""
import json
import struct
import sys
from pathlib import Path

MAGIC = struct.pack("<I", 0x326B6D70)  # kPlanMagic of runtime/abi/abi.h
HEADER, GRID, UNIT = 96, 144, 256  # UNIT: kOperandUnit
WAITS, NOTIFIES, OPERANDS = 16, 24, range(40, 96, 4)  # offsets of wait_base, notify_base, operand in a grid's record
MANIFEST = b'{"abi":'  # how a manifest begins


def lost(plan):
    """A plan's bytes, or a cubin's, in which grid 1 notifies what it waits for; grid 0 embeds."""
    plan, at = bytearray(plan), plan.find(MAGIC)
    if at < 0 or struct.unpack_from("<I", plan, at + 4)[0] < 2:
        sys.exit("break_plan: error: no plan of two grids or more")
    record = at + HEADER + GRID
    waited = struct.unpack_from("<I", plan, record + WAITS)[0]
    struct.pack_into("<I", plan, record + NOTIFIES, waited)
    return bytes(plan)


def lost_in(manifest):
    """A manifest, as bytes, that says so."""
    says = json.loads(manifest)
    grid = says["grids"][1]
    grid["notifies"][0] = grid["waits"][0]
    return json.dumps(says, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def broken(manifest, plan):
    """Both with that fault."""
    return lost_in(manifest), lost(plan)


def broken_cubin(cubin):
    """A cubin with that fault. Its manifest may be shorter than before: blanks fill the rest."""
    at = cubin.find(MANIFEST)
    if at < 0:
        sys.exit("break_plan: error: no manifest")
    text = cubin[at:].decode(errors="replace")
    size = len(text[:json.JSONDecoder().raw_decode(text)[1]].encode())
    manifest = lost_in(cubin[at:at + size])
    room = size + len(cubin[at + size:]) - len(cubin[at + size:].lstrip(b" "))
    if len(manifest) > room:
        sys.exit("break_plan: error: no room for the manifest")
    return lost(cubin[:at] + manifest.ljust(room) + cubin[at + room:])


def misled(manifest, plan, grid, right, wrong):
    """Manifest and plan in which a grid reads another tensor than the right one."""
    says, data = json.loads(manifest), bytearray(plan)
    offsets = {weight["name"]: weight["offset"] for weight in says["weights"]}
    index = [g["name"] for g in says["grids"]].index(grid)
    operands = says["grids"][index]["operands"]
    record = data.find(MAGIC) + HEADER + GRID * index
    places = [at for at in (record + n for n in OPERANDS) if struct.unpack_from("<I", data, at)[0] * UNIT == offsets[right]]
    if len(places) != 1 or operands.count(right) != 1:
        raise ValueError(f"grid {grid}: {len(places)} operands are {right}, expected 1")
    struct.pack_into("<I", data, places[0], offsets[wrong] // UNIT)
    operands[operands.index(right)] = wrong
    return json.dumps(says).encode(), bytes(data)


if __name__ == "__main__":
    Path(sys.argv[2]).write_bytes(broken_cubin(Path(sys.argv[1]).read_bytes()))
