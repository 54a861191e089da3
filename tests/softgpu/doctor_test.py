#!/usr/bin/env python3
"""Tests mkc doctor on the software GPU: a sound device passes, and each seeded defect is named."""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from native_test import BUILD, LIMIT_S, LLAMA, OnDevice
from software_gpu import require_assembler

# Each row has what is broken (tests/softgpu/defects.h), the check that must fail, and the part to go without.
DEFECTS = [
    ("wgmma.mma_async", "wgmma (bf16)", "wgmma"),
    ("wgmma.wait_group", "wgmma (bf16)", "wgmma"),
    ("setmaxnreg", "setmaxnreg", "setmaxnreg"),
    ("cp.async.bulk", "cp.async.bulk", "bulk"),
    ("mbarrier.arrive.expect_tx", "cp.async.bulk", "bulk"),
    ("cp.async.cg", "cp.async", ""),
    ("cp.async.mbarrier", "cp.async", ""),
    ("mbarrier.try_wait", "mbarrier", ""),
    ("mbarrier.arrive.shared", "mbarrier", ""),
    ("mma.sync", "mma.sync", ""),
    ("bar.sync", "barrier.cta.sync", ""),
    ("shfl", "shfl.sync, vote.sync", ""),
    ("rsqrt", "rsqrt, rcp, ex2, cvt, prmt", ""),
    ("cvt.rn.satfinite.e4m3x2", "cvt to and from e4m3", ""),
    ("acquire", "release and acquire between blocks", ""),
    ("release", "release and acquire between blocks", ""),
    ("atom.relaxed.gpu.global.add", "atom.add, atom.cas, red", ""),
    ("atom.relaxed.gpu.global.cas", "atom.add, atom.cas, red", ""),
]


