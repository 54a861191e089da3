#!/usr/bin/env python3
"""Times what mkc is measured against, by torch: prints one JSON object a line, as it has them.

Every step takes token ids from the host and gives the host its greedy successors, as mkc's does.
"""
import argparse
import json
import sys
import time
from pathlib import Path

import torch
import torch._dynamo
from torch._dynamo.utils import counters

import plain_model
from shapes import read_shape

TOO_LARGE = "does not fit this GPU"
WORST = 2e-3  # of a row's logits in float32; tf32 where a kernel uses it
FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "qwen3_moe")


def say(**row):
    print(json.dumps(row), flush=True)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def stepper(model, peer, mode):
    """The model's step as this peer runs it: "eager", or "compile-ATTENTION"."""
    if peer == "eager":
        return model.next_token
    torch._dynamo.reset()
    counters.clear()
    return torch.compile(model.next_token, mode=mode, fullgraph=True)


def attention(peer):
    return "sdpa" if peer == "eager" else peer.split("-")[1]


def time_plain(a, shape, context, batch, rows):
    model = plain_model.new_model(shape, a.device, a.dtype, batch, context, attention=attention(a.peer))
    step = stepper(model, a.peer, a.mode)
    tokens = torch.zeros(batch, rows, dtype=torch.int64, device=a.device)
    positions = torch.arange(context - rows, context, device=a.device)
    ids, us = [n % shape.vocab for n in range(batch * rows)], []
    begin = time.perf_counter()
    for i in range(a.warm_up + a.steps):
        started = time.perf_counter()
        tokens.copy_(torch.tensor(ids).view(batch, rows))
        following = step(tokens, positions).tolist()
        if rows == 1:
            ids = following
        if i >= a.warm_up:
            us.append(1e6 * (time.perf_counter() - started))
        else:
            ready = time.perf_counter() - begin
    return {"us": us, "warm_up_s": ready, "attention": attention(a.peer),
            **({} if a.peer == "eager" else {"mode": a.mode, "cudagraph_skips": counters["inductor"]["cudagraph_skips"]})}


def time_generate(a, shape, context, batch, _):
    """The time between the tokens of transformers' generate."""
    from transformers import AutoConfig, AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList

    class Clock(StoppingCriteria):
        def __init__(self):
            self.times = []

        def __call__(self, input_ids, scores, **_):
            synchronize(a.device)
            self.times.append(time.perf_counter())
            return torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)

    with torch.device(a.device):
        model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(a.folder), dtype=a.dtype).eval()
    model.generation_config.eos_token_id, model.generation_config.pad_token_id = None, 0
    count = min(a.steps, 64, context // 2)
    prompt = torch.randint(0, shape.vocab, (batch, context - count), device=a.device)
    for _ in range(2):  # the first warms up
        clock = Clock()
        model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=count + 1, do_sample=False,
                       stopping_criteria=StoppingCriteriaList([clock]))
    return {"us": [1e6 * (b - a) for a, b in zip(clock.times, clock.times[1:])]}


def check(a, family):
    """The worst relative error of a row of logits, of tokens fed one by one; eagerly, the prompt in one step."""
    folder = a.checks / family
    expected = json.loads((folder / "expected.json").read_text())
    shape = read_shape(folder)
    if attention(a.peer) == "flex" and shape.head_dim not in (16, 32, 64, 128):
        return  # its kernels have no other heads
    ids, prompt = expected["prompt_ids"] + expected["new_ids"][:-1], len(expected["prompt_ids"])
    model = plain_model.new_model(shape, a.device, torch.float32, 1, 128, attention=attention(a.peer))
    plain_model.load_weights(model, folder)
    rows = model if a.peer == "eager" else torch.compile(model, mode=a.mode, fullgraph=True)
    got, first = [], prompt if a.peer == "eager" else 1
    for begin, end in [(0, first)] + [(i, i + 1) for i in range(first, len(ids))]:
        out = rows(torch.tensor([ids[begin:end]], device=a.device), torch.arange(begin, end, device=a.device))
        got.append(out[0].cpu().double())
    wanted = torch.tensor(expected["logits"], dtype=torch.float64)
    worst = ((torch.cat(got) - wanted).norm(dim=-1) / wanted.norm(dim=-1)).max().item()
    if not worst <= WORST:
        sys.exit(f"peers: error: {a.peer}, {family}: relative error {worst:.2e} of logits, expected at most {WORST}")
    say(check=family, worst_row=worst)


def fits(a, shape, context, batch):
    """Weights and cache, with room for what a step makes. The cache lies there once more where a compiler copies it."""
    if a.device == "cpu":
        return True
    cache = 2 * shape.layers * shape.kv_heads * shape.head_dim * context * batch
    free, _ = torch.cuda.mem_get_info()
    return 2 * (shape.weights(rows=1 << 20) + shape.vocab * shape.hidden + 2 * cache) < 0.9 * free


def timed_point(a, shape, context, batch, rows):
    timed = time_generate if a.peer == "transformers" else time_plain
    if not fits(a, shape, context, batch):
        return {"state": TOO_LARGE}
    try:
        return timed(a, shape, context, batch, rows)
    except torch.OutOfMemoryError:
        return {"state": TOO_LARGE}
    finally:
        if a.device == "cuda":
            torch.cuda.empty_cache()


def points(text):
    """Contexts, batches and tokens a step: 128x1x1,1024x8x1."""
    return [tuple(int(n) for n in point.split("x")) for point in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=["eager", "compile-flex", "compile-sdpa", "transformers"])
    parser.add_argument("folder", help="of the model's config.json")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--points", type=points, default=[(128, 1, 1)],
                        help="contexts, batches and tokens a step: 128x1x1,1024x8x1")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--mode", choices=["reduce-overhead", "max-autotune"], default="reduce-overhead")
    parser.add_argument("--checks", type=Path, help="folder of small models with known logits, checked first")
    a = parser.parse_args()
    a.dtype = torch.bfloat16
    shape = read_shape(a.folder)
    say(torch=torch.__version__, device=torch.cuda.get_device_name() if a.device == "cuda" else "cpu")
    with torch.no_grad():
        for family in FAMILIES if a.peer == "eager" else ["qwen3"]:
            if a.checks and a.peer != "transformers":
                check(a, family)
        for context, batch, rows in a.points:
            say(context=context, batch=batch, tokens=rows, **timed_point(a, shape, context, batch, rows))


if __name__ == "__main__":
    main()
