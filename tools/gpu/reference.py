#!/usr/bin/env python3
"""Holds a program that runs a model against the plain PyTorch model. Prints one JSON object.

It makes a checkpoint of random weights, lets the program continue a random prompt from it, and compares every row of
its logits.

Usage: reference.py FOLDER [options] -- PROGRAM …, as of continued.py; FOLDER holds config.json.
"""
import json
import shutil
import sys
import tempfile

import torch

import plain_model
from continued import arguments, continued
from shapes import read_shape

ROUNDING = 1e-3  # beside twice the error of the plain model in the weights' precision
# A router's choice is clear if its last chosen logit exceeds the next one by this. Rounding may change a closer
# choice.
CLEAR = 0.05


def made(shape, folder, a):
    """A checkpoint of random weights, as bf16."""
    model = plain_model.new_model(shape, a.device, torch.bfloat16, 1, 1)
    plain_model.randomise(model, a.seed)
    plain_model.save_weights(model, folder)
    shutil.copy(a.folder / "config.json", folder)


def watch_choices(model, rows):
    """Becomes, as the model runs, which rows choose their experts clearly in every layer."""
    clear = torch.ones(rows, dtype=torch.bool)

    def look(_, __, scores):
        top = scores.double().topk(min(model.shape.active + 1, model.shape.experts)).values.cpu()
        clear.logical_and_(top[:, -2] - top[:, -1] >= CLEAR)

    for layer in model.layers:
        if isinstance(layer.ffn, plain_model.Experts):
            layer.ffn.router.register_forward_hook(look)
    return clear


def logits(shape, folder, ids, dtype, device):
    """Returns the logits of all rows by the plain model in one step, and the rows whose choices of experts are clear
    in every layer."""
    model = plain_model.new_model(shape, device, dtype, 1, len(ids))
    plain_model.load_weights(model, folder)
    clear = watch_choices(model, len(ids))
    rows = model(torch.tensor([ids], device=device), torch.arange(len(ids), device=device))
    return rows[0].double().cpu(), clear.tolist()


def errors(rows, wanted):
    return ((rows - wanted).norm(dim=-1) / wanted.norm(dim=-1)).tolist()


def compare(shape, a, folder):
    made(shape, folder, a)
    prompt = torch.randint(0, shape.vocab, (a.tokens,)).tolist()
    ids, got = continued(a.program, folder, prompt, a.new, shape.vocab)
    got = torch.from_numpy(got)
    wanted, clear = logits(shape, folder, ids, torch.float64 if a.device == "cpu" else torch.float32, a.device)
    plain = errors(logits(shape, folder, ids, torch.bfloat16, a.device)[0], wanted)
    found = errors(got, wanted)
    held = [i for i, is_clear in enumerate(clear) if is_clear]
    if 4 * len(held) < len(ids):
        sys.exit(f"reference: error: {len(held)} of {len(ids)} rows choose their experts clearly, expected a quarter")
    plain_worst = max(plain[i] for i in held)
    at_most = 2 * plain_worst + ROUNDING
    worst = max(held, key=lambda i: found[i] if found[i] == found[i] else float("inf"))
    print(json.dumps({"rows": len(ids), "held": len(held), "worst": found[worst], "plain_worst": plain_worst,
                      "at_most": at_most}), flush=True)
    if not found[worst] <= at_most or not torch.isfinite(got).all():
        sys.exit(f"reference: error: row {worst} of {len(ids)} has the relative error {found[worst]:.3e}, expected at most "
                 f"{at_most:.3e}; the plain model in bf16 has {plain_worst:.3e}; by row: "
                 + " ".join(f"{e:.1e}" for e in found))


def main():
    a = arguments(__doc__, tokens=40, new=8)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
        compare(read_shape(a.folder), a, folder)


if __name__ == "__main__":
    main()
