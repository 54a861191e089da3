"""These tests call mkc report, and hold its data against what other commands say.
Usage: report_test.py MKC ROOT
"""
import html
import json
import math
import re
import subprocess
import sys
import unittest

from command import FIXTURE, LIMIT_S, MKC, ROOT, TINY, Command

STEP = ("--workers", 3, "--context", 40, "--tokens", 2, "--scheduler", "static")
NUMBERS = 6  # of a bar: 2 * grid + waits, first task, tasks, gap, length, ring


def bars_of(row):
    """Yields (grid, waits, first, tasks, begin, end) of each bar of a row, as docs/report.md has them."""
    end = 0
    for i in range(0, len(row["bars"]), NUMBERS):
        code, first, tasks, gap, length, _ = row["bars"][i:i + NUMBERS]
        begin, end = end + gap, end + gap + length
        yield code // 2, code % 2 == 1, first, tasks, begin, end


def tasks_of(data, timeline):
    """Returns the sorted (grid, task) of all bars of consumers that are no waits."""
    return sorted((data["grids"][grid]["grid"], task) for row in timeline["rows"] if not row["loader"]
                  for grid, waits, first, tasks, _, _ in bars_of(row) if not waits for task in range(first, first + tasks))


class ReportTest(Command):
    def json(self, *arguments):
        code, out, err = self.mkc(*arguments, "--json")
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def test_the_data_is_that_of_explain_and_simulate(self):
        data, told, simulated = (self.json(command, FIXTURE, *STEP) for command in ("report", "explain", "simulate"))
        self.assertEqual(data["step"], simulated)
        self.assertEqual(sum(kind["bytes"] for kind in data["kinds"]), simulated["bytes"])
        self.assertEqual(sum(kind["tasks"] for kind in data["kinds"]), sum(grid["tasks"] for grid in told["grids"]))
        by_name = {grid["grid"]: grid for grid in told["grids"]}
        for kind in data["kinds"]:
            self.assertEqual((kind["placement"], kind["reason"], kind["in"]),
                             tuple(by_name[kind["grid"]][key] for key in ("placement", "reason", "in")))
        self.assertAlmostEqual(sum(kind["path_us"] for kind in data["kinds"]), simulated["us"])
        parts = sum(cause["us"] for cause in data["causes"]) + simulated["floor_us"]
        self.assertTrue(0 <= simulated["us"] - parts < 0.5 * simulated["us"])  # the rest is padding
        for key in ("grid", "tasks", "bytes"):
            self.assertEqual([grid[key] for grid in told["grids"]], [grid[key] for grid in data["grids"]])
        for key in ("tasks", "bytes", "path_us"):
            for number, kind in enumerate(data["kinds"]):
                self.assertAlmostEqual(kind[key], sum(grid[key] for grid in data["grids"] if grid["kind"] == number))
        self.assertIsNone(data["trace"])

    def test_the_timeline_has_every_task_at_its_time(self):
        data = self.json("report", FIXTURE, *STEP)
        timeline, = data["timelines"]
        self.assertEqual(self.mkc("simulate", FIXTURE, *STEP, "--trace", "t.json")[0], 0)
        events = [e for e in json.loads((self.dir / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(timeline["joined"], 0)
        self.check_consumers(data, timeline, [e for e in events if e["tid"] % 2 == 0])
        self.check_loaders(data, timeline, [e for e in events if e["tid"] % 2 == 1])

    def check_consumers(self, data, timeline, events):
        """Each task and each wait has its bar. A trace has them in microseconds with three digits."""
        found = {(row["worker"], data["grids"][grid]["grid"], waits, first): (begin, end - begin)
                 for row in timeline["rows"] if not row["loader"] for grid, waits, first, _, begin, end in bars_of(row)}
        expected = {(e["tid"] // 2, e["name"].removeprefix("wait for "), e["name"].startswith("wait for "), e["args"]["task"]):
                    (e["ts"] * 1000, e["dur"] * 1000) for e in events}
        self.assertLessEqual(set(found), set(expected))
        for key, (begin, length) in expected.items():
            if key in found or length > 1.01:  # less than 1 ns may be left out
                self.assertTrue(abs(found[key][0] - begin) <= 1.01 and abs(found[key][1] - length) <= 2.01, key)

    def check_loaders(self, data, timeline, events):
        """The bars of a loader cover the times at which it copies for each grid."""
        found, expected = {}, {}
        for row in timeline["rows"]:
            for grid, _, _, _, begin, end in bars_of(row) if row["loader"] else ():
                key = row["worker"], data["grids"][grid]["grid"]
                found[key] = found.get(key, 0) + end - begin
        for e in events:
            key = e["tid"] // 2, e["name"]
            expected[key] = expected.get(key, 0) + e["dur"] * 1000
        self.assertEqual(set(found), {key for key, length in expected.items() if length > 1} & set(found))
        for key, length in expected.items():
            self.assertAlmostEqual(found.get(key, 0), length, delta=1 + 0.01 * length)

    def test_the_path_and_the_awaited_tasks_are_tasks(self):
        data = self.json("report", FIXTURE, *STEP)
        tasks = set(tasks_of(data, data["timelines"][0]))
        path = [(data["grids"][g]["grid"], t) for g, t in zip(data["path"][::2], data["path"][1::2])]
        self.assertTrue(path and set(path) <= tasks)
        self.assertEqual(len(path), len(set(path)))
        self.assertTrue(data["awaited"] and len(data["awaited"]) % 4 == 0)
        writers = {event["event"]: kind["grid"] for kind in data["kinds"] for event in kind["out"]}
        ends = {(grid, task): (begin, end) for row in data["timelines"][0]["rows"] if not row["loader"]
                for grid, waits, first, count, begin, end in bars_of(row) if not waits for task in range(first, first + count)}
        for i in range(0, len(data["awaited"]), 4):
            grid, task, by, by_task = data["awaited"][i:i + 4]
            if (grid, task) in ends and (by, by_task) in ends:
                self.assertLessEqual(ends[by, by_task][1], ends[grid, task][0] + 1)
        self.assertTrue(writers)

    def test_memory_and_proof_are_those_of_the_manifest(self):
        data = self.json("report", TINY, "--max-requests", 3, "--max-tokens", 5, "--context", 70)
        code, out, err = self.mkc("compile", TINY, "--max-requests", 3, "--max-tokens", 5, "--context", 70, "--emit", "manifest")
        self.assertEqual(code, 0, err)
        manifest, memory = json.loads(out), data["memory"]
        for key in ("weight_bytes", "workspace_bytes", "shared_bytes", "ring_stages"):
            self.assertEqual(memory[key], manifest[key], key)
        self.assertEqual(sum(w["bytes"] for w in memory["weights"]), sum(w["bytes"] for w in manifest["weights"]))
        self.assertEqual(sum(w["alike"] for w in memory["weights"]), len(manifest["weights"]))
        config = json.loads((TINY / "config.json").read_text())
        position = 2 * 2 * config["num_hidden_layers"] * config["num_key_value_heads"] * config["head_dim"]
        self.assertEqual((memory["position_bytes"], memory["cache_bytes"]), (position, position * 3 * 80))  # pages of 16
        self.assertEqual(data["proof"]["schedule"], manifest["schedule_hash"])
        self.assertEqual(data["proof"]["verdict"], "proved")
        self.assertEqual({(l["symbol"], l["lo"], l["hi"]) for l in data["limits"]} & {("T", 1, 5), ("B", 1, 3)}, {("T", 1, 5), ("B", 1, 3)})

    def test_the_graph_has_the_ops_of_every_layer(self):
        data = self.json("report", TINY)
        layers = json.loads((TINY / "config.json").read_text())["num_hidden_layers"]
        self.assertEqual(sum(section["layers"] for section in data["graph"]), layers + 1)
        code, out, err = self.mkc("compile", TINY, "--emit", "ops")
        self.assertEqual(code, 0, err)
        outputs = set(re.findall(r"^\s*(%[\w.]+(?:, %[\w.]+)*) = ", out.decode(), re.M))
        first = {name.strip("% ") for names in outputs for name in names.split(",")}
        for section in data["graph"]:
            found = {o["tensor"] for node in section["nodes"] for op in node["ops"] for o in op["outputs"]}
            prefix = f"l{section['layer']}."
            expected = {name for name in first if (name.startswith(prefix) if section["layer"] >= 0 else not re.match(r"l\d+\.", name))}
            self.assertEqual(found & first, expected)
            for out in (o for node in section["nodes"] for op in node["ops"] for o in op["outputs"]):
                if match := re.fullmatch(r"\[[TR], (\d+)\]", out["shape"]):  # of a step with one token
                    self.assertEqual((out["type"], out["bytes"]), ("f32", 4 * int(match[1])))
            names = [node["grid"] for node in section["nodes"]]
            for edge in section["edges"]:
                self.assertIn(names[edge["from"]] if isinstance(edge["from"], int) else edge["from"], [grid["grid"] for grid in data["grids"]])
                self.assertTrue(edge["tensors"] and names[edge["to"]])

    def test_a_measured_step_lies_beside_the_simulated(self):
        options = ("--workers", 3, "--scheduler", "static")
        for device, timed in (("cpu", True), ("emulator", False)):
            with self.subTest(device=device):
                code, _, err = self.mkc("run", FIXTURE, *options, "--device", device, "--prompt-ids", "5,6,7", "--max-new-tokens", 1,
                                        "--trace", "raw.json")
                self.assertEqual(code, 0, err)
                data = self.json("report", FIXTURE, *options, "--trace", "raw.json")
                traced = self.json("trace", FIXTURE, "raw.json", *options)
                self.assertEqual((data["trace"]["device"], data["trace"]["timed"]), (device, timed))
                unit = "measured_us" if timed else "stamps"
                self.assertEqual({t["purpose"]: {unit: t["found"], "simulated_us": t["simulated_us"]} for t in data["trace"]["times"]},
                                 traced["times"])
                measured, simulated = data["timelines"]
                self.assertEqual(tasks_of(data, measured), tasks_of(data, simulated))
                end = max(end for row in measured["rows"] for *_, end in bars_of(row))
                self.assertAlmostEqual(end, data["trace"]["times"][0]["found"] * (1000 if timed else 1), delta=1)

    def test_the_commands_of_the_documentation(self):
        text = (ROOT / "docs" / "report.md").read_text().split("<!-- commands -->\n```sh\n")[1].split("```")[0]
        (self.dir / "build").mkdir()
        text = text.replace("build/mkc", str(MKC)).replace("models/", f"{ROOT}/models/")
        done = subprocess.run(["bash", "-ec", text], cwd=self.dir, capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("report", "measured"):
            self.assertIn(f"wrote build/{name}.html: ", done.stderr)
        self.assertIn("measured on cpu", (self.dir / "build" / "measured.html").read_text())

    def test_a_step_of_many_tasks_stays_small(self):
        code, _, err = self.mkc("report", ROOT / "tools" / "bench" / "configs" / "qwen3-8b", "-o", "r.html", "--batch", 64, "--tokens", 256)
        self.assertEqual(code, 0, err)
        page = (self.dir / "r.html").read_text()
        self.assertLess(len(page), 8e6)
        data = json.loads(page.split('<script id="data" type="application/json">')[1].split("</script>")[0])
        self.assertTrue(all(math.isfinite(kind["path_us"]) for kind in data["kinds"]))

    def test_names_cannot_end_the_data(self):
        folder = self.dir / "a<" / "script><script>alert(1)<"
        folder.mkdir(parents=True)
        (folder / "config.json").write_bytes((FIXTURE / "config.json").read_bytes())
        self.assertEqual(self.mkc("report", folder, "-o", "r.html")[0], 0)
        page = (self.dir / "r.html").read_text()
        self.assertEqual((page.count("</script>"), page.count("<script")), (2, 2))
        self.assertEqual(page.count("alert(1)"), 2)  # in the data, and as text
        self.assertEqual(page.count('<h1 id="model">script&#62;&#60;script&#62;alert(1)&#60;</h1>'), 1)

    def test_marks_in_names_stay_names(self):
        folder = self.dir / "a<!-- proof -->" / "* data *"
        folder.mkdir(parents=True)
        (folder / "config.json").write_bytes((FIXTURE / "config.json").read_bytes())
        self.assertEqual(self.mkc("report", folder, "-o", "r.html")[0], 0)
        page = (self.dir / "r.html").read_text()
        self.assertEqual(page.count('<h1 id="model">&#42; data &#42;</h1>'), 1)
        data = json.loads(page.split('<script id="data" type="application/json">')[1].split("</script>")[0])
        self.assertEqual(data["step"]["model"], str(folder))

    def test_a_page_without_scripts_tells_the_step_and_the_verdict(self):
        self.assertEqual(self.mkc("report", FIXTURE, *STEP, "-o", "r.html")[0], 0)
        data = self.json("report", FIXTURE, *STEP)
        page = re.sub(r"(?s)<(script|style).*?</\1>", "", (self.dir / "r.html").read_text())
        text = html.unescape(re.sub(r"<[^>]*>", " ", page))
        step = data["step"]
        for part in (f"{step['us']:.1f} µs", f"{step['floor_us']:.1f} µs", data["proof"]["text"], data["step_text"],
                     "qwen3", "not run on a GPU", "need JavaScript"):
            self.assertIn(part, text)

    def test_refuses_what_it_cannot_report(self):
        report = ("report", FIXTURE)
        self.refuses("mkc: error: -o is required without --json", *report)
        self.refuses("-o -: error: --json takes standard output, expected a file", *report, "-o", "-", "--json")
        self.refuses("none/r.html: error: cannot ", *report, "-o", "none/r.html")
        self.refuses("none: error: ", "report", "none", "-o", "r.html")
        self.refuses("--batch: error: found 17, expected 1 to 16", *report, "-o", "r.html", "--batch", 17, "--max-requests", 16)
        self.refuses("mkc: error: --batch excludes --trace", *report, "-o", "r.html", "--trace", "t.json", "--batch", 2)
        self.refuses("t.json: error: cannot open: No such file or directory", *report, "-o", "r.html", "--trace", "t.json")
        code, _, err = self.mkc("run", FIXTURE, "--workers", 3, "--device", "emulator", "--prompt-ids", 5, "--max-new-tokens", 1, "--trace", "t.json")
        self.assertEqual(code, 0, err)
        self.refuses("t.json: error: is of a qwen3 with schedule ", *report, "--workers", 2, "-o", "r.html", "--trace", "t.json")
        folder = self.checkpoint(lambda config: config.update(hidden_size=0))
        self.refuses("model/config.json:", "report", folder, "-o", "r.html")
        self.refuses("model/config.json: error: ", "report", self.checkpoint(), "-o", "model/config.json")


unittest.main(argv=sys.argv[:1], verbosity=1)
