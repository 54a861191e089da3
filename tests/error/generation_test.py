"""These tests call mkc run: text, tokens, samples and batch files.
Usage: generation_test.py MKC ROOT
"""
import json
import os
import re
import select
import shutil
import subprocess
import sys
import unittest

from command import CACHE, FIXTURE, LIMIT_S, MKC, ROOT, TINY, Command


def in_order(out):
    """Returns the answers of a batch in the order of its lines."""
    return sorted(map(json.loads, out.splitlines()), key=lambda answer: answer["line"])


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
        self.assertEqual([json.loads(answer)["line"] for answer in answers.splitlines()], [3, 1, 2])
        for request, answer in zip(map(json.loads, requests.splitlines()[:2]), map(json.loads, answers.splitlines()[1:])):
            prompt = (("--prompt", request["prompt"]) if "prompt" in request else
                      ("--prompt-ids", ",".join(map(str, request["prompt_ids"]))))
            alone = self.mkc("run", TINY, "--device", "cpu", *prompt, "--max-new-tokens",
                             request["max_new_tokens"], "--json")[1]
            self.assertEqual(json.loads(alone)["new_ids"], answer["new_ids"])

    def test_batch_lines_of_a_pipe_are_answered_as_they_come(self):
        """Each line is written only after the answers that must come before it have been read."""
        fifo = self.dir / "fifo"
        os.mkfifo(fifo)
        for source, option in (("-", "-"), (fifo, fifo)):
            process = subprocess.Popen([MKC, "run", FIXTURE, "--device", "cpu", "--batch-file", option], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "MKC_CACHE": str(CACHE)})
            self.addCleanup(process.kill)
            pipe = process.stdin if source == "-" else open(fifo, "wb")
            name = "standard input" if source == "-" else str(fifo)
            for number, (line, key, value) in enumerate((
                    ('{"prompt_ids": [3, 1, 4], "max_new_tokens": 4}', "finish_reason", "length"), ("", None, None),
                    ('{"prompt": "x"}', "error", f"{name}:3: error: prompt: found text, expected prompt_ids: there is no tokenizer.json"),
                    ('{"prompt_ids": []}', "error", f"{name}:4: error: prompt: is empty, expected at least one token"),
                    ('{"prompt_ids": [3, 1, 4], "max_new_tokens": 4}', "finish_reason", "length")), 1):
                pipe.write(line.encode() + b"\n")
                pipe.flush()
                if key:
                    self.assertTrue(select.select([process.stdout], [], [], LIMIT_S)[0])
                    answer = json.loads(process.stdout.readline())
                    self.assertEqual((answer["line"], answer[key]), (number, value))
            pipe.close()
            if source != "-":
                process.stdin.close()
            process.stdin = None
            out, err = process.communicate(timeout=LIMIT_S)
            self.assertEqual((process.returncode, out), (0, b""), err)
            self.assertRegex(err.decode(), r"^cpu: 4 requests, ")
            process.stdout.close()

    def test_a_pipe_that_never_ends_is_answered_until_nobody_reads(self):
        run = f"yes '{{\"prompt_ids\": [1], \"max_new_tokens\": 2}}' | '{MKC}' run '{FIXTURE}' --device cpu --batch-file - | head -n 500"
        done = subprocess.run(["/bin/sh", "-c", run], capture_output=True, timeout=LIMIT_S, env={**os.environ, "MKC_CACHE": str(CACHE)})
        self.assertEqual([answer["line"] for answer in in_order(done.stdout)], list(range(1, 501)))
        self.assertTrue(done.stderr.endswith(b"mkc: error: cannot write to standard output\n"), done.stderr)

    def test_a_pipe_without_requests_is_an_error(self):
        done = subprocess.run([MKC, "run", FIXTURE, "--device", "cpu", "--batch-file", "-"], input=b"\n\n", capture_output=True,
                              timeout=LIMIT_S, env={**os.environ, "MKC_CACHE": str(CACHE)})
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (1, b"", b"standard input: error: found no requests, expected at least one line\n"))

    def test_messages_of_a_batch_go_through_the_chat_template(self):
        model = self.dir / "model"
        shutil.copytree(TINY, model)
        messages = [{"role": "user", "content": "Tell of Sam."}]
        (self.dir / "f.jsonl").write_text('{"prompt_ids": [1]}\n' + json.dumps({"messages": messages, "max_new_tokens": 8}) + "\n")
        run = ("run", model, "--device", "cpu", "--batch-file", "f.jsonl", "--max-new-tokens", 8)
        self.refuses("model: error: has no chat template, expected one for the messages at f.jsonl:2; a prompt needs none\n", *run,
                     MKC_CACHE=self.dir / "none")
        (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role + ': ' + m.content }}{% endfor %} Once")
        code, out, err = self.mkc(*run)
        self.assertEqual(code, 0, err)
        alone = self.mkc("run", TINY, "--device", "cpu", "--prompt", "user: Tell of Sam. Once", "--no-special-tokens",
                         "--max-new-tokens", 8, "--json")[1]
        self.assertEqual(in_order(out)[1]["new_ids"], json.loads(alone)["new_ids"])

    def test_a_text_says_how_fast_it_came_and_why_it_ended(self):
        run = ("run", TINY, "--device", "cpu", "--prompt", "Once there was a boy named Sam.")
        for options, tokens, end in ((("--max-new-tokens", 3), 3, "--max-new-tokens"), (("--context", 40), r"\d+", "the end of the context"),
                                     (("--max-new-tokens", 400), r"\d+", "an end token")):
            code, _, err = self.mkc(*run, *options)
            self.assertEqual(code, 0)
            self.assertRegex(err, rf"^cpu: {tokens} tokens in \d+\.\d\d s, \d+\.\d tokens/s, ended by {end}\n$")
        self.assertRegex(self.mkc("run", FIXTURE, "--device", "cpu", "--prompt-ids", 1)[2], r"^cpu: 64 tokens .* by --max-new-tokens\n$")
        # A number that was asked for is never cut.
        self.refuses("prompt: error: ", *run, "--context", 40, "--max-new-tokens", 64)

    def test_progress_is_shown_on_a_terminal_alone_and_erased(self):
        prompt = ",".join("5" for _ in range(300))
        outer, inner = os.openpty()
        process = subprocess.Popen([MKC, "run", TINY, "--device", "emulator", "--prompt-ids", prompt, "--max-new-tokens", "2"],
                                   stdout=subprocess.PIPE, stderr=inner, env={**os.environ, "MKC_CACHE": str(self.dir / "cache")})
        self.addCleanup(process.kill)
        os.close(inner)
        text = b""
        while True:
            try:
                more = os.read(outer, 65536)
            except OSError:
                break
            text += more
        process.communicate(timeout=LIMIT_S)
        os.close(outer)
        self.assertEqual(process.returncode, 0, text)
        for shown in (b"compiling: pass 2 of 7, fuse", b"compiling: code and proof", b"packing weights: ", b"prompt: 64 of 300 tokens"):
            self.assertIn(b"\r\x1b[K" + shown, text)
        # A terminal shows in the end the last piece of each line that was erased.
        lines = [line.split(b"\x1b[K")[-1] for line in text.replace(b"\r\n", b"\n").split(b"\n")]
        self.assertFalse([line for line in lines if b"compiling" in line or b"prompt: " in line or b"packing" in line], lines)
        code, _, err = self.mkc("run", TINY, "--device", "emulator", "--prompt-ids", prompt, "--max-new-tokens", 2)
        self.assertEqual((code, err.count("\n"), "\x1b" in err), (0, 1, False), err)

    def test_few_pages_make_requests_wait_or_be_fed_again(self):
        prompts = [[3 + i, 1, 4] * 5 for i in range(4)]
        (self.dir / "f.jsonl").write_text("".join(json.dumps({"prompt_ids": p, "max_new_tokens": 20}) + "\n"
                                                  for p in prompts))
        outputs, preemptions, steps = set(), [], []
        for options in ((), ("--pages", 4), ("--pages", 5, "--recompute"), ("--page-size", 32, "--pages", 3)):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-invariant", "--batch-file",
                                      "f.jsonl", *options)
            self.assertEqual(code, 0, err)
            outputs.add(tuple(sorted(out.splitlines())))
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
        for option, said in (((), "64 of 111 prompt tokens cached"), (("--no-prefix-cache",), "0 of 0 prompt tokens cached")):
            code, out, err = self.mkc("run", FIXTURE, "--device", "cpu", "--batch-file", "f.jsonl", *option)
            self.assertEqual(code, 0, err)
            self.assertIn(said, err)
            answers[option] = in_order(out)
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
            outputs.add(tuple(sorted(out.splitlines())))  # answers come as they finish
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
            return in_order(out)
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
