"""The mkc command from outside: what it accepts, and what it says of bad input. Usage: command_test.py MKC ROOT"""
import copy
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MKC = Path(sys.argv[1]).resolve()
ROOT = Path(sys.argv[2]).resolve()
TINY = ROOT / "models" / "tiny-stories"
FIXTURE = ROOT / "tests" / "fixtures" / "models" / "qwen3"


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def mkc(self, *arguments, cwd=None, **environment):
        env = {**os.environ, "MKC_CACHE": "off", **environment}
        done = subprocess.run([MKC, *map(str, arguments)], cwd=cwd or self.dir, env=env, capture_output=True,
                              timeout=120)
        return done.returncode, done.stdout, done.stderr.decode().replace(f"{self.dir}/", "")

    def refuses(self, expected, *arguments, **environment):
        """Exit code 1, this beginning of the message, and no new file."""
        before = sorted(self.dir.rglob("*"))
        code, out, err = self.mkc(*arguments, **environment)
        self.assertEqual((code, out), (1, b""), err)
        self.assertTrue(err.startswith(expected), f"\nfound:    {err}\nexpected: {expected}")
        self.assertEqual(sorted(self.dir.rglob("*")), before)

    def checkpoint(self, config=None, header=None, data=None, cut=None, more=b""):
        """A copy of a small checkpoint, with its config or its header edited."""
        folder = self.dir / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        document = json.loads((FIXTURE / "config.json").read_text())
        if config:
            config(document)
        (folder / "config.json").write_text(json.dumps(document, indent=1))
        bytes_ = (FIXTURE / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", bytes_[:8])[0]
        entries, body = json.loads(bytes_[8:8 + size]), bytes_[8 + size:]
        if header:
            header(entries)
        text = json.dumps(entries).encode()
        whole = struct.pack("<Q", len(text)) + text + (data(body) if data else body) + more
        (folder / "model.safetensors").write_bytes(whole[:cut])
        return folder

    # What works.

    def test_version_and_help(self):
        code, out, _ = self.mkc("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out.decode(), r"^mkc \d+\.\d+\.\d+\n$")
        code, out, _ = self.mkc("--help")
        self.assertEqual(code, 0)
        for command in ("compile", "run", "check", "inspect", "explain", "simulate", "doctor"):
            self.assertIn(command, out.decode())
            self.assertEqual(self.mkc(command, "--help")[0], 0)

    def test_doctor_says_where_it_looked(self):
        code, out, _ = self.mkc("doctor", CUDA_HOME="/nowhere", PATH="/bin:/some/where")
        self.assertEqual(code, 0)
        self.assertIn("/nowhere/bin/ptxas (CUDA_HOME)\n", out.decode())
        self.assertIn("/some/where/ptxas (PATH)\n", out.decode())
        self.assertIn("libcuda.so.1", out.decode())

    def test_generates_what_the_reference_generates(self):
        story = json.loads((TINY / "greedy.json").read_text())[0]
        wanted = story["new_ids"][:20]
        code, out, err = self.mkc("run", TINY, "--device", "emulator", "--prompt", story["prompt"], "--json",
                                  "--max-new-tokens", len(wanted), "--logits-out", "logits.npy")
        self.assertEqual(code, 0, err)
        result = json.loads(out)
        self.assertEqual(result["prompt_ids"], story["prompt_ids"])
        self.assertEqual(result["new_ids"], wanted)
        self.assertTrue(story["text"].find(result["text"].strip()) >= 0 if "text" in story else result["text"])
        rows = len(story["prompt_ids"]) + len(wanted) - 1
        logits = (self.dir / "logits.npy").read_bytes()
        self.assertIn(f"'shape': ({rows}, 640)".encode(), logits[:128])
        self.assertEqual(len(logits), 128 + rows * 640 * 4)
        # Text as it comes is the same text.
        code, out, err = self.mkc("run", TINY, "--device", "emulator", "--prompt-ids",
                                  ",".join(map(str, story["prompt_ids"])), "--max-new-tokens", len(wanted))
        self.assertEqual((code, out.decode()), (0, result["text"] + "\n"), err)

    def test_ids_need_no_tokenizer(self):
        code, out, err = self.mkc("run", FIXTURE, "--device", "emulator", "--prompt-ids", "3,1,4", "--json",
                                  "--max-new-tokens", 2)
        self.assertEqual(code, 0, err)
        self.assertIsNone(json.loads(out)["text"])
        self.assertEqual(len(json.loads(out)["new_ids"]), 2)

    def test_a_batch_file_gives_each_request_what_it_gets_alone(self):
        page = (ROOT / "docs" / "engine.md").read_text()
        requests, answers = (page.split(f"<!-- {name} -->\n```json\n")[1].split("```")[0]
                             for name in ("requests", "answers"))
        (self.dir / "requests.jsonl").write_text(requests)
        code, out, err = self.mkc("run", TINY, "--device", "emulator", "--batch-file", "requests.jsonl")
        self.assertEqual((code, out.decode()), (0, answers))
        self.assertRegex(err, r"^emulator: 3 requests, \d+ steps of \d+ rows in \d+ launches and \d+\.\d\d s, 0 evictions\n$")
        again = self.mkc("run", TINY, "--device", "emulator", "--batch-file", "requests.jsonl", "--steps-per-launch", 16)
        self.assertEqual((again[0], again[1].decode()), (0, answers), again[2])
        self.assertLess(*(int(re.search(r"(\d+) launches", said)[1]) for said in (again[2], err)))
        for request, answer in zip(map(json.loads, requests.splitlines()[:2]), map(json.loads, answers.splitlines())):
            prompt = (("--prompt", request["prompt"]) if "prompt" in request else
                      ("--prompt-ids", ",".join(map(str, request["prompt_ids"]))))
            alone = self.mkc("run", TINY, "--device", "emulator", *prompt, "--max-new-tokens",
                             request["max_new_tokens"], "--json")[1]
            self.assertEqual(json.loads(alone)["new_ids"], answer["new_ids"])

    def test_few_pages_make_requests_wait_or_be_fed_again(self):
        prompts = [[3 + i, 1, 4] * 5 for i in range(4)]
        (self.dir / "f.jsonl").write_text("".join(json.dumps({"prompt_ids": p, "max_new_tokens": 20}) + "\n"
                                                  for p in prompts))
        outputs, evictions, steps = set(), [], []
        for options in ((), ("--pages", 4), ("--pages", 5, "--recompute"), ("--page-size", 32, "--pages", 3)):
            code, out, err = self.mkc("run", FIXTURE, "--device", "emulator", "--batch-invariant", "--batch-file",
                                      "f.jsonl", *options)
            self.assertEqual(code, 0, err)
            outputs.add(out)
            steps.append(int(re.search(r"(\d+) steps", err)[1]))
            evictions.append(int(re.search(r"(\d+) evictions", err)[1]))
        self.assertEqual(len(outputs), 1)
        self.assertLess(steps[0], steps[1])
        self.assertEqual((evictions[0], evictions[1], evictions[3]), (0, 0, 0))
        self.assertGreater(evictions[2], 0)
        code, out, _ = self.mkc("run", FIXTURE, "--device", "emulator", "--batch-file", "f.jsonl", "--pages", 2)
        self.assertEqual((code, json.loads(out.splitlines()[0])["error"]),
                         (0, "f.jsonl:1: error: prompt: 15 tokens and 20 new ones need 3 pages of 16 positions, the "
                             "cache has 2"))

    def test_bad_batch_files_are_refused(self):
        run = ("run", FIXTURE, "--device", "emulator")
        (self.dir / "empty").write_text("\n \n")
        self.refuses("empty: error: found no requests, expected at least one line\n", *run, "--batch-file", "empty")
        self.refuses("none: error: ", *run, "--batch-file", "none")
        self.refuses("mkc: error: give one of --prompt, --prompt-ids and --batch-file\n", *run, "--batch-file",
                     "empty", "--prompt-ids", 1)
        (self.dir / "one").write_text('{"prompt_ids": [1]}')
        self.refuses("cache: error: the page size is 24, expected 16, 32 or 64\n", *run, "--batch-file", "one", "--page-size",
                     24)
        for option in (("--page-size", 16), ("--pages", 9), ("--recompute",)):
            self.refuses(f"mkc: error: {option[0]} requires --batch-file\n", *run, "--prompt-ids", 1, *option)
        for option in (("--logprobs", 1, "--json"), ("--logits-out", "l.npy")):
            self.refuses(f"mkc: error: --batch-file excludes {option[0]}\n", *run, "--batch-file", "empty", *option)

    def test_draws_are_those_of_the_seed(self):
        def run(*arguments):
            code, out, err = self.mkc("run", FIXTURE, "--device", "emulator", "--prompt-ids", "3,1,4", "--json",
                                      "--max-new-tokens", 6, *arguments)
            self.assertEqual(code, 0, err)
            return json.loads(out)

        def run_lines(lines, *arguments):
            (self.dir / "f.jsonl").write_text("".join(json.dumps({"prompt_ids": [3, 1, 4], **line}) + "\n"
                                                      for line in lines))
            code, out, err = self.mkc("run", FIXTURE, "--device", "emulator", "--batch-file", "f.jsonl",
                                      "--max-new-tokens", 6, *arguments)
            self.assertEqual(code, 0, err)
            return list(map(json.loads, out.splitlines()))
        greedy = run("--logprobs", 3)
        self.assertNotIn("logprobs", run())
        self.assertEqual([entry["id"] for entry in greedy["logprobs"]], greedy["new_ids"])
        for entry in greedy["logprobs"]:
            self.assertEqual(len(entry["top"]), 3)
            self.assertEqual(entry["top"][0], {"id": entry["id"], "logprob": entry["logprob"]})
        filters = ("--temperature", 50, "--top-k", 60, "--top-p", 0.99, "--min-p", 0.01)
        drawn = run(*filters, "--seed", 5)["new_ids"]
        self.assertEqual(run(*filters, "--seed", 5)["new_ids"], drawn)
        self.assertNotEqual(run(*filters, "--seed", 6)["new_ids"], drawn)
        keys = {"temperature": 50, "top_k": 60, "top_p": 0.99, "min_p": 0.01, "seed": 5}
        lines = run_lines([{"logprobs": 3}, keys, {"max_new_tokens": 2}])
        self.assertEqual([line["new_ids"] for line in lines], [greedy["new_ids"], drawn, greedy["new_ids"][:2]])
        self.assertEqual(lines[0]["logprobs"], greedy["logprobs"])
        self.assertNotIn("logprobs", lines[1])
        lines = run_lines([{}, {"temperature": 0}], *filters, "--seed", 5)
        self.assertEqual([line["new_ids"] for line in lines], [drawn, greedy["new_ids"]])
        self.assertEqual(run("--temperature", 50, "--top-k", 1)["new_ids"], greedy["new_ids"])
        penalised = run("--repetition-penalty", 1000)["new_ids"]
        self.assertEqual(len({3, 1, 4, *penalised}), 9)  # none comes twice

    def test_compiles_from_config_alone(self):
        folder = self.checkpoint()
        (folder / "model.safetensors").unlink()
        for kind in ("ops", "tasks", "schedule", "dot", "ptx", "manifest", "llvm", "yaml"):
            code, out, err = self.mkc("compile", folder, "--emit", kind)
            self.assertEqual(code, 0, err)
            self.assertGreater(len(out), 200)
        code, out, _ = self.mkc("compile", folder, "--emit", "schedule", "-o", "s.mkir", "--time-passes")
        self.assertEqual((code, out), (0, b""))
        self.assertEqual(self.mkc("check", "s.mkir")[0], 0)
        code, out, err = self.mkc("compile", folder, "--emit", "yaml", "-o", "again.yaml")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.mkc("compile", "again.yaml", "--emit", "schedule")[0], 0)

    def test_prints_after_passes(self):
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "tasks", "--print-after", "fuse")
        self.assertEqual(code, 0)
        self.assertIn("// after fuse: ", err)
        self.assertNotIn("// after events: ", err)
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "ptx", "-o", "a.ptx", "--print-after", "prove", "--time-passes")
        self.assertEqual(code, 0)
        self.assertIn("// after prove: ", err)
        self.assertRegex(err, r"ms  prove, beside those above\n.* ms  in all")
        self.refuses("--print-after none: error: no such pass, expected all or one of ops, fuse, events, place, "
                     "prove", "compile", FIXTURE, "--print-after", "none")

    def test_a_cubin_is_checked_against_its_checkpoint(self):
        code, out, err = self.mkc("compile", FIXTURE, "--json")
        if "no assembler" in err:
            self.assertEqual((code, (self.dir / "qwen3.ptx").exists()), (0, True))
            self.skipTest("no assembler")
        self.assertEqual(code, 0, err)
        summary = json.loads(out)
        self.assertEqual((summary["output"], summary["spill_bytes"]), ("qwen3.cubin", 0))
        self.assertEqual(self.mkc("inspect", "qwen3.cubin")[0], 0)
        other = ROOT / "tests" / "fixtures" / "models" / "llama"
        self.refuses(f"{other}", "run", "qwen3.cubin", "--checkpoint", other, "--prompt-ids", 1)
        self.refuses("qwen3.cubin: error: a cubin holds no weights: name their checkpoint by --checkpoint", "run",
                     "qwen3.cubin", "--prompt-ids", 1)
        cubin = (self.dir / "qwen3.cubin").read_bytes()
        (self.dir / "cut.cubin").write_bytes(cubin[:len(cubin) // 2])
        self.refuses("cut.cubin: error: ", "inspect", "cut.cubin")
        code, out, err = self.mkc("compile", FIXTURE, "-o", "-")
        self.assertEqual((code, out), (0, cubin), err)

    def test_without_an_assembler_ptx_is_written(self):
        hidden = {"MKC_ASSEMBLER": str(self.dir / "none")}
        code, _, err = self.mkc("compile", FIXTURE, **hidden)
        self.assertEqual(code, 0, err)
        self.assertIn("no cubin was made\n", err)
        self.assertIn(b"mk_kernel", (self.dir / "qwen3.ptx").read_bytes())
        self.refuses("MKC_ASSEMBLER none: error: cannot be started: No such file or directory", "compile", FIXTURE,
                     "--emit", "cubin", **hidden)

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
        self.assertIn(b"not run on a GPU", self.mkc("simulate", folder)[1])

    def test_what_is_left_out_of_a_step_shows(self):
        step = ("simulate", FIXTURE, "--workers", 5, "--context", 40, "--json")
        us = {what: json.loads(self.mkc(*step, *what)[1])["us"] for what in ((), ("--no-run-ahead",), ("--balance-grids",))}
        self.assertGreater(us["--no-run-ahead",], us[()])
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

    def test_explains_who_draws_tasks_and_why(self):
        def placements(*options):
            code, out, err = self.mkc("explain", *options, "--workers", 3, "--context", 40, "--json")
            self.assertEqual(code, 0, err)
            return {grid["grid"]: (grid["placement"], grid["reason"]) for grid in json.loads(out)["grids"]}
        drawn = placements(FIXTURE, "--scheduler", "dynamic")
        self.assertEqual({placement for placement, _ in drawn.values()}, {"queue", "ready", "inline"})
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

    def test_searches_for_placements(self):
        machine = json.loads((ROOT / "scheduler" / "machines" / "h100.json").read_text())
        machine["ticket_ns"] = {"value": 1e6, "source": "so that nothing should be drawn"}
        (self.dir / "slow.json").write_text(json.dumps(machine))
        step = (FIXTURE, "--workers", 3, "--context", 40, "--machine", self.dir / "slow.json", "--scheduler", "dynamic")
        def compiled(*options):
            code, out, err = self.mkc("compile", *step, "--emit", "schedule", *options)
            self.assertEqual(code, 0, err)
            return out.decode()
        plain, found = compiled(), compiled("-O3=1000")
        self.assertIn("queue tickets", plain)
        self.assertEqual(compiled("-O3=1000", "--trials", 0), plain)
        self.assertNotEqual(compiled("-O3=1000", "--trials", 1), found)
        text = self.mkc("explain", *step, "-O3=1000")[1].decode()
        self.assertRegex(text, r'-O3: \d+ trials, no other change gains more; placement: {.*"l\*\.down": table')
        self.assertRegex(text, r"l0\.down .* table .* found by -O3; simulated steps .*: 1 request 0\.\d{3}")
        self.refuses("mkc: error: -O: found 2, expected 3 or 3=SECONDS", "explain", FIXTURE, "-O2")
        self.refuses("mkc: error: -O: found 3=0, expected 3 or 3=SECONDS", "explain", FIXTURE, "-O3=0")
        self.refuses("mkc: error: --trials requires -O", "explain", FIXTURE, "--trials", 3)

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

    # What does not.

    def test_steps_that_cannot_be_simulated(self):
        simulate = ("simulate", FIXTURE)
        self.refuses("mkc: error: --batch: Value 0 not in range 1 to 64", *simulate, "--batch", 0)
        self.refuses("mkc: error: --tokens: Value x not in range 1 to 256", *simulate, "--tokens", "x")
        self.refuses("--tokens: error: found 9, expected 1 to 4", *simulate, "--tokens", 9, "--context", 4)
        self.refuses(f"{FIXTURE}: error: context limit is 0, expected 1 to ", *simulate, "--context", 0)
        self.refuses("error: unknown machine 'h10', did you mean 'h100'?", *simulate, "--machine", "h10")
        self.refuses("none/t.json: error: cannot create: No such file or directory", *simulate, "--trace",
                     "none/t.json")

    def test_command_lines(self):
        self.refuses("mkc: error: ", "compile")
        self.refuses("mkc: error: ", "compile", FIXTURE, "--nonsense")
        self.refuses("mkc: error: --emit: ", "compile", FIXTURE, "--emit", "exe")
        self.refuses("none: error: cannot be read: No such file or directory", "compile", "none")
        self.refuses("mkc: error: give one of --prompt, --prompt-ids and --batch-file", "run", FIXTURE)
        for flag, value, fault in (
                ("--temperature", -1, "is -1, expected 0 to 1000000"),
                ("--temperature", "nan", "is nan, expected 0 to 1000000"),
                ("--top-p", 0, "is 0, expected more than 0, at most 1"),
                ("--min-p", 2, "is 2, expected 0 to 1"),
                ("--repetition-penalty", 0, "is 0, expected 0.001 to 1000")):
            self.refuses(f"{flag}: error: {fault}\n", "run", FIXTURE, "--prompt-ids", 1, f"{flag}={value}")
        self.refuses("mkc: error: Could not convert: --top-k = -3\n", "run", FIXTURE, "--top-k=-3")
        self.refuses("mkc: error: --logprobs: Value 21 not in range 0 to 20\n", "run", FIXTURE, "--json",
                     "--logprobs", 21)
        self.refuses("mkc: error: --logprobs requires --json\n", "run", FIXTURE, "--logprobs", 2)
        self.refuses("--checkpoint x: error: is for cubins, ", "run", FIXTURE, "--checkpoint", "x", "--prompt-ids", 1)
        with open("/dev/full", "w") as full:
            done = subprocess.run([MKC, "--version"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual((done.returncode, done.stderr), (1, b"mkc: error: cannot write to standard output\n"))
        self.refuses("error: no machine description for target 'sm_70'; known targets: ", "compile", FIXTURE,
                     "--target", "sm_70")
        self.refuses("none/f.ptx: error: cannot create: No such file or directory", "compile", FIXTURE, "--emit",
                     "ptx", "-o", "none/f.ptx")

    def test_prompts(self):
        run = ("run", FIXTURE, "--device", "emulator")
        self.refuses('--prompt-ids: error: found "x", expected integers with commas between', *run, "--prompt-ids",
                     "1,x")
        self.refuses('--prompt-ids: error: found "", expected integers', *run, "--prompt-ids", "")
        self.refuses("prompt: error: token 1 has the id 96, expected 0 to 95", *run, "--prompt-ids", "1,96")
        self.refuses("prompt: error: token 0 has the id -5, expected 0 to 95", *run, "--prompt-ids=-5")
        self.refuses("prompt: error: 3 tokens and 1000 new ones need 1002 positions, the context has 128", *run,
                     "--prompt-ids", "1,2,3", "--max-new-tokens", 1000)
        self.refuses(f"{FIXTURE}/tokenizer.json: error: ", *run, "--prompt", "hello")
        done = subprocess.run([MKC, "run", TINY, "--device", "emulator", "--prompt", b"a\xff"], capture_output=True)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith(b"--prompt: error: "), done.stderr)

    def test_safetensors(self):
        name = "model.layers.0.mlp.up_proj.weight"
        file = "model/model.safetensors: error: "
        compile_ = lambda **edits: ("compile", self.checkpoint(**edits), "--emit", "ops")
        self.refuses(file + "header of ", *compile_(cut=100))
        self.refuses(file, *compile_(cut=-1))
        self.refuses(file + "tensors end at byte ", *compile_(more=b"\0\0"))
        self.refuses(file + f"{name}.dtype: found \"BF1\"", *compile_(header=lambda h: h[name].update(dtype="BF1")))
        self.refuses(file + f"{name}.data_offsets: found ",
                     *compile_(header=lambda h: h[name].update(dtype="F32")))
        self.refuses(file + f"{name}.shape: has more than 2^63 bytes",
                     *compile_(header=lambda h: h[name].update(shape=[2**62, 4])))

        def overlap(header):
            header[name]["data_offsets"] = [0, header[name]["data_offsets"][1] - header[name]["data_offsets"][0]]
        self.refuses(file + "tensor ", *compile_(header=overlap))

    def test_tensors_that_do_not_fit_the_model(self):
        name = "model.layers.1.self_attn.q_norm.weight"

        def rename(header):
            header["model.layers.1.self_attn.q_norms.weight"] = header.pop(name)

        def reshape(header):
            header[name]["shape"] = [1, 16]
        for edit in (rename, reshape):
            code, _, err = self.mkc("compile", self.checkpoint(header=edit), "--emit", "ops")
            self.assertEqual(code, 1)
            self.assertIn(name, err)
        # One layer fewer by config: the tensors of the other are left over.
        def one_layer(c):
            c.update(num_hidden_layers=1, layer_types=c["layer_types"][:1])
        code, _, err = self.mkc("compile", self.checkpoint(config=one_layer), "--emit",
                                "ops")
        self.assertEqual(code, 1)
        self.assertIn("model.layers.1.", err)

    def test_configs(self):
        cases = [
            (lambda c: c.pop("hidden_size"), "hidden_size"),
            (lambda c: c.update(hidden_size="48"), "hidden_size"),
            (lambda c: c.update(hidden_size=0), "hidden_size"),
            (lambda c: c.update(num_attention_heads=0), "num_attention_heads"),
            (lambda c: c.update(num_key_value_heads=3), "num_key_value_heads"),
            (lambda c: c.update(num_hidden_layers=2**40), "num_hidden_layers"),
            (lambda c: c.update(rms_norm_eps=None), "rms_norm_eps"),
            (lambda c: c.update(architectures=["NoSuchModel"], model_type="none"), "NoSuchModel"),
            (lambda c: c.update(hidden_act="gelu"), "hidden_act"),
            (lambda c: c.update(eos_token_id=-1), "eos_token_id"),
        ]
        for edit, key in cases:
            with self.subTest(key):
                code, _, err = self.mkc("compile", self.checkpoint(config=edit), "--emit", "ptx")
                self.assertEqual(code, 1, err)
                self.assertIn(key, err)
                self.assertIn("model/config.json:", err)
        folder = self.checkpoint()
        for text in ("{", "[" * 100000, '{"a": 1, "a": 2}', "\xff", ""):
            (folder / "config.json").write_bytes(text.encode("latin-1"))
            code, _, err = self.mkc("compile", folder, "--emit", "ops")
            self.assertEqual(code, 1)
            self.assertTrue(err.startswith("model/config.json"), err)

    def test_model_files(self):
        def refuse(expected, text):
            (self.dir / "model.yaml").write_text(text)
            self.refuses(expected, "compile", "model.yaml", "--emit", "ops")
        refuse("model.yaml:1:1: error: ", "checkpiont: x\n")
        refuse("model.yaml:2:", f"checkpoint: {FIXTURE}\nlimits: {{tokens: 0}}\n")
        refuse("model.yaml:", "a: &a [*a]\n")
        bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
        refuse("model.yaml:", bomb)
        refuse("model.yaml:", "[" * 5000)
        refuse("other/config.json: error: ", "checkpoint: other\n")

    def test_mkir(self):
        (self.dir / "bad.mkir").write_text("mkir ops 1 \"x\"\nnonsense\n")
        self.refuses("bad.mkir:2:1: error: ", "check", "bad.mkir")
        self.refuses("none.mkir: error: cannot open: No such file or directory", "check", "none.mkir")
        # A count that does not match is found by the proof.
        code, out, _ = self.mkc("compile", FIXTURE, "--emit", "schedule", "--machine", "emulator", "--target",
                                "emulator")
        self.assertEqual(code, 0)
        text = out.decode()
        line = next(l for l in text.splitlines() if l.startswith("event @l0.down_ready"))
        (self.dir / "count.mkir").write_text(text.replace(line, line.replace("expect ", "expect 1 + ")))
        self.refuses("count.mkir: ", "check", "count.mkir")

    def test_gpu_that_is_not_there(self):
        code, _, err = self.mkc("run", FIXTURE, "--device", "cuda", "--prompt-ids", "1")
        if code == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(code, 1)
        self.assertIn("cuda: error: ", err)


unittest.main(argv=sys.argv[:1], verbosity=1)
