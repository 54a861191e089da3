"""Makes tests/fixtures/models: tiny random checkpoints, and what transformers computes with them in float64.

The program needs torch and transformers 5.x.
Usage: make_model_fixtures.py [FOLDER]
"""
import json
import sys
from pathlib import Path

import torch
from transformers import (AutoModelForCausalLM, GptOssConfig, LlamaConfig, MistralConfig, MixtralConfig, Qwen2Config,
                          Qwen3Config, Qwen3MoeConfig, SeedOssConfig)

SIZES = dict(hidden_size=48, intermediate_size=80, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, vocab_size=96, max_position_embeddings=128, rms_norm_eps=1e-5,
             bos_token_id=None, eos_token_id=None, pad_token_id=None)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)
SMALL = SIZES | dict(hidden_size=40, intermediate_size=56, vocab_size=80)
MODELS = {
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=True, rope_parameters=LLAMA3),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=False),
    "qwen3": Qwen3Config(**SIZES, head_dim=16, tie_word_embeddings=False),
    "mistral": MistralConfig(**SIZES, tie_word_embeddings=False, sliding_window=None),
    "llama_f32": LlamaConfig(**SMALL, tie_word_embeddings=False),
    "mistral_window_f32": MistralConfig(**SMALL, tie_word_embeddings=False, sliding_window=8),
    "qwen3_moe": Qwen3MoeConfig(**SIZES | dict(num_hidden_layers=3), head_dim=16, tie_word_embeddings=False, num_experts=8,
                                num_experts_per_tok=3, moe_intermediate_size=24, norm_topk_prob=False, mlp_only_layers=[1]),
    "mixtral": MixtralConfig(**SMALL, tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2),
    "qwen3_moe_f32": Qwen3MoeConfig(**SMALL, head_dim=12, tie_word_embeddings=True, num_experts=5, num_experts_per_tok=2,
                                    moe_intermediate_size=20, norm_topk_prob=True, decoder_sparse_step=2),
    "seed_oss": SeedOssConfig(**SIZES, head_dim=16, tie_word_embeddings=False, attention_bias=True, attention_out_bias=False,
                              rope_parameters=YARN),
    "llama_bias_f32": LlamaConfig(**SMALL, tie_word_embeddings=True, attention_bias=True),
    "gpt_oss": GptOssConfig(**SMALL, head_dim=16, tie_word_embeddings=False, num_local_experts=4, num_experts_per_tok=2,
                            sliding_window=8, rope_parameters=YARN | dict(truncate=False)),
    "llama_mlp_bias": LlamaConfig(**SMALL, tie_word_embeddings=False, attention_bias=True, mlp_bias=True),
    "qwen3_bias_f32": Qwen3Config(**SMALL, head_dim=16, tie_word_embeddings=True, attention_bias=True),
}
NEW_TOKENS = 32


def randomise(model):
    """Sets weights with a spread that tells right from wrong. Biases and norms differ from their defaults."""
    for name, weight in model.named_parameters():
        if name.endswith("gate_up_proj_bias"):  # pairs reach the clamp
            weight.data.normal_(std=3)
        elif name.endswith("sinks"):
            weight.data.normal_(std=1.5)
        elif weight.dim() > 1:  # weights of experts are stacked
            weight.data.normal_(std=1.5 / weight.shape[-1] ** 0.5)
        else:
            weight.data.normal_(std=0.1)
            if "norm" in name:
                weight.data.add_(1)


def spell_as_before_transformers_5(path):
    """Moves RoPE's theta, the dtype and the number of experts to where checkpoints older than transformers 5
    have them.
    """
    config = json.loads(path.read_text())
    config["torch_dtype"] = config.pop("dtype")
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    if config["model_type"] == "qwen3_moe":
        config["num_experts"] = config.pop("num_local_experts")
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "fixtures" / "models")
    for seed, (name, config) in enumerate(MODELS.items()):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        randomise(model)
        dtype = torch.float32 if name.endswith("_f32") else torch.bfloat16
        model.to(dtype).save_pretrained(folder / name)
        # The model is loaded again, because the frequencies of RoPE must not be rounded to bf16 with
        # the weights.
        model = AutoModelForCausalLM.from_pretrained(folder / name, dtype=torch.float64,
                                                     experts_implementation="eager").eval()
        ids = torch.randint(0, config.vocab_size, (19,)).tolist()
        prompt = list(ids)
        with torch.no_grad():
            for _ in range(NEW_TOKENS):
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            logits = model(torch.tensor([ids[:-1]])).logits[0]
        expected = {"prompt_ids": prompt, "new_ids": ids[len(prompt):],
                    "logits": [[float(f"{v:.9g}") for v in row] for row in logits.tolist()]}
        (folder / name / "expected.json").write_text(json.dumps(expected) + "\n")
        if name.endswith("_f32"):
            spell_as_before_transformers_5(folder / name / "config.json")
        (folder / name / "generation_config.json").unlink(missing_ok=True)


main()
