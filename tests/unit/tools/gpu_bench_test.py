"""These tests check what tools/gpu/bench.py does with programs, times and earlier results.
Usage: gpu_bench_test.py ROOT
"""
import contextlib
import dataclasses
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
from argparse import Namespace
from pathlib import Path

ROOT = Path(sys.argv[1])
CONFIGS = ROOT / "tools" / "bench" / "configs"
sys.path.insert(0, str(ROOT / "tools" / "gpu"))
sys.dont_write_bytecode = True
import bench  # noqa: E402
import kit  # noqa: E402
import shapes  # noqa: E402

# The pairs are published numbers of parameters, and those of an embedding that a step does not read whole.
PARAMETERS = {"llama-3.2-1b": (1_235_814_400, 0), "llama-3.1-8b": (8_030_261_248, 128256 * 4096),
              "qwen3-0.6b": (596_049_920, 0), "qwen3-8b": (8_190_735_360, 151936 * 4096)}


def python(text):
    return [sys.executable, "-c", text]


class LinesTest(unittest.TestCase):
    def test_rows_come_before_the_program_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            seen = Path(folder) / "seen"
            rows = kit.lines(python("import os, time\nprint('{\"a\": 1}\\nnoise\\n{\"a\":', end='', flush=True)\n"
                                    f"while not os.path.exists('{seen}'): time.sleep(0.01)\nprint(' 2}}', flush=True)"), 30)
            self.assertEqual(next(rows), {"a": 1})
            seen.touch()
            self.assertEqual(list(rows), [{"a": 2}])

    def test_a_program_that_fails_keeps_its_rows_and_says_why(self):
        rows = kit.lines(python("import sys; print('{}', flush=True); sys.exit('no luck')"), 30)
        self.assertEqual(next(rows), {})
        with self.assertRaisesRegex(kit.Failed, "^exit 1: no luck$"):
            next(rows)

    def test_a_program_that_hangs_is_stopped(self):
        with self.assertRaisesRegex(kit.Failed, "^stopped after 0 s$"):
            list(kit.lines(python("import time; time.sleep(300)"), 0.3))

    def test_what_a_program_started_ends_with_it(self):
        with tempfile.TemporaryDirectory() as folder:
            child = f"import os, subprocess, time; print('{{}}', flush=True); subprocess.run(['sh', '-c', 'echo $$ >{folder}/a; exec sleep 300'])"
            for run in (lambda: list(kit.lines(python(child), 2)), lambda: kit.output(python(child), 2)):
                with self.assertRaisesRegex(kit.Failed, "^stopped after 2 s"):
                    run()
                number = int((Path(folder) / "a").read_text())
                status = Path(f"/proc/{number}/stat")
                while status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z":  # a zombie has ended
                    time.sleep(0.01)

    def test_a_program_that_is_stopped_keeps_what_it_said(self):
        with self.assertRaisesRegex(kit.Failed, "^stopped after 2 s: at line 3$"):
            kit.output(python("import sys, time; print('at line 3', file=sys.stderr, flush=True); time.sleep(60)"), 2)


class BytesTest(unittest.TestCase):
    def test_weights_are_the_published_parameters(self):
        for model, (count, unread) in PARAMETERS.items():
            self.assertEqual(shapes.read_shape(CONFIGS / model).weights(), count - unread, model)

    def test_experts_are_read_as_far_as_tokens_reach_them(self):
        dense = shapes.read_shape(CONFIGS / "qwen3-8b")
        shape = dataclasses.replace(dense, family="qwen3_moe", hidden=2048, layers=48, kv_heads=4, ffn=768, experts=128,
                                    active=8)  # shape of Qwen3-30B-A3B
        self.assertEqual(shape.weights(rows=16), 30_532_122_624 - 151936 * 2048)  # 16 rows reach all experts
        self.assertEqual(shape.weights(rows=16) - shape.weights(), 48 * 120 * 3 * 2048 * 768)

    def test_a_step_reads_weights_once_and_every_cache(self):
        shape = shapes.read_shape(CONFIGS / "qwen3-8b")
        kv = 2 * 2 * 8 * 128 * 36  # bytes of one position
        weights = 2 * shape.weights()
        self.assertEqual(shape.step_bytes(1024), weights + 2 * 4096 + kv * 1025)
        self.assertEqual(shape.step_bytes(1024, batch=4), weights + 4 * (2 * 4096 + kv * 1025))
        self.assertEqual(shape.step_bytes(1024, tokens=16), weights + 16 * 2 * 4096 + kv * 1040)


