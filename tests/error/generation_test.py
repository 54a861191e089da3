"""These tests call mkc run: text, tokens, samples and batch files.
Usage: generation_test.py MKC ROOT
"""
import json
import re
import subprocess
import sys
import unittest

from command import FIXTURE, LIMIT_S, MKC, ROOT, TINY, Command


class GenerationTest(Command):
    def test_generates_what_the_reference_generates(self):
        story = json.loads((TINY / "greedy.json").read_text())[0]
        wanted = story["new_ids"][:20]
        code, out, err = self.mkc("run", TINY, "--device", "cpu", "--prompt", story["prompt"], "--json",
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
        # Text that is printed as it comes is equal.
        code, out, err = self.mkc("run", TINY, "--device", "cpu", "--prompt-ids",
                                  ",".join(map(str, story["prompt_ids"])), "--max-new-tokens", len(wanted))
        self.assertEqual((code, out.decode()), (0, result["text"] + "\n"), err)

    def test_ids_need_no_tokenizer(self):
        code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--prompt-ids", "3,1,4", "--json",
                                  "--max-new-tokens", 2)
        self.assertEqual(code, 0, err)
        self.assertIsNone(json.loads(out)["text"])
        self.assertEqual(len(json.loads(out)["new_ids"]), 2)

    def test_a_batch_file_gives_each_request_what_it_gets_alone(self):
        page = (ROOT / "docs" / "engine.md").read_text()
        requests, answers = (page.split(f"<!-- {name} -->\n```json\n")[1].split("```")[0]
                             for name in ("requests", "answers"))
        (self.dir / "requests.jsonl").write_text(requests)
        code, out, err = self.mkc("run", TINY, "--device", "cpu", "--batch-file", "requests.jsonl")
        self.assertEqual((code, out.decode()), (0, answers))
        self.assertRegex(err, r"^cpu: 3 requests, \d+ steps of \d+ rows in \d+ launches and \d+\.\d\d s, 0 preemptions, "
                              r"0 of \d+ prompt tokens cached\n$")
        again = self.mkc("run", TINY, "--device", "cpu", "--batch-file", "requests.jsonl", "--steps-per-launch", 16)
        self.assertEqual((again[0], again[1].decode()), (0, answers), again[2])
        self.assertLess(*(int(re.search(r"(\d+) launches", said)[1]) for said in (again[2], err)))
        for request, answer in zip(map(json.loads, requests.splitlines()[:2]), map(json.loads, answers.splitlines())):
            prompt = (("--prompt", request["prompt"]) if "prompt" in request else
                      ("--prompt-ids", ",".join(map(str, request["prompt_ids"]))))
            alone = self.mkc("run", TINY, "--device", "cpu", *prompt, "--max-new-tokens",
                             request["max_new_tokens"], "--json")[1]
            self.assertEqual(json.loads(alone)["new_ids"], answer["new_ids"])

    def test_few_pages_make_requests_wait_or_be_fed_again(self):
        prompts = [[3 + i, 1, 4] * 5 for i in range(4)]
        (self.dir / "f.jsonl").write_text("".join(json.dumps({"prompt_ids": p, "max_new_tokens": 20}) + "\n"
                                                  for p in prompts))
        outputs, preemptions, steps = set(), [], []
        for options in ((), ("--pages", 4), ("--pages", 5, "--recompute"), ("--page-size", 32, "--pages", 3)):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-invariant", "--batch-file",
                                      "f.jsonl", *options)
            self.assertEqual(code, 0, err)
            outputs.add(out)
            steps.append(int(re.search(r"(\d+) steps", err)[1]))
            preemptions.append(int(re.search(r"(\d+) preemptions", err)[1]))
        self.assertEqual(len(outputs), 1)
        self.assertLess(steps[0], steps[1])
        self.assertEqual((preemptions[0], preemptions[1], preemptions[3]), (0, 0, 0))
        self.assertGreater(preemptions[2], 0)
        code, out, _ = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-file", "f.jsonl", "--pages", 2)
        self.assertEqual((code, json.loads(out.splitlines()[0])["error"]),
                         (0, "f.jsonl:1: error: prompt: 15 tokens and 20 new ones need 3 pages of 16 positions, the "
                             "cache has 2"))

    def test_requests_share_the_pages_of_equal_prefixes(self):
        prompts = [[5, 6, 7, 8] * 9 + [i] for i in range(3)]
        (self.dir / "f.jsonl").write_text("".join(
            json.dumps({"prompt_ids": p, "max_new_tokens": 6, "arrive_at_step": 20 * i}) + "\n"
            for i, p in enumerate(prompts)))
        answers = {}
        for option, said in (((), "64 of 111 prompt tokens cached"), (("--no-prefix-cache",), "0 of 111 prompt tokens cached")):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-file", "f.jsonl", *option)
            self.assertEqual(code, 0, err)
            self.assertIn(said, err)
            answers[option] = [json.loads(line) for line in out.splitlines()]
        shared, fed = answers.values()
        self.assertEqual([a["cached_tokens"] for a in shared], [0, 32, 32])
        self.assertEqual([a["cached_tokens"] for a in fed], [0, 0, 0])
        self.assertEqual([a["new_ids"] for a in shared], [a["new_ids"] for a in fed])

    def test_rows_of_prompts_beside_decodes_are_bounded(self):
        """A prompt of 23 tokens beside a decode takes a step for each 4 of them, and no answer changes."""
        (self.dir / "f.jsonl").write_text("".join(json.dumps(line) + "\n" for line in (
            {"prompt_ids": [3], "max_new_tokens": 30}, {"prompt_ids": list(range(2, 25)), "max_new_tokens": 26, "arrive_at_step": 1})))
        outputs, steps = set(), []
        for options in ((), ("--max-rows-beside-decodes", 0), ("--max-rows-beside-decodes", 4)):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-invariant", "--batch-file", "f.jsonl", *options)
            self.assertEqual(code, 0, err)
            outputs.add(out)
            steps.append(int(re.search(r"(\d+) steps", err)[1]))
        self.assertEqual((len(outputs), steps), (1, [30, 30, 32]))

    def test_bad_batch_files_are_refused(self):
        run = ("run", FIXTURE, "--device", "cpu")
        (self.dir / "empty").write_text("\n \n")
        self.refuses("empty: error: found no requests, expected at least one line\n", *run, "--batch-file", "empty")
        self.refuses("none: error: ", *run, "--batch-file", "none")
        self.refuses("mkc: error: give one of --prompt, --prompt-ids and --batch-file\n", *run, "--batch-file",
                     "empty", "--prompt-ids", 1)
        (self.dir / "one").write_text('{"prompt_ids": [1]}')
        self.refuses("--page-size: error: found 24, expected 16, 32 or 64\n", *run, "--batch-file", "one", "--page-size",
                     24)
        for option in (("--page-size", 16), ("--pages", 9), ("--recompute",), ("--no-prefix-cache",),
                       ("--max-rows-beside-decodes", 3)):
            self.refuses(f"mkc: error: {option[0]} requires --batch-file\n", *run, "--prompt-ids", 1, *option)
        for option in (("--logprobs", 1, "--json"), ("--logits-out", "l.npy")):
            self.refuses(f"mkc: error: --batch-file excludes {option[0]}\n", *run, "--batch-file", "empty", *option)

    def test_draws_are_those_of_the_seed(self):
        def run(*arguments):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--prompt-ids", "3,1,4", "--json",
                                      "--max-new-tokens", 6, *arguments)
            self.assertEqual(code, 0, err)
            return json.loads(out)

        def run_lines(lines, *arguments):
            (self.dir / "f.jsonl").write_text("".join(json.dumps({"prompt_ids": [3, 1, 4], **line}) + "\n"
                                                      for line in lines))
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-file", "f.jsonl",
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
        sampled = run(*filters, "--seed", 5)["new_ids"]
        self.assertEqual(run(*filters, "--seed", 5)["new_ids"], sampled)
        self.assertNotEqual(run(*filters, "--seed", 6)["new_ids"], sampled)
        keys = {"temperature": 50, "top_k": 60, "top_p": 0.99, "min_p": 0.01, "seed": 5}
        lines = run_lines([{"logprobs": 3}, keys, {"max_new_tokens": 2}])
        self.assertEqual([line["new_ids"] for line in lines], [greedy["new_ids"], sampled, greedy["new_ids"][:2]])
        self.assertEqual(lines[0]["logprobs"], greedy["logprobs"])
        self.assertNotIn("logprobs", lines[1])
        lines = run_lines([{}, {"temperature": 0}], *filters, "--seed", 5)
        self.assertEqual([line["new_ids"] for line in lines], [sampled, greedy["new_ids"]])
        self.assertEqual(run("--temperature", 50, "--top-k", 1)["new_ids"], greedy["new_ids"])
        penalised = run("--repetition-penalty", 1000)["new_ids"]
        self.assertEqual(len({3, 1, 4, *penalised}), 9)  # no token comes twice

    def test_prompts(self):
        run = ("run", FIXTURE, "--device", "cpu")
        self.refuses('--prompt-ids: error: found "x", expected integers with commas between', *run, "--prompt-ids",
                     "1,x")
        self.refuses('--prompt-ids: error: found "", expected integers', *run, "--prompt-ids", "")
        self.refuses("prompt: error: token 1 has the id 96, expected 0 to 95", *run, "--prompt-ids", "1,96")
        self.refuses("prompt: error: token 0 has the id -5, expected 0 to 95", *run, "--prompt-ids=-5")
        self.refuses("prompt: error: 3 tokens and 1000 new ones need 1002 positions, the context has 128", *run,
                     "--prompt-ids", "1,2,3", "--max-new-tokens", 1000)
        self.refuses(f"{FIXTURE}: error: has no tokenizer.json, expected one for --prompt; --prompt-ids needs none\n", *run, "--prompt",
                     "hello")
        done = subprocess.run([MKC, "run", TINY, "--device", "cpu", "--prompt", b"a\xff"], capture_output=True,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.startswith(b"--prompt: error: "), done.stderr)


unittest.main(argv=sys.argv[:1], verbosity=1)
