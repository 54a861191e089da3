"""These tests check that kernels of published shapes keep everything in registers, by the assembler's report.

The option --all compiles each shape for each target, at 64 and 256 tokens a step. The default compiles each
shape once, in turn for another target and number of tokens.
"""
import itertools
import json
import pathlib
import sys
import tempfile
import unittest

from coded_checkpoint import QUANTIZATION, write_coded
from command import ROOT, Command

CONFIGS = [path for folder in ("tools/bench/configs", "tests/fixtures/configs") for path in sorted((ROOT / folder).iterdir())]
WAYS = list(itertools.product(("64", "256"), ("sm_90a", "sm_80", "sm_89", "sm_120")))
ALL = "--all" in sys.argv
CODED = [ROOT / "tools/bench/configs" / name for name in ("llama-3.1-8b", "qwen3-30b-a3b")]


class Spills(Command):
    def test_no_shape_spills(self):
        for n, config in enumerate(CONFIGS):
            for tokens, target in WAYS if ALL else [WAYS[n % len(WAYS)]]:
                with self.subTest(f"{config.name}, {tokens} tokens, {target}"):
                    code, out, err = self.mkc("compile", config, "--target", target, "--max-tokens", tokens, "--json", "-o", "a.cubin")
                    self.assertEqual(code, 0, err)
                    if "no assembler" in err:
                        self.skipTest("no assembler")
                    self.assertEqual(json.loads(out)["spill_bytes"], 0)

    def test_no_shape_spills_that_unpacks_its_weights(self):
        for n, (config, coding) in enumerate(itertools.product(CODED, QUANTIZATION)):
            for tokens, target in WAYS if ALL else [WAYS[n % len(WAYS)]]:
                with self.subTest(f"{config.name} of {coding}, {tokens} tokens, {target}"), tempfile.TemporaryDirectory() as directory:
                    coded = pathlib.Path(directory) / config.name
                    write_coded(config, coded, coding)
                    code, out, err = self.mkc("compile", coded, "--target", target, "--max-tokens", tokens, "--json", "-o", "a.cubin")
                    self.assertEqual(code, 0, err)
                    if "no assembler" in err:
                        self.skipTest("no assembler")
                    self.assertEqual(json.loads(out)["spill_bytes"], 0)


unittest.main(argv=sys.argv[:1], verbosity=1)
