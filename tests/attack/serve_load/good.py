"""Random requests that have an answer."""
import dataclasses
import random

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
BOS = "<|begin_of_text|>"
STORIES = ["Once there was a boy named Sam.", "One day, Lily went to the park with her mom. She saw a big red ball and a small dog.",
           "Tom had a kite.\n\nThe kite was blue", "Once upon a time", "\u00c9t\u00e9 \U0001f600 \u65e5\u672c", "the " * 40, "x"]
CHATS = ["Tell me of a dog.", "A kite!\nA ball?", "na\u00efve"]
STOPS = [".", "the", " a", "\n", "e ", " was", "o", "Sam", "He had a", ". S", "ing", "!", "zzz"]


@dataclasses.dataclass
class Good:
    """A request with an answer. Choices stand in the order of prompts."""
    path: str
    body: dict
    prompts: list  # of token ids
    echoes: list  # text before the answer of each prompt
    n: int

    @property
    def scored(self):
        """The answer has the log-probabilities of the prompts, too."""
        return "echo" in self.body and "logprobs" in self.body

    def lines(self):
        """The lines of a batch file that run each choice alone."""
        keys = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "logit_bias", "presence_penalty",
                "frequency_penalty", "min_tokens")
        line = {key: self.body[key] for key in keys if key in self.body}
        if "logprobs" in self.body:
            line["logprobs"] = self.body["top_logprobs"] if self.path == CHAT else self.body["logprobs"]
        for prompt in self.prompts:
            for j in range(self.n):
                yield {**line, "prompt_ids": prompt, "max_new_tokens": max(1, self.body["max_tokens"]), "seed": self.body["seed"] + j}

    def scoring_lines(self):
        """The lines of a batch file that give each token of the prompts from the second on, behind those before it."""
        for prompt in self.prompts if self.scored else ():
            for i in range(1, len(prompt)):
                yield {"prompt_ids": prompt[:i], "allowed_token_ids": [prompt[i]], "max_new_tokens": 1, "logprobs": self.body["logprobs"]}


class Maker:
    """Makes requests for a model of `vocab` ids. The ids of texts come from elsewhere, and so does the text of ids."""

    def __init__(self, ids_of, text_of, vocab):
        self.text_of = text_of
        self.stories = [(text, ids_of(text)) for text in STORIES]
        self.chats = [(text, ids_of(f"user: {text}\nassistant:")) for text in CHATS]
        self.vocab = vocab

    def prefixed(self, rng):
        """Returns ids that begin as those of other requests do."""
        ids = [0] + [2 + (7 * k * k + rng.randrange(4) // 3 * 11) % (self.vocab - 2) for k in range(rng.choice([15, 31, 63, 120]))]
        return ids + [rng.randrange(2, self.vocab) for _ in range(int(rng.expovariate(1 / 20)))]

    def prompt(self, rng):
        """Returns a prompt's value in a body, its ids and its text."""
        if rng.random() < 0.5:
            ids = self.prefixed(rng)
            return ids, ids, None
        text, ids = rng.choice(self.stories)
        return text, ids, text

    def good(self, rng):
        body = {"max_tokens": 1 + min(int(rng.expovariate(1 / 14)), 120), "seed": rng.randrange(2**63 - 200)}
        n = rng.choice([2, 3, 4]) if rng.random() < 0.1 else 1
        body.update(sampling(rng, self.vocab), n=n)
        body.update(endings(rng, self.vocab, body))
        chat = rng.random() < 0.25
        if rng.random() < 0.2:
            top = rng.choice([0, 1, 3, 20])
            body.update({"logprobs": True, "top_logprobs": top} if chat else {"logprobs": top})
        if chat:
            text, ids = rng.choice(self.chats)
            return Good(CHAT, {**body, "messages": [{"role": "user", "content": text}]}, [ids], [""], n)
        found = [self.prompt(rng) for _ in range(2 if rng.random() < 0.05 else 1)]
        body["prompt"] = found[0][0] if len(found) == 1 else [text if text is not None else ids for ids, _, text in found]
        if len(found) == 2 and len({text is None for *_, text in found}) == 2:  # a list is of one kind
            found, body["prompt"] = found[:1], found[0][0]
        if rng.random() < 0.1:
            body["echo"] = True
            if rng.random() < 0.5:
                body.setdefault("logprobs", rng.choice([0, 1, 5]))
            if rng.random() < 0.5:
                body["max_tokens"] = 0
                body.pop("min_tokens", None)
        echoes = [self.text_of(ids) if text is None else text for _, ids, text in found] if "echo" in body else [""] * len(found)
        return Good(COMPLETIONS, body, [ids for _, ids, _ in found], echoes, n)


def sampling(rng, vocab):
    """Returns random settings of sampling. Each is missing as often as not."""
    if rng.random() < 0.3:
        return {"temperature": 0}
    body = {"temperature": round(rng.uniform(0.2, 1.6), 3)}
    ways = {"top_k": lambda: rng.choice([1, 5, 40]), "top_p": lambda: round(rng.uniform(0.1, 1), 3),
            "min_p": lambda: round(rng.uniform(0, 0.3), 3), "repetition_penalty": lambda: round(rng.uniform(0.8, 1.5), 3),
            "presence_penalty": lambda: round(rng.uniform(-2, 2), 3), "frequency_penalty": lambda: round(rng.uniform(-2, 2), 3),
            "logit_bias": lambda: {str(rng.randrange(2, vocab)): rng.choice([-100, -3.5, 2, 8]) for _ in range(rng.randrange(1, 9))}}
    body.update((key, make()) for key, make in ways.items() if rng.random() < 0.2)
    return body


def endings(rng, vocab, body):
    """Returns what may end a text. Ids that end it would be forbidden up to min_tokens, so that these two exclude each other."""
    ways = {}
    if rng.random() < 0.3:
        ways["stop"] = rng.sample(STOPS, rng.randrange(1, 5))
    if rng.random() < 0.2:
        ways["include_stop_str_in_output"] = True
    if rng.random() < 0.1:
        ways["stop_token_ids"] = [rng.randrange(2, vocab) for _ in range(40)]
    elif rng.random() < 0.15:
        ways["min_tokens"] = rng.randrange(1, body["max_tokens"] + 1)
    return ways


def rng_of(*words):
    return random.Random(" ".join(map(str, words)))
