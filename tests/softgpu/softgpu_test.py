#!/usr/bin/env python3
"""Runs fixtures on the software GPU and compares their tokens with transformers' and the emulator's, and
their logits with the emulator's.

A case is MODEL:TARGET[:OPTION,...]; options are those of mkc run. Skipped (77) where there is no assembler
for PTX.
"""
import argparse
import array
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from software_gpu import ROOT, distance, environment, require_assembler


# Greatest share of shared memory's wavefronts. Conflicts in product sums alone once cost 0.14.
MOST_CONFLICTS = 0.05


def rows_of_npy(path):
    raw = Path(path).read_bytes()
    (header,) = struct.unpack_from("<H", raw, 8)
    return array.array("f", raw[10 + header :])


def excess_wavefronts(path):
    """Returns the share of shared memory's wavefronts that bank conflicts cost."""
    counts = [tuple(map(int, line.split())) for line in path.read_text().splitlines()]
    wavefronts = sum(count[2] for count in counts)
    return (wavefronts - sum(count[3] for count in counts)) / wavefronts


class Case:
    def __init__(self, text, build, folder):
        self.name = text
        model, target, *options = text.split(":")
        self.target, self.build, self.folder = target, build, folder
        self.model = ROOT / "tests/fixtures/models" / model
        self.options = [o for part in options for o in part.split(",")]
        self.expected = json.loads((self.model / "expected.json").read_text())

    def run(self, device, new_tokens, env):
        """Returns what mkc run prints as JSON, its logits, and its error output."""
        logits = self.folder / f"{device}.npy"
        ids = ",".join(map(str, self.expected["prompt_ids"]))
        command = [self.build / "mkc", "run", self.model, "--device", device, "--workers", "4", "--json"]
        command += ["--prompt-ids", ids, "--max-new-tokens", str(new_tokens), "--logits-out", logits, *self.options]
        if device == "cuda":
            command += ["--target", self.target]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=240)
        if done.returncode != 0:
            raise AssertionError(f"{self.name}: {done.stdout}{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1]), rows_of_npy(logits), done.stderr

    def check(self, settings, new_tokens, tolerance):
        since = time.monotonic()
        capability = self.target.removeprefix("sm_").removesuffix("a")
        banks = self.folder / "banks"
        env = environment(self.build, SOFTGPU_CC=capability, SOFTGPU_STATS="1", SOFTGPU_BANKS=str(banks), **settings)
        found, logits, said = self.run("cuda", new_tokens, env)
        excess = excess_wavefronts(banks)
        wanted, reference, _ = self.run("emulator", new_tokens, environment(self.build, gpu=False))
        worst = distance(logits, reference)
        speed = next((line for line in said.splitlines() if "million" in line), "")
        print(f"{self.name} {settings}: logits within {worst:.3g}, {excess:.1%} of wavefronts are bank conflicts, {time.monotonic() - since:.1f} s; {speed}", flush=True)
        if "software GPU" not in found["device"]:
            raise AssertionError(f"{self.name} ran on {found['device']}")
        if found["new_ids"] != wanted["new_ids"] or len(logits) != len(reference):
            raise AssertionError(f"{self.name}: tokens {found['new_ids']}, the emulator's are {wanted['new_ids']}")
        if found["new_ids"] != self.expected["new_ids"][:new_tokens]:
            raise AssertionError(f"{self.name}: tokens {found['new_ids']}, expected {self.expected['new_ids']}")
        if excess > MOST_CONFLICTS:
            raise AssertionError(f"{self.name}: {excess:.1%} of shared memory's wavefronts are bank conflicts, at most {MOST_CONFLICTS:.0%}")
        if not worst <= tolerance:
            raise AssertionError(f"{self.name}: logits differ from the emulator's by {worst}, at most {tolerance}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--new-tokens", type=int, default=4)
    parser.add_argument("--tolerance", type=float, default=0.05, help="of a logit; sums are in another order")
    parser.add_argument("--races", action="store_true", help="look for races, too")
    parser.add_argument("--seed", default="1")
    parser.add_argument("cases", nargs="+")
    given = parser.parse_args()
    require_assembler()
    settings = {"SOFTGPU_SEED": given.seed, "SOFTGPU_RACES": "1" if given.races else "0"}
    with tempfile.TemporaryDirectory() as folder:
        for text in given.cases:
            Case(text, given.build, Path(folder)).check(settings, given.new_tokens, given.tolerance)
    return 0


if __name__ == "__main__":
    sys.exit(main())
