"""These tests are of the vLLM plug-in's parts that need no vLLM: requests, launches, samples and settings.

Usage: python_vllm_test.py ROOT
"""
import logging
import sys
import types
import unittest
import unittest.mock
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(sys.argv.pop(1)) / "runtime" / "python" / "vllm"))
try:
    import numpy as np
except ImportError:
    print("SKIP: numpy is not installed")
    sys.exit(0)
from mkc_vllm import launches, requests, samples, settings  # noqa: E402

VOCAB = 70


def params(**fields):
    usual = dict(repetition_penalty=1, presence_penalty=0, frequency_penalty=0, bad_words_token_ids=None, temperature=0, top_k=0,
                 top_p=1.0, min_p=0.0, logprobs=None, logit_bias=None, allowed_token_ids=None, min_tokens=0,
                 all_stop_token_ids={1}, seed=5)
    return types.SimpleNamespace(**{**usual, **fields})


def request(id="a", tokens=(3, 4, 5), blocks=(0,), computed=0, prompt=None, **fields):
    return requests.Request(id, list(tokens), len(tokens) if prompt is None else prompt, computed, list(blocks), params(**fields), 5)


def part(of, begin, end):
    return requests.Part(of, begin, end, end == len(of.tokens))


class FakeSession:
    """A token follows that is the last one plus one. Steps are kept as they were begun. Tokens of `broken` are not finite."""
    vocab, broken = VOCAB, ()

    def __init__(self):
        self.begun, self.under_way, self.last = [], [], []

    def begin_step(self, requests, samples):
        assert len(self.under_way) < 2
        self.begun.append(requests)
        inputs = [self.last[-1 - tokens[-1]] if tokens[-1] < 0 else tokens[-1] for tokens, _, _ in requests]
        self.last = [token + 1 for token in inputs]
        self.under_way.append([([token], []) if of.get("limit", 1) else ([], []) for token, of in zip(self.last, samples)])

    def end_step(self, logprobs):
        ended = self.under_way.pop(0)
        self.finite = [sum(token not in self.broken for token in ids) for ids, _ in ended]
        return ended


class OrderTest(unittest.TestCase):
    def test_a_step_is_one_launch_where_nobody_reads_what_another_writes(self):
        a, b = request("a", range(20), (0, 1)), request("b", range(20), (0, 2), computed=16)
        self.assertEqual(len(requests.in_order([part(b, 16, 20), part(request("c", range(9), (3,)), 0, 9)], 16)), 1)
        self.assertEqual(len(requests.in_order([part(a, 16, 20), part(b, 16, 20)], 16)), 1)  # both read block 0

    def test_a_block_is_written_in_a_launch_before_it_is_read(self):
        writer, reader = request("a", range(20), (0, 1)), request("b", range(40), (0, 1, 2))
        last = request("c", range(50), (0, 1, 2, 3))
        parts = [part(last, 48, 50), part(reader, 32, 40), part(writer, 0, 20)]
        # The reader reads blocks 0 and 1, which the writer writes. The last one reads block 2, too.
        self.assertEqual([[p.request.id for p in of] for of in requests.in_order(parts, 16)], [["a"], ["b"], ["c"]])


