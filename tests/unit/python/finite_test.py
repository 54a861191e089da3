"""These tests sample tokens from logits that are not finite: the C interface, its module in Python and the package tell them.
Usage: finite_test.py ROOT BUILD

The checkpoint has NaN in the embedding of one token, so that each step behind that token has no finite logits.
"""
import copy
import ctypes
import json
import pickle
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from in_tree import BUILD, FIXTURES

import mkc
from mkc import _requests, mkrt
from mkc.mkrt import _library

LLAMA = FIXTURES / "llama_f32"
EXPECTED = json.loads((LLAMA / "expected.json").read_text())
PROMPT, NEW = EXPECTED["prompt_ids"], EXPECTED["new_ids"]
BROKEN = 20  # a token's id; the fifth of NEW, and in PROMPT
CLEAN = PROMPT[:9]  # without it
FOUND = "^step: error: found no finite greatest logit for a new token, expected one: "


def broken_checkpoint(folder):
    folder = Path(shutil.copytree(LLAMA, Path(folder) / "broken"))
    file = folder / "model.safetensors"
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8:8 + size])["model.embed_tokens.weight"]
    row = 4 * tensor["shape"][1]
    at = 8 + size + tensor["data_offsets"][0] + BROKEN * row
    data[at:at + row] = b"\x00\x00\xc0\x7f" * tensor["shape"][1]
    file.write_bytes(data)
    return folder


class ErrorTest(unittest.TestCase):
    def test_copies_of_the_error_keep_its_text_and_tokens(self):
        error = mkc.NotFiniteError("logits: error: found none", tokens=[3], logprobs=[mkrt.Logprob(-1.0, [(3, -1.0)], 1)])
        for made in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
            self.assertEqual((str(made), made.status, made.tokens, made.logprobs),
                             (str(error), mkrt.Status.NOT_FINITE, error.tokens, error.logprobs))

    def test_statuses_of_later_libraries_are_kept(self):
        error = mkc.Error("text", 99)
        for made in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
            self.assertEqual((str(made), made.status, made.status.name), ("text", 99, "UNKNOWN_99"))
        self.assertIsInstance(error.status, mkrt.Status)
        self.assertNotIn(99, list(mkrt.Status))
        with self.assertRaises(ValueError):
            mkrt.Status("full")


class FiniteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.checkpoint = broken_checkpoint(folder.name)
        cls.model = mkc.load(cls.checkpoint, device="cpu")
        cls.addClassCleanup(cls.model.close)
        cls.session = cls.model.session

    def setUp(self):
        self.session.rewind()
        self.first = self.session.sample(CLEAN)[0]
        self.session.rewind()

    def test_a_step_tells_and_has_fed_its_tokens(self):
        for step in (self.session.step, lambda ids: mkrt.Session.step(self.session, ids)):
            self.session.rewind()
            self.assertEqual((step(CLEAN), self.session.finite), (self.first, [1]))
            with self.assertRaisesRegex(mkc.NotFiniteError, FOUND) as caught:
                step([BROKEN])
            self.assertEqual((caught.exception.tokens, self.session.finite, self.session.position), ([], [0], len(CLEAN) + 1))
        self.assertTrue(issubclass(mkc.NotFiniteError, mkc.Error))

    def test_samples_before_the_first_one_come_with_the_error(self):
        bias = {BROKEN: (1e6, 0)}  # the token is sampled, and then fed
        self.assertEqual(self.session.sample(CLEAN, biases=bias), [BROKEN])
        self.session.rewind()
        with self.assertRaisesRegex(mkc.NotFiniteError, FOUND) as caught:
            self.session.sample(CLEAN, 4, biases=bias)
        self.assertEqual((caught.exception.tokens, self.session.finite), ([BROKEN], [1]))
        self.assertEqual(caught.exception.logprobs, [])
        self.session.rewind()
        _, logprobs = self.session.sample(CLEAN, biases=bias, logprobs=2)
        self.session.rewind()
        with self.assertRaises(mkc.NotFiniteError) as caught:
            self.session.sample(CLEAN, 4, biases=bias, logprobs=2)
        self.assertEqual(caught.exception.logprobs, logprobs)
        self.session.rewind()
        self.assertEqual((self.session.sample(CLEAN + [BROKEN], 0), self.session.finite), ([], [0]))

    def test_logits_are_given_where_they_are_asked_for(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("needs numpy")
        self.assertTrue(numpy.isnan(self.session.step([BROKEN], logits=True)[1]).all())
        self.assertEqual(self.session.finite, [0])

    def test_generation_yields_the_tokens_before(self):
        for steps in (1, 3, 8):
            self.session.rewind()
            made = []
            with self.assertRaisesRegex(mkc.NotFiniteError, FOUND):
                for token in self.session.generate(CLEAN, 8, steps_per_launch=steps, logit_bias={BROKEN: 1e6}):
                    made.append(token)
            self.assertEqual((made, self.session.position), ([BROKEN], len(CLEAN) + 1))

    def test_a_model_and_an_engine_tell_and_have_the_tokens_before(self):
        found, bias = "^logits: error: found no finite greatest logit for a new token, expected one: ", {BROKEN: 1e6}
        self.session.rewind()
        with self.assertRaisesRegex(mkc.NotFiniteError, found) as caught:
            self.model.generate(CLEAN, 8, logit_bias=bias)
        self.assertEqual((caught.exception.tokens, caught.exception.status), ([BROKEN], mkrt.Status.NOT_FINITE))
        made = []
        with self.assertRaisesRegex(mkc.NotFiniteError, found):
            for token in self.model.stream(CLEAN, 8, logit_bias=bias):
                made.append(token.id)
        self.assertEqual(made, [BROKEN])
        with self.session.engine(pages=4) as engine:  # too few for the last request
            engine.submit(CLEAN, 8, logit_bias=bias, logprobs=2)
            engine.submit([3], 1)
            engine.submit([1] * self.model.context, 1)
            outcomes = {outcome.id: outcome for outcome in engine.run()}
        lost, fine, too_long = (outcomes[id] for id in range(3))
        self.assertEqual((lost.error.tokens, lost.error.logprobs), ([BROKEN], lost.logprobs))
        self.assertEqual((fine.error, type(too_long.error)), (None, mkrt.Error))

    def test_each_request_of_a_step_has_its_count(self):
        requests = [(CLEAN, len(CLEAN), [0]), ([5, BROKEN], 2, [1]), ([3], 1, [2])]
        self.session.make_cache(16, 4)
        self.session.step_batch(requests)
        self.assertEqual(self.session.finite, [1, 0, 1])
        self.session.sample_batch(requests, [{}, {"limit": 0}, {"limit": 3, "biases": {BROKEN: (1e6, 0)}}])
        self.assertEqual(self.session.finite, [1, 0, 1])
        self.session.begin_step(requests[::-1])
        self.session.end_step()
        self.assertEqual(self.session.finite, [1, 0, 1])
        following = _requests.Requests(self.session, [20, 20])
        self.assertEqual(following.feed({0: CLEAN}), {0: self.first})
        with self.assertRaisesRegex(mkc.NotFiniteError, FOUND):
            following.feed({0: [3], 1: [BROKEN]})

    def test_a_struct_without_the_field_is_filled_in_as_before(self):
        for size, finite in ((88, 0), (80, 7)):
            ids = (ctypes.c_int32 * 1)()
            samples = _library._Samples(limit=1, ids=ids, finite=7)
            samples.size = size
            self.session.rewind()
            self.assertEqual(self.session._library.mkrt_sample(self.session._open(), (ctypes.c_int32 * 1)(BROKEN), 1,
                                                               ctypes.byref(samples)), 0)
            self.assertEqual((samples.count, samples.finite), (1, finite))

    def test_mkrun_warns(self):
        artefact = self.checkpoint.parent / "model.so"
        subprocess.run([BUILD / "mkc", "compile", self.checkpoint, "--target", "x86-64", "-o", artefact], check=True, timeout=120,
                       capture_output=True)
        for prompt, said in ((CLEAN, ""), ([BROKEN], "mkrun: warning: found no finite greatest logit for a new token, expected one: ")):
            done = subprocess.run([BUILD / "mkrun", artefact, "--checkpoint", self.checkpoint, "--prompt-ids", ",".join(map(str, prompt)),
                                   "--max-new-tokens", "1"], capture_output=True, text=True, timeout=120)
            self.assertEqual((done.returncode, done.stderr[:len(said)] if said else done.stderr), (0, said))

    def test_counts_need_a_step_and_its_number_of_requests(self):
        with mkc.load(self.checkpoint, device="cpu") as model:
            with self.assertRaisesRegex(mkc.Error, "^mkrt: error: finite: found no step, expected one before$") as caught:
                model.session.finite
            self.assertEqual(caught.exception.status, mkrt.Status.OUT_OF_ORDER)
            model.session.step(CLEAN)
            counts = (ctypes.c_uint32 * 2)()
            model.session._library.mkrt_finite(model.session._open(), counts, 2)
            self.assertEqual(str(mkrt.Error.last(model.session._library)),
                             "mkrt: error: finite: found room for 2 requests, expected 1, those of the last step")


unittest.main(argv=["finite_test.py"])
