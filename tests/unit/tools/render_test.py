"""These tests check that the committed pages are what tools/bench/render makes. Figures come from results and
from nowhere else.
Usage: render_test.py ROOT
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1])


def spread(median):
    return {"median": median, "quartile_1": median - 10, "quartile_3": median + 20, "least": median - 20, "samples": 9}


def row(context, median, **more):
    return {"context": context, "us": spread(median), "fraction_of_ceiling": 0.5, **more}


def part(*rows, state="complete"):
    return {"state": state, "rows": list(rows)}


class RenderTest(unittest.TestCase):
    def setUp(self):
        self.root = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "docs").mkdir()
        shutil.copy(ROOT / "README.md", self.root)
        shutil.copy(ROOT / "docs" / "serving.md", self.root / "docs")
        shutil.copytree(ROOT / "tools" / "bench" / "results", self.root / "results")

    def render(self, *more):
        return subprocess.run([sys.executable, ROOT / "tools" / "bench" / "render", "--root", self.root, "--results",
                               self.root / "results", *more], capture_output=True, text=True, timeout=120)

    def gpu_result(self, parts, device="NVIDIA H100", date="2026-12-01", **more):
        result = {"benchmark": "gpu", "date": date, "device": device, "driver": "580.1", "commit": "abc", **more, "parts": parts}
        (self.root / "results" / f"gpu-{date}.json").write_text(json.dumps(result))

    def line(self, begin, page="docs/performance.md"):
        return next(line for line in (self.root / page).read_text().splitlines() if line.startswith(begin))

    def test_committed_pages_are_what_it_makes(self):
        done = subprocess.run([sys.executable, ROOT / "tools" / "bench" / "render", "--check"], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_an_edited_figure_is_found(self):
        self.assertEqual(self.render().returncode, 0)
        self.assertEqual(self.render("--check").returncode, 0)
        page = self.root / "docs" / "performance.md"
        text, count = re.subn(r"\| (\d+) ms", r"| 1\1 ms", page.read_text(), count=1)
        self.assertEqual(count, 1)
        page.write_text(text)
        self.assertEqual(self.render("--check").stderr,
                         f"render: error: {page} is not what tools/bench/render makes of the results\n")

    def test_a_section_without_a_measurement_is_one_line(self):
        for result in (self.root / "results").glob("gpu-*.json"):
            result.unlink()
        self.assertEqual(self.render().returncode, 0)
        text = (self.root / "docs" / "performance.md").read_text()
        self.assertIn("**not run on a GPU**: 128 positions, 1024 positions, ", text)
        self.assertNotRegex(text, r"(?m)^\|.*\| not run on a GPU \|")

    def test_figures_are_those_of_the_newest_result(self):
        self.gpu_result({"mkc llama-3.2-1b": part(row(1024, 9999))}, date="2026-11-30")
        self.gpu_result({"limits": part({"what": "continuous", "by": "copies", "bytes_per_us": 3.1e6, "us": spread(1)}),
                         "mkc llama-3.2-1b": part(row(1024, 1000, tokens=1, batch=1), row(1024, 2000, tokens=16, batch=1),
                                                  {"batch": 2, "state": "not supported by this artefact"}),
                         "mkc launches llama-3.2-1b": part(row(1024, 800, tokens=1, batch=1, steps_per_launch=8)),
                         "compile-flex llama-3.2-1b": part({"torch": "2"}, row(1024, 1500, batch=1)),
                         "compile-sdpa llama-3.2-1b": part(row(1024, 1400, batch=1)),
                         "eager llama-3.2-1b": part(state="failed")})
        self.assertEqual(self.render().returncode, 0)
        text = (self.root / "docs" / "performance.md").read_text()
        of_model = text[text.index("llama-3.2-1b:\n"):]
        self.assertIn("| 1024 positions | 1000 µs (990 to 1020), 50% | 800 µs (790 to 820), 50% | not run on a GPU | 1400 µs (1390 to 1420), 50% | "
                      "failed | not run on a GPU |", of_model)
        self.assertIn("NVIDIA H100, driver 580.1; commit abc, 2026-12-01.", text)
        self.assertEqual(self.line("| reading 4 GiB by bulk"), "| reading 4 GiB by bulk copies | 3.10 TB/s |")
        self.assertIn("published, says 82% of the rate", text)
        self.assertIn("at 128 positions: llama-3.1-8b not run on a GPU; qwen3-8b not run on a GPU.", text)
        self.assertIn("| batch 2 | not supported by this artefact | not run on a GPU |", of_model)
        self.assertIn("| 16 tokens of a prompt | 2000 µs (1990 to 2020), 50% |", of_model)
        self.assertIn("1000 µs (990 to 1020), 50%", self.line("| decoding llama-3.2-1b", "README.md"))

    def test_simulated_figures_are_said_to_be_simulated(self):
        step = {"us": 2000, "floor_us": 1000, "fraction": 0.5, "fraction_range": [0.5, 0.97], "stream_idle_us": {"event": 700, "tail": 1},
                "critical_path_us": {"product": 1500, "finish": 500}}
        result = {"benchmark": "simulate", "date": "2026-12-01", "commit": "abc", "machine": "h100", "context": 1024,
                  "models": {"llama-3.2-1b": {"1 token": step, "1 token, no ring": {**step, "us": 3000},
                                              "2 tokens": step, "2 tokens, no fuse": step}}}
        (self.root / "results" / "simulate-2026-12-01.json").write_text(json.dumps(result))
        self.assertEqual(self.render().returncode, 0)
        text = (self.root / "docs" / "performance.md").read_text()
        section = text[text.index("## Simulated\n"):]
        self.assertTrue(section.startswith("## Simulated\n\n**not run on a GPU**: "), section)
        self.assertIn("| llama-3.2-1b | 1 token | 2000 µs | 1000 µs | 0.50 | 0.50 to 0.97 | event 35% | product 75%, finish 25% |", section)
        self.assertIn("| with all | no ring | no fuse |", section)
        self.assertIn("| llama-3.2-1b | 1 token | 2000 µs | 3000 µs, 1.50 |  |", section)
        self.assertIn("| llama-3.2-1b | 2 tokens | 2000 µs |  | 2000 µs, 1.00 |", section)
        self.assertEqual(section.count("3000 µs"), 1)
        self.assertNotIn("2000 µs", (self.root / "README.md").read_text())

    def test_a_mix_of_several_models_is_one_row(self):
        loop = {"matrix": 2, "fma": 0, "shared": 1, "global": 4, "other": 27, "loops": 3}
        result = {"benchmark": "loops", "date": "2027-12-01", "commit": "abc",
                  "models": {"a": {"ring_bytes": 7, "loops": [loop]}, "b": {"ring_bytes": 8, "loops": [loop, {**loop, "fma": 9}]}}}
        (self.root / "results" / "loops-2027-12-01.json").write_text(json.dumps(result))
        self.assertEqual(self.render().returncode, 0)
        text = (self.root / "docs" / "performance.md").read_text()
        self.assertIn("| 2 | 0 | 1 | 4 | 27 | all |\n| 2 | 9 | 1 | 4 | 27 | b |\n", text)

    def test_the_timeline_has_a_bar_for_each_run_of_tasks_and_says_that_it_is_simulated(self):
        def span(track, begin, us, name):
            return {"ph": "X", "pid": 0, "tid": track, "ts": begin, "dur": us, "name": name}
        trace = {"traceEvents": [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "simulated step"}},
                                 span(0, 0, 4, "wait for l0.q"), span(0, 4, 1, "l0.q"), span(0, 5, 1, "l0.q"), span(0, 8, 2, "l1.q"),
                                 span(1, 1, 1, "l0.q"), {**span(0, 0, 9, "l0.q"), "pid": 1}]}
        (self.root / "trace.json").write_text(json.dumps(trace))
        done = subprocess.run([sys.executable, ROOT / "tools" / "bench" / "timeline", "--trace", self.root / "trace.json", "-o",
                               self.root / "timeline.svg"], capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = (self.root / "timeline.svg").read_text()
        self.assertIn("<title>simulated step</title>", text)
        bars = re.findall(r'<rect x="([0-9.]+)" y="[0-9]+" width="([0-9.]+)" height="(?:16|7)" fill="#4e79a7"/>', text)
        self.assertEqual(bars, [("434.0", "180.0"), ("794.0", "180.0"), ("164.0", "90.0")])
        self.assertIn("simulated, not run on a GPU", (ROOT / "docs" / "timeline.svg").read_text())

    def test_a_rehearsal_is_no_result(self):
        for said in ({"device": "rehearsal"}, {"device": "software GPU sm_90", "rehearsal": True}):
            self.gpu_result({}, **said)
            self.assertEqual(self.render().stderr, "render: error: a result of 2026-12-01 is of a rehearsal: its figures mean "
                                                   "nothing\n")


unittest.main(argv=sys.argv[:1])
