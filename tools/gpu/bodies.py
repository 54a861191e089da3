#!/usr/bin/env python3
"""Holds the task bodies one kind at a time against float64: models of bodies.yaml, attention alone and with one operator
behind it. Where an error is, is said by rows (tokens) and columns. Prints one JSON object. Needs numpy alone, which loads
in a fraction of the time that torch takes.

Usage: bodies.py FOLDER [options] -- PROGRAM …, as of continued.py; FOLDER holds config.json.
"""
import json
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy

from continued import arguments, continued

WORST = 1e-2  # of a row: activations are rounded to bf16 between products
TILE = 16  # columns by which an error's place is told


def rotated(c, x):
    half = c.head_dim // 2
    angles = numpy.outer(numpy.arange(len(x)), c.rope_theta ** (-numpy.arange(half) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate((a * numpy.cos(angles) - b * numpy.sin(angles), b * numpy.cos(angles) + a * numpy.sin(angles)), -1)


def attention(c, w, x):
    q, k, v = ((x @ weight.T).reshape(len(x), -1, c.head_dim) for weight in (w.q, w.k, w.v))
    q, k = rotated(c, q), rotated(c, k)
    k, v = (t.repeat(c.num_attention_heads // c.num_key_value_heads, 1) for t in (k, v))
    scores = numpy.einsum("qhd,khd->hqk", q, k) * c.head_dim ** -0.5
    scores[:, numpy.triu(numpy.ones((len(x), len(x)), bool), 1)] = -numpy.inf
    shares = numpy.exp(scores - scores.max(-1, keepdims=True))
    o = numpy.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(len(x), -1)
    return o @ w.o.T


def silu(x):
    return x / (1 + numpy.exp(-x))


BEHIND = {  # attention
    "attention": lambda c, w, y: y,
    "product": lambda c, w, y: y @ w.mix.T,
    "norm": lambda c, w, y: y / numpy.sqrt((y * y).mean(-1, keepdims=True) + c.rms_norm_eps) * w.norm,
    "gated": lambda c, w, y: y + (silu(y @ w.gate.T) * (y @ w.up.T)) @ w.down.T,
}


def shapes(c):
    hidden, ffn, query, kv = (c.hidden_size, c.intermediate_size, c.num_attention_heads * c.head_dim,
                              c.num_key_value_heads * c.head_dim)
    more = {"product": {"mix": (hidden, hidden)}, "norm": {"norm": (hidden,)},
            "gated": {"gate": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn)}}
    return {"head": (c.vocab_size, hidden), "q": (query, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, query),
            **more.get(c.body, {})}


def bf16_bits(values):
    """Returns values rounded to the nearest bf16, as its bits."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def numbers(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def made(c, random):
    """Weights as bits of bf16: products keep the size of what they are given."""
    weights = {"embed": random.standard_normal((c.vocab_size, c.hidden_size))}
    for name, shape in shapes(c).items():
        normal = random.standard_normal(shape)
        weights[name] = 1 + 0.1 * normal if len(shape) == 1 else normal * shape[1] ** -0.5
    return {name: bf16_bits(weight) for name, weight in weights.items()}


def save(weights, path):
    """Writes a file of safetensors."""
    header, at = {}, 0
    for name, bits in weights.items():
        header[name] = {"dtype": "BF16", "shape": bits.shape, "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(bits.tobytes() for bits in weights.values()))


def compare(a, c, folder):
    random = numpy.random.default_rng(a.seed)
    weights = made(c, random)
    save(weights, f"{folder}/model.safetensors")
    shutil.copy(a.folder / "config.json", folder)
    prompt = random.integers(0, c.vocab_size, a.tokens).tolist()
    ids, got = continued(a.program, folder, prompt, a.new, c.vocab_size)
    w = SimpleNamespace(**{name: numbers(bits) for name, bits in weights.items()})
    wanted = BEHIND[c.body](c, w, attention(c, w, w.embed[ids])) @ w.head.T
    size = numpy.linalg.norm(wanted, axis=-1, keepdims=True)
    wrong = abs(got - wanted) / size * c.vocab_size ** 0.5  # of a typical element
    error = numpy.linalg.norm(got - wanted, axis=-1) / size[:, 0]
    error[numpy.isnan(error)] = numpy.inf
    print(json.dumps({"rows": len(ids), "worst_row": error.max()}), flush=True)
    if error.max() > WORST:
        tiles = sorted({int(n) // TILE for n in numpy.flatnonzero((~(wrong <= 10 * WORST)).any(0))})
        sys.exit(f"bodies: error: {c.body}: rows {numpy.flatnonzero(error > WORST).tolist()} of {len(ids)} have "
                 f"relative errors up to {error.max():.3e}, expected at most {WORST}; wrong columns by {TILE}: {tiles} of "
                 f"{-(-c.vocab_size // TILE)}")


def main():
    a = arguments(__doc__, tokens=41, new=4)
    config = SimpleNamespace(**json.loads((a.folder / "config.json").read_text()))
    with tempfile.TemporaryDirectory() as folder:
        compare(a, config, folder)


main()
