"""These tests check what tools/gpu says of GPUs, drivers, nvidia-smi and cubins. Usage: gpu_machine_test.py ROOT"""
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools" / "gpu"))
sys.dont_write_bytecode = True
import checks  # noqa: E402
import kit  # noqa: E402
import machine  # noqa: E402

GIB = 1 << 30
H100 = {"name": "NVIDIA H100 80GB HBM3", "bus_id": "0000:3b:00.0", "driver_api": 13000, "memory_bytes": 80 * GIB,
        "free_bytes": 79 * GIB, "clock_khz": 1980000, "sms": 132, "compute_mode": 0, "major": 9, "minor": 0}
CUBIN = {"target": "sm_90a", "workers": 132}
QUIET = {"persistence_mode": "Enabled", "ecc.mode.current": "Enabled", "utilization.gpu": "0", "power.limit": "700.00",
         "power.default_limit": "700.00"}


class NotesTest(unittest.TestCase):
    def note_on_gpu(self, about=(), **said):
        (note,) = machine.notes_on_gpu({**H100, **dict(about)}, {**QUIET, **said})
        return note

    def note_on_cubins(self, abi=8, **about):
        (note,) = machine.notes_on_cubins({**H100, **about}, CUBIN, abi)
        return note

    def test_a_quiet_gpu_has_none(self):
        self.assertEqual(list(machine.notes_on_gpu(H100, QUIET)), [])
        self.assertEqual(list(machine.notes_on_cubins(H100, CUBIN, 8)), [])
        self.assertEqual(list(machine.notes_on_cubins({**H100, "driver_api": 12080}, CUBIN, 7)), [])
        self.assertIsNone(machine.note_on_clock(1965, 1980))

    def test_what_was_found_and_expected(self):
        self.assertIn("3072 MB of 81920 MB are free, expected nearly all", self.note_on_gpu({"free_bytes": 3 * GIB}))
        self.assertIn("exclusive process, expected default", self.note_on_gpu({"compute_mode": 3}))
        self.assertIn("persistence mode is off, expected on", self.note_on_gpu(persistence_mode="Disabled"))
        self.assertIn("ECC is off, expected on", self.note_on_gpu(**{"ecc.mode.current": "Disabled"}))
        self.assertIn("busy for 98% of the time, expected 0", self.note_on_gpu(**{"utilization.gpu": "98"}))
        self.assertIn("the power limit is 350 W, expected 700", self.note_on_gpu(**{"power.limit": "350.00"}))
        self.assertIn("the clock is 1095 MHz, expected near 1980", machine.note_on_clock(1095, 1980))
        (note,) = machine.notes_on_gpu(H100, {})
        self.assertIn("nvidia-smi is not installed", note)

    def test_cubins_for_other_drivers_and_sizes(self):
        self.assertIn("the driver supports CUDA 12.4, and the cubins were assembled by CUDA 13: expected a driver of 13.0",
                      self.note_on_cubins(driver_api=12040))
        self.assertIn("the GPU has 114 SMs, and the cubins have 132 workers", self.note_on_cubins(sms=114))
        self.assertIn("the MIG slice has 16 SMs", self.note_on_cubins(sms=16, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb"))

    def test_what_stops_a_script(self):
        self.assertIsNone(machine.unusable(H100, None, CUBIN))
        self.assertEqual(machine.unusable(None, "no driver", CUBIN), "no driver")
        self.assertIn("is sm_103, and the cubins are for sm_90a", machine.unusable({**H100, "major": 10, "minor": 3}, None, CUBIN))
        self.assertIn("is prohibited, expected default", machine.unusable({**H100, "compute_mode": 2}, None, CUBIN))


class SmiTest(unittest.TestCase):
    def said(self, script):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "nvidia-smi"
            program.write_text("#!/bin/sh\n" + script)
            program.chmod(0o755)
            with unittest.mock.patch.dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"):
                return machine.state("0000:3b:00.0")

    def test_one_gpu_is_asked_for(self):
        said = self.said('[ "$4" = 0000:3b:00.0 ] || exit 6\necho "570.86, Disabled, Default, [N/A]"\n')
        self.assertEqual((said["driver_version"], said["persistence_mode"], said["mig.mode.current"]), ("570.86", "Disabled", "[N/A]"))

    def test_an_older_one_says_less(self):
        self.assertEqual(self.said('case $1 in *,*) echo "Field \\"x\\" is not a valid field to query."; exit 2;; esac\necho 535.54\n'),
                         {"driver_version": "535.54"})

    def test_one_that_fails_says_nothing(self):
        self.assertEqual(self.said("exit 9\n"), {})
        self.assertIsNone(machine.number("[N/A]"))


class LoadsTest(unittest.TestCase):
    def loads(self, spilled, **row):
        """Runs the check of one cubin, of which the assembler and the driver say this."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "a.cubin").touch()
            (folder / "compiled").mkdir()
            (folder / "compiled" / "a.json").write_text(json.dumps({"registers": 168, "spill_bytes": spilled}))
            row = {"cubin": "a.cubin", "kernels": 1, "workers": 4, "resident": 4, "registers": 168, "local_bytes": 0, **row}
            runner = unittest.mock.Mock(driver_api=12080, useless=None)
            with unittest.mock.patch.multiple(checks, HERE=folder, CUBINS=folder, lines=lambda *_: [row]):
                try:
                    checks.loads(runner)
                except kit.Failed as e:
                    return str(e), runner.useless
        return None, runner.useless

    def test_local_memory_is_what_the_assembler_spilled(self):
        self.assertEqual(self.loads(0), (None, None))
        self.assertEqual(self.loads(32, local_bytes=40), (None, None))
        self.assertIn("168 registers and 40 bytes of local memory", self.loads(0, local_bytes=40)[0])

    def test_a_driver_that_loads_nothing_ends_the_checks(self):
        why, useless = self.loads(0, why="cuModuleLoadData gave CUDA_ERROR_INVALID_IMAGE")
        self.assertIn("the driver supports CUDA 12.8 and loads none of 1 cubins: cuModuleLoadData gave", why)
        self.assertIn("the driver loads no cubin", useless)


class AskTest(unittest.TestCase):
    def answer(self, error):
        done = unittest.mock.Mock(returncode=1, stderr=f"Traceback\nError: {error}\n")
        with unittest.mock.patch.object(machine, "output", lambda *_: done):
            about, why = machine.ask()
        self.assertIsNone(about)
        return why

    def test_a_driver_that_does_not_start_is_explained(self):
        self.assertIn("cuInit gave CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: libcuda.so.1 and the kernel module",
                      self.answer("cuInit gave CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"))
        self.assertIn("nvidia-fabricmanager", self.answer("cuInit gave CUDA_ERROR_SYSTEM_NOT_READY"))
        self.assertEqual(self.answer("cuInit gave CUDA_ERROR_INVALID_VALUE"), "cuInit gave CUDA_ERROR_INVALID_VALUE")


unittest.main(argv=sys.argv[:1])
