"""Measures a trained folder: held-out cross-entropy, and how many generated stories are consistent.

The weights are the bf16 ones of the file. Computation is in float32.
"""

import argparse
import math
from collections import Counter, defaultdict
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from checker import explain_story
from corpus import HELD_OUT, held_out_stories
from train import encode, pad

PROMPT_SENTENCES = 2


def load(folder: Path) -> tuple[LlamaForCausalLM, Tokenizer]:
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return model, Tokenizer.from_file(str(folder / "tokenizer.json"))


@torch.inference_mode()
def cross_entropy(model: LlamaForCausalLM, tokenizer: Tokenizer, stories: list[str]) -> tuple[float, float]:
    """Returns the mean loss in nats per token (end-of-text counted), and in bits per byte of the text."""
    rows = encode(tokenizer, stories)
    nats = tokens = 0
    for i in range(0, len(rows), 50):
        ids, labels = pad(rows[i : i + 50])
        predicted = int((labels[:, 1:] >= 0).sum())
        nats += model(input_ids=ids, labels=labels).loss.item() * predicted
        tokens += predicted
    return nats / tokens, nats / math.log(2) / sum(len(story.encode()) for story in stories)


@torch.inference_mode()
def generate(model: LlamaForCausalLM, tokenizer: Tokenizer, prompts: list[str], **options) -> list[str]:
    """Returns the stories that continue `prompts`, in their order. Prompts of one length share a batch, so
    that none is padded."""
    by_length: dict[int, list[int]] = defaultdict(list)
    encoded = [tokenizer.encode(prompt).ids for prompt in prompts]
    for i, ids in enumerate(encoded):
        by_length[len(ids)].append(i)
    stories = [""] * len(prompts)
    for indices in by_length.values():
        batch = torch.tensor([encoded[i] for i in indices])
        rows = model.generate(batch, attention_mask=torch.ones_like(batch), max_new_tokens=200,
                              pad_token_id=model.config.eos_token_id, **options)
        for i, story in zip(indices, tokenizer.decode_batch(rows.tolist())):
            stories[i] = story
    return stories


def report(title: str, stories: list[str], show: int) -> None:
    verdicts = [explain_story(story) for story in stories]
    counts = Counter(verdict for verdict, _ in verdicts)
    kinds = ("consistent", "inconsistent", "unparsable")
    shares = ", ".join(f"{100 * counts[kind] / len(stories):.1f}% {kind}" for kind in kinds)
    print(f"{title} ({len(stories)} stories): {shares}", flush=True)
    for story, (verdict, reason) in list(zip(stories, verdicts))[:show]:
        print(f"  [{verdict}{': ' * bool(reason)}{reason}] {story}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stories", type=int, default=500, help="generated stories of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=0, help="stories to print of each kind")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    model, tokenizer = load(args.folder)
    held_out = held_out_stories(HELD_OUT)
    per_token, per_byte = cross_entropy(model, tokenizer, held_out)
    print(f"held-out cross-entropy ({HELD_OUT} stories): {per_token:.4f} nats/token, {per_byte:.4f} bits/byte")
    prompts = [". ".join(story.split(". ")[:PROMPT_SENTENCES]) + "." for story in held_out[: args.stories]]
    greedy = generate(model, tokenizer, prompts, do_sample=False)
    report(f"greedy, after {PROMPT_SENTENCES} held-out sentences", greedy, args.show)
    for temperature in (0.5, 1.0):
        sampled = generate(model, tokenizer, [""] * args.stories, do_sample=True, temperature=temperature, top_k=0)
        report(f"sampled from nothing, temperature {temperature}", sampled, args.show)
