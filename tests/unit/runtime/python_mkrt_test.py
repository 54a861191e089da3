"""These tests run runtime/python/mkc/mkrt on the processor and, where a name says so, on the emulator.
Usage: python_mkrt_test.py LIBRARY ROOT
LIBRARY is python_kernels.cc with the C interface.
"""
import contextlib
import ctypes
import io
import itertools
import json
import math
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    np = None
    print("SKIP tests of arrays: numpy is not installed")

try:
    import torch
except ImportError:
    torch = None
    print("SKIP layers: torch is not installed")

LIBRARY, ROOT = Path(sys.argv[1]), Path(sys.argv[2])
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tools" / "gpu")]
sys.dont_write_bytecode = True
import break_plan  # noqa: E402
import compiled_kernel  # noqa: E402
from mkc import mkrt  # noqa: E402

sys.modules["mkrt"] = mkrt  # programs of tools/gpu have it as a module of its own
import sessions  # noqa: E402

CHECKPOINT = ROOT / "tests" / "fixtures" / "models" / "llama_f32"
EXPECTED = json.loads((CHECKPOINT / "expected.json").read_text())
MEGAKERNEL, TRACED, KERNELS = range(3)
PROMPT, NEW = EXPECTED["prompt_ids"], EXPECTED["new_ids"]


def compiled(processor, mode=MEGAKERNEL, keep=False):
    """A kernel of the checkpoint for the processor or the emulator."""
    return compiled_kernel.compiled(LIBRARY, CHECKPOINT, processor, mode, keep)


def emulator(kernel):
    return mkrt.Device.emulator(kernel.entry or kernel.kernels[:kernel.kernel_count], kernel.pack, library=LIBRARY)


