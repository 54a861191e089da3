"""These tests check that kernels of published shapes keep everything in registers, by the assembler's report.

The option --all compiles each shape for each target, at 64 and 256 tokens a step. The default compiles the
shapes of tools/bench/configs for sm_90a at 256 tokens, where kernels need most registers, and the other
shapes for one of the other targets each.
"""
import itertools
import json
import shutil
import subprocess
import sys
import unittest

from command import MKC, ROOT, Command

sys.path.insert(0, str(ROOT / "tools" / "bench"))
from control_path import register_limits

FETCHED = MKC.parent / "assembler" / "bin" / "nvdisasm"
NVDISASM = FETCHED if FETCHED.exists() else shutil.which("nvdisasm")
WAYS = list(itertools.product(("64", "256"), ("sm_90a", "sm_80", "sm_89", "sm_120")))
ALL = "--all" in sys.argv
BENCH, OTHER = (sorted((ROOT / folder).iterdir()) for folder in ("tools/bench/configs", "tests/fixtures/configs"))
# Targets and tokens of each shape by default.
DEFAULT = [(config, ("256", "sm_90a")) for config in BENCH] + list(zip(OTHER, [WAYS[1], WAYS[6], WAYS[3], WAYS[5]]))
MORE = {"qwen3-30b-a3b-fp8-block": ("--max-requests", "64")}  # with 256 tokens, the kernel that needed most registers
CASES = itertools.product(BENCH + OTHER, WAYS) if ALL else DEFAULT
CODED_LAYERS = 2
MIXED = {"mlp_only_layers": [0]}  # a dense layer before one with experts, so that one kernel has the products of both
CODED = [("llama-3.1-8b", {}), ("qwen3-30b-a3b", {})] if ALL else [("qwen3-30b-a3b", MIXED)]


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head", "re:.*mlp.gate$"],
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def integers(bits, group, symmetric):
    return compressed("pack-quantized", num_bits=bits, type="int", strategy="group", group_size=group, symmetric=symmetric)


CODINGS = {
    "e4m3": compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True),
    "e4m3_block": {"quant_method": "fp8", "weight_block_size": [128, 128]},
    "int4": integers(4, 128, True),
    "int4_group32": integers(4, 32, True),
    "int4_zero": integers(4, 128, False),
    "int4_zero_group32": integers(4, 32, False),
    "int8": integers(8, 128, True),
    "int8_group32": integers(8, 32, True),
    "mxfp4": compressed("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32, symmetric=True),
    "nvfp4": compressed("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True),
}


class Spills(Command):
    def check_registers(self, out, warpgroups=False):
        summary = json.loads(out)
        self.assertGreater(summary["registers"], 0)  # the assembler's log was read
        self.assertEqual(summary["spill_bytes"], 0)
        if NVDISASM and summary["target"] == "sm_90a":
            self.check_register_limits(warpgroups)

    def check_register_limits(self, warpgroups):
        """Checks that no code behind setmaxnreg uses a register that its warps lack. Kernels with products of warpgroups
        have such code."""
        sass = subprocess.run([NVDISASM, "-c", self.dir / "a.cubin"], capture_output=True, text=True, timeout=60, check=True).stdout
        limits = register_limits(sass)
        self.assertTrue(limits or not warpgroups)
        for limit, highest in limits:
            self.assertLess(highest, limit)

    def test_no_shape_spills(self):
        for config, (tokens, target) in CASES:
            with self.subTest(f"{config.name}, {tokens} tokens, {target}"):
                code, out, err = self.mkc("compile", config, "--target", target, "--max-tokens", tokens, "--json", "-o", "a.cubin",
                                          *MORE.get(config.name, ()))
                if "no assembler" in err:
                    self.skipTest("no assembler")
                self.assertEqual(code, 0, err)
                self.check_registers(out, warpgroups=(tokens, target) == ("256", "sm_90a"))

    def test_no_shape_spills_that_unpacks_its_weights(self):
        for n, (coding, (name, more)) in enumerate(itertools.product(CODINGS, CODED)):
            # BENCH has e4m3_block by warpgroups, which rescale sums and need most registers in kernels of many tokens.
            for tokens, target in WAYS if ALL else [WAYS[n % len(WAYS)]]:
                with self.subTest(f"{name} of {coding}, {tokens} tokens, {target}"):
                    text = json.loads((ROOT / "tools/bench/configs" / name / "config.json").read_text())
                    text.update(num_hidden_layers=CODED_LAYERS, quantization_config=CODINGS[coding], **more)
                    coded = self.dir / coding
                    coded.mkdir(exist_ok=True)
                    (coded / "config.json").write_text(json.dumps(text))
                    code, out, err = self.mkc("compile", coded, "--target", target, "--max-tokens", tokens, "--json", "-o", "a.cubin")
                    if "no assembler" in err:
                        self.skipTest("no assembler")
                    self.assertEqual(code, 0, err)
                    self.check_registers(out)
                    formats = {line.split()[2] for line in self.mkc("inspect", "a.cubin")[1].decode().splitlines() if line.startswith("l*.")}
                    self.assertIn(coding, formats)

    def test_no_shape_spills_that_rounds_activations_to_8_bits(self):
        ways = list(itertools.product(("64", "256"), ("sm_89", "sm_120")))
        by_warpgroups = [("256", "sm_90a")]
        for n, coding in enumerate(("e4m3", "e4m3_block")):
            for tokens, target in ways + by_warpgroups if ALL else ways[n::3] + by_warpgroups * n:
                with self.subTest(f"{coding}, {tokens} tokens, {target}"):
                    text = json.loads((ROOT / "tools/bench/configs/qwen3-8b/config.json").read_text())
                    text.update(num_hidden_layers=CODED_LAYERS, quantization_config=CODINGS[coding])
                    (self.dir / "config.json").write_text(json.dumps(text))
                    code, out, err = self.mkc("compile", self.dir, "--target", target, "--max-tokens", tokens, "--activations", "fp8",
                                              "--json", "-o", "a.cubin")
                    if "no assembler" in err:
                        self.skipTest("no assembler")
                    self.assertEqual(code, 0, err)
                    self.check_registers(out)


unittest.main(argv=sys.argv[:1], verbosity=1)
