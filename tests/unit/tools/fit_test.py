"""These tests check that tools/bench/fit puts measured figures in place of a machine's estimates. They also
check its comparison of simulated steps with measured ones, and what tools/bench/ranges says of estimates.
Usage: fit_test.py ROOT MKC
"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, MKC = Path(sys.argv[1]), sys.argv[2]
LIMITS = [{"what": "continuous", "by": "copies", "bytes_per_us": 3.0e6, "us": {"median": 1}},
          {"what": "continuous", "by": "copies", "bytes_per_us": 3.1e6, "us": {"median": 1}},
          {"what": "continuous", "by": "loads", "bytes_per_us": 3.2e6, "us": {"median": 1}},
          {"what": "burst", "by": "copies", "bytes": 8 << 20, "bytes_per_us": 1.2e6, "us": {"median": 1}},
          {"what": "burst", "by": "copies", "bytes": 2 << 20, "bytes_per_us": 0.4e6, "us": {"median": 1}},
          {"what": "hop", "ns": {"median": 777}}]


class FitTest(unittest.TestCase):
    def fit(self, result, *more):
        self.folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "gpu.json").write_text(json.dumps(result))
        return subprocess.run([sys.executable, ROOT / "tools" / "bench" / "fit", self.folder / "gpu.json", "--mkc", MKC, *more],
                              capture_output=True, text=True, cwd=self.folder, timeout=120)

    def test_measured_figures_replace_estimates(self):
        done = self.fit({"benchmark": "gpu", "device": "NVIDIA H100", "date": "2026-12-01", "parts": {"limits": {"rows": LIMITS}}},
                        "-o", "m.json")
        self.assertEqual((done.returncode, done.stdout), (0, "measured: stream_bytes_per_ns, cold_burst, notify_ns\n"), done.stderr)
        machine = json.loads((self.folder / "m.json").read_text())
        self.assertEqual(machine["stream_bytes_per_ns"]["value"], 3100)
        self.assertEqual(machine["cold_burst"]["value"], [[2 << 20, 400], [8 << 20, 1200]])
        self.assertEqual(machine["notify_ns"], {"value": 777, "source": "measured by tools/gpu/bench.py on NVIDIA H100, 2026-12-01"})
        self.assertEqual(machine["workers"]["value"], 132)

    def test_simulated_steps_are_held_against_measured_ones(self):
        rows = [{"context": 1024, "us": {"median": 1000}}, {"context": 1024, "batch": 8, "us": {"median": 1}},
                {"context": 128, "state": "failed"}]
        done = self.fit({"benchmark": "gpu", "device": "NVIDIA H100", "date": "2026-12-01",
                         "parts": {"mkc llama-3.2-1b": {"rows": rows}, "eager llama-3.2-1b": {"rows": rows}}})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^measured: nothing\nllama-3.2-1b, 1 tokens at 1024 positions: measured 1000 us, "
                                      r"simulated \d+, error [+-]\d+%\n$")

    def test_what_was_not_on_a_gpu_is_refused(self):
        for result in ({"benchmark": "compile"}, {"benchmark": "gpu", "device": "rehearsal", "parts": {}}):
            done = self.fit(result)
            self.assertEqual((done.returncode, done.stderr),
                             (1, f"fit: error: {self.folder}/gpu.json: expected a result of tools/gpu/bench.py on a GPU\n"))


class RangesTest(unittest.TestCase):
    def ranges(self, *more):
        return subprocess.run([sys.executable, ROOT / "tools" / "bench" / "ranges", ROOT / "models" / "tiny-stories", "--mkc", MKC,
                               "--context", "128", *more],
                              capture_output=True, text=True, timeout=120)

    def test_each_estimate_is_taken_at_both_ends(self):
        done = self.ranges()
        self.assertEqual(done.returncode, 0, done.stderr)
        first, step, *rows = done.stdout.splitlines()
        self.assertEqual(first, "h100, batch 1, context 128; not run on a GPU")
        self.assertRegex(step, r"^step \d+ us, floor \d+ us$")
        ends = {name: (float(slow), float(fast)) for slow, fast, _, name, *_ in (row.split() for row in rows)}
        machine = json.loads((ROOT / "scheduler" / "machine" / "h100.json").read_text())
        self.assertEqual(set(ends), {name for name, figure in machine.items() if isinstance(figure, dict) and "range" in figure})
        self.assertEqual(sorted((slow for slow, _ in ends.values()), reverse=True), [slow for slow, _ in ends.values()])
        slow, fast = ends["notify_ns"]
        self.assertTrue(fast < 0 < slow, ends)
        self.assertEqual(ends["mma_per_ns"], (0, 0))  # one token goes by Mma8

    def test_an_unknown_machine_is_refused(self):
        done = self.ranges("--machine", "h1000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ranges: error: --machine: no description", done.stderr)


unittest.main(argv=sys.argv[:1])