class MkrtTest(unittest.TestCase):
    def setUp(self):
        self.artefact = compiled_kernel.artefact(compiled(True, keep=True))
        self.device = mkrt.Device.processor(library=LIBRARY)
        self.session = self.device.open_from_memory(*self.artefact, CHECKPOINT)

    def tearDown(self):
        self.session.close()
        self.device.close()

    @unittest.skipUnless(np, "needs numpy")
    def test_logits_and_successor_are_those_of_transformers(self):
        self.check_logits("cpu", self.device, self.session)

    @unittest.skipUnless(np, "needs numpy")
    def test_logits_on_the_emulator_are_those_of_transformers(self):
        kernel = compiled(False)
        with emulator(kernel) as device, device.open_from_memory(*compiled_kernel.artefact(kernel), CHECKPOINT) as session:
            self.check_logits("emulator", device, session)

    def check_logits(self, name, device, session):
        self.assertEqual((device.name, session.vocab, session.position), (name, 80, 0))
        following, rows = session.step(PROMPT[:16], logits=True)
        wanted = np.array(EXPECTED["logits"][:16])
        self.assertEqual((rows.shape, rows.dtype), ((16, 80), np.float32))
        self.assertLess(np.max(np.linalg.norm(rows - wanted, axis=1) / np.linalg.norm(wanted, axis=1)), 1e-4)
        self.assertEqual(following, int(np.argmax(wanted[-1])))
        self.assertEqual(session.position, 16)

    def test_generates_what_transformers_does_whatever_the_chunks(self):
        for chunk in (None, 1, 7):
            self.assertEqual(list(self.session.generate(PROMPT, 12, chunk=chunk)), NEW[:12])
            self.assertEqual(self.session.position, len(PROMPT) + 11)
            self.session.rewind()
        stop = NEW[4]
        self.assertEqual(list(self.session.generate(PROMPT, 12, stop={stop})), NEW[:NEW.index(stop)])

    def test_draws_are_the_same_whatever_the_steps_of_a_launch(self):
        for sampling in ({}, {"temperature": 1.5, "top_p": 0.9, "seed": 7}, {"repetition_penalty": 1.5, "position": 3}):
            sampled = list(self.session.generate(PROMPT, 9, **sampling))
            self.assertEqual(len(sampled), 9)
            for steps in (2, 16):
                self.session.rewind()
                self.assertEqual(list(self.session.generate(PROMPT, 9, steps_per_launch=steps, **sampling)), sampled)
                self.assertEqual(self.session.position, len(PROMPT) + 8)
            self.session.rewind()
            self.assertEqual(list(self.session.generate(PROMPT, 9, stop={sampled[5]}, steps_per_launch=16, **sampling)),
                             sampled[:sampled.index(sampled[5])])
            self.session.rewind()

    def test_a_launch_may_have_more_steps_than_there_are_tokens(self):
        self.assertEqual(list(itertools.islice(self.session.generate(PROMPT, 5000, steps_per_launch=4096), len(NEW))), NEW)

    def test_biases_change_tokens_whatever_the_steps_of_a_launch(self):
        self.assertEqual(list(self.session.generate(PROMPT, 4, allowed={7})), [7] * 4)
        self.session.rewind()
        self.assertEqual(list(self.session.generate(PROMPT, 4, logit_bias={9: 1e6})), [9] * 4)
        self.session.rewind()
        self.assertNotIn(NEW[0], self.session.generate(PROMPT, 6, logit_bias={NEW[0]: float("-inf")}))
        self.session.rewind()
        self.assertGreater(len(list(self.session.generate(PROMPT, 9, stop={NEW[0]}, min_tokens=5))), 4)
        stops = {"min_tokens": 6, "stop": set(NEW[:6]), "temperature": 0.8}
        self.session.rewind()
        tokens = list(self.session.generate(PROMPT, 9, **stops))
        self.session.rewind()
        self.assertEqual(list(self.session.generate(PROMPT, 9, steps_per_launch=4, **stops)), tokens)
        self.session.rewind()
        with self.assertRaisesRegex(mkrt.Error, r"^step: error: request 0: biases: entry 0, id 3, has the value nan, expected "):
            self.session.sample([1], biases={3: (float("nan"), 0)})
        with self.assertRaisesRegex(mkrt.Error, r"^found the field 'temprature', expected one of repetition_penalty, temperature, "):
            self.session.sample([1], temprature=1)
        with self.assertRaisesRegex(mkrt.Error, r"^found the id -1, expected 0 to \d+$"):
            self.session.sample([1], allowed={-1})

    @unittest.skipUnless(np, "needs numpy")
    def test_penalties_count_the_new_tokens(self):
        allowed = sorted(set(NEW[:3]) | {3, 4, 5})
        for presence, frequency in ((2, 0), (0, 2), (-1.5, 1.25)):
            tokens, feed = [], PROMPT
            self.session.rewind()
            for _ in range(9):
                row = self.session.step(feed, logits=True)[1][-1]
                left = {id: row[id] - (presence * (id in tokens) + frequency * tokens.count(id)) for id in allowed}
                tokens.append(max(left, key=left.get))
                feed = tokens[-1:]
            self.session.rewind()
            self.assertEqual(tokens, list(self.session.generate(PROMPT, 9, presence_penalty=presence, allowed=allowed,
                                                                frequency_penalty=frequency, steps_per_launch=4)))

    def test_log_probabilities_come_with_the_tokens(self):
        ids, logprobs = self.session.sample(PROMPT, 3, logprobs=80 - 60)
        self.assertEqual(ids, NEW[:3])
        for token, (sampled, top, rank) in zip(ids, logprobs):
            self.assertEqual((top[0][0], len(top)), (token, 20))
            self.assertEqual((sampled, rank), (top[0][1], 1))
            self.assertEqual([p for _, p in top], sorted((p for _, p in top), reverse=True))
            self.assertLess(sum(math.exp(p) for _, p in top), 1)
        with self.assertRaisesRegex(mkrt.Error, "^step: error: request 0: temperature: is -1, expected 0 to 1000000$"):
            self.session.sample([1], temperature=-1)

    def test_requests_of_a_step_sample_each_in_its_own_way(self):
        self.session.make_cache(16, 6)
        ways = [{"logprobs": 3}, {"allowed": [7, 9], "biases": {9: (50, 0)}, "logprobs": 0}, {"temperature": 1.5, "seed": 4}, {"limit": 0}]
        requests = [(PROMPT[:4], 4, [page]) for page in range(4)]
        (first, of_first), (second, of_second), (third, of_third), (fourth, _) = self.session.sample_batch(requests, ways)
        self.assertEqual((second, fourth, of_third), ([9], [], []))
        self.assertEqual((len(of_first[0].top), of_first[0].rank, of_second[0].top), (3, 1, []))
        # The rank is that among all logits, whatever may be sampled.
        row = self.session.sample(PROMPT[:4], 1, logprobs=20)[1][0]
        ranks = {id: rank + 1 for rank, (id, _) in enumerate(row.top)}
        self.assertEqual(of_second[0].rank, ranks.get(9, of_second[0].rank))
        self.assertGreater(of_second[0].rank, 1)
        self.session.rewind()
        self.assertEqual(self.session.sample(PROMPT[:4], 1, temperature=1.5, seed=4), third)
        self.session.begin_step(requests, samples=ways)
        self.assertEqual(self.session.end_step(), [first, [9], third, []])
        with self.assertRaisesRegex(mkrt.Error, "^found samples of 1 requests, expected 4$"):
            self.session.sample_batch(requests, ways[:1])

    def test_a_step_takes_the_samples_of_the_one_before(self):
        self.session.make_cache(16, 6)
        self.session.begin_step([(PROMPT[:4], 4, [0]), (PROMPT, len(PROMPT), [1, 2])])
        self.session.begin_step([([-2], len(PROMPT) + 1, [1, 2])])
        self.assertEqual(self.session.end_step()[1] + self.session.end_step()[0], NEW[:2])
        with self.assertRaisesRegex(mkrt.Error, "^step: error: request 0: tokens: row 0 is the sample of request 1 of the step before, "):
            self.session.begin_step([([-2], len(PROMPT) + 2, [1, 2])])

    @unittest.skipUnless(np, "needs numpy")
    def test_arrays_of_any_integers_are_tokens(self):
        first = self.session.step(np.array(PROMPT[:3], dtype=np.int64))
        self.session.rewind(0)
        self.assertEqual(self.session.step(np.array(PROMPT[:6], dtype=np.uint8)[[0, 1, 2]]), first)

    def test_requests_of_a_step_do_not_mix(self):
        pages, size = self.session.pages
        self.assertEqual((self.session.max_requests, size), (16, 16))
        self.session.make_cache(32, 8, mkrt.HND)
        self.assertEqual(self.session.pages, (8, 32))
        longer, shorter = list(PROMPT), list(PROMPT[::-1][:5])
        first = self.session.step_batch([(shorter, 5, [7]), (longer, len(longer), [3, 1])])
        second = self.session.step_batch([([first[1]], len(longer) + 1, [3, 1]), ([first[0]], 6, [7])])
        self.assertEqual([first[1], second[0]], list(NEW[:2]))
        self.session.make_cache(16, pages)
        self.assertEqual([first[0], second[1]], list(self.session.generate(shorter, 2)))
        for requests, why in (([], "requests"), ([([1], 1, [8]), ([1], 1, [8])], "page"), ([([1], 17, [0])], "kv_len")):
            with self.assertRaisesRegex(mkrt.Error, why):
                self.session.step_batch(requests)
        with self.assertRaisesRegex(mkrt.Error, "^cache: error: the page size is 3, expected 16, 32 or 64$"):
            self.session.make_cache(3, 4)
        with self.assertRaisesRegex(mkrt.Error, "^cache: error: 1 addresses, the model has "):
            self.session.use_cache(16, 4, (4096, 256, 64), [64])
        with self.assertRaisesRegex(mkrt.Error, "^cache: error: found 2 scales, the model has no caches of e4m3$"):
            self.session.use_scales([1, 0.5])

    def test_steps_in_two_parts_are_those_in_one(self):
        self.session.make_cache(16, 6)
        self.session.set_timeout(60000)
        self.session.set_stream(0)
        self.session.begin_step([(PROMPT[:7], 7, [3, 1])], limit=0)
        self.session.begin_step([(PROMPT[7:], len(PROMPT), [3, 1])])
        self.assertEqual(self.session.end_step(), [[]])
        self.assertEqual(self.session.end_step(), [NEW[:1]])
        self.assertNotEqual(self.session.logits_address, 0)
        reversed_prompt = PROMPT[::-1]
        both = [(NEW[:1], len(PROMPT) + 1, [3, 1]), (reversed_prompt, len(PROMPT), [4, 5])]
        self.session.begin_step(both, limit=4)
        first, second = self.session.end_step()
        self.assertEqual(first, NEW[1:5])
        self.session.begin_step(both, limit=4, stop={second[2]})
        self.assertEqual(self.session.end_step()[1], second[:second.index(second[2]) + 1])
        self.session.make_cache(16, 8)
        self.assertEqual(second, list(self.session.generate(reversed_prompt, 4)))
        with self.assertRaisesRegex(mkrt.Error, "^step: error: no step is under way$"):
            self.session.end_step()
        without = "the device cpu has no streams"
        self.assertRaisesRegex(mkrt.Error, f"^stream: error: found 0x10, expected 0: {without}$", self.session.set_stream, 16)
        for call in (self.session.capture_step, lambda: self.session.fill_step(both)):
            self.assertRaisesRegex(mkrt.Error, f"^step: error: {without}: no step can be captured$", call)

    def test_kernels_of_grids_draw_the_same(self):
        for device, processor in ((mkrt.Device.processor(LIBRARY), True), (emulator(compiled(False, KERNELS)), False)):
            kernel = compiled(processor, KERNELS)
            with self.subTest(device.name), device, device.open_from_memory(*compiled_kernel.artefact(kernel), CHECKPOINT) as session:
                self.assertEqual(list(session.generate(PROMPT, 6, steps_per_launch=3)), NEW[:6])

    def test_a_traced_kernel_says_what_it_did(self):
        for device, processor, unit in ((mkrt.Device.processor(LIBRARY), True, "ns"), (emulator(compiled(False, TRACED)), False, "stamps")):
            kernel = compiled(processor, TRACED)
            with self.subTest(device.name), device, device.open_from_memory(*compiled_kernel.artefact(kernel), CHECKPOINT) as session:
                session.step(PROMPT)
                trace = json.loads(session.trace())
                self.assertEqual((trace["unit"], trace["requests"]), (unit, [{"rows": len(PROMPT), "kv_len": len(PROMPT)}]))
                consumers, loaders = trace["tracks"][::2], trace["tracks"][1::2]
                self.assertTrue(all(track["stamps"] for track in consumers))
                # The processor's workers load for themselves.
                self.assertTrue(all(bool(track["stamps"]) != processor for track in loaders))
        with self.assertRaisesRegex(mkrt.Error, "^trace: error: the kernel stamps none: compile it with --trace$"):
            self.session.trace()

    def test_two_sessions_do_not_mix(self):
        with self.device.open_from_memory(*self.artefact, CHECKPOINT) as other:
            a, b = self.session.generate(PROMPT, 6), other.generate(PROMPT[::-1], 6)
            mixed = [token for pair in zip(a, b) for token in pair]
            other.rewind()
            self.assertEqual(mixed[1::2], list(other.generate(PROMPT[::-1], 6)))
        self.assertEqual(mixed[::2], NEW[:6])

    def test_failures_are_exceptions_and_change_nothing(self):
        with self.assertRaisesRegex(mkrt.Error, "^step: error: token 1 has the id 80, expected 0 to 79$"):
            self.session.step([1, 80])
        with self.assertRaisesRegex(mkrt.Error, "^step: error: 65 tokens, expected 1 to 64$"):
            self.session.step([1] * 65)
        with self.assertRaisesRegex(mkrt.Error, "^no tokens to go on from$"):
            next(self.session.generate([], 3))
        with self.assertRaisesRegex(mkrt.Error, "^mkrt: error: cannot go back to position 5, the session is at 0$"):
            self.session.rewind(5)
        with self.assertRaisesRegex(mkrt.Error, "^/none.so: error: cannot open"):
            self.device.open("/none.so", CHECKPOINT)
        with mkrt.Device.processor(LIBRARY) as other, self.assertRaisesRegex(mkrt.Error, "^cpu: error: the artefact is for emulator, ") as caught:
            other.open_from_memory(*compiled_kernel.artefact(compiled(False)), CHECKPOINT)
        self.assertEqual(caught.exception.status, mkrt.Status.NO_DEVICE)
        with self.assertRaisesRegex(mkrt.Error, "^no libmkrt: .*none.so"):
            mkrt.Device(0, "/none.so")
        self.session.close()
        with self.assertRaisesRegex(mkrt.Error, "^the session is closed$"):
            self.session.step([1])

    @unittest.skipUnless(np, "needs numpy")
    def test_the_checks_of_sessions_pass_and_find_what_is_wrong(self):
        def opened():
            return self.device.open_from_memory(*self.artefact, CHECKPOINT)

        def forgetful(tokens, logits=False):  # every second step starts anew
            self.session.rewind(0 if self.session.position % 2 else self.session.position)
            return step(tokens, logits)

        def mistaken():
            session = opened()
            begin, session.begin_step = session.begin_step, lambda requests: begin(
                [([token ^ 1 for token in tokens], length, pages) for tokens, length, pages in requests])
            return session

        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            sessions.every_step_size(self.session, PROMPT[:18])
            sessions.ragged(self.session, PROMPT[:18])
            self.session.make_cache(16, 4)
            sessions.two_sessions(opened, PROMPT)
            sessions.two_streams(opened, PROMPT, (0, 0))
            sessions.several_steps(self.session, PROMPT[:18])
        self.assertEqual([json.loads(line)["check"] for line in said.getvalue().splitlines()],
                         ["step sizes", "ragged batches", "two sessions", "two streams", "several steps"])
        with opened() as other, self.assertRaisesRegex(SystemExit, "^sessions: error: 2 steps a launch give "):
            generate = other.generate  # a launch of n steps drops the first n - 1 tokens
            other.generate = lambda ids, count, steps_per_launch=1: generate(ids[steps_per_launch - 1:], count)
            sessions.several_steps(other, PROMPT)
        with self.assertRaisesRegex(SystemExit, "^sessions: error: on two streams "):
            sessions.two_streams(mistaken, PROMPT, (0, 0))
        batch, self.session.step_batch = self.session.step_batch, lambda requests, logits: batch(
            [([token ^ 1 for token in tokens], length, pages) for tokens, length, pages in requests], logits)
        with self.assertRaisesRegex(SystemExit, r"^sessions: error: request \d+ of \d+ in pages of 16, form 0: relative error "):
            sessions.ragged(self.session, PROMPT[:18])
        self.session.step_batch = batch
        step, self.session.step = self.session.step, forgetful
        with self.assertRaisesRegex(SystemExit, "^sessions: error: steps of 2 tokens: relative error "):
            sessions.every_step_size(self.session, PROMPT[:18])

    @unittest.skipUnless(torch, "needs torch")
    def test_the_first_wrong_grid_is_named_on_the_emulator(self):
        import layers
        from shapes import read_shape
        kernel = compiled(False, keep=True)
        manifest, plan, _ = compiled_kernel.artefact(kernel)
        says, shape = json.loads(manifest), read_shape(CHECKPOINT)

        def compared(manifest, plan, says=says):
            device = emulator(kernel)
            device.accept_unsealed()
            with device, torch.no_grad():
                return layers.compare(lambda: device.open_from_memory(manifest, plan, None, CHECKPOINT), says, shape,
                                      CHECKPOINT, "cpu", 21)

        # The compared tensors are the embedding, seven tensors of each layer, and the logits.
        self.assertEqual(compared(manifest, plan)["tensors"], 1 + 7 * shape.layers + 1)
        for grid, right, wrong in (("l1.o", "l1.o.packed", "l0.o.packed"), ("l1.gate_up", "l1.post_norm", "l0.input_norm"),
                                   ("l0.v", "l0.v.packed", "l0.k.packed")):
            other = break_plan.misled(manifest, plan, grid, right, wrong)
            with self.assertRaisesRegex(SystemExit, f"^layers: error: grid {grid} is the first to be wrong, in "):
                compared(*other)
        shared = json.loads(manifest)
        shared["tensors"][1]["offset"] = shared["tensors"][0]["offset"]
        with self.assertRaisesRegex(SystemExit, "share memory: compile with --keep-activations$"):
            compared(manifest, plan, shared)

    def test_weights_are_kept_in_a_folder_for_the_next_session(self):
        with tempfile.TemporaryDirectory() as folder:
            made = set()
            for _ in range(2):
                with mkrt.Device.processor(LIBRARY) as device:
                    device.keep_weights(folder)
                    with device.open_from_memory(*self.artefact, CHECKPOINT) as session:
                        self.assertEqual(list(session.generate(PROMPT, 3)), NEW[:3])
                made.update((file.name, file.stat().st_ino) for file in Path(folder).iterdir())
            self.assertEqual(len(made), 1)
            with mkrt.Device.processor(LIBRARY) as device:
                device.keep_weights(folder)
                device.keep_weights(None)
                [file] = Path(folder).iterdir()
                file.unlink()
                device.open_from_memory(*self.artefact, CHECKPOINT).close()
            self.assertEqual(list(Path(folder).iterdir()), [])

    def test_a_broken_plan_is_a_fault_that_names_who_waited_and_harms_nobody_after_it(self):
        manifest, plan, image = self.artefact
        other = mkrt.Device.processor(LIBRARY)
        faulty = lambda: other.open_from_memory(*break_plan.broken(manifest, plan), image, CHECKPOINT)
        with self.assertRaisesRegex(mkrt.Error, "^seal: error: manifest and plan have the hash "):
            faulty()
        other.accept_unsealed()
        with faulty() as session:
            session.set_timeout(300)
            with self.assertRaisesRegex(mkrt.Error, r"worker \d+ task \S+\[\d+\] waited for event .*: seen \d+, expected \d+") as caught:
                session.step([1])
            self.assertEqual(caught.exception.status, mkrt.Status.TIMEOUT)
            with self.assertRaisesRegex(mkrt.Error, "^step: error: the session had a fault and cannot go on$") as caught:
                session.step([1])
            self.assertEqual(caught.exception.status, mkrt.Status.FAULT)
        with faulty() as session, session.engine() as engine:
            session.set_timeout(300)
            engine.submit([1], 3)
            with self.assertRaisesRegex(mkrt.Error, "waited for event"):
                engine.advance()
            [outcome] = engine.outcomes()
            self.assertEqual((outcome.reason, outcome.error.status), (mkrt.Reason.ERROR, mkrt.Status.TIMEOUT))
            self.assertIn("waited for event", str(outcome.error))
            engine.submit([1], 3)
            self.assertEqual(engine.outcomes()[0].error.status, mkrt.Status.TIMEOUT)
        self.assertEqual(list(self.session.generate(PROMPT, 3)), NEW[:3])
        opened = lambda: self.device.open_from_memory(manifest, plan, image, CHECKPOINT)
        with contextlib.redirect_stdout(io.StringIO()) as said:
            sessions.after_a_fault(opened, faulty, PROMPT)
        self.assertRegex(json.loads(said.getvalue())["message"], "waited for event .* beyond 500 ms")
        with self.assertRaisesRegex(SystemExit, "^sessions: error: a plan that loses notifications ran to its end$"):
            sessions.after_a_fault(opened, opened, PROMPT)
        other.close()


unittest.main(argv=sys.argv[:1])
