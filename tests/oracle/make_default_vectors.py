#!/usr/bin/env python3
"""Writes tests/oracle/defaults/vectors.json: configs that leave keys out, and what transformers takes for these keys.

The program needs transformers (5.24.0), not torch, and its result is committed.
"""
import json
import pathlib

import transformers

BASE = {"hidden_size": 256, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 16, "vocab_size": 20,
        "max_position_embeddings": 64, "num_key_value_heads": 8}
EXPERTS = {"num_experts_per_tok": 2}
CLASSES = {"llama": "LlamaConfig", "seed_oss": "SeedOssConfig", "mistral": "MistralConfig", "mixtral": "MixtralConfig",
           "qwen2": "Qwen2Config", "qwen3": "Qwen3Config", "qwen3_moe": "Qwen3MoeConfig", "gpt_oss": "GptOssConfig"}
MORE = {"mixtral": EXPERTS | {"num_local_experts": 4}, "gpt_oss": EXPERTS | {"num_local_experts": 4},
        "qwen3_moe": EXPERTS | {"num_experts": 4, "moe_intermediate_size": 8}}
LINEAR = {"rope_type": "linear", "factor": 2.0}
KEYS = [{}, {"rope_scaling": None}, {"rope_theta": 700.0}, {"rope_scaling": LINEAR}, {"rope_parameters": {"rope_type": "default"}},
        {"rope_scaling": LINEAR | {"rope_theta": 500.0}, "rope_theta": 700.0}, {"hidden_act": "swish"}]


def main():
    cases = []
    for family, name in CLASSES.items():
        without_heads = {key: value for key, value in BASE.items() if key != "num_key_value_heads"}
        bases = [BASE, without_heads] if family in ("llama", "seed_oss") else [BASE]
        for keys in [{**base, **MORE.get(family, {}), **more} for base in bases for more in KEYS]:
            config = getattr(transformers, name)(**json.loads(json.dumps(keys)))
            heads = {"num_key_value_heads": config.num_key_value_heads,
                     "head_dim": getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads}
            cases.append({"config": {"model_type": family, **keys},
                          "taken": {"rms_norm_eps": config.rms_norm_eps, "rope_parameters": config.rope_parameters, **heads}})
    path = pathlib.Path(__file__).parent / "defaults" / "vectors.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
