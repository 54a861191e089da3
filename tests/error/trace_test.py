"""These tests call mkc run --trace and mkc trace.
Usage: trace_test.py MKC ROOT
"""
import json
import sys
import unittest

from command import FIXTURE, Command

OPTIONS = ("--workers", 3, "--scheduler", "static")


class TraceTest(Command):
    def trace(self, device="emulator"):
        code, _, err = self.mkc("run", FIXTURE, *OPTIONS, "--device", device, "--prompt-ids", "5,6,7,8,9",
                                "--max-new-tokens", 1, "--trace", "raw.json")
        self.assertEqual(code, 0, err)
        return self.dir / "raw.json"

    def test_measured_and_simulated_lie_side_by_side(self):
        for device, unit in (("emulator", "stamps"), ("cpu", "ns")):
            with self.subTest(device=device):
                self.lies_side_by_side(device, unit)

    def lies_side_by_side(self, device, unit):
        raw = json.loads(self.trace(device).read_text())
        self.assertEqual((raw["device"], raw["unit"], raw["requests"]), (device, unit, [{"rows": 5, "kv_len": 5}]))
        code, out, err = self.mkc("trace", FIXTURE, "raw.json", *OPTIONS, "-o", "t.json")
        self.assertEqual(code, 0, err)
        first, head, *rows = out.decode().splitlines()
        self.assertRegex(first, rf"^qwen3 on {device}, T = 5, B = 1, .*; 0 stamps lost$")
        self.assertEqual(head.split(), [*(["stamps"] if unit == "stamps" else ["measured", "us"]), "simulated", "us"])
        self.assertEqual([row[:14].strip() for row in rows[:3]], ["all", "events", "ring"])
        self.assertIn("product", [row.split()[0] for row in rows])
        events = json.loads((self.dir / "t.json").read_text())["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertEqual(names, {0: f"{'counted' if unit == 'stamps' else 'measured'} on {device}", 1: "simulated step"})
        tasks = [set(), set()]
        for e in events:
            if e["ph"] == "X" and e["tid"] % 2 == 0 and not e["name"].startswith("wait for "):
                first = e["args"]["task"]
                tasks[e["pid"]] |= {(e["name"], t) for t in range(first, first + e["args"].get("tasks", 1))}
        self.assertEqual(tasks[0], tasks[1])

    def test_names_of_devices_are_escaped(self):
        raw = self.trace()
        for name, shown in (('a "b" \\ c', 'a "b" \\ c'), ("a\n\x1b[31mb", '"a\\x0a\\x1b[31mb"'),
                            ("a\u009b31m\u00e9\u00a0", '"a\\xc2\\x9b31m\u00e9\u00a0"')):
            raw.write_text(json.dumps({**json.loads(raw.read_text()), "device": name}))
            code, out, err = self.mkc("trace", FIXTURE, "raw.json", *OPTIONS, "-o", "t.json")
            self.assertEqual(code, 0, err)
            self.assertTrue(out.decode().startswith(f"qwen3 on {shown}, T = "), out)
            events = json.loads((self.dir / "t.json").read_text())["traceEvents"]
            self.assertEqual([e["args"]["name"] for e in events if e["name"] == "process_name"][0], f"counted on {name}")

    def test_what_is_no_trace_of_the_model(self):
        raw = self.trace()
        text = raw.read_text()
        trace = ("trace", FIXTURE, "raw.json", *OPTIONS)
        self.refuses("none.json: error: cannot open: No such file or directory", "trace", FIXTURE, "none.json")
        raw.write_text(text[:len(text) // 2])
        self.refuses("raw.json: error: not JSON: ", *trace)
        for key, value, said in (
                ("unit", "us", 'unit: found "us", supported: stamps, ns'),
                ("tracks", [], "tracks: has 0 tracks, expected 2 for each worker"),
                ("tracks", [{"lost": 0, "stamps": [1, 2, 3]}],
                 "tracks[0].stamps: found an array, expected time, kind, grid, task and ring of each stamp, in turn"),
                ("requests", [{"rows": 9, "kv_len": 5}], "requests[0].rows: found 9, expected 1 to 5\n"),
                ("requests", [{"rows": 1, "kv_len": 1}, {"rows": 0, "kv_len": 5}], "requests[1].rows: found 0, expected 1 to 5\n"),
                ("requests", [{"rows": 1, "kv_len": 1 << 30}], "requests[0].kv_len: found 1073741824, expected 1 to "),
                ("requests", [], "requests: found 0 requests, expected 1 to "),
                ("requests", [{"rows": 100, "kv_len": 100}] * 3, "requests: found 300 tokens, expected 1 to 64\n"),
                ("target", "sm_99", 'target: found "sm_99", expected one of emulator, sm_'),
                ("target", "native", 'target: found "native", expected one of ')):
            raw.write_text(json.dumps({**json.loads(text), key: value}))
            self.refuses(f"raw.json: error: {said}", *trace)
        raw.write_text(text)
        self.refuses("raw.json: error: is of a qwen3 with schedule ", "trace", FIXTURE, "raw.json")

    def test_kernels_that_are_not_traced(self):
        run = ("run", FIXTURE, "--device", "emulator", "--prompt-ids", "1", "--trace", "raw.json")
        self.refuses("mkc: error: --mode excludes --trace", *run, "--mode", "kernels")
        self.refuses("mkc: error: --mode excludes --trace", "compile", FIXTURE, "--trace", "--mode", "kernels")
        code, _, err = self.mkc("compile", FIXTURE, "-o", "plain.cubin", "--emit", "cubin")
        if code != 0:
            self.skipTest("no assembler: " + err)
        self.refuses("plain.cubin: error: is not traced, expected a cubin of mkc compile --trace", "run", "plain.cubin",
                     "--checkpoint", FIXTURE, "--prompt-ids", "1", "--trace", "raw.json")
        code, _, err = self.mkc("compile", FIXTURE, "-o", "traced.cubin", "--trace")
        self.assertEqual(code, 0, err)
        self.assertIn(b"  mode       traced\n", self.mkc("inspect", "traced.cubin")[1])


unittest.main(argv=sys.argv[:1], verbosity=1)
