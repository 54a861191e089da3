"""The official client talks to `vllm serve` with mkc on the processor, with synchronous and asynchronous scheduling.

Texts are held against transformers' logits of the same checkpoint.
"""
import concurrent.futures
import threading
import unittest

import openai
from reference import Reference, log_softmax, only, penalties, without
from server import NAME, TINY, Server

BOS = "<|begin_of_text|>"  # tiny-stories has no tokenizer_config.json that would name it
TEMPLATE = BOS + "{% for m in messages %}{{ m['content'] }}{% endfor %}"
STORIES = ["Once there was a boy named Sam.", "One day, Mia went to the park.", "Tom had two apples.", "The dog ran to the river.",
           "Lily was sad.", "He found a red ball.", "Ben and Ann were friends.", "There was a cat named Pip."]
reference = Reference(TINY)


def ids_of(text):
    return reference.tokenizer(text).input_ids


class Checks:
    """The checks, for both ways of scheduling."""
    scheduling = None

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--max-model-len", "512", "--chat-template", TEMPLATE, cls.scheduling).wait()
        cls.client = cls.server.client()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.__exit__()

    def ask(self, prompt=STORIES[0], max_tokens=24, temperature=0, extra=None, **more):
        extra = {"return_token_ids": True, **(extra or {})}
        return self.client.completions.create(model=NAME, prompt=prompt, max_tokens=max_tokens, temperature=temperature,
                                              extra_body=extra, **more)

    def new_ids(self, answer, choice=0):
        return answer.choices[choice].token_ids

    def check(self, prompt=STORIES[0], change=lambda x, out: x, limit=24, **more):
        answer = self.ask(prompt, max_tokens=limit, **more)
        reference.check_greedy(ids_of(prompt), self.new_ids(answer), change=change, limit=limit)
        return answer

    def refused(self, **more):
        with self.assertRaises(openai.BadRequestError) as raised:
            self.ask(**more)
        return str(raised.exception)

    def test_01_models(self):
        self.assertEqual([model.id for model in self.client.models.list()], [NAME])

    def test_02_16_at_once_are_transformers_text(self):
        prompts = [story + end for story in STORIES for end in ("", " He had")]
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for answer in [pool.submit(self.check, prompt, limit=40) for prompt in prompts]:
                answer.result(timeout=300)

    def test_03_greedy_text_is_that_of_generate(self):
        prompt = ids_of(STORIES[0])
        import torch
        ids = reference.model.generate(torch.tensor([prompt]), max_new_tokens=24, do_sample=False)[0, len(prompt):].tolist()
        self.assertEqual(self.ask().choices[0].text, reference.tokenizer.decode(ids))

    def test_04_stop_strings(self):
        answer = self.ask(stop=["kite"])
        self.assertEqual((answer.choices[0].text, answer.choices[0].finish_reason), (" He had a dog named Pip. He had a pink ", "stop"))

    def test_05_stop_ids(self):
        point = ids_of(".")[-1]
        answer = self.ask(extra={"stop_token_ids": [point]})
        self.assertEqual((self.new_ids(answer)[-1], answer.choices[0].finish_reason), (point, "stop"))

    def test_06_logprobs(self):
        answer = self.ask(max_tokens=8, logprobs=5)
        new = self.new_ids(answer)
        rows = reference.logits(ids_of(STORIES[0]) + new)[len(ids_of(STORIES[0])) - 1:]
        for row, token, logprob, top in zip(rows, new, answer.choices[0].logprobs.token_logprobs, answer.choices[0].logprobs.top_logprobs):
            exact = log_softmax(row)
            self.assertAlmostEqual(logprob, exact[token], delta=0.06)
            for found, wanted in zip(sorted(top.values(), reverse=True), sorted(exact, reverse=True)):
                self.assertAlmostEqual(found, wanted, delta=0.15)

    def test_07_seeds(self):
        texts = [self.ask(temperature=1.0, seed=seed).choices[0].text for seed in (1, 1, 2, 3)]
        self.assertEqual(texts[0], texts[1])
        self.assertGreater(len(set(texts)), 2)

    def test_08_several_choices(self):
        answer = self.ask(temperature=1.0, seed=7, n=3)
        texts = [choice.text for choice in answer.choices]
        self.assertEqual(len(set(texts)), 3)
        again = self.ask(temperature=1.0, seed=7, n=3)
        self.assertEqual(texts, [choice.text for choice in again.choices])

    def test_09_streams(self):
        whole = self.ask().choices[0].text
        parts = [part.choices[0].text for part in self.ask(stream=True) if part.choices]
        self.assertGreater(len(parts), 5)
        self.assertEqual("".join(parts), whole)

    def test_10_chats(self):
        answer = self.client.chat.completions.create(model=NAME, messages=[{"role": "user", "content": STORIES[0]}], max_tokens=24,
                                                     temperature=0, logprobs=True, top_logprobs=2)
        # The template writes the begin of text, and the server adds none.
        self.assertEqual(answer.choices[0].message.content, self.ask(BOS + STORIES[0], extra={
            "add_special_tokens": False}).choices[0].text)
        self.assertEqual(len(answer.choices[0].logprobs.content), answer.usage.completion_tokens)

    def test_11_cached_tokens(self):
        prompt = " ".join(STORIES * 2)
        first = self.check(prompt)
        second = self.check(prompt)
        self.assertEqual(self.new_ids(first), self.new_ids(second))
        self.assertGreater(self.server.metric("vllm:prefix_cache_hits_total"), 32)

    def test_12_one_step_writes_what_another_request_reads(self):
        # Both prompts begin with blocks that no request has had. They are scheduled in one step.
        prompts = [" ".join(reversed(STORIES)) + end for end in (" He", " She", " The", " A")]
        answer = self.ask(prompts)
        for i, prompt in enumerate(prompts):
            reference.check_greedy(ids_of(prompt), self.new_ids(answer, i), limit=24)

    def test_13_structured_choice(self):
        for choices in (["red", "blue"], ["park"]):
            answer = self.ask(STORIES[0] + " He liked the color", extra={"structured_outputs": {"choice": choices}})
            self.assertIn(answer.choices[0].text, choices)
        answer = self.ask(extra={"structured_outputs": {"regex": "[a-c]{4}"}})
        self.assertRegex(answer.choices[0].text, "^[a-c]{4}$")

    def test_14_logit_bias(self):
        first = self.new_ids(self.ask(max_tokens=1))[0]
        bias = {first: -100, 300: 3.0}
        self.check(logit_bias={str(k): v for k, v in bias.items()}, change=penalties([], bias=bias))

    def test_15_penalties(self):
        self.check(presence_penalty=1.2, change=penalties([], presence=1.2))
        self.check(frequency_penalty=0.9, change=penalties([], frequency=0.9))
        self.check(extra={"repetition_penalty": 1.4}, change=penalties(ids_of(STORIES[0]), repetition=1.4))
        self.check(presence_penalty=0.5, frequency_penalty=-0.4, extra={"repetition_penalty": 1.2}, logit_bias={"300": 2},
                   change=penalties(ids_of(STORIES[0]), 1.2, 0.5, -0.4, {300: 2}))

    def test_16_least_number_of_tokens(self):
        point = ids_of(".")[-1]
        answer = self.ask(extra={"stop_token_ids": [point], "min_tokens": 15})
        new = self.new_ids(answer)
        self.assertGreaterEqual(len(new), 15)
        reference.check_greedy(ids_of(STORIES[0]), new, change=without({point, reference.eos}, 15), stop={point}, limit=24)

    def test_17_allowed_ids(self):
        allowed = sorted(set(self.new_ids(self.ask())[3:9]))
        self.check(extra={"allowed_token_ids": allowed}, change=only(allowed))

    def test_18_bad_words(self):
        # vLLM forbids a word's tokens as they are, and those after a space where they are as many.
        self.assertIn(" a dog", self.ask().choices[0].text)
        single = {*reference.tokenizer.encode("a", add_special_tokens=False), *reference.tokenizer.encode(" a", add_special_tokens=False)}
        before, last = reference.tokenizer.encode(". One", add_special_tokens=False)

        def change(x, out):
            x[[*single, *([last] if out[-1:] == [before] else [])]] = -float("inf")
            return x
        answer = self.check(limit=40, extra={"bad_words": ["a", ". One"]}, change=change)
        self.assertNotIn(" a ", answer.choices[0].text)

    def test_19_mixed_filters_keep_within_their_sets(self):
        for more in ({"top_k": 1}, {"min_p": 1.0}, {"top_k": 3, "repetition_penalty": 1.0}):
            answer = self.ask(temperature=0.7, seed=5, extra=more)
            if more.get("top_k") == 1 or "min_p" in more:
                reference.check_greedy(ids_of(STORIES[0]), self.new_ids(answer), limit=24)
        self.ask(temperature=1.5, top_p=0.5, seed=5)

    def test_20_refused_by_name(self):
        self.assertIn("prompt_logprobs", self.refused(extra={"prompt_logprobs": 1}))
        self.assertIn("repetition_penalty", self.refused(extra={"repetition_penalty": 5000}))
        self.assertIn("temperature", self.refused(temperature=1e7))
        self.assertIn("logprob", self.refused(extra={"logprobs": -1}))
        self.assertIn("512", self.refused(max_tokens=2000))
        self.assertIn("max_tokens", self.refused(max_tokens=-1))
        self.assertIn("logit_bias", self.refused(logit_bias={"100000": 1}))
        self.check()

    def test_21_abandoned_streams(self):
        for _ in range(6):
            stream = self.ask(max_tokens=400, extra={"ignore_eos": True}, stream=True)
            next(iter(stream))
            stream.close()
        self.check()

    def test_22_many_at_once_with_all_kinds(self):
        kinds = [{}, {"presence_penalty": 1.0}, {"temperature": 0.8, "seed": 3}, {"logprobs": 3}, {"logit_bias": {"300": 2}},
                 {"extra": {"structured_outputs": {"choice": ["park", "river"]}}}, {"extra": {"repetition_penalty": 1.3}}]
        jobs = [(story, kind) for story in STORIES for kind in kinds]
        alone = [self.ask(story, **kind) for story, kind in jobs]
        barrier = threading.Barrier(len(jobs))

        def again(story, kind):
            barrier.wait(timeout=60)
            return self.ask(story, **kind)
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            together = [job.result(timeout=300) for job in [pool.submit(again, *job) for job in jobs]]
        for one, other, job in zip(alone, together, jobs):
            self.assertEqual(self.new_ids(one), self.new_ids(other), job)
            if one.choices[0].logprobs:
                self.assertEqual(one.choices[0].logprobs.token_logprobs, other.choices[0].logprobs.token_logprobs)


class Asynchronous(Checks, unittest.TestCase):
    scheduling = "--async-scheduling"


class Synchronous(Checks, unittest.TestCase):
    scheduling = "--no-async-scheduling"


if __name__ == "__main__":
    unittest.main(verbosity=2)
