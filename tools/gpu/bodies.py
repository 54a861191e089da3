#!/usr/bin/env python3
"""Holds the task bodies one kind at a time against float64: models of bodies.yaml, attention alone and with one operator
behind it. Where an error is, is said by rows (tokens) and columns. Prints one JSON object. Needs numpy alone, which loads
in a fraction of the time that torch takes.

Matrices are of bf16. Where config.json has a quantization_config they are of 8-bit floats, in blocks of 128 x 128. The
prompt is then one step whose products are given codes of 8-bit floats, as by `--activations fp8`. A token sees itself alone
there: sums of several values differ in last bits, which would become other codes.

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
WORST_OF_CODES = 3e-2  # a last bit of a sum may change a code: sums of 14 bits give up to 2.2e-2, rows of bf16 5e-2
SHARP = 4  # size of queries and keys where a token is to see itself alone
BLOCK = 128  # rows and columns of a scale
TYPES = {"uint16": "BF16", "uint8": "F8_E4M3", "float32": "F32"}
TILE = 16  # columns by which an error's place is told


def rotated(c, x):
    half = c.head_dim // 2
    angles = numpy.outer(numpy.arange(len(x)), c.rope_theta ** (-numpy.arange(half) / half))[:, None]
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate((a * numpy.cos(angles) - b * numpy.sin(angles), b * numpy.cos(angles) + a * numpy.sin(angles)), -1)


def product(c, x, weight):
    """Multiplies rows by a matrix. Rows of a prompt become codes where weights are codes."""
    if not is_coded(c):
        return x @ weight.T
    x = rounded(x)
    prompt = x[:c.prompt]
    scale = 2.0 ** (7 - numpy.floor(numpy.log2(abs(prompt).max(-1, keepdims=True))))  # the greatest to [128, 256)
    return numpy.concatenate((NUMBERS[e4m3(prompt * scale)] / scale, x[c.prompt:])) @ weight.T


def attention(c, w, x):
    q, k, v = ((x @ weight.T).reshape(len(x), -1, c.head_dim) for weight in (w.q, w.k, w.v))  # rows of f32 become no codes
    q, k = rotated(c, q), rotated(c, k)
    k, v = (t.repeat(c.num_attention_heads // c.num_key_value_heads, 1) for t in (k, rounded(v) if is_coded(c) else v))
    scores = numpy.einsum("qhd,khd->hqk", q, k) * c.head_dim ** -0.5
    scores[:, numpy.triu(numpy.ones((len(x), len(x)), bool), 1)] = -numpy.inf
    shares = numpy.exp(scores - scores.max(-1, keepdims=True))
    o = numpy.einsum("hqk,khd->qhd", shares / shares.sum(-1, keepdims=True), v).reshape(len(x), -1)
    return product(c, o, w.o)


def silu(x):
    return x / (1 + numpy.exp(-x))


def norm_of(c, y):
    return numpy.sqrt((y * y).mean(-1, keepdims=True) + c.rms_norm_eps)


def gated(c, w, y, norm):
    """Returns a gated layer's output. Rows are divided by their norm behind products, which changes their codes."""
    return product(c, silu(product(c, y, w.gate_proj) / norm) * (product(c, y, w.up) / norm), w.down)


BEHIND = {  # attention
    "attention": lambda c, w, y: y,
    "product": lambda c, w, y: product(c, y, w.mix),
    "norm": lambda c, w, y: y / norm_of(c, y) * w.norm,
    "gated": lambda c, w, y: y + gated(c, w, y, 1),
    "normed": lambda c, w, y: y + gated(c, w, y * w.norm, norm_of(c, y)),
}


def shapes(c):
    hidden, ffn, query, kv = (c.hidden_size, c.intermediate_size, c.num_attention_heads * c.head_dim,
                              c.num_key_value_heads * c.head_dim)
    more = {"product": {"mix": (hidden, hidden)}, "norm": {"norm": (hidden,)},
            "gated": {"gate_proj": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn)}}
    more["normed"] = {**more["norm"], **more["gated"]}
    return {"head": (c.vocab_size, hidden), "q": (query, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, query),
            **more.get(c.body, {})}