class LaunchesTest(unittest.TestCase):
    def setUp(self):
        self.session = FakeSession()
        self.launches = launches.Launches(self.session, 16)

    def step(self, *of):
        return self.launches.begin([part(r, len(r.tokens) - 1 if len(r.tokens) > r.prompt else 0, len(r.tokens)) for r in of], {})[0]

    def test_the_next_step_reads_samples_on_the_device(self):
        a, b = request("a"), request("b", (10, 20))
        self.step(a, b)
        second = self.step(b, a)
        self.assertEqual([tokens for tokens, _, _ in self.session.begun[1]], [[-2], [-1]])
        self.launches.finish(second)
        self.assertEqual((a.tokens[3:], b.tokens[2:]), ([6, 7], [21, 22]))

    def test_two_launches_are_under_way_at_most_and_older_samples_are_read_on_the_host(self):
        a, b, c = request("a"), request("b", (10, 20)), request("c", (30,))
        self.step(a)
        self.step(b)
        self.step(a, c)
        self.assertEqual([tokens for tokens, _, _ in self.session.begun[2]], [[6], [30]])
        self.assertEqual(len(self.session.under_way), 2)

    def test_penalties_need_all_tokens_on_the_host(self):
        a = request("a", presence_penalty=1)
        self.step(a)
        self.step(a)
        self.assertEqual(self.session.begun[1][0][0], [6])

    def test_a_chunk_of_a_prompt_samples_nothing(self):
        a = request("a", range(40), (0, 1, 2))
        launch, = self.launches.begin([part(a, 0, 32)], {})
        self.launches.finish(launch)
        self.assertEqual((launch.results, len(a.tokens)), ([([], [])], 40))


    def test_a_token_without_finite_logits_is_told_to_vllm_and_logged_once(self):
        vllm = types.ModuleType("vllm.v1.outputs")
        vllm.AsyncModelRunnerOutput, vllm.LogprobsLists, vllm.ModelRunnerOutput = object, tuple, types.SimpleNamespace
        with unittest.mock.patch.dict(sys.modules, {"vllm.v1.outputs": vllm}):
            from mkc_vllm import outputs
        self.session.broken = (6, 7)
        a, b, prompt = request("a"), request("b", (10, 20)), request("c", range(40), (0, 1, 2))
        told = []
        with self.assertLogs("vllm.mkc", "WARNING") as logged:
            for of in ([a, b], [a, b], [b]):
                parts = [part(r, len(r.tokens) - 1, len(r.tokens)) for r in of] + [part(prompt, 0, 32)]
                output = outputs.Output(parts, self.launches.begin(parts, {}), self.launches).get_output()
                told.append((output.sampled_token_ids, output.num_nans_in_logits))
        self.assertEqual(told, [([[6], [21], []], {"a": 1}), ([[7], [22], []], {"a": 1}), ([[23], []], None)])
        self.assertEqual([line.split(": found")[0] for line in logged.output], ["WARNING:vllm.mkc:mkc: request a"])


class SamplesTest(unittest.TestCase):
    def of(self, mask=None, **fields):
        return samples.samples_of(part(request(tokens=(3, 4, 5, 6, 6, 7), prompt=3, **fields), 5, 6), mask, VOCAB)

    def test_temperatures_near_0_are_greedy(self):
        self.assertEqual(self.of(), {"seed": 5, "position": 3, "repetition_penalty": 1})
        self.assertNotIn("temperature", self.of(temperature=1e-6, top_k=5))
        self.assertEqual(self.of(temperature=0.5, top_k=-1)["top_k"], 0)

    def test_biases_come_before_the_penalty_and_counts_after_it(self):
        found = self.of(logit_bias={6: 2.5}, presence_penalty=1, frequency_penalty=0.5)["biases"]
        self.assertEqual(found, {6: (2.5, -2.0), 7: (0, -1.5)})

    def test_ids_are_forbidden(self):
        inf = float("inf")
        self.assertEqual(self.of(min_tokens=4)["biases"], {1: (-inf, 0)})
        self.assertNotIn("biases", self.of(min_tokens=3))
        self.assertEqual(self.of(bad_words_token_ids=[[9], [6, 7, 8], [7, 7, 2]])["biases"], {9: (-inf, 0), 8: (-inf, 0)})

    def test_a_mask_and_allowed_ids_hold_together(self):
        words = samples.words_of([5, 40, 69], VOCAB)
        self.assertEqual(words.tolist(), [1 << 5, 1 << 8, 1 << 5])
        self.assertEqual(self.of(mask=words, allowed_token_ids=[40, 41])["allowed"].tolist(), [0, 1 << 8, 0])
        self.assertEqual(self.of(mask=words, allowed_token_ids=[41])["allowed"].tolist(), words.tolist())


    def test_a_mask_without_an_id_leaves_the_id_that_vllm_samples(self):
        beyond = np.array([0, 0, 1 << 6], np.uint32)  # id 70, which is padding
        for mask in (np.zeros(3, np.uint32), beyond):
            self.assertEqual(self.of(mask=mask)["allowed"].tolist(), [1, 0, 0])
        self.assertEqual(self.of(mask=samples.words_of([5], VOCAB) | beyond)["allowed"].tolist(), [1 << 5, 0, 0])

    def test_ids_that_are_all_forbidden_leave_the_id_that_vllm_samples(self):
        forbidden = self.of(logit_bias=dict.fromkeys(range(VOCAB), -float("inf")))["biases"]
        self.assertEqual(sorted(forbidden), list(range(1, VOCAB)))

    def test_a_share_too_small_for_a_float_is_none_of_0(self):
        for top_p in (1e-50, 5e-324, 0.5):
            self.assertGreaterEqual(np.float32(self.of(temperature=1, top_p=top_p)["top_p"]), np.finfo(np.float32).tiny)
        self.assertEqual(self.of(temperature=1, top_p=0.5)["top_p"], 0.5)


