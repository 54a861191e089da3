#!/usr/bin/env python3
"""Names the first grid whose result is wrong. A random prompt goes through a cubin in one step, and the results of
every grid are compared with the plain PyTorch model. Prints one JSON object.

Usage: layers.py CUBIN FOLDER; CUBIN: of mkc compile --keep-activations; FOLDER: of the model's config.json.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

import torch

import mkrt
import plain_model
from kit import manifest
from reference import ROUNDING, errors, made, watch_choices
from shapes import read_shape

TILE = 16  # columns by which an error's place is told
# Last part of a tensor's name -> that of the grid that writes it; where they differ.
WRITERS = {"attended": "combine", "y": "o", "act": "gate_up", "x": "down"}


def writer(tensor):
    if tensor == "x":
        return "embed"
    layer, _, name = tensor.rpartition(".")
    return f"{layer}.{WRITERS.get(name, name)}".lstrip(".")


def kept(says):
    """Name, columns and element of each tensor of floats with a row for each token, in the order in which they are made."""
    tensors = sorted(says["tensors"] + says["outputs"], key=lambda t: t["offset"])
    for a, b in zip(tensors, tensors[1:]):
        if a["offset"] + a["bytes"] > b["offset"]:
            sys.exit(f"layers: error: {a['name']} and {b['name']} share memory: compile with --keep-activations")
    (rows,) = (s["hi"] for s in says["symbols"] if s["name"] == "T")
    return [(t["name"], t["shape"][1], t["element"]) for t in says["tensors"] + says["outputs"]
            if t["element"] in ("f32", "bf16") and len(t["shape"]) == 2 and t["shape"][0] == rows]


def activations(model, ids):
    """Returns what a step makes of tokens, by mkc's names: [rows, columns] each."""
    found, hooks, s = {}, [], model.shape
    device = model.norm.device
    query, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim

    def keep(name, value):
        found[name] = value.reshape(len(ids), -1).double().cpu()

    def watch(n, layer):
        at = f"l{n}."
        hooks.append(layer.register_forward_pre_hook(lambda _, into: keep("x" if n == 0 else f"l{n - 1}.x", into[0])))
        hooks.append(layer.qkv.register_forward_hook(
            lambda _, __, out: [keep(at + x, part) for x, part in zip("qkv", out.split((query, kv, kv), -1))] and None))
        hooks.append(layer.out.register_forward_pre_hook(lambda _, into: keep(at + "attended", into[0])))
        before = "x" if n == 0 else f"l{n - 1}.x"
        hooks.append(layer.out.register_forward_hook(
            lambda _, __, out: keep(at + "y", found[before].to(out) + out[0])))
        if isinstance(layer.ffn, plain_model.Dense):
            hooks.append(layer.ffn.down.register_forward_pre_hook(lambda _, into: keep(at + "act", into[0])))
        else:
            hooks.append(layer.ffn.router.register_forward_hook(lambda _, __, out: keep(at + "router_logits", out)))
        hooks.append(layer.register_forward_hook(lambda _, __, out: keep(at + "x", out)))

    for n, layer in enumerate(model.layers):
        watch(n, layer)
    keep("logits", model(torch.tensor([ids], device=device), torch.arange(len(ids), device=device)))
    for hook in hooks:
        hook.remove()
    return found


def first_wrong(session, says, ids, wanted, plain, clear):
    """Holds what a session leaves of a prompt against `wanted`, of the `clear` rows; each may err twice as much as `plain`.
    How many tensors were held and the worst of them, or exits with the first that is wrong."""
    session.begin_step([(ids, len(ids), list(range(-(-len(ids) // session.pages[1]))))], limit=0)
    session.end_step()
    worst, tensors = ("", 0.0), 0
    for name, columns, element in kept(says):
        if name not in wanted:
            continue
        rows = 1 if name == "logits" else len(ids)  # nobody reads the others
        held, right = clear[-rows:], wanted[name][-rows:]
        if not held.any():
            continue
        got = torch.from_numpy(session.read_tensor(name, rows, columns, element)).double()
        found = torch.tensor(errors(got, right)).nan_to_num(torch.inf).where(held, 0)
        at_most = 2 * max(errors(plain[name][clear], wanted[name][clear])) + ROUNDING
        if found.max() > at_most:
            typical = right.norm(dim=-1, keepdim=True) * columns ** -0.5
            off = ~((got - right).abs() <= 10 * at_most * typical) & held[:, None]
            tiles = sorted({int(n) // TILE for n in off.any(0).nonzero()})
            sys.exit(f"layers: error: grid {writer(name)} is the first to be wrong, in {name}: rows "
                     f"{(found > at_most).nonzero().flatten().tolist()} of {rows} have relative errors up to "
                     f"{found.max():.3e}, expected at most {at_most:.3e}; wrong columns by {TILE}: {tiles} of "
                     f"{-(-columns // TILE)}")
        tensors, worst = tensors + 1, max(worst, (name, found.max().item()), key=lambda of: of[1])
    return {"tensors": tensors, "worst": worst}


def compare(opened, says, shape, folder, device, tokens):
    ids = torch.randint(0, shape.vocab, (tokens,)).tolist()
    exact = torch.float64 if device == "cpu" else torch.float32
    by = {}
    for dtype in (exact, torch.bfloat16):
        model = plain_model.new_model(shape, device, dtype, 1, len(ids))
        plain_model.load_weights(model, folder)
        rows = watch_choices(model, len(ids))
        by[dtype] = activations(model, ids)
        if dtype == exact:
            clear = rows
        del model
    with opened() as session:
        return first_wrong(session, says, ids, by[exact], by[torch.bfloat16], clear)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cubin")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="of the plain model")
    parser.add_argument("--tokens", type=int, default=40, help="of the prompt, at most those of a step")
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    shape = read_shape(a.folder)
    with torch.no_grad(), tempfile.TemporaryDirectory() as folder, mkrt.Device() as device:
        made(shape, folder, a)
        print(json.dumps(compare(lambda: device.open(a.cubin, folder), manifest(a.cubin), shape, folder, a.device, a.tokens)))


if __name__ == "__main__":
    main()
