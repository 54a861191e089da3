"""What the answers must be: transformers' logits of the same checkpoint, and the rules of sampling in numpy.

Greedy text follows these rules. Where two logits are closer than MARGIN, either may be taken: mkc multiplies bf16 weights
with f32 activations, and keeps keys and values in bf16.
"""
import collections

import numpy as np
import torch
import transformers

MARGIN = 0.08


class Reference:
    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.eos = self.model.config.eos_token_id

    def logits(self, ids):
        """Returns [len(ids), vocab] in float64."""
        with torch.no_grad():
            return self.model(torch.tensor([ids])).logits[0].double().numpy()

    def check_greedy(self, prompt, new, *, change=lambda x, out: x, stop=None, limit=None):
        """Checks that each of the ids `new` after the ids `prompt` is the best by the changed logits. change(x, out) changes
        a row, given the ids before."""
        rows = self.logits(list(prompt) + list(new))[len(prompt) - 1:]
        for i, token in enumerate(new):
            row = change(rows[i].copy(), list(new[:i]))
            behind = row.max() - row[token]
            assert behind <= MARGIN, f"token {i}, {token}, is {behind:.3f} behind {row.argmax()}"
        stops = {self.eos} if stop is None else set(stop)
        assert not stops & set(new[:-1]), "a token that ends the text is within it"
        assert limit is None or len(new) == limit or new[-1] in stops, f"{len(new)} tokens, expected {limit}"


def log_softmax(row):
    row = row - row.max()
    return row - np.log(np.exp(row).sum())


def penalties(prompt, repetition=1.0, presence=0.0, frequency=0.0, bias=None):
    """Returns a change of logits by the definitions of vLLM's sampler: bias, repetition penalty, counting penalties."""
    def change(x, out):
        for token, value in (bias or {}).items():
            x[token] += value
        if repetition != 1:
            seen = sorted(set(prompt) | set(out))
            x[seen] = np.where(x[seen] > 0, x[seen] / repetition, x[seen] * repetition)
        for token, count in collections.Counter(out).items():
            x[token] -= presence + frequency * count
        return x
    return change


def only(ids):
    def change(x, out):
        masked = np.full_like(x, -np.inf)
        masked[list(ids)] = x[list(ids)]
        return masked
    return change


def without(ids, until=None):
    """Returns a change that forbids ids, for the first `until` tokens."""
    def change(x, out):
        if until is None or len(out) < until:
            x[list(ids)] = -np.inf
        return x
    return change
