#!/usr/bin/env python3
"""Writes tests/oracle/windows/vectors.json: the first position that each token of a sequence sees in each
layer. The positions are those of transformers' masks, for each spelling of config.json. A config that
transformers refuses has null.

The program needs torch and transformers, and its result is committed.
"""
import json
import pathlib

import torch
from transformers import AutoConfig, AutoModelForCausalLM

TOKENS = 12
BASE = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 4, "num_attention_heads": 2,
        "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 20, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "hidden_act": "silu"}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}
FULL, SLIDING = "full_attention", "sliding_attention"
WINDOWS = [
    {},
    {"use_sliding_window": False, "sliding_window": 5, "max_window_layers": 2},
    {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
    {"use_sliding_window": True, "sliding_window": 1, "max_window_layers": 0},
    {"use_sliding_window": True, "sliding_window": 5},
    {"use_sliding_window": True, "max_window_layers": 0},
    {"use_sliding_window": True, "sliding_window": None, "max_window_layers": 0},
    {"use_sliding_window": True, "sliding_window": None, "layer_types": [SLIDING, FULL, FULL, SLIDING]},
    {"use_sliding_window": True, "sliding_window": 3, "layer_types": [SLIDING, FULL, FULL, SLIDING], "max_window_layers": 1},
    {"use_sliding_window": False, "layer_types": [FULL] * 4},
    {"use_sliding_window": False, "sliding_window": 3, "layer_types": [FULL, SLIDING, FULL, FULL]},
]


def first_seen(keys):
    """Returns the first position for each layer and token, from the masks that the model's attention gets."""
    config = AutoConfig.for_model(**keys)
    config._attn_implementation = "eager"
    seen = []
    model = AutoModelForCausalLM.from_config(config).eval()

    def spy(module, args, kwargs):
        mask = kwargs["attention_mask"]
        rows = torch.ones(TOKENS, TOKENS).tril() if mask is None else (mask[0, 0] == 0).float()
        seen.append([int(row.nonzero()[0]) for row in rows])

    for layer in model.model.layers:
        layer.self_attn.register_forward_pre_hook(spy, with_kwargs=True)
    with torch.no_grad():
        model(torch.arange(TOKENS)[None] % 20, use_cache=False)
    return seen


def main():
    cases = []
    for family in ("qwen2", "qwen3", "qwen3_moe"):
        for windows in WINDOWS:
            if family == "qwen3_moe" and "layer_types" in windows:
                continue  # qwen3_moe does not read layer_types
            keys = {"model_type": family, **BASE, **(EXPERTS if family == "qwen3_moe" else {}), **windows}
            try:
                first = first_seen(keys)
            except ValueError:
                first = None
            cases.append({"config": keys, "first": first})
    path = pathlib.Path(__file__).parent / "windows" / "vectors.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