class Doctor(OnDevice):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.kept = folder.name  # keeps the cubins of bodies, which take most of the time

    def doctor(self, *arguments, **settings):
        done = self.mkc("doctor", "--json", *arguments, **settings)
        return done, json.loads(done.stdout)

    def failed(self, found):
        return [c["name"] for c in found["checks"] if not c["passed"]]

    def test_a_sound_device_passes_and_is_measured(self):
        done, found = self.doctor("--only", "primitive", "--only", "gated layer, bf16", "--only", "by warpgroups", "--only",
                                  "measure", MKC_CACHE=self.kept, SOFTGPU_L2="65536")
        self.assertEqual((done.returncode, self.failed(found)), (0, []), done.stdout + done.stderr)
        self.assertEqual((found["gpu"], found["device"]["capability"]), ("software GPU sm_90", "9.0"))
        self.assertEqual(len(found["checks"]), 17, found["checks"])
        self.assertEqual(set(found["measured"]["seen"]), {"notify_ns", "stream_bytes_per_ns", "cold_burst"})
        kept = json.loads(Path(found["measured_file"]).read_text())
        self.assertEqual((kept["device"], kept["failed"]), ("software GPU sm_90", []))
        self.assertEqual(set(kept["figures"]) | set(kept["left_out"]), set(kept["seen"]))
        self.assertTrue(kept["figures"]["stream_bytes_per_ns"]["source"].startswith(
            "measured by mkc doctor on software GPU sm_90, "), kept)
        done = self.good("compile", LLAMA, "--target", "native", "--emit", "ops", MKC_CACHE=self.kept, SOFTGPU_L2="65536")
        self.assertIn("  measured by mkc doctor on this device: ", done.stderr)
        self.assertEqual(set(found["seconds"]), {"all", "threads", "compile", "compile_primitives", "open", "checks", "measure"})
        # A second run, which knows what the first one measured, finds its kernels in the cache.
        _, again = self.doctor("--only", "gated layer, bf16", MKC_CACHE=self.kept, SOFTGPU_L2="65536")
        self.assertEqual([(c["passed"], c["cached"]) for c in again["checks"]], [(True, True)])

    def test_seconds_are_printed_for_each_check(self):
        text = self.good("doctor", "--only", "mbarrier", "--only", "norm").stdout
        self.assertRegex(text, r"  passed   *[0-9.]+ s  primitive mbarrier\n")
        self.assertRegex(text, r"  passed   *[0-9.]+ s  body norm, bf16, compiled in [0-9.]+ s\n")
        self.assertRegex(text, r"2 of 2 passed, in [0-9.]+ s: [0-9.]+ s to compile on [0-9]+ threads and, partly beside it, [0-9.]+ s to open the GPU, "
                               r"[0-9.]+ s for checks, [0-9.]+ s to measure\n")

    def test_a_cache_that_takes_no_files_spoils_nothing(self):
        done, found = self.doctor("--only", "gated layer, f32", MKC_CACHE="/dev/null/none")
        self.assertEqual((done.returncode, [c["passed"] for c in found["checks"]]), (0, [True]), found)

    def test_bodies_are_skipped_without_an_assembler(self):
        done, found = self.doctor("--only", "mma.sync", "--only", "product", MKC_ASSEMBLER="/nowhere/ptxas")
        self.assertEqual((done.returncode, [c["passed"] for c in found["checks"]]), (0, [True, False]), found)
        self.assertIn("MKC_ASSEMBLER /nowhere/ptxas: error: cannot be started", found["checks"][1]["skipped"])

    def test_a_driver_that_does_not_start_is_explained(self):
        done, found = self.doctor(SOFTGPU_SAYS="cuInit=803")
        self.assertEqual((done.returncode, found["default_device"]), (0, "cpu"))
        self.assertIn("cuInit gave CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803): libcuda.so.1 and the driver's kernel module are of "
                      "different versions, expected equal ones", found["gpu"])
        _, found = self.doctor(SOFTGPU_SAYS="cuInit=100", CUDA_VISIBLE_DEVICES="GPU-5ca1ab1e")
        self.assertIn('CUDA_ERROR_NO_DEVICE (100): CUDA_VISIBLE_DEVICES is "GPU-5ca1ab1e", expected', found["gpu"])
        _, found = self.doctor(SOFTGPU_SAYS="cuInit=999")
        self.assertIn("CUDA_ERROR_UNKNOWN (999): often /dev/nvidia-uvm is missing", found["gpu"])

    def test_a_gpu_that_cannot_be_opened_is_no_list_of_failures(self):
        for call, code, said in (("cuDevicePrimaryCtxRetain", 46, "another process has the GPU for itself"),
                                 ("cuModuleLoadData", 222, "the driver is older than the assembler or the PTX")):
            done, found = self.doctor("--only", "primitive", SOFTGPU_SAYS=f"{call}={code}")
            self.assertEqual((done.returncode, found["checks"]), (1, []), found)
            self.assertIn(said, found["unusable"])
            self.assertIn("software GPU sm_90 cannot be used: ", done.stderr)

    def test_what_may_spoil_checks_is_noted(self):
        says = "driver=12080,compute_mode=3,free=200000000,clock_mhz=600"
        done, found = self.doctor("--only", "measure", SOFTGPU_SAYS=says, SOFTGPU_L2="65536")
        self.assertEqual(done.returncode, 0, done.stderr)
        for part in ("the driver supports CUDA 12.8, and ptxas 13.0", "compute mode is exclusive process, expected default",
                     "190 MB of 4096 MB are free, expected nearly all", "the clock is 600 MHz after the reads, expected near 1000"):
            self.assertTrue(any(part in note for note in found["notes"]), (part, found["notes"]))
        self.assertEqual(set(found["measured"]["seen"]), {"notify_ns", "stream_bytes_per_ns", "cold_burst"})
        self.assertIn("compute mode is exclusive", self.good("doctor", "--no-checks", SOFTGPU_SAYS=says).stdout)

    def test_a_name_that_no_check_has_is_an_error(self):
        self.refused("--only: error: found primitve, which is part of no check's name", "doctor", "--only", "primitve")

    def test_fewer_checks_where_a_device_has_less(self):
        done, found = self.doctor("--only", "primitive", SOFTGPU_CC="80")
        self.assertEqual((done.returncode, self.failed(found)), (0, []), done.stdout + done.stderr)
        names = [c["name"] for c in found["checks"]]
        self.assertIn("primitive cp.async", names)
        self.assertFalse({"primitive cp.async.bulk", "primitive wgmma (bf16)", "primitive setmaxnreg"} & set(names))

    def test_what_was_measured_is_used(self):
        path = self.folder / "cache/devices/software-GPU-sm-90-736f6674776172652047505520090004.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"figures": {"notify_ns": {"value": 1234, "source": "measured by mkc doctor"}}}))
        said = "measured by mkc doctor on this device: notify_ns\n"
        compile_ = ("compile", LLAMA, "--target", "native", "--emit", "ops")
        self.assertIn(said, self.good(*compile_).stderr)
        self.assertNotIn(said, self.good(*compile_, "--ignore-measured").stderr)
        self.assertNotIn(said, self.good(*compile_, SOFTGPU_SMS="5").stderr)  # five SMs make another device
        done = self.good("doctor", "--no-checks")
        self.assertIn(said, done.stdout)
        path.write_text("{}")
        self.refused("measured figures: error: not a file of mkc doctor\n", *compile_)

    def test_defects_are_named(self):
        for defect, check, part in DEFECTS:
            with self.subTest(defect):
                done, found = self.doctor("--only", "primitive", SOFTGPU_BREAK=defect)
                self.assertIn("primitive " + check, self.failed(found), done.stderr)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(found["go_without"], part, found)

    def test_without_the_part_a_broken_device_passes(self):
        done, found = self.doctor("--only", "primitive", "--without", "wgmma", SOFTGPU_BREAK="wgmma")
        self.assertEqual((done.returncode, self.failed(found)), (0, []), done.stderr)

    def test_a_broken_device_fails_in_a_body(self):
        done, found = self.doctor("--only", "rsqrt", "--only", "gated layer, bf16", MKC_CACHE=self.kept,
                                  SOFTGPU_BREAK="ex2")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.failed(found), ["primitive rsqrt, rcp, ex2, cvt, prmt", "body gated layer, bf16"])
        self.assertIn("have relative errors up to", found["checks"][1]["fault"])

    def test_nothing_is_left_where_a_signal_ends_it(self):
        """Ends doctor while its assembler hangs: it makes the probes' cubin and never ends for a body's."""
        slow, temporary, mark = self.folder / "ptxas", self.folder / "tmp", self.folder / "mark"
        temporary.mkdir()
        slow.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "Cuda compilation tools, release 13.0, V13.0.88"; exit; }\n'
                        'for last; do :; done\necho half > "$last"\n[ -e "$MARK.probes" ] || exec touch "$MARK.probes"\n'
                        'touch "$MARK"\nexec sleep 60\n')
        slow.chmod(0o755)
        environment = self.environment(MKC_ASSEMBLER=str(slow), TMPDIR=str(temporary), MARK=str(mark))
        process = subprocess.Popen([BUILD / "mkc", "doctor"], env=environment, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
        deadline = time.monotonic() + LIMIT_S
        while not mark.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(mark.exists())
        # Doctor and a body's assembler have a folder each. Several bodies may be under way.
        self.assertGreaterEqual(len(list(temporary.iterdir())), 2)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=LIMIT_S), -signal.SIGINT)
        self.assertEqual(list(temporary.iterdir()), [])

    def test_devices_that_mkc_has_no_code_for(self):
        for capability, said in (("75", "7.5"), ("103", "10.3")):
            done, found = self.doctor(SOFTGPU_CC=capability)
            self.assertIn(f"error: no target for compute capability {said}; known: sm_80, ", found["machine"])
            self.assertNotIn("checks", found)


if __name__ == "__main__":
    require_assembler()
    unittest.main(verbosity=1)
