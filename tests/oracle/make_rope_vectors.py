#!/usr/bin/env python3
"""Writes tests/oracle/rope/vectors.json: rotary frequencies as transformers computes them, in float32.

The program needs torch and transformers, and its result is committed.
"""
import json
import pathlib

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768, "rope_theta": 1000000.0}
CASES = {
    "default": (40, {"rope_type": "default", "rope_theta": 10000.0}),
    "linear": (64, {"rope_type": "linear", "factor": 2.5, "rope_theta": 1000000.0}),
    "llama3": (64, LLAMA3),
    "llama3_wide": (128, {**LLAMA3, "factor": 8.0}),
    "dynamic": (64, {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 10000.0}),
    "yarn": (128, YARN),
    "yarn_narrow": (40, {**YARN, "factor": 2.5, "rope_theta": 10000.0, "original_max_position_embeddings": 4096}),
    "yarn_betas": (64, {**YARN, "beta_fast": 24.0, "beta_slow": 2.0, "truncate": False}),
    "yarn_attention": (64, {**YARN, "attention_factor": 0.75}),
    "yarn_mscale": (64, {**YARN, "factor": 40.0, "mscale": 0.707, "mscale_all_dim": 1.3}),
    "yarn_below_one": (64, {**YARN, "factor": 0.5}),
}


def frequencies(head_dim, parameters):
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, num_key_value_heads=1, head_dim=head_dim,
                         max_position_embeddings=131072, rope_parameters=dict(parameters))
    rotary = LlamaRotaryEmbedding(config)
    return [float(f) for f in rotary.inv_freq], float(rotary.attention_scaling)


def main():
    cases = []
    for name, (dim, parameters) in CASES.items():
        inv_freq, scale = frequencies(dim, parameters)
        cases.append({"name": name, "head_dim": dim, "rope_parameters": parameters, "scale": scale, "inv_freq": inv_freq})
    path = pathlib.Path(__file__).parent / "rope" / "vectors.json"
    path.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
