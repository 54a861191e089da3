"""Environment in which programs find the software GPU, and the assembler that it needs."""
import math
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ASSEMBLER = ROOT / "tests/softgpu/ptxas"
SKIP = 77


def environment(build, gpu=True, **settings):
    """Returns the environment of a program that finds the GPU (gpu) and the assembler, with settings over
    the defaults. Tests share a cache."""
    library = f"{Path(build).resolve()}/tests/softgpu/lib:" if gpu else ""
    return {**os.environ, "LD_LIBRARY_PATH": library + os.environ.get("LD_LIBRARY_PATH", ""),
            "MKC_ASSEMBLER": str(ASSEMBLER), "SOFTGPU_SMS": "4",
            "MKC_CACHE": f"{Path(build).resolve()}/tests/cache", **settings}


def distance(found, expected):
    """Returns the greatest distance of two elements. The distance is infinite where lengths differ, or where an
    element is NaN, which max() may drop."""
    distances = [abs(a - b) for a, b in zip(found, expected)]
    if len(found) != len(expected) or not all(d == d for d in distances):
        return math.inf
    return max(distances, default=0.0)


def require_assembler():
    """Ends the program as skipped where NVIDIA's assembler is missing."""
    if subprocess.run([ASSEMBLER, "--version"], capture_output=True, timeout=60).returncode != 0:
        print("SKIP: no assembler for PTX")
        sys.exit(SKIP)
