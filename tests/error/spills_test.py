"""Kernels of published shapes keep everything in registers, by what the assembler says."""
import json
import sys
import unittest

from command import ROOT, Command

CONFIGS = [path for folder in ("tools/bench/configs", "tests/fixtures/configs") for path in sorted((ROOT / folder).iterdir())]


class Spills(Command):
    def test_no_shape_spills_by_default(self):
        for config in CONFIGS:
            with self.subTest(config.name):
                code, out, err = self.mkc("compile", config, "--json", "-o", "a.cubin")
                self.assertEqual(code, 0, err)
                if "no assembler" in err:
                    self.skipTest("no assembler")
                self.assertEqual(json.loads(out)["spill_bytes"], 0)


unittest.main(argv=sys.argv[:1], verbosity=1)