def bf16_bits(values):
    """Returns values rounded to the nearest bf16, as its bits."""
    bits = values.astype(numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def numbers(bits):
    return (bits.astype(numpy.uint32) << 16).view(numpy.float32).astype(numpy.float64)


def rounded(values):
    """Returns values rounded to the nearest bf16."""
    return numbers(bf16_bits(values))


def is_coded(c):
    return hasattr(c, "quantization_config")


CODES = numpy.arange(127)  # of E4M3, from 0 to 448
POSITIVE = numpy.where(CODES < 8, CODES / 512, (8 + CODES % 8) * 2.0 ** (CODES // 8 - 10))
NUMBERS = numpy.concatenate((POSITIVE, [numpy.nan], -POSITIVE, [numpy.nan]))


def e4m3(values):
    """Returns the codes of the nearest E4M3 numbers, the even one of two."""
    half = (POSITIVE[1:] + POSITIVE[:-1]) / 2
    size = numpy.minimum(abs(values), 448)
    code = numpy.searchsorted(half, size)
    code += (code % 2 == 1) & (size == half[numpy.minimum(code, len(half) - 1)])
    return (code + 128 * numpy.signbit(values)).astype(numpy.uint8)


def coded(random, matrix):
    """Returns a matrix as codes and scales of blocks, whose sizes differ, and what it is then."""
    blocks = tuple(-(-n // BLOCK) for n in matrix.shape)

    def of_elements(of_blocks):
        return of_blocks.repeat(BLOCK, 0).repeat(BLOCK, 1)[:matrix.shape[0], :matrix.shape[1]]
    matrix = matrix * of_elements(random.choice((0.5, 1, 1.5), blocks))
    scales = random.uniform(0.75, 1, blocks).astype(numpy.float32) * numpy.float32(abs(matrix).max() / 300)
    codes = e4m3(matrix / of_elements(scales))
    return codes, scales, NUMBERS[codes] * of_elements(scales.astype(numpy.float64))


def made(c, random):
    """Returns the tensors of a checkpoint, and the numbers of each weight. Products keep the size of what they are given."""
    stored, weights = {}, {}
    for name, shape in {"embed": (c.vocab_size, c.hidden_size), **shapes(c)}.items():
        values = random.standard_normal(shape) * (1 if name == "embed" else 0.1 if len(shape) == 1 else shape[1] ** -0.5)
        values += len(shape) == 1
        if is_coded(c) and name == "q":
            keys = SHARP * values[:c.num_key_value_heads * c.head_dim].reshape(-1, c.head_dim, shape[1])
            values = keys.repeat(c.num_attention_heads // c.num_key_value_heads, 0).reshape(shape)
        elif is_coded(c) and name == "k":
            values = keys.reshape(shape)
        if is_coded(c) and len(shape) == 2 and name not in ("embed", "head"):
            stored[name], stored[name + "_scale_inv"], weights[name] = coded(random, values)
        else:
            stored[name] = bf16_bits(values)
            weights[name] = numbers(stored[name])
    return stored, weights


def save(weights, path):
    """Writes a file of safetensors."""
    header, at = {}, 0
    for name, bits in weights.items():
        header[name] = {"dtype": TYPES[bits.dtype.name], "shape": bits.shape, "data_offsets": [at, at + bits.nbytes]}
        at += bits.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(len(text).to_bytes(8, "little") + text + b"".join(bits.tobytes() for bits in weights.values()))


def ranges(numbers):
    """Returns ascending numbers as text: 0-3, 7."""
    parts = numpy.split(numbers, numpy.flatnonzero(numpy.diff(numbers) > 1) + 1)
    return ", ".join(f"{part[0]}-{part[-1]}" if len(part) > 1 else str(part[0]) for part in parts)


def compare(a, c, folder):
    random = numpy.random.default_rng(a.seed)
    stored, weights = made(c, random)
    save(stored, f"{folder}/model.safetensors")
    shutil.copy(a.folder / "config.json", folder)
    prompt = random.integers(0, c.vocab_size, c.prompt).tolist()
    ids, got = continued(a.program, folder, prompt, a.new, c.vocab_size)
    w = SimpleNamespace(**weights)
    wanted = BEHIND[c.body](c, w, attention(c, w, w.embed[ids])) @ w.head.T
    size = numpy.linalg.norm(wanted, axis=-1, keepdims=True)
    wrong = abs(got - wanted) / size * c.vocab_size ** 0.5  # of a typical element
    error = numpy.linalg.norm(got - wanted, axis=-1) / size[:, 0]
    error[numpy.isnan(error)] = numpy.inf
    print(json.dumps({"rows": len(ids), "worst_row": error.max()}), flush=True)
    worst = WORST_OF_CODES if is_coded(c) else WORST
    if error.max() > worst:
        tiles = sorted({int(n) // TILE for n in numpy.flatnonzero((~(wrong <= 10 * worst)).any(0))})
        sys.exit(f"bodies: error: {c.body}: rows {ranges(numpy.flatnonzero(error > worst))} of {len(ids)} have "
                 f"relative errors up to {error.max():.3e}, expected at most {worst}; wrong columns by {TILE}: {tiles} of "
                 f"{-(-c.vocab_size // TILE)}")


def main():
    a = arguments(__doc__, tokens=None, new=4)
    config = SimpleNamespace(**json.loads((a.folder / "config.json").read_text()))
    config.prompt = a.tokens or getattr(config, "prompt_tokens", 41)
    with tempfile.TemporaryDirectory() as folder:
        compare(a, config, folder)


main()
