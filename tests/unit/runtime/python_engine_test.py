"""These tests serve requests by mkrt.Engine on the processor, with the model of models/tiny-stories.
Usage: python_engine_test.py LIBRARY ROOT MKC
"""
import collections
import contextlib
import ctypes
import io
import json
import random
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, ROOT, MKC = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tools" / "gpu")]
sys.dont_write_bytecode = True
import break_plan  # noqa: E402
from mkc import mkrt  # noqa: E402

TINY = ROOT / "models" / "tiny-stories"
STORIES = json.loads((TINY / "greedy.json").read_text())
END = 1
OPTIONS = ({}, {"steps_per_launch": 5}, {"prefix_cache": True, "recompute": True, "pages": 22},
           {"prefix_cache": True, "recompute": True, "pages": 22, "steps_per_launch": 4, "max_rows_beside_decodes": 8})


def random_request(random, vocab):
    """The arguments of a request, which generate() and submit() take alike."""
    story = random.choice(STORIES)["prompt_ids"]
    prompt = story * random.randint(1, 6) + [random.randrange(2, vocab) for _ in range(random.randint(0, 20))]
    request = {"max_new_tokens": random.randint(1, 40), "stop": {END, random.randrange(vocab)}}
    if random.random() < 0.6:
        request.update(temperature=random.uniform(0.3, 1.5), top_p=random.uniform(0.5, 1), top_k=random.randrange(40),
                       seed=random.getrandbits(64))
    if random.random() < 0.3:
        request["repetition_penalty"] = random.uniform(1, 1.5)
    if random.random() < 0.2:
        request.update(presence_penalty=random.uniform(-2, 2), frequency_penalty=random.uniform(-2, 2))
    if random.random() < 0.3:
        request["logit_bias"] = {random.randrange(vocab): random.choice((-5, 5, float("-inf"))) for _ in range(5)}
    if random.random() < 0.2:
        request["allowed"] = set(random.sample(range(2, vocab), 50)) | {END}
    if random.random() < 0.2:
        request["min_tokens"] = random.randint(1, 10)
    return prompt, request


class EngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        artefact = f"{cls.folder.name}/model.so"
        subprocess.run([MKC, "compile", TINY, "--target", "x86-64", "--batch-invariant", "--max-tokens", "48",
                        "--max-requests", "6", "-o", artefact], check=True, timeout=120)
        cls.device = mkrt.Device.processor(LIBRARY)
        cls.session = cls.device.open(artefact, TINY)
        cls.alone = cls.device.open(artefact, TINY)

    @classmethod
    def tearDownClass(cls):
        for handle in (cls.session, cls.alone, cls.device):
            handle.close()
        cls.folder.cleanup()

    def solo(self, prompt, max_new_tokens, stop, **request):
        """The tokens of a request that runs alone, without a stop id at their end."""
        self.alone.rewind()
        return list(self.alone.generate(prompt, max_new_tokens, stop, **request))

    def test_stories_are_those_of_transformers_with_log_probabilities(self):
        with self.session.engine(pages=128, prefix_cache=True) as engine:
            for story in STORIES:
                engine.submit(story["prompt_ids"], len(story["new_ids"]), logprobs=3)
            for outcome in engine.run():
                self.assertEqual((outcome.tokens, outcome.error), (STORIES[outcome.id]["new_ids"], None))
                for token, (sampled, top, rank) in zip(outcome.tokens, outcome.logprobs):
                    self.assertEqual((len(top), top[0], rank), (3, (token, sampled), 1))
            self.assertTrue(engine.idle)

    def test_a_random_mix_gives_each_request_what_it_gets_alone(self):
        for seed, options in enumerate(OPTIONS):
            with self.subTest(**options), self.session.engine(**{"pages": 200, **options}) as engine:
                self.check_mix(engine, random.Random(seed), engine.stats().pages < 100)

    def check_mix(self, engine, random, preempts):
        requests, outcomes, cancelled, streams = {}, {}, set(), collections.defaultdict(list)
        while len(requests) < 30 or not engine.idle:
            for _ in range(random.randrange(4) if len(requests) < 30 else 0):
                prompt, request = random_request(random, self.session.vocab)
                streamed = random.random() < 0.5
                id = engine.submit(prompt, priority=random.randrange(-1, 2), stream=streamed,
                                   arrive_at_step=engine.stats().clock + random.randrange(3), **request)
                requests[id] = prompt, request, streamed
            if random.random() < 0.15 and (left := sorted(requests.keys() - outcomes.keys())):
                cancelled.add(id := random.choice(left))
                engine.cancel(id)
            engine.advance()
            for progress in engine.progress():
                streams[progress.id] += progress.tokens
            outcomes.update((outcome.id, outcome) for outcome in engine.outcomes())
        self.assertEqual(outcomes.keys(), requests.keys())
        reasons = collections.Counter()
        for id, (prompt, request, streamed) in requests.items():
            outcome, tokens = outcomes[id], self.solo(prompt, **request)
            reasons[outcome.reason] += 1
            self.assertIsNone(outcome.error)
            self.assertEqual(streams[id], outcome.tokens if streamed else [])
            if outcome.reason == mkrt.Reason.CANCELLED:
                self.assertIn(id, cancelled)
                self.assertEqual(outcome.tokens, tokens[:len(outcome.tokens)])
            elif outcome.reason == mkrt.Reason.STOP:
                self.assertEqual(outcome.tokens[:-1], tokens)
                self.assertIn(outcome.tokens[-1], request["stop"])
            else:
                self.assertEqual((outcome.tokens, len(tokens)), (tokens, request["max_new_tokens"]))
        self.assertEqual(set(reasons), {mkrt.Reason.STOP, mkrt.Reason.LENGTH, mkrt.Reason.CANCELLED})
        stats = engine.stats()
        self.assertEqual((stats.running, stats.waiting, stats.pages_used), (0, 0, 0))
        if preempts:
            self.assertGreater(min(stats.preemptions, stats.prefix_hits), 0)

    def test_smaller_priority_numbers_run_earlier(self):
        with self.session.engine(pages=200) as engine:
            for priority in (3, 1, 2, 0, 1, 0, 5, 4, 3, 2):
                engine.submit([0] * 40, 2, priority=priority, stop=())
            order = [outcome.id for outcome in engine.run()]
        self.assertEqual(order, [3, 5, 1, 4, 2, 9, 0, 8, 7, 6])

    def test_a_launch_of_several_steps_hands_its_tokens_over_together(self):
        story = STORIES[0]
        with self.session.engine(steps_per_launch=8) as engine:
            engine.submit(story["prompt_ids"], 20, stream=True)
            sizes = []
            while not engine.idle:
                engine.advance()
                sizes += [len(progress.tokens) for progress in engine.progress()]
        self.assertEqual(sizes, [8, 8, 4])

    def test_steps_of_a_launch_have_bounds_that_are_seen_before_anything_is_fed(self):
        for steps in (0, -1, 4097):
            self.alone.rewind()
            with self.assertRaisesRegex(mkrt.Error, f"^steps_per_launch: error: found {steps}, expected 1 to 4096$"):
                next(self.alone.generate(STORIES[0]["prompt_ids"], 3, chunk=2, steps_per_launch=steps))
            self.assertEqual(self.alone.position, 0)

    def test_an_engine_serves_from_the_callers_cache(self):
        pages, caches, head = 128, self.session.caches, 32 * 2  # heads of 32 elements of bf16, two of them
        piece = 16 * 2 * head
        memory = ctypes.create_string_buffer(pages * caches * piece + 256)
        begin = -(-ctypes.addressof(memory) // 256) * 256
        self.addCleanup(self.session.make_cache, 16, pages)
        self.session.use_cache(16, pages, (caches * piece, 2 * head, head), [begin + i * piece for i in range(caches)])
        with self.session.engine(prefix_cache=True, stop=[END]) as engine:
            self.assertEqual(engine.stats().pages, pages)
            for story in STORIES:
                engine.submit(story["prompt_ids"], 20)
            self.assertEqual(sorted((outcome.id, outcome.tokens) for outcome in engine.run()),
                             [(id, story["new_ids"][:20]) for id, story in enumerate(STORIES)])
        self.assertTrue(any(memory.raw))

    def test_a_request_that_cannot_run_ends_with_its_error(self):
        with self.session.engine(stop=[END]) as engine:
            engine.submit([0], 3, temperature=-1, name="the warm one")
            engine.submit([0], 3, allowed={5}, logit_bias={5: float("-inf")})
            engine.submit([0, 900], 3)
            engine.submit([0] * 300, 300)
            engine.submit([0], 0)
            errors = [str(outcome.error) for outcome in engine.outcomes()]
        self.assertEqual(errors, [
            "the warm one: error: temperature: is -1, expected 0 to 1000000",
            "request 1: error: logit_bias: found all ids forbidden, expected one that is left",
            "request 2: error: prompt: token 1 has the id 900, expected 0 to 639",
            "request 3: error: prompt: 300 tokens and 300 new ones need 599 positions, the context has 512",
            "request 4: error: max_new_tokens: found 0, expected 1 or more"])

    def test_failures_have_a_status(self):
        def fails(status, message, call, *arguments, **options):
            with self.assertRaises(mkrt.Error) as caught:
                call(*arguments, **options)
            self.assertEqual((str(caught.exception), caught.exception.status), (message, status))

        S = mkrt.Status
        with self.session.engine(max_waiting=2) as engine:
            taken = "mkrt: error: session: an engine is open on it: close it first"
            fails(S.OUT_OF_ORDER, taken, self.session.step, [0])
            fails(S.OUT_OF_ORDER, taken, self.session.make_cache, 16, 4)
            fails(S.OUT_OF_ORDER, taken, self.session.engine)
            fails(S.BAD_ARGUMENT, "engine: error: no unfinished request has the id 3", engine.cancel, 3)
            engine.submit([0], 2)
            engine.submit([0], 2)
            fails(S.FULL, "engine: error: 2 requests wait, expected fewer than 2", engine.submit, [0], 2)
            fails(S.BAD_ARGUMENT, "mkrt: error: prompt: found 513 entries, expected at most 512, the context",
                  engine.submit, [0] * 513)
            self.assertEqual(len(list(engine.run())), 2)
        fails(S.BAD_HANDLE, "the engine is closed", engine.advance)
        fails(S.BAD_ARGUMENT, "cache: error: the page size is 7, expected 16, 32 or 64", self.session.engine, page_size=7,
              pages=3)
        fails(S.BAD_ARGUMENT, "mkrt: error: steps_per_launch: found 4097, expected 0 to 4096", self.session.engine, steps_per_launch=4097)
        fails(S.BAD_FILE, "/none.so: error: cannot open: No such file or directory", self.device.open, "/none.so", TINY)

    def test_a_fault_ends_all_requests_with_its_status(self):
        broken = Path(self.folder.name, "broken.so")
        broken.write_bytes(break_plan.broken_cubin(Path(self.folder.name, "model.so").read_bytes()))
        with mkrt.Device.processor(LIBRARY) as device:
            device.accept_unsealed()
            with device.open(broken, TINY) as session, session.engine() as engine:
                session.set_timeout(200)
                engine.submit([0], 3)
                engine.submit([0], 3, arrive_at_step=9)
                with self.assertRaisesRegex(mkrt.Error, r"worker \d+ task .* waited for event ") as caught:
                    engine.advance()
                engine.submit([0], 3)
                outcomes = engine.outcomes()
                self.assertEqual([outcome.id for outcome in outcomes], [0, 1, 2])
                for error in (caught.exception, *(outcome.error for outcome in outcomes)):
                    self.assertEqual((error.status, str(error)), (mkrt.Status.TIMEOUT, str(caught.exception)))
                engine.close()
                with self.assertRaisesRegex(mkrt.Error, "^step: error: the session had a fault and cannot go on$") as caught:
                    session.step([0])
                self.assertEqual(caught.exception.status, mkrt.Status.FAULT)

    def test_the_example_of_the_docs_runs(self):
        text = (ROOT / "docs" / "c-abi.md").read_text(encoding="utf-8")
        example = re.search(r"<!-- example: python engine -->\n```python\n(.*?)```", text, re.S)[1]
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(example, {"session": self.session})
        streamed = [int(id) for ids in re.findall(r"^0 \[(.*)\]$", said.getvalue(), re.M) for id in ids.split(", ")]
        self.assertEqual(streamed, list(self.solo([0, 359, 336], 20, {END})))
        self.assertRegex(said.getvalue(), r"(?m)^0 LENGTH \[.*\] None$")
        self.assertRegex(said.getvalue(), r"(?m)^1 (LENGTH|STOP) \[.*\] None$")

    def test_an_engine_outlives_its_session(self):
        session = self.device.open(f"{self.folder.name}/model.so", TINY)
        with session.engine() as engine:
            session.close()
            engine.submit(STORIES[1]["prompt_ids"], 9)
            self.assertEqual([outcome.tokens for outcome in engine.run()], [STORIES[1]["new_ids"][:9]])


unittest.main(argv=sys.argv[:1])
