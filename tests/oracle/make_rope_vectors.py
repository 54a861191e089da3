#!/usr/bin/env python3
"""Writes tests/oracle/rope/vectors.json: rotary frequencies as transformers computes them (float32).

Needs torch and transformers; the result is committed.
"""
import json
import pathlib

from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

LLAMA3 = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0}
CASES = {
    "default": (40, {"rope_type": "default", "rope_theta": 10000.0}),
    "linear": (64, {"rope_type": "linear", "factor": 2.5, "rope_theta": 1000000.0}),
    "llama3": (64, LLAMA3),
    "llama3_wide": (128, {**LLAMA3, "factor": 8.0}),
}


def frequencies(head_dim, parameters):
    config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, num_key_value_heads=1, head_dim=head_dim,
                         max_position_embeddings=131072, rope_parameters=dict(parameters))
    rotary = LlamaRotaryEmbedding(config)
    assert rotary.attention_scaling == 1.0
    return [float(f) for f in rotary.inv_freq]


def main():
    cases = [{"name": name, "head_dim": dim, "rope_parameters": parameters, "inv_freq": frequencies(dim, parameters)}
             for name, (dim, parameters) in CASES.items()]
    path = pathlib.Path(__file__).parent / "rope" / "vectors.json"
    path.write_text(json.dumps(cases, indent=1) + "\n")


if __name__ == "__main__":
    main()