class SettingsTest(unittest.TestCase):
    def test_a_request_that_would_fail_its_step_is_refused(self):
        class VLLMValidationError(ValueError):
            def __init__(self, message, parameter):
                super().__init__(message)

        modules = {"vllm": types.ModuleType("vllm"), "vllm.exceptions": types.SimpleNamespace(VLLMValidationError=VLLMValidationError)}
        inf = float("inf")
        with unittest.mock.patch.dict(sys.modules, modules):
            for fields in ({}, {"logit_bias": {3: -inf, 4: 1e30}}, {"temperature": 1e6}, {"top_p": 1e-50, "temperature": 1}):
                settings.check_request(params(**fields))
            for pattern, fields in (("logit_bias: found {3: inf}, expected values of -1e\\+30 to 1e\\+30, or -inf$", {"logit_bias": {3: inf}}),
                                    ("logit_bias: found ", {"logit_bias": {3: float("nan")}}),
                                    ("logit_bias: found ", {"logit_bias": {3: -1e31}}),
                                    ("temperature: found 10000000.0, expected at most 1000000$", {"temperature": 1e7}),
                                    ("temperature: found nan", {"temperature": float("nan")}),
                                    ("repetition_penalty: found 5000, expected 0.001 to 1000$", {"repetition_penalty": 5000})):
                with self.subTest(fields), self.assertRaisesRegex(VLLMValidationError, "^mkc: " + pattern):
                    settings.check_request(params(**fields))

    def test_sizes_of_a_step_are_lowered_with_what_bounds_them(self):
        namespace = types.SimpleNamespace
        modules = {"vllm": types.ModuleType("vllm"), "vllm.config": namespace(CompilationMode=namespace(NONE=0), CUDAGraphMode=namespace(NONE=0))}

        def adapted(tokens, requests, positions):
            scheduler = namespace(max_num_batched_tokens=tokens, max_num_seqs=requests, enable_chunked_prefill=True)
            config = namespace(scheduler_config=scheduler, compilation_config=namespace(), parallel_config=namespace(),
                               model_config=namespace(max_model_len=positions))
            with unittest.mock.patch.dict(sys.modules, modules), self.assertLogs("vllm.mkc") as log:
                logging.getLogger("vllm.mkc").warning("adapted")
                settings.adapt(config)
            return scheduler.max_num_batched_tokens, scheduler.max_num_seqs, [record.getMessage() for record in log.records[1:]]

        self.assertEqual(adapted(24, 4, 6), (24, 4, []))
        self.assertEqual(adapted(300, 65, 4096), (256, 64, [
            "mkc: max_num_batched_tokens: found 300, a step of mkc has at most 256, which are used",
            "mkc: max_num_seqs: found 65, a step of mkc has at most 64, which are used"]))
        self.assertEqual(adapted(25, 4, 6), (24, 4, [
            "mkc: max_num_batched_tokens: found 25, a step has at most max_num_seqs times max_model_len, 24, which are used"]))

    def test_another_version_is_refused(self):
        settings.check_version("0.33.1")
        with self.assertRaisesRegex(settings.Unsupported, "found version 0.34.0, expected 0.33.x"):
            settings.check_version("0.34.0")


if __name__ == "__main__":
    unittest.main()
