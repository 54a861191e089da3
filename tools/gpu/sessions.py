#!/usr/bin/env python3
"""Checks libmkrt's sessions by its Python interface: every size of a step has the logits of single tokens, and sessions
beside each other those that each has alone. Prints one JSON object a line. Usage: sessions.py CUBIN CHECKPOINT ID,ID,…
"""
import json
import sys

import mkrt

WORST = 2e-2  # of a row's logits: bf16 in another order of sums
INTERLEAVED = 24


def error(row, wanted):
    return float(((row - wanted) ** 2).sum() ** 0.5 / (wanted ** 2).sum() ** 0.5)


def every_step_size(session, ids):
    """One prompt by steps of 1, 2, … tokens; the rows of single tokens are what the others must have."""
    alone, equal, worst = [], 0, 0.0
    for size in range(1, session.max_tokens + 1):
        session.rewind()
        rows = []
        for begin in range(0, len(ids), size):
            rows.extend(session.step(ids[begin:begin + size], logits=True)[1])
        alone = alone or rows
        equal += all((a == b).all() for a, b in zip(rows, alone))
        found = max(error(a, b) for a, b in zip(rows, alone))
        if not found <= WORST:
            sys.exit(f"sessions: error: steps of {size} tokens: relative error {found:.2e} of a row, expected at most "
                     f"{WORST}")
        worst = max(worst, found)
    print(json.dumps({"check": "step sizes", "sizes": session.max_tokens, "with_equal_bits": equal, "worst_row": worst}),
          flush=True)


def two_sessions(opened, ids):
    """Steps of two sessions in turn, on one device; `opened` opens one."""
    prompts = ids, ids[::-1]
    with opened() as a, opened() as b:
        alone = []
        for session, prompt in zip((a, b), prompts):
            alone.append(list(session.generate(prompt, INTERLEAVED)))
            session.rewind()
        pairs = zip(*(session.generate(prompt, INTERLEAVED) for session, prompt in zip((a, b), prompts)))
        mixed = [list(tokens) for tokens in zip(*pairs)]
    if mixed != alone:
        sys.exit(f"sessions: error: in turn {mixed}, alone {alone}")
    print(json.dumps({"check": "two sessions", "tokens": INTERLEAVED}), flush=True)


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: sessions.py CUBIN CHECKPOINT ID,ID,…")
    cubin, checkpoint, ids = sys.argv[1], sys.argv[2], [int(n) for n in sys.argv[3].split(",")]
    with mkrt.Device() as device:
        with device.open(cubin, checkpoint) as session:
            every_step_size(session, ids)
        two_sessions(lambda: device.open(cubin, checkpoint), ids)


if __name__ == "__main__":
    main()