class BenchTest(unittest.TestCase):
    def setUp(self):
        said = contextlib.redirect_stdout(io.StringIO())
        said.__enter__()
        self.addCleanup(said.__exit__, None, None, None)
        self.folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.out = self.folder / "gpu-bench.json"
        self.ran = []

    def bench(self, parts, minutes=5.0, only=""):
        made = bench.Bench(Namespace(minutes=minutes, out=self.folder, only=only, device="emulator", shapes=CONFIGS))
        made.parts = lambda: [(name, "qwen3-0.6b", lambda kept, name=name, rows=rows: self.rows(name, kept, rows))
                              for name, rows in parts.items()]
        return made

    def rows(self, name, kept, rows):
        self.ran.append(name)
        for row in [*kept, *rows]:
            if isinstance(row, BaseException):
                raise row
            yield dict(row)

    def state(self):
        return {name: part["state"] for name, part in json.loads(self.out.read_text())["parts"].items()}

    def test_a_failure_keeps_what_was_there_and_stops_nothing(self):
        row = {"context": 128, "us": [3.0, 1.0, 2.0]}
        made = self.bench({"limits": [], "a": [row, kit.Failed("exit 9: no")], "b": [row]})
        made.ceiling = 1e6
        self.assertFalse(made.run({}))
        self.assertEqual(self.state(), {"limits": "complete", "a": "failed", "b": "complete"})
        part = json.loads(self.out.read_text())["parts"]["a"]
        self.assertEqual(part["why"], "Failed: exit 9: no")
        moved = shapes.read_shape(CONFIGS / "qwen3-0.6b").step_bytes(128)
        self.assertEqual(part["rows"], [{"context": 128, "raw_us": [3.0, 1.0, 2.0], "bytes": moved,
                                         "us": {"median": 2.0, "quartile_1": 1.5, "quartile_3": 2.5, "least": 1.0,
                                                "samples": 3},
                                         "ceiling_bytes_per_us": 1e6, "fraction_of_ceiling": moved / 1e6 / 2}])

    def test_what_is_complete_is_not_run_again_but_the_limits_are(self):
        parts = {"limits": [], "a": [{}], "b": [kit.Failed("once")]}
        self.bench(parts).run({})
        self.bench({**parts, "b": [{}]}).run(json.loads(self.out.read_text())["parts"])
        self.assertEqual(self.ran, ["limits", "a", "b", "limits", "b"])
        self.assertEqual(set(self.state().values()), {"complete"})

    def test_a_part_goes_on_from_the_rows_that_it_has(self):
        row = {"context": 128, "us": [1.0]}
        self.bench({"limits": [], "a": [row, kit.Failed("stopped")]}).run({})
        self.bench({"limits": [], "a": [{**row, "context": 1024}]}).run(json.loads(self.out.read_text())["parts"])
        part = json.loads(self.out.read_text())["parts"]["a"]
        self.assertEqual((part["state"], [r["context"] for r in part["rows"]]), ("complete", [128, 1024]))

    def test_a_part_that_lacks_a_package_is_skipped(self):
        self.assertTrue(self.bench({"limits": [], "a": [kit.Missing("Python's torch is not installed")]}).run({}))
        self.assertEqual(self.state(), {"limits": "complete", "a": "skipped"})

    def test_peers_go_through_batches_contexts_and_chunks_once(self):
        made = bench.Bench(Namespace(minutes=1, out=self.folder, only="", device="emulator", shapes=CONFIGS, contexts=[1024, 128],
                                     batches=[1, 8], mode="reduce-overhead", steps=3))
        asked = []
        with unittest.mock.patch.object(bench, "lines", lambda command, _: asked.append(command[-1]) or []), \
                unittest.mock.patch.object(bench, "need"):
            self.assertEqual(list(made.peer("qwen3-0.6b", "eager", [])), [])
            had = [{"context": 1024, "batch": 1, "us": []}, {"context": 1024, "batch": 8, "tokens": 1, "state": bench.TOO_LARGE}]
            self.assertEqual(list(made.peer("qwen3-0.6b", "eager", had)), had)
            list(made.peer("qwen3-0.6b", "transformers", []))
            list(made.peer("qwen3-0.6b", "eager", [], rest=True))
            list(made.peer("qwen3-0.6b", "eager", [{"context": 128, "batch": 8, "us": []}], rest=True))
        self.assertEqual(asked, ["1024x1x1,128x1x1,1024x1x16,1024x1x64,1024x8x1", "128x1x1,1024x1x16,1024x1x64",
                                 "1024x1x1,128x1x1,1024x8x1", "128x8x1"])

    def test_a_run_that_is_cut_off_loses_nothing(self):
        class CutOff(BaseException):
            pass

        earlier = {"a": {"state": "complete", "rows": [1]}}
        with self.assertRaises(CutOff):
            self.bench({"limits": [{}, CutOff()], "a": []}).run(earlier)
        self.assertEqual(json.loads(self.out.read_text())["parts"]["a"], earlier["a"])

    def test_bad_arguments_name_the_flag(self):
        self.out.write_text("{")
        for flags, said in (([], f"{self.out} is no result to go on from: "),
                            (["--contexts", "1,x"], "argument --contexts: invalid numbers value: '1,x'"),
                            (["--out", f"{self.folder}/none", "--shapes", "/none"], "--shapes /none: no such folder"),
                            (["--mode", "fast"], "argument --mode: invalid choice: 'fast'")):
            done = subprocess.run([sys.executable, ROOT / "tools" / "gpu" / "bench.py", "--out", self.folder, *flags],
                                  capture_output=True, text=True, timeout=120)
            self.assertEqual(done.returncode, 2)
            self.assertIn("bench.py: error: " + said, done.stderr)

    def test_without_time_parts_say_so_and_earlier_ones_are_kept(self):
        self.assertFalse(self.bench({"limits": [], "a": [{}]}, minutes=0.0).run({"a": {"state": "failed", "rows": [1]}}))
        self.assertEqual(self.state(), {"limits": "no time left", "a": "failed"})

    def test_only_some(self):
        self.bench({"limits": [], "a b": [{}], "c": [{}]}, only="b").run({})
        self.assertEqual(self.ran, ["limits", "a b"])


unittest.main(argv=sys.argv[:1])
