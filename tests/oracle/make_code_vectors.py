#!/usr/bin/env python3
"""Writes tests/oracle/codes/vectors.json: the number of each code of E2M1 and E8M0, by ml_dtypes 0.6.0 and numpy.

Usage: make_code_vectors.py [FILE]. Numbers are the bits of f32.
"""
import json
import sys
from pathlib import Path

import ml_dtypes
import numpy

FILE = Path(__file__).parent / "codes" / "vectors.json"


def numbers(dtype, count):
    codes = numpy.arange(count, dtype=numpy.uint8).view(dtype)
    return [int(bits) for bits in codes.astype(numpy.float32).view(numpy.uint32)]


vectors = {"e2m1": numbers(ml_dtypes.float4_e2m1fn, 16), "e8m0": numbers(ml_dtypes.float8_e8m0fnu, 256)}
file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
file.parent.mkdir(exist_ok=True)
file.write_text(json.dumps(vectors, separators=(",", ":")) + "\n")
