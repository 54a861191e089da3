"""Trains the tiny Llama on generated stories and saves it in Hugging Face form, rounded to bf16.

Training takes one epoch: every story is seen once. The folder must hold tokenizer.json.
"""

import argparse
import copy
import math
import random
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaConfig, LlamaForCausalLM

from corpus import training_stories
from tokenizer import BOS, EOS

IGNORED = -100  # label of padding


def make_model(tokenizer: Tokenizer) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        initializer_range=0.08,  # near 1/sqrt(hidden); with the usual 0.02 names are copied far later
        tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(BOS),
        eos_token_id=tokenizer.token_to_id(EOS),
        rope_parameters={
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 128,
        },
    ))


def encode(tokenizer: Tokenizer, stories: list[str]) -> list[list[int]]:
    """Returns the ids of every story from the beginning-of-text token to the end-of-text token."""
    eos = tokenizer.token_to_id(EOS)
    return [encoding.ids + [eos] for encoding in tokenizer.encode_batch(stories)]


def make_batches(rows: list[list[int]], batch_rows: int, rng: random.Random) -> list[list[list[int]]]:
    """Returns batches in random order. Rows of a batch have nearly equal lengths, so that little is spent
    on padding."""
    rows = sorted(rows, key=len)
    batches = [rows[i : i + batch_rows] for i in range(0, len(rows), batch_rows)]
    rng.shuffle(batches)
    return batches


def pad(rows: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns input ids and labels [rows, longest]. Padding stands at the end and is not predicted."""
    longest = max(map(len, rows))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    labels = torch.tensor([row + [IGNORED] * (longest - len(row)) for row in rows])
    return ids, labels


def learning_rate(step: int, steps: int, peak: float, warmup: int = 100) -> float:
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))))


def make_optimizers(model: LlamaForCausalLM, peak: float) -> list[torch.optim.Optimizer]:
    """Returns Muon for the matrices of the layers and AdamW for the rest. Muon learns to look facts up in
    far fewer steps."""
    matrices = [p for p in model.model.layers.parameters() if p.ndim == 2]
    rest = [p for p in model.model.layers.parameters() if p.ndim < 2]
    rest += [*model.model.embed_tokens.parameters(), *model.model.norm.parameters()]
    return [
        torch.optim.Muon(matrices, lr=peak, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=peak, betas=(0.9, 0.98), weight_decay=0.01),
    ]


def save(model: LlamaForCausalLM, folder: Path) -> None:
    copy.deepcopy(model).to(torch.bfloat16).save_pretrained(folder)


def train(args: argparse.Namespace) -> None:
    torch.manual_seed(args.seed)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    model = make_model(tokenizer)
    print(f"{model.num_parameters()} parameters", flush=True)
    rows = encode(tokenizer, training_stories(args.steps * args.batch))
    batches = make_batches(rows, args.batch, random.Random(args.seed))
    optimizers = make_optimizers(model, args.peak)
    start, recent = time.monotonic(), 0.0
    for step, batch in enumerate(batches):
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, len(batches), args.peak)
        ids, labels = pad(batch)
        loss = model(input_ids=ids, labels=labels).loss
        model.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
        recent += loss.item()
        if (step + 1) % 100 == 0:
            print(f"step {step + 1}/{len(batches)}: {recent / 100:.4f} nats/token, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
            recent = 0.0
        if (step + 1) % 1000 == 0:
            save(model, args.folder)
    save(model, args.folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--batch", type=int, default=32, help="stories per step")
    parser.add_argument("--peak", type=float, default=5e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    train(args)
