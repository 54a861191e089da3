#!/usr/bin/env python3
"""Holds the task bodies one kind at a time against float64: models of bodies.yaml, attention alone and with one operator
behind it. Where an error is, is said by rows (tokens) and columns. Prints one JSON object.

Usage: bodies.py FOLDER [options] -- PROGRAM …, as of reference.py; FOLDER holds config.json.
"""
import json
import shutil
import sys
import tempfile
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from reference import arguments, continued

WORST = 1e-2  # of a row: activations are rounded to bf16 between products
TILE = 16  # columns by which an error's place is told


def rotated(c, x):
    half = c.head_dim // 2
    angles = torch.outer(torch.arange(x.shape[0], dtype=torch.float64),
                         c.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)).to(x.device)[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), -1)


def attention(c, w, x):
    q, k, v = ((x @ weight.T).view(len(x), -1, c.head_dim) for weight in (w.q, w.k, w.v))
    q, k = rotated(c, q), rotated(c, k)
    k, v = (t.repeat_interleave(c.num_attention_heads // c.num_key_value_heads, 1) for t in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) * c.head_dim ** -0.5
    later = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
    o = torch.einsum("hqk,khd->qhd", scores.masked_fill(later, -torch.inf).softmax(-1), v).reshape(len(x), -1)
    return o @ w.o.T


BEHIND = {  # attention
    "attention": lambda c, w, y: y,
    "product": lambda c, w, y: y @ w.mix.T,
    "norm": lambda c, w, y: y * torch.rsqrt((y * y).mean(-1, keepdim=True) + c.rms_norm_eps) * w.norm,
    "gated": lambda c, w, y: y + (F.silu(y @ w.gate.T) * (y @ w.up.T)) @ w.down.T,
}


def shapes(c):
    hidden, ffn, query, kv = (c.hidden_size, c.intermediate_size, c.num_attention_heads * c.head_dim,
                              c.num_key_value_heads * c.head_dim)
    more = {"product": {"mix": (hidden, hidden)}, "norm": {"norm": (hidden,)},
            "gated": {"gate": (ffn, hidden), "up": (ffn, hidden), "down": (hidden, ffn)}}
    return {"head": (c.vocab_size, hidden), "q": (query, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, query),
            **more.get(c.body, {})}


def made(c, seed):
    """Weights in bf16: products keep the size of what they are given."""
    torch.manual_seed(seed)
    weights = {"embed": torch.randn(c.vocab_size, c.hidden_size)}
    for name, shape in shapes(c).items():
        weights[name] = 1 + 0.1 * torch.randn(shape) if len(shape) == 1 else torch.randn(shape) * shape[1] ** -0.5
    return {name: weight.bfloat16() for name, weight in weights.items()}


def compare(a, c, folder):
    from safetensors.torch import save_file
    weights = made(c, a.seed)
    save_file(weights, f"{folder}/model.safetensors")
    shutil.copy(a.folder / "config.json", folder)
    prompt = torch.randint(0, c.vocab_size, (a.tokens,)).tolist()
    ids, got = continued(a.program, folder, prompt, a.new, c.vocab_size)
    w = SimpleNamespace(**{name: weight.to(a.device).double() for name, weight in weights.items()})
    y = attention(c, w, w.embed[torch.tensor(ids, device=a.device)])
    wanted = (BEHIND[c.body](c, w, y) @ w.head.T).cpu()
    wrong = (got - wanted).abs() / wanted.norm(dim=-1, keepdim=True) * c.vocab_size ** 0.5  # of a typical element
    error = ((got - wanted).norm(dim=-1) / wanted.norm(dim=-1)).nan_to_num(torch.inf)
    print(json.dumps({"rows": len(ids), "worst_row": error.max().item()}), flush=True)
    if error.max() > WORST:
        tiles = sorted({int(n) // TILE for n in (~(wrong <= 10 * WORST)).any(0).nonzero()})
        sys.exit(f"bodies: error: {c.body}: rows {(error > WORST).nonzero().flatten().tolist()} of {len(ids)} have "
                 f"relative errors up to {error.max():.3e}, expected at most {WORST}; wrong columns by {TILE}: {tiles} of "
                 f"{-(-c.vocab_size // TILE)}")


def main():
    a = arguments(__doc__, tokens=41, new=4)
    config = SimpleNamespace(**json.loads((a.folder / "config.json").read_text()))
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        compare(a, config, folder)


main()
