"""Mixed requests at once, with cancelled streams and preemptions: each answer equals that of the same request alone.

MKC_SOAK is the number of requests for each way of scheduling, 150 by default. 2000 are the long mode.
"""
import concurrent.futures
import os
import random
import time
import unittest

from server import NAME, Server

COUNT = int(os.environ.get("MKC_SOAK", "150"))
AT_ONCE = 24
BLOCKS = 56  # of the cache: fewer than the requests at once need, so that vLLM preempts some
NAMES = ["Sam", "Mia", "Tom", "Lily", "Ben", "Ann", "Max", "Pip"]
THINGS = ["nuts", "kites", "balls", "apples", "feathers", "books"]


def prompt_of(rng):
    beginning = f"Once there was a child named {NAMES[rng.randrange(2)]}. "  # few, so that blocks are shared
    more = [f"{rng.choice(NAMES)} had {rng.choice(['two', 'three', 'five'])} {rng.choice(THINGS)}. " for _ in range(rng.randrange(8))]
    return (beginning * rng.randrange(1, 4) + "".join(more)).strip()


def job_of(rng):
    """Arguments of a request, and after how many pieces of its stream the client leaves, or None."""
    extra = {"ignore_eos": True} if rng.random() < 0.5 else {}
    job = {"prompt": prompt_of(rng), "max_tokens": rng.choice([4, 12, 24, 60, 160])}
    if rng.random() < 0.5:
        job.update(temperature=rng.choice([0.5, 1.0]), seed=rng.randrange(1 << 40), top_p=rng.choice([1.0, 0.9]))
        extra["top_k"] = rng.choice([0, 20])
    else:
        job["temperature"] = 0
    kind = rng.randrange(8)
    if kind == 0:
        job.update(presence_penalty=0.7, frequency_penalty=0.3)
    elif kind == 1:
        extra["repetition_penalty"] = 1.2
    elif kind == 2:
        job["logit_bias"] = {"300": 4, "15": -2}
    elif kind == 3:
        job["logprobs"] = 3
    elif kind == 4:
        extra["structured_outputs"] = {"regex": "( [a-z]{2,5}){3,9}"}
    elif kind == 5:
        extra["bad_words"] = ["dog", "He had"]
    elif kind == 6:
        extra["min_tokens"] = job["max_tokens"] // 2
    return {**job, "extra_body": {**extra, "return_token_ids": True}}, rng.randrange(1, 8) if rng.random() < 0.12 else None


def answer(client, job, leave=None):
    """The ids, and log-probabilities, of an answer; of a stream that is left: those that came."""
    if leave is None:
        choice = client.completions.create(model=NAME, **job).choices[0]
        return choice.token_ids, choice.logprobs and choice.logprobs.token_logprobs
    ids = []
    stream = client.completions.create(model=NAME, stream=True, **job)
    for number, part in enumerate(stream):
        ids += part.choices[0].token_ids or [] if part.choices else []
        if number + 1 == leave:
            break
    stream.close()
    return ids, None


class Soak:
    scheduling = None

    def test_each_is_as_alone(self):
        rng = random.Random(24)
        jobs = [job_of(rng) for _ in range(COUNT)]
        began = time.monotonic()
        with Server("--max-model-len", "512", "--num-gpu-blocks-override", str(BLOCKS), self.scheduling) as server:
            client = server.client()
            with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
                together = list(pool.map(lambda of: answer(client, *of), jobs))
            mixed = time.monotonic()
            preempted = server.metric("vllm:num_preemptions_total")
            hits = server.metric("vllm:prefix_cache_hits_total")
            for number, ((job, leave), (ids, logprobs)) in enumerate(zip(jobs, together)):
                alone, exact = answer(client, job)
                if leave is not None:
                    alone = alone[:len(ids)]
                self.assertEqual(ids, alone, f"request {number}: {job}")
                if logprobs:
                    self.assertEqual(logprobs, exact, f"request {number}: {job}")
            left = sum(leave is not None for _, leave in jobs)
            print(f"{self.scheduling}: {COUNT} requests, {left} streams left, {preempted:.0f} preemptions, {hits:.0f} positions "
                  f"from the prefix cache, {mixed - began:.0f} s with the start, {time.monotonic() - mixed:.0f} s alone", flush=True)
            self.assertGreater(hits, 0)
            self.assertGreater(preempted, 0)
            client.close()


class Asynchronous(Soak, unittest.TestCase):
    scheduling = "--async-scheduling"


class Synchronous(Soak, unittest.TestCase):
    scheduling = "--no-async-scheduling"


if __name__ == "__main__":
    unittest.main(verbosity=2)
