"""These tests run tools/gpu/driver.py and measure.py against a driver that records its calls.
Usage: gpu_driver_test.py ROOT COMPILER
"""
import os
import subprocess
import sys
import tempfile
import unittest
from ctypes import c_uint, c_uint64
from pathlib import Path

ROOT, COMPILER = Path(sys.argv[1]), sys.argv[2]
sys.path.insert(0, str(ROOT / "tools" / "gpu"))
sys.dont_write_bytecode = True
import driver  # noqa: E402
import measure  # noqa: E402

TEMPORARY = tempfile.TemporaryDirectory(prefix="mkc-")
FOLDER = Path(TEMPORARY.name)
LIBRARY, LOG = FOLDER / "libcuda.so.1", FOLDER / "log"
STRICT = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"]


class DriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([COMPILER, *STRICT, "-shared", "-fPIC", ROOT / "tests" / "fixtures" / "fake_cuda" / "libcuda.c",
                        "-o", LIBRARY], check=True, timeout=120)
        os.environ["FAKE_CUDA_LOG"] = str(LOG)

    def setUp(self):
        LOG.write_text("")

    def said(self):
        return LOG.read_text().splitlines()

    def test_every_signature_is_one_that_the_driver_has(self):
        with driver.Device(0, LIBRARY):
            pass  # the device looks up every function when it opens

    def test_arguments_arrive_as_they_were_given(self):
        with driver.Device(3, LIBRARY) as gpu:
            module = gpu.load(b"\x7fELF and more")
            kernel = gpu.function(module, "hop", 70000)
            data = gpu.allocate(1 << 33)
            gpu.fill(data, 0xfedcba98, 8)
            self.assertEqual(gpu.read(data, 8), bytes.fromhex("98badcfe98badcfe"))
            cells, out = gpu.allocate(256), gpu.allocate(16)
            gpu.launch(kernel, 2, 32, (c_uint64(cells), c_uint(7), c_uint64(out)), shared=70000, cooperative=True)
            self.assertEqual(gpu.read(out, 16), (7000).to_bytes(8, "little") + (1).to_bytes(8, "little"))
            self.assertEqual(gpu.microseconds(lambda: gpu.launch(kernel, 5, 64, (c_uint64(cells), c_uint(7), c_uint64(out)))),
                             500)
            gpu.free(data)
        said = self.said()
        for line in ("cuInit 0", "cuDeviceGet 3", "cuDevicePrimaryCtxRetain 73", "cuCtxSetCurrent 1",
                     "cuModuleLoadData \x7fELF", "cuModuleGetFunction 1 hop", "cuFuncSetAttribute hop 8 70000",
                     f"cuMemAlloc_v2 {1 << 33} -> {data:x}", f"cuMemsetD32_v2 {data:x} fedcba98 2",
                     f"cuMemcpyDtoH_v2 {data:x} 8", "cuLaunchCooperativeKernel hop 2 1 1 32 1 1 70000 0",
                     "cuLaunchKernel hop 5 1 1 64 1 1 0 0 0", "cuEventRecord 0 0", "cuEventRecord 1 0",
                     "cuEventSynchronize 1", "cuEventElapsedTime 0 1", "cuEventDestroy_v2 0", "cuEventDestroy_v2 1", f"cuMemFree_v2 {data:x}",
                     f"cuMemFree_v2 {cells:x}", "cuDevicePrimaryCtxRelease_v2 73"):
            self.assertIn(line, said)
        self.assertEqual(said.count(f"cuMemFree_v2 {data:x}"), 1)

    def test_facts_of_a_device_and_of_a_kernel(self):
        with driver.Device(0, LIBRARY) as gpu:
            self.assertEqual(gpu.about(), {"name": "rehearsal", "bus_id": "0000:00:00.0", "driver_api": 13000, "memory_bytes": 64 << 20,
                                           "free_bytes": 64 << 20, "clock_khz": 65536, "sms": 4, "compute_mode": 65536,
                                           "l2_bytes": 65536, "major": 9, "minor": 0, "shared_bytes_per_block": 65536})
            facts = gpu.function_facts(gpu.function(gpu.load(b""), "hop"), 256, 1 << 17)
        self.assertEqual(facts, {"max_threads": 64, "static_shared_bytes": 64, "local_bytes": 0, "registers": 64,
                                 "blocks_per_sm": 65536})
        self.assertIn("cuOccupancyMaxActiveBlocksPerMultiprocessor hop 256 131072", self.said())

    def test_failures_name_the_call_and_the_answer(self):
        with driver.Device(0, LIBRARY) as gpu:
            with self.assertRaisesRegex(driver.Error, "^cuModuleGetFunction gave CUDA_ERROR_NOT_FOUND$"):
                gpu.function(gpu.load(b""), "missing")
        with self.assertRaisesRegex(driver.Error, "^no driver: .*none.so"):
            driver.Device(0, "none.so")
        old = FOLDER / "old.so"
        subprocess.run([COMPILER, "-shared", "-o", old, "-x", "c", "/dev/null"], check=True, timeout=120)
        with self.assertRaisesRegex(driver.Error, "^the driver has no cuInit: it is too old$"):
            driver.Device(0, old)

    def test_measurements_are_whole(self):
        with driver.Device(0, LIBRARY) as gpu:
            rows = list(measure.measurements(gpu, b".version"))
        of = {what: [row for row in rows if row["what"] == what] for what in ("continuous", "clock", "clock tick", "hop", "barrier", "burst")}
        self.assertEqual({row["by"] for row in of["continuous"]}, {"loads", "copies"})
        self.assertTrue(all(row["bytes"] == 16 << 20 and row["bytes_per_us"] == (16 << 20) / 500
                            for row in of["continuous"]))
        self.assertEqual([row["bytes"] >> 20 for row in of["burst"]], [2, 2, 4, 4, 8, 8])
        self.assertEqual(of["burst"][0]["us"]["median"], 50.007)  # first begin to last end of 8 blocks
        self.assertEqual([(row["mhz"], row["of"]) for row in of["clock"]], [(1500, 65.536)])
        self.assertEqual(of["clock tick"][0]["ns"]["median"], 32)
        self.assertAlmostEqual(of["hop"][0]["ns"]["median"], 1e6 / 999 / 2)
        self.assertAlmostEqual(of["barrier"][0]["ns"]["median"], 1e6 / 999)


unittest.main(argv=sys.argv[:1])
