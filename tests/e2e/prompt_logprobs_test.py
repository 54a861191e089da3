"""These tests ask mkc serve for the log-probabilities of prompts, by a whole model on the processor.
Usage: prompt_logprobs_test.py MKC ROOT
"""
import sys
import unittest

sys.dont_write_bytecode = True
from tiny import COMPLETIONS, ENV, MKC, PROMPT, TINY  # noqa: E402

from client import ServerCase  # noqa: E402


class PromptLogprobsTest(ServerCase):
    def test_log_probabilities_of_prompts(self):
        """Evaluations ask for the log-probabilities of a text in this way, with several prompts in a request."""
        server = self.start([MKC, "serve", TINY, "--device", "cpu", "--port", 0], "stderr", env=ENV)
        ids = server.post("/tokenize", {"prompt": PROMPT})[1]["tokens"]
        body = {"prompt": [ids, ids[:5]], "max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0, "seed": 1234}
        for _ in range(2):  # the second time with the prompt in the prefix cache
            answer = server.post(COMPLETIONS, body)[1]
            self.assertEqual(answer["usage"]["prompt_tokens_details"], {"cached_tokens": 0})
            for prompt, choice in zip(body["prompt"], answer["choices"], strict=True):
                found = choice["logprobs"]["token_logprobs"]
                self.assertEqual((len(found), found[0]), (len(prompt) + 1, None))
                for i in range(1, len(prompt)):
                    one = {"prompt": prompt[:i], "max_tokens": 1, "logprobs": 1, "allowed_token_ids": [prompt[i]]}
                    expected = server.post(COMPLETIONS, one)[1]["choices"][0]["logprobs"]
                    self.assertAlmostEqual(found[i], expected["token_logprobs"][0], places=3)
        text = server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 0, "logprobs": 1, "echo": True})[1]["choices"][0]
        self.assertEqual(text["text"], PROMPT)
        self.assertEqual(text["logprobs"]["text_offset"][-1] + len(text["logprobs"]["tokens"][-1]), len(PROMPT))
        self.assertEqual(text["logprobs"]["token_logprobs"], answer["choices"][0]["logprobs"]["token_logprobs"][:-1])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
