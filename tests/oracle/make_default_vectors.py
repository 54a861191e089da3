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
MORE = {"mixtral": EXPERTS | {"num_local_experts": 12}, "gpt_oss": EXPERTS | {"num_local_experts": 12},
        "qwen3_moe": EXPERTS | {"num_experts": 12, "moe_intermediate_size": 8}}
LINEAR = {"rope_type": "linear", "factor": 2.0}
KEYS = [{}, {"rope_scaling": None}, {"rope_theta": 700.0}, {"rope_scaling": LINEAR}, {"rope_parameters": {"rope_type": "default"}},
        {"rope_scaling": LINEAR | {"rope_theta": 500.0}, "rope_theta": 700.0}, {"hidden_act": "swish"}]


NULLS = {"llama": ["num_key_value_heads", "head_dim"], "seed_oss": ["num_key_value_heads", "head_dim"], "mistral": ["head_dim"],
         "mixtral": ["head_dim"], "qwen2": ["num_key_value_heads"], "qwen3": ["num_key_value_heads"]}  # what its class permits
# Keys of the classes that mkc reads. It derives layer_types as transformers does.
READ = [*BASE, "head_dim", "hidden_act", "rms_norm_eps", "tie_word_embeddings", "attention_bias", "attention_out_bias", "mlp_bias",
        "use_sliding_window", "sliding_window", "max_window_layers", "num_local_experts", "num_experts_per_tok", "moe_intermediate_size",
        "norm_topk_prob", "decoder_sparse_step", "mlp_only_layers", "swiglu_alpha", "swiglu_limit", "rope_parameters"]


def taken(config):
    found = {key: getattr(config, key) for key in READ if hasattr(config, key)}
    found["head_dim"] = found.get("head_dim") or config.hidden_size // config.num_attention_heads
    return found


def main():
    cases = []
    for family, name in CLASSES.items():
        base = BASE | MORE.get(family, {})
        some = [{}, *({key: value for key, value in base.items() if key != left_out} for left_out in base)]
        configs = [base | keys for keys in KEYS] + some + [base | {key: None} for key in NULLS.get(family, [])]
        if family in MORE:  # the number of experts has two names
            other = "num_local_experts" if "num_experts" in base else "num_experts"
            configs += [base | {other: 9}, {key: value for key, value in base.items() if not key.endswith("_experts")} | {other: 9}]
        for keys in configs:
            config = getattr(transformers, name)(**json.loads(json.dumps(keys)))
            if config.num_attention_heads % config.num_key_value_heads:
                keys["num_attention_heads"] = config.num_attention_heads = 2 * config.num_key_value_heads
            cases.append({"config": {"model_type": family, **keys}, "taken": taken(config)})
    path = pathlib.Path(__file__).parent / "defaults" / "vectors.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")


if __name__ == "__main__":
    main()
