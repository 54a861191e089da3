"""Writes greedy.json: greedy continuations by transformers in float32, for comparison with others."""

import argparse
import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from evaluate import load

# The prompts were picked among others of their kind for wide margins, so that rounding changes no token
# lightly.
PROMPTS = (
    "Once there was a boy named Sam.",
    "Once there was a boy named Max. He had three nuts in a basket. One day, Max went to the park.",
    "Long ago there lived a girl named Zoe. She had a red kite. Zoe had two stones.",
    "There once was a boy named Ben. He had a dog named Pip. One day, he walked to the forest. There he met a girl"
    " named Mia. Mia had five stones.",
)
NEW_TOKENS = 48


@torch.inference_mode()
def continue_greedily(model: LlamaForCausalLM, tokenizer: Tokenizer, prompt: str) -> dict:
    """Returns the best token of every step, and how far its logit stands above the second best."""
    prompt_ids = tokenizer.encode(prompt).ids
    new_ids: list[int] = []
    margins: list[float] = []
    while len(new_ids) < NEW_TOKENS and new_ids[-1:] != [model.config.eos_token_id]:
        logits = model(torch.tensor([prompt_ids + new_ids]), use_cache=False).logits[0, -1]
        best = logits.topk(2)
        new_ids.append(int(best.indices[0]))
        margins.append(round(float(best.values[0] - best.values[1]), 4))
    return {"prompt": prompt, "prompt_ids": prompt_ids, "new_ids": new_ids,
            "text": tokenizer.decode(new_ids), "margins": margins}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    torch.set_num_threads(1)
    model, tokenizer = load(folder)
    entries = [continue_greedily(model, tokenizer, prompt) for prompt in PROMPTS]
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    (folder / "greedy.json").write_text(f"[\n{lines}\n]\n")
    for entry in entries:
        print(f"{entry['prompt']}|{entry['text']}  (least margin {min(entry['margins'])})")
