"""These tests call mkc doctor on the processor, and commands that use what it measured.
Usage: measured_test.py MKC ROOT
"""
import json
import sys
import unittest
from pathlib import Path

from command import FIXTURE, Command

TARGETS = ["x86-64-v3", "x86-64-avx512", "x86-64-v4", "x86-64-amx"]  # each has what those before it have
RATES = {name: [10, 30] for name in ("f32", "f16", "bf16", "e4m3")}
LOOPS = {f"{loop}_per_ns": {"value": RATES, "source": "made up"} for loop in ("product", "attend", "product_stream", "attend_stream")}
FIGURES = {"workers", "memory_bytes", "l2_bytes", "l2_bytes_per_ns", "l2_ns", "peak_bytes_per_ns", "stream_bytes_per_ns", "worker_bytes_per_ns",
           "worker_l2_bytes_per_ns", "load_ns", "notify_ns"}
NOT_OF_THIS_MACHINE = "^no last-level cache|^a signal needs two|^the system does not say|of last-level cache$|ns, expected 5 to"
CACHED = "\nthe weights stay in the last-level cache"
STEP = (FIXTURE, "--context", 40, "--target", "x86-64")


class MeasuredTest(Command):
    def setUp(self):
        super().setUp()
        self.cache = self.dir / "cache"
        code, out, err = self.mkc("doctor", "--json")
        self.assertEqual(code, 0, err)
        self.processor = json.loads(out)["processor"]
        if not self.processor["target"]:
            self.skipTest("mkc has no target for this processor")
        self.target = self.processor["target"]

    def mkc(self, *arguments, **environment):
        return super().mkc(*arguments, **{"MKC_CACHE": str(self.cache), "CUDA_HOME": "/nowhere", **environment})

    def simulated(self, *options, **environment):
        code, out, err = self.mkc("simulate", *STEP, "--json", *options, **environment)
        self.assertEqual(code, 0, err)
        return json.loads(out)

    def written(self, path=None, **changes):
        """Writes a file as doctor would for this processor, with changes."""
        version = json.loads(self.mkc("doctor", "--json")[1])["version"]
        file = {"device": self.processor["name"], "model": self.processor["model"],
                "processors": self.processors(), "mkc": version, "seen": [], "left_out": {},
                "figures": {"notify_ns": {"value": 12345, "source": "made up"}},
                "targets": {target: LOOPS for target in TARGETS[:TARGETS.index(self.target) + 1]}}
        file.update(changes)
        if path is None:
            folder = self.cache / "devices"
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self.processor['model']}-cpu{self.processors().replace(' ', '-')}.json"
        path.write_text(json.dumps(file))
        return path

    def processors(self):
        """Returns the processors as files of measurements name them."""
        p, last = self.processor, lambda part: int(part.split("-")[-1]) - int(part.split("-")[0]) + 1
        quota = p["threads"] < sum(map(last, p["processors"].split(",")))
        return f"{p['processors']} by {p['threads']} thread{'s' * (p['threads'] != 1)}" if quota else p["processors"]

    def test_doctor_tells_of_the_processor(self):
        p = self.processor
        self.assertIn("avx2", p["instruction_sets"])
        self.assertGreaterEqual(p["threads"], p["cores"])
        self.assertGreater(p["memory_bytes"], 0)
        self.assertNotIn("measured", p)
        self.assertEqual(p["machine"], f"machine: nominal {self.target}: mkc doctor --measure measures this processor")
        text = self.mkc("doctor")[1].decode()
        for part in ("mkc run uses the processor by default\n", f"\nProcessor: {p['name']}\n", f"; target: {self.target}\n"):
            self.assertIn(part, text)

    def test_what_is_measured_is_plausible_and_used(self):
        code, out, err = self.mkc("doctor", "--measure", "--json")
        self.assertEqual(code, 0, err)
        p = json.loads(out)["processor"]
        path, measured = Path(p["measured_file"]), p["measured"]
        self.assertEqual(path.parent, self.cache / "devices")
        kept = json.loads(path.read_text())
        self.assertEqual((kept["device"], kept["model"], kept["processors"]), (p["name"], p["model"], self.processors()))
        for part in ("seen", "figures", "targets", "left_out"):
            self.assertEqual(kept[part], measured[part])
        value = {key: figure["value"] for key, figure in measured["figures"].items()}
        own, cache, memory = (value.get(key) for key in ("worker_l2_bytes_per_ns", "l2_bytes_per_ns", "stream_bytes_per_ns"))
        speeds = [speed for speed in (memory, cache, own and own * p["threads"]) if speed]
        self.assertEqual(speeds, sorted(speeds))
        if measured["disturbed"]:
            self.assertTrue(measured["left_out"])
        else:
            for why in measured["left_out"].values():
                self.assertRegex(why, NOT_OF_THIS_MACHINE)
            self.assertEqual(set(measured["figures"]) | set(measured["left_out"]), FIGURES)
            for target, tables in measured["targets"].items():
                self.assertEqual(set(tables), set(LOOPS), target)
        for row in measured["seen"]:
            self.assertTrue(0 < row["min"] <= row["median"] <= row["p90"] <= row["max"] and row["runs"] > 1, row)
        threads = [row["threads"] for row in measured["seen"] if row["what"] == "read, memory"]
        self.assertEqual((threads[0], threads[-1]), (1, p["threads"]))
        for key, figure in {**measured["figures"], **measured["targets"][self.target]}.items():
            self.assertTrue(figure["source"].startswith(f"measured by mkc doctor on {p['name']}, "), key)
        self.assertEqual(measured["figures"]["workers"]["value"], p["threads"])
        self.assertFalse(set(measured["figures"]) & set(measured["left_out"]))
        said = f"machine: measured on {p['name']}, processors {kept['processors']}, by mkc {kept['mkc']}"
        self.assertEqual(p["machine"].split("; nominal: ")[0], said)
        self.assertEqual("; nominal: " in p["machine"], bool(measured["left_out"]))
        step = self.simulated()
        self.assertEqual(step["machine_from"], p["machine"] + CACHED)
        self.assertGreaterEqual(step["us"], step["floor_us"])
        self.assertEqual(sorted(self.cache.rglob("*.json")), [path])

    def test_measured_figures_change_the_step_but_not_the_schedules_bits(self):
        nominal = self.simulated()
        self.written()
        self.assertGreater(self.simulated()["us"], nominal["us"] + 12)
        self.assertEqual(self.simulated("--ignore-measured")["us"], nominal["us"])
        self.assertEqual(self.simulated(MKC_CACHE="off")["us"], nominal["us"])
        for command in ("simulate", "explain"):
            text = self.mkc(command, *STEP)[1].decode().replace("\n  ", " ")
            self.assertIn(f"\nmachine: measured on {self.processor['name']}, processors ", text)
            text = self.mkc(command, *STEP, "--ignore-measured")[1].decode()
            self.assertIn(f"\nmachine: nominal {self.target}: --ignore-measured\n", text)
        prompt = (FIXTURE, "--device", "cpu", "--prompt-ids", "1,2,3", "--max-new-tokens", 5, "--json", "--logprobs", 3)
        first = self.mkc("run", *prompt)
        self.assertEqual(first[0], 0, first[2])
        self.assertEqual(self.mkc("run", *prompt, "--ignore-measured")[1], first[1])

    def test_files_made_elsewhere_are_left_out_with_a_reason(self):
        for key, name in {"device": "processor", "model": "model", "processors": "processors", "mkc": "mkc"}.items():
            path = self.written(**{key: "other"})
            said = self.simulated()["machine_from"]
            self.assertTrue(said.startswith(f"machine: nominal {self.target}: {path} is for {name} other, this is "), said)

    def test_bad_files_are_errors(self):
        path = self.written()
        hint = "\n--ignore-measured leaves out this file of mkc doctor\n"
        name = str(path).replace(str(self.dir) + "/", "")
        refuses = lambda what: self.refuses(f"{name}: {what}{hint}", "simulate", *STEP)
        for text in ("{}", '{"figures": {}}'):
            path.write_text(text)
            refuses("measured figures: error: not a file of mkc doctor --measure, expected the text 'device'")
        path.write_text("")
        refuses("error: is empty, expected what mkc doctor measured")
        self.written(figures={"task_ns": {"value": 1, "source": "made up"}})
        refuses("measured figures: error: 'task_ns' is no figure that mkc doctor --measure measures")
        self.written(figures={"notify_ns": {"value": 0, "source": "made up"}})
        refuses("measured figures: error: notify_ns must be a positive number, not 0")
        path.unlink()
        path.symlink_to(path)
        refuses("error: cannot read: Too many levels of symbolic links")
        path.unlink()
        path.mkdir()
        refuses("error: not a regular file")
        self.assertEqual(self.mkc("simulate", *STEP, "--ignore-measured")[0], 0)

    def test_a_cache_that_cannot_be_entered_has_no_measurement(self):
        self.cache.symlink_to(self.cache)
        said = self.simulated()["machine_from"]
        self.assertRegex(said, f"^machine: nominal {self.target}: {self.cache}/devices/.* cannot be reached: Too many levels of symbolic links")
        code, _, err = self.mkc("run", FIXTURE, "--device", "cpu", "--prompt-ids", "1,2,3", "--max-new-tokens", 2)
        self.assertEqual(code, 0, err)

    def test_the_range_of_a_step_holds_its_value_at_each_measured_stream(self):
        for stream in (14, 60):
            figure = lambda value: {"value": value, "source": "made up", "range": [value * 0.9, value * 1.1]}
            self.written(figures={"stream_bytes_per_ns": figure(stream), "l2_bytes_per_ns": figure(2 * stream),
                                  "worker_l2_bytes_per_ns": figure(1.5 * stream), "worker_bytes_per_ns": figure(stream / 2)})
            step = self.simulated()
            self.assertTrue(step["us_range"][0] <= step["us"] <= step["us_range"][1], step["us_range"])
            self.assertTrue(step["fraction_range"][0] <= step["fraction"] <= step["fraction_range"][1], step["fraction_range"])

    def test_a_file_of_another_machine_serves_as_machine(self):
        path = self.written(self.dir / "cpu.json", device="Some Other Processor", processors="0-63")
        step = self.simulated("--machine", path)
        self.assertEqual((step["machine"], step["machine_from"].split(", ")[0]),
                         ("some-other-processor", "machine: measured on Some Other Processor"))
        self.written(path, targets={})
        self.refuses(f"cpu.json: measured figures: error: no figures for {self.target}, found those for none",
                     "simulate", *STEP, "--machine", path)

    def test_an_output_needs_a_measurement_and_a_folder(self):
        self.refuses("mkc: error: --output requires --measure", "doctor", "-o", "cpu.json")
        self.refuses("none/cpu.json: error: cannot create", "doctor", "--measure", "-o", "none/cpu.json")

    def test_a_cache_that_cannot_hold_the_measurement_is_refused_before_it(self):
        (self.dir / "file").touch()
        code, out, err = self.mkc("doctor", "--measure", MKC_CACHE=str(self.dir / "file"))
        self.assertEqual((code, out), (1, b""))
        self.assertIn("Not a directory", err)

    def test_a_measurement_that_cannot_be_kept_is_printed(self):
        code, out, err = self.mkc("doctor", "--measure", "-o", "/dev/full")
        self.assertEqual((code, err), (1, "/dev/full: error: cannot write: No space left on device\n"))
        self.assertIn(b"  read, memory ", out)
        self.assertIn(b"\nNot kept: /dev/full: error: cannot write: No space left on device\n", out)


unittest.main(argv=sys.argv[:1], verbosity=1)
