"""vLLM's SamplingParams become the settings of a launch's samples (docs/sampling.md). The kernel applies all of them.

The order is that of vLLM's sampler: allowed ids, logit bias and least number of tokens, the penalties, bad words.
"""
import collections
import math

import numpy as np

_GREEDY = 1e-5  # vLLM's temperatures below are greedy
_FORBIDDEN = -math.inf
_LEAST_TOP_P = 1.2e-38  # a smaller share may be 0 as a float; the likeliest token alone stays with both
_LAST_RESORT = 0  # the id that vLLM samples where all are forbidden


def words_of(ids, vocab):
    """Returns a set of ids as words of 32 bits."""
    bits = np.zeros(-(-vocab // 32) * 32, np.uint8)
    bits[list(ids)] = 1
    return np.packbits(bits, bitorder="little").view(np.uint32)


def needs_history(params):
    """Tells whether the host must know all tokens of a request before it can say what is sampled next."""
    return bool(params.repetition_penalty != 1 or params.presence_penalty or params.frequency_penalty
                or any(len(word) > 1 for word in params.bad_words_token_ids or ()))


def _allowed(request, mask, vocab):
    """The ids that a grammar's mask and allowed_token_ids leave. The mask alone holds if both leave none, and an empty
    mask leaves _LAST_RESORT."""
    ids = request.params.allowed_token_ids
    if mask is not None:
        grammar = np.zeros(-(-vocab // 32), np.uint32)
        words = mask.view(np.uint32)[:len(grammar)]
        grammar[:len(words)] = words
        mask = grammar
        if vocab % 32:
            mask[-1] &= (1 << vocab % 32) - 1
        if not mask.any():
            mask = words_of([_LAST_RESORT], vocab)
    if not ids:
        return mask
    own = request.known.setdefault("allowed", words_of(ids, vocab))
    if mask is None:
        return own
    return mask & own if (mask & own).any() else mask


def _forbidden(request):
    params, sampled = request.params, request.tokens[request.prompt:]
    ids = set(params.all_stop_token_ids) if len(sampled) < params.min_tokens else set()
    for *begin, last in params.bad_words_token_ids or ():
        if len(begin) <= len(sampled) and (not begin or sampled[-len(begin):] == begin):
            ids.add(last)
    return ids


def _biases(request, vocab):
    params = request.params
    before = {token: bias for token, bias in (params.logit_bias or {}).items()}
    before.update((token, _FORBIDDEN) for token in _forbidden(request) if token < vocab)
    if sum(bias == _FORBIDDEN for bias in before.values()) == vocab:
        del before[_LAST_RESORT]
    after = {}
    if params.presence_penalty or params.frequency_penalty:
        for token, count in collections.Counter(request.tokens[request.prompt:]).items():
            after[token] = -(params.presence_penalty + params.frequency_penalty * count)
    return {token: (before.get(token, 0), after.get(token, 0)) for token in {*before, *after}}


def samples_of(part, mask, vocab):
    """Returns the arguments of mkrt's sample for one part of a step. `mask` is a grammar's words, or None."""
    request, params = part.request, part.request.params
    if not part.samples:
        return {"limit": 0}
    out = {"seed": request.seed, "position": request.sampled, "repetition_penalty": params.repetition_penalty}
    if params.temperature >= _GREEDY:
        out.update(temperature=params.temperature, top_k=min(max(0, params.top_k), vocab),
                   top_p=max(params.top_p, _LEAST_TOP_P), min_p=params.min_p)
    if params.repetition_penalty != 1:
        out["seen"] = set(request.tokens)
    biases, allowed = _biases(request, vocab), _allowed(request, mask, vocab)
    if biases:
        out["biases"] = biases
    if allowed is not None:
        out["allowed"] = allowed
    if params.logprobs is not None:
        out["logprobs"] = params.logprobs
    return out
