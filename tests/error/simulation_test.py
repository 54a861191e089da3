"""These tests call mkc explain and mkc simulate.
Usage: simulation_test.py MKC ROOT
"""
import json
import re
import sys
import unittest

from command import FIXTURE, ROOT, Command

LLAMA_1B = ROOT / "tools/bench/configs/llama-3.2-1b"


def unfolded(text):
    """Returns the text with the lines as they were before they were folded to fit a terminal."""
    return re.sub(r"\n  +(?!notifies|waits)", " ", text)


class SimulationTest(Command):
    def test_simulates_from_config_alone(self):
        folder = self.checkpoint()
        (folder / "model.safetensors").unlink()
        code, out, err = self.mkc("simulate", folder, "--machine", "h100", "--context", 100, "--json")
        self.assertEqual(code, 0, err)
        step = json.loads(out)
        self.assertEqual(step["symbols"], {"T": 1, "B": 1, "R": 1, "q_len": [1], "kv_len": [100]})
        self.assertGreater(step["bytes"], 0)
        self.assertGreaterEqual(step["us"], step["floor_us"])
        self.assertAlmostEqual(step["fraction"], step["floor_us"] / step["us"])
        self.assertEqual(self.mkc("simulate", folder, "--machine", "h100", "--context", 100, "--json")[1], out)
        self.assertIn(b"not run on a GPU", b" ".join(self.mkc("simulate", folder)[1].split()))  # folded behind a long path

    def test_what_is_left_out_of_a_step_shows(self):
        step = ("simulate", FIXTURE, "--workers", 5, "--context", 40, "--json")
        us = {what: json.loads(self.mkc(*step, *what)[1])["us"] for what in ((), ("--no-run-ahead",), ("--no-fusion",), ("--balance-grids",))}
        self.assertGreater(us["--no-run-ahead",], us[()])
        self.refuses("--no-run-ahead: error: is for GPUs, found target x86-64-v3\n", "simulate", FIXTURE, "--target", "x86-64-v3",
                     "--no-run-ahead")
        self.assertGreater(us["--no-fusion",], us[()])
        self.assertNotEqual(us["--balance-grids",], us[()])

    def test_explains_every_grid(self):
        step = ("--workers", 3, "--context", 40, "--tokens", 2, "--scheduler", "static")
        code, out, err = self.mkc("explain", FIXTURE, *step, "--json")
        self.assertEqual(code, 0, err)
        told = json.loads(out)
        simulated = json.loads(self.mkc("simulate", FIXTURE, *step, "--json")[1])
        self.assertEqual(sum(grid["bytes"] for grid in told["grids"]), simulated["bytes"])
        self.assertEqual((told["us"], told["symbols"]), (simulated["us"], {"T": 2, "B": 1, "R": 1, "q_len": [2], "kv_len": [40]}))
        grids = {grid["grid"]: grid for grid in told["grids"]}
        self.assertEqual(grids["embed"]["tasks"], 2)
        self.assertEqual({grid["placement"] for grid in told["grids"]}, {"table", "range", "inline"})
        self.assertEqual({e["event"] for grid in told["grids"] for e in grid["in"]},
                         {e["event"] for grid in told["grids"] for e in grid["out"]})
        for grid in told["grids"]:
            self.assertTrue(grid["reason"])
            for event in grid["in"]:
                self.assertTrue(event["cells"] >= 1 and event["expects"] and event["reason"])
        for hop in told["hops"]:
            self.assertTrue({hop["from"], hop["to"]} <= set(grids))
        text = self.mkc("explain", FIXTURE, *step)[1].decode()
        self.assertIn("  waits for l0.o_ready: 1 cell of ", text)
        self.assertIn(f" {simulated['bytes']}\n", text)
        text = self.mkc("explain", FIXTURE, *step, "--hops")[1].decode()
        hops = sum(hop["count"] for hop in told["hops"])
        self.assertIn(f"\n{hops} hops take ", text)

    def test_explains_who_claims_tasks_and_why(self):
        def placements(*options):
            code, out, err = self.mkc("explain", *options, "--workers", 3, "--context", 40, "--json")
            self.assertEqual(code, 0, err)
            return {grid["grid"]: (grid["placement"], grid["reason"]) for grid in json.loads(out)["grids"]}
        claimed = placements(FIXTURE, "--scheduler", "dynamic")
        self.assertEqual({placement for placement, _ in claimed.values()}, {"queue", "ready", "inline"})
        self.assertRegex(placements(FIXTURE)["l0.attend"][1], r"1 request \d\.\d{3}(, |$)")
        model = self.dir / "model.yaml"
        model.write_text(f'checkpoint: "{FIXTURE}"\nschedule:\n  scheduler: static\n  placement: {{"l0.*nd": queue}}\n')
        forced = placements(model)
        self.assertEqual((forced["l0.attend"], forced["l1.attend"][0]), (("queue", "asked for"), "range"))
        model.write_text(f'checkpoint: "{FIXTURE}"\nschedule:\n  placement: {{l0.attend: table}}\n')
        self.refuses("model.yaml:3:15: error: %l0.attend cannot be placed by table: the number of its tasks is known at "
                     "run time", "explain", model)
        self.refuses("mkc: error: --scheduler: found greedy, expected static, dynamic or auto", "explain", FIXTURE, "--scheduler",
                     "greedy")

    def test_searches_for_settings(self):
        machine = json.loads((ROOT / "scheduler" / "machine" / "h100.json").read_text())
        machine["ticket_ns"] = {"value": 1e6, "source": "so that nothing should be claimed"}
        (self.dir / "slow.json").write_text(json.dumps(machine))
        step = (FIXTURE, "--workers", 3, "--context", 40, "--machine", self.dir / "slow.json", "--scheduler", "dynamic")
        def compiled(*options):
            code, out, err = self.mkc("compile", *step, "--emit", "schedule", *options)
            self.assertEqual(code, 0, err)
            return out.decode()
        plain, found = compiled(), compiled("-O3=1000")
        self.assertIn("queue tickets", plain)
        self.refuses("mkc: error: --evaluations: found 0, expected 1 to 1000000000\n", "compile", *step, "-O3=1000", "--evaluations", 0)
        self.assertNotEqual(compiled("-O3=1000", "--evaluations", 4), found)
        text = unfolded(self.mkc("explain", *step, "-O3=1000")[1].decode())
        self.assertRegex(text, r'-O3: \d+ evaluations, no other candidate gains more; simulated steps to those without it: 1 request 0\.\d{3}.*'
                               r'; schedule: {.*scheduler: dynamic, placement: {.*"l\*\.down": table')
        self.assertRegex(text, r"l0\.down .* table .* found by simulated steps; simulated steps to those before .*by table: 1 request 0\.\d{3}")
        self.refuses("mkc: error: -O: found 2, expected 3 or 3=SECONDS", "explain", FIXTURE, "-O2")
        self.refuses("mkc: error: -O: found 3=0, expected 3 or 3=SECONDS", "explain", FIXTURE, "-O3=0")
        self.refuses("mkc: error: --evaluations requires -O", "explain", FIXTURE, "--evaluations", 3)

    def test_what_a_search_finds_can_be_asked_for(self):
        # The model has two layers whose o and down have 136 strips, four more than there are workers.
        folder = self.checkpoint(lambda config: config.update(
            hidden_size=2176, intermediate_size=19456, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
            max_position_embeddings=1024))
        (folder / "model.safetensors").unlink()
        def compiled(model, *options):
            """Returns the schedule without its reasons."""
            code, out, err = self.mkc("compile", model, "--emit", "schedule", *options)
            self.assertEqual(code, 0, err)
            return re.sub(r'"(\\.|[^"\\])*"', '""', out.decode())
        def asked(schedule):
            (self.dir / "model.yaml").write_text(f"checkpoint: model\nschedule: {schedule}\n")
            return compiled("model.yaml")
        text = unfolded(self.mkc("explain", folder, "-O3=1000")[1].decode())
        schedule = re.search(r"^-O3: .*; schedule: (.*)$", text, re.M)[1]
        for part in ("wgmma_from: ", "scheduler: static", 'placement: {"l*.', 'split: {"l*.down": '):
            self.assertIn(part, schedule)
        self.assertEqual(asked(schedule), compiled(folder, "-O3=1000"))
        self.assertNotEqual(asked(schedule), compiled(folder))
        resolved = self.mkc("compile", folder, "--emit", "yaml", "-O3=1000")[1].decode()
        self.assertIn(f"\nschedule: {schedule}\n", resolved)
        done = self.mkc("compile", folder, "--emit", "ptx", "-o", "model.ptx", "-O3=1000", "--json")
        self.assertEqual(json.loads(done[1])["search"]["schedule"], schedule)

    def test_a_timeline_shows_every_task_once(self):
        code, out, err = self.mkc("simulate", FIXTURE, "--workers", 3, "--context", 40, "--json", "--trace", "t.json")
        self.assertEqual(code, 0, err)
        step = json.loads(out)
        events = json.loads((self.dir / "t.json").read_text())["traceEvents"]
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        self.assertEqual(sorted(names.values()),
                         [f"worker {w}{kind}" for w in range(3) for kind in ("", " stream")])
        spans = [e for e in events if e["ph"] == "X"]
        tasks = [(e["name"], e["args"]["task"]) for e in spans
                 if e["tid"] % 2 == 0 and not e["name"].startswith("wait for ")]
        self.assertEqual(len(tasks), len(set(tasks)))
        self.assertIn(("embed", 0), tasks)
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in spans), step["us"], places=2)
        for track in names:
            ends = 0
            for e in sorted((e for e in spans if e["tid"] == track), key=lambda e: e["ts"]):
                self.assertGreaterEqual(e["ts"] + 0.0015, ends)
                ends = e["ts"] + e["dur"]

    def test_steps_that_cannot_be_simulated(self):
        simulate = ("simulate", FIXTURE)
        self.refuses("mkc: error: --batch: Value 0 not in range 1 to 64", *simulate, "--batch", 0)
        self.refuses("mkc: error: --tokens: Value x not in range 1 to 256", *simulate, "--tokens", "x")
        self.refuses("--tokens: error: found 9, expected 1 to 4", *simulate, "--tokens", 9, "--context", 4)
        self.refuses("--context: error: found 0, expected 1 to ", *simulate, "--context", 0)
        self.refuses("--chunk: error: found 9, expected 1 to 8\n", *simulate, "--chunk", 9, "--context", 8)
        self.refuses("--chunk: error: found 256, expected 1 to 193", "simulate", LLAMA_1B, "--batch", 64, "--chunk", 256)

    def test_a_step_is_held_to_the_limits_of_the_model_file(self):
        (self.dir / "model.yaml").write_text(f"checkpoint: {FIXTURE}\nlimits: {{tokens: 32, requests: 8}}\n")
        for tokens in 33, 65:
            self.refuses(f"--tokens: error: found {tokens}, expected 1 to 32", "simulate", "model.yaml", "--tokens", tokens)
        for batch in 9, 17:
            self.refuses(f"--batch: error: found {batch}, expected 1 to 8", "simulate", "model.yaml", "--batch", batch)
        code, out, err = self.mkc("simulate", FIXTURE, "--batch", 17, "--tokens", 65, "--context", 40, "--json")
        self.assertEqual((code, json.loads(out)["symbols"]["T"]), (0, 65), err)
        self.refuses("--tokens: error: found 2, expected 4 to 160\n", "simulate", FIXTURE, "--batch", 4, "--tokens", 2, "--context", 40)
        self.refuses("--tokens: error: found 2, expected 8 to 256\n", "simulate", FIXTURE, "--batch", 8, "--tokens", 2, "--context", 40)
        self.refuses("--tokens: error: found 2, expected 4 to 32\n", "simulate", "model.yaml", "--batch", 4, "--tokens", 2, "--context", 40)
        self.assertEqual(self.mkc("simulate", FIXTURE, "--batch", 8, "--tokens", 256, "--context", 40)[0], 0)

    def test_the_help_says_that_limits_follow_the_step(self):
        for command in ("simulate", "explain", "report"):
            words = b" ".join(self.mkc(command, "--help")[1].split())
            for text in (b"default 64, or this step's if they are more", b"default 16, or this step's if they are more"):
                self.assertIn(text, words)

    def test_steps_that_are_not_expanded(self):
        config = {**json.loads((LLAMA_1B / "config.json").read_text()), "num_hidden_layers": 64,
                  "max_position_embeddings": 1 << 24}
        (self.dir / "long").mkdir()
        (self.dir / "long/config.json").write_text(json.dumps(config))
        self.refuses("error: the step has more than 134217728 tasks, and is not expanded (at ", "simulate", "long",
                     "--context", 1 << 23, "--batch", 64, "--max-requests", 64)

    def test_machines_and_traces_that_cannot_be_used(self):
        simulate = ("simulate", FIXTURE)
        self.refuses("error: unknown machine 'h10', did you mean 'h100'?", *simulate, "--machine", "h10")
        other = (ROOT / "scheduler" / "machine" / "h100.json").read_text().replace("sm_90a", "sm_99")
        (self.dir / "other.json").write_text(other)
        self.refuses("machine other.json: error: is of target sm_99, expected sm_90a\n", *simulate, "--machine", "other.json")
        torn = json.loads((ROOT / "scheduler" / "machine" / "h100.json").read_text())
        torn["l2_bytes_per_ns"]["range"][0] = 3000
        (self.dir / "torn.json").write_text(json.dumps(torn))
        self.refuses("torn.json, its ranges at the slow end: error: l2_bytes_per_ns must exceed stream_bytes_per_ns, 3090, not 3000\n",
                     *simulate, "--machine", "torn.json")
        self.refuses("none/t.json: error: cannot create: No such file or directory", *simulate, "--trace",
                     "none/t.json")


unittest.main(argv=sys.argv[:1], verbosity=1)
