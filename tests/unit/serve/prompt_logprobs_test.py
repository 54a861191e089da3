"""These tests check the log-probabilities of prompts that completions repeat, with a model whose logits are hashes.
Usage: prompt_logprobs_test.py FAKE_SERVER
"""
import sys
import unittest

from client import COMPLETIONS, FakeCase


class PromptLogprobsTest(FakeCase):
    def test_log_probabilities_of_prompts(self):
        """An echoed prompt has the log-probabilities that its tokens have as new ones."""
        server = self.fake(max_requests=3)
        prompts = [[5, 600, 77, 8, 77, 12], [9], [5, 600, 77, *range(20, 120)]]
        body = {"prompt": prompts, "max_tokens": 0, "logprobs": 2, "echo": True, "temperature": 0}
        status, answer = server.post(COMPLETIONS, body)
        self.assertEqual(status, 200, answer)
        self.assertEqual(answer["usage"], {"prompt_tokens": 110, "completion_tokens": 0, "total_tokens": 110,
                                           "prompt_tokens_details": {"cached_tokens": 0}})
        longer = server.post(COMPLETIONS, {**body, "max_tokens": 4})[1]
        for prompt, choice, with_more in zip(prompts, answer["choices"], longer["choices"], strict=True):
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("length", None))
            self.assertEqual(choice["text"], server.post("/detokenize", {"tokens": prompt})[1]["prompt"])
            found = choice["logprobs"]
            self.assertEqual([len(values) for values in found.values()], [len(prompt)] * 4)
            self.assertEqual((found["token_logprobs"][0], found["top_logprobs"][0], found["text_offset"][0]), (None, None, 0))
            for i in range(1, len(prompt), 9):
                one = {"prompt": prompt[:i], "max_tokens": 1, "logprobs": 2, "allowed_token_ids": [prompt[i]]}
                expected = server.post(COMPLETIONS, one)[1]["choices"][0]["logprobs"]
                for key in ("tokens", "token_logprobs", "top_logprobs"):
                    self.assertEqual(found[key][i], expected[key][0], (i, key))
            new = server.post(COMPLETIONS, {**body, "prompt": prompt, "max_tokens": 4, "echo": False})[1]["choices"][0]
            self.assertEqual(with_more["text"], choice["text"] + new["text"])
            for key in ("tokens", "token_logprobs", "top_logprobs"):
                self.assertEqual(with_more["logprobs"][key], found[key] + new["logprobs"][key])
        # A new token has an entry even if it ends the text and is no part of it: clients leave out the last entry.
        ended = {**body, "max_tokens": 1, "allowed_token_ids": [7], "stop_token_ids": [7]}
        for prompt, choice, before in zip(prompts, server.post(COMPLETIONS, ended)[1]["choices"], answer["choices"], strict=True):
            self.assertEqual((choice["finish_reason"], choice["text"]), ("stop", before["text"]))
            self.assertEqual([len(values) for values in choice["logprobs"].values()], [len(prompt) + 1] * 4)
        self.is_error(server.post(COMPLETIONS, {**body, "echo": False}), 400, "invalid_request_error", "expected an integer from 1",
                      "max_tokens")
        plain = server.post(COMPLETIONS, {"prompt": prompts[0], "max_tokens": 0, "echo": True})[1]["choices"][0]
        self.assertEqual((plain["text"], plain["logprobs"]), (answer["choices"][0]["text"], None))

    def test_a_new_token_that_the_answer_leaves_out_may_have_no_finite_logits(self):
        body = {"prompt": [5, 600, 77], "max_tokens": 0, "logprobs": 2, "echo": True}
        expected = self.fake().post(COMPLETIONS, body)[1]["choices"]
        server = self.fake(lost_at=0)
        self.assertEqual(server.post(COMPLETIONS, body)[1].get("choices"), expected)
        self.assertEqual(server.metric("mkc_prompt_tokens_total"), 3)
        self.is_error(self.fake(lost_at=0).post(COMPLETIONS, {**body, "max_tokens": 1}), 500, "device_error", "for a new token")

    def test_a_prompt_without_finite_logits_is_an_error(self):
        server = self.fake(nan_behind=600)
        body = {"prompt": [5, 600, 77], "logprobs": 2, "echo": True}
        for tokens in (0, 3):
            self.is_error(server.post(COMPLETIONS, {**body, "max_tokens": tokens}), 500, "device_error",
                          "logits: error: found no finite greatest logit for a token of the prompt, expected one")
        for good in ({**body, "prompt": [5, 77, 600]}, {**body, "logprobs": None}):
            self.assertEqual(server.post(COMPLETIONS, good)[0], 200)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
