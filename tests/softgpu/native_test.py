#!/usr/bin/env python3
"""Tests compiling for the device that is there, and around features that fail on it, on the software GPU."""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from software_gpu import ROOT, environment, require_assembler

BUILD = Path(sys.argv.pop(1)) if len(sys.argv) > 1 else ROOT / "build"
LLAMA = ROOT / "tests/fixtures/models/llama"
EXPECTED = json.loads((LLAMA / "expected.json").read_text())
PROMPT = ",".join(map(str, EXPECTED["prompt_ids"][:6]))
LIMIT_S = 240


class OnDevice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def environment(self, **settings):
        return environment(BUILD, **{"MKC_CACHE": str(self.folder / "cache"), "SOFTGPU_CC": "90", **settings})

    def mkc(self, *arguments, **settings):
        return subprocess.run([BUILD / "mkc", *map(str, arguments)], env=self.environment(**settings), capture_output=True,
                              text=True, timeout=LIMIT_S)

    def good(self, *arguments, **settings):
        done = self.mkc(*arguments, **settings)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def refused(self, fault, *arguments, **settings):
        done = self.mkc(*arguments, **settings)
        self.assertEqual((done.returncode, fault in done.stderr), (1, True), done.stdout + done.stderr)

    def inspected(self, cubin):
        return json.loads(self.good("inspect", cubin, "--json").stdout)


class Native(OnDevice):
    def test_run_compiles_for_the_device(self):
        for capability, sms in (("80", "3"), ("121", "4")):
            done = self.good("run", LLAMA, "--json", "--prompt-ids", PROMPT, "--max-new-tokens", 2, "--device", "cuda",
                             SOFTGPU_CC=capability, SOFTGPU_SMS=sms)
            found = json.loads(done.stdout)
            self.assertEqual(found["device"], f"software GPU sm_{capability}")
            emulator = self.good("run", LLAMA, "--json", "--prompt-ids", PROMPT, "--max-new-tokens", 2, "--device",
                                 "emulator", gpu=False)
            self.assertEqual(found["new_ids"], json.loads(emulator.stdout)["new_ids"])

    def test_compile_says_what_it_derived(self):
        cubin = self.folder / "native.cubin"
        done = self.good("compile", LLAMA, "--target", "native", "-o", cubin, SOFTGPU_CC="89", SOFTGPU_SMS="7")
        self.assertIn("machine: software GPU sm_89 (sm_89, 7 SMs): derived from l4, as no description is kept\n",
                      done.stderr)
        self.assertIn("reading rate: 0.92 of 256 bytes/ns, 2 x 1000 MHz x 1024 bits / 8\n", done.stderr)
        manifest = self.inspected(cubin)
        self.assertEqual((manifest["target"], manifest["workers"]), ("sm_89", 7))
        done = self.good("explain", LLAMA, "--machine", "native", "--json", SOFTGPU_CC="89", SOFTGPU_SMS="7")
        self.assertEqual(json.loads(done.stdout)["machine"], "software-gpu-sm-89")

    def test_an_assembler_that_is_newer_than_the_driver_is_refused_before_work(self):
        cubin = self.folder / "native.cubin"
        for command in (("compile", LLAMA, "--target", "native", "-o", cubin), ("run", LLAMA, "--prompt-ids", "1", "--device", "cuda")):
            self.refused("error: the driver supports CUDA 12.8, and ptxas 13.0", *command, SOFTGPU_SAYS="driver=12080")
        self.assertFalse(cubin.exists())
        self.good("compile", LLAMA, "--target", "sm_90a", "-o", cubin, SOFTGPU_SAYS="driver=12080")  # for another machine

    def test_devices_that_cannot_be_compiled_for(self):
        self.refused("software GPU sm_75: error: no target for compute capability 7.5; known: sm_80, sm_86, sm_89, "
                     "sm_90a, sm_100a, sm_120, sm_121\n", "compile", LLAMA, "--target", "native", SOFTGPU_CC="75")
        self.refused("cuda: error: no driver: libcuda.so.1 is not there\n", "compile", LLAMA, "--target", "native",
                     gpu=False)
        self.refused("machine a100: error: is of target sm_80, expected sm_90a\n", "compile", LLAMA, "--target",
                     "native", "--machine", "a100")


class Without(OnDevice):
    def test_code_goes_around_a_part(self):
        parts = {"bulk": "cp.async.bulk.", "setmaxnreg": "setmaxnreg.", "wgmma": "wgmma."}
        for left_out in ((), ("setmaxnreg",), ("bulk", "setmaxnreg", "wgmma")):
            flag = ("--without", ",".join(left_out)) if left_out else ()
            ptx = self.good("compile", LLAMA, "--max-tokens", 128, "--target", "sm_90a", "--emit", "ptx", *flag,
                            gpu=False).stdout
            for part, instruction in parts.items():
                self.assertEqual(instruction in ptx, part not in left_out, (part, left_out))

    def test_it_is_part_of_cubins_and_their_cache_key(self):
        cubin = self.folder / "a.cubin"
        make = ("compile", LLAMA, "--target", "sm_90a", "-o", cubin, "--json")
        self.assertFalse(json.loads(self.good(*make, gpu=False).stdout)["cached"])
        without = (*make, "--without", "wgmma,bulk,wgmma")
        made = json.loads(self.good(*without, gpu=False).stdout)
        self.assertEqual((made["cached"], made["without"]), (False, ["bulk", "wgmma"]))
        self.assertTrue(json.loads(self.good(*without, gpu=False).stdout)["cached"])
        self.assertEqual(self.inspected(cubin)["without"], ["bulk", "wgmma"])
        self.assertIn("  without    bulk, wgmma\n", self.good("inspect", cubin).stdout)

    def test_unknown_parts_are_refused(self):
        for command in (("compile", LLAMA), ("run", LLAMA, "--prompt-ids", 1), ("doctor",)):
            self.refused('--without: found "wgma", did you mean wgmma?, expected some of bulk, setmaxnreg, wgmma\n',
                         *command, "--without", "bulk,wgma", gpu=False)
        self.refused("--without: error: x.cubin is compiled already\n", "run", "x.cubin", "--checkpoint", LLAMA,
                     "--prompt-ids", 1, "--without", "bulk", gpu=False)

    def test_a_device_that_fails_in_a_part_is_right_without_it(self):
        # The prompt has more tokens than mma.sync alone multiplies.
        prompt = ",".join(str(1 + i * 7 % 90) for i in range(70))
        ask = ("run", LLAMA, "--json", "--max-tokens", 128, "--context", 128, "--prompt-ids", prompt,
               "--max-new-tokens", 2, "--device")
        wanted = json.loads(self.good(*ask, "emulator", gpu=False).stdout)["new_ids"]
        for defect, parts in (("wgmma.mma_async", "wgmma"), ("setmaxnreg", "setmaxnreg"), ("cp.async.bulk", "bulk")):
            found = json.loads(self.good(*ask, "cuda", "--without", parts, SOFTGPU_BREAK=defect).stdout)
            self.assertEqual(found["new_ids"], wanted, parts)
        there = json.loads(self.good(*ask, "emulator", "--without", "bulk,wgmma", gpu=False).stdout)
        self.assertEqual(there["new_ids"], wanted)


if __name__ == "__main__":
    require_assembler()
    unittest.main(verbosity=1)
