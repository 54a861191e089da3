#!/usr/bin/env python3
"""Writes tests/oracle/e4m3/vectors.json: 8-bit floats as torch's float8_e4m3fn has them. Floats are given by
their bits.

torch does not saturate, so larger values are clamped to the largest number first. The program needs torch,
and its result is committed.
"""
import json
import pathlib

import torch


def bits(values):
    return [v & 0xFFFFFFFF for v in values.to(torch.float32).view(torch.int32).tolist()]


def floats():
    """Returns random floats of all sizes, each number of the format, the middles of neighbours, and values
    beside the middles.
    """
    random = torch.Generator().manual_seed(1)
    spread = torch.randn(300, generator=random) * torch.exp2(torch.randint(-12, 11, (300,), generator=random))
    numbers = torch.arange(127, dtype=torch.uint8).view(torch.float8_e4m3fn).to(torch.float32)
    middles = (numbers[1:] + numbers[:-1]) / 2
    edges = torch.tensor([0.0, -0.0, 448.0, 464.0, 464.1, 1e30, float("inf"), float("-inf"), 2.0**-10, 2.0**-149])
    beside = [torch.nextafter(middles, torch.full_like(middles, to)) for to in (0.0, 1e9)]
    return torch.cat([spread, numbers, middles, -middles, *beside, edges])


def main():
    codes = torch.arange(256, dtype=torch.int32).to(torch.uint8)
    values = floats()
    stored = values.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8).tolist()
    vectors = {"numbers": bits(codes.view(torch.float8_e4m3fn)), "floats": bits(values), "codes": stored}
    path = pathlib.Path(__file__).parent / "e4m3" / "vectors.json"
    path.write_text(json.dumps(vectors) + "\n")


if __name__ == "__main__":
    main()
