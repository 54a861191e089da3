"""Random configs of tiny checkpoints, and the ways in which published configs spell them (tests/attack/checkpoints)."""
import json

FAMILIES = dict(llama="LlamaConfig", qwen2="Qwen2Config", qwen3="Qwen3Config", qwen3_moe="Qwen3MoeConfig", mistral="MistralConfig",
                mixtral="MixtralConfig", seed_oss="SeedOssConfig", gpt_oss="GptOssConfig")
# Keys that published configs have, and that change nothing.
IDLE = dict(use_cache=[True, False], pretraining_tp=[1], attention_dropout=[0.0, 0.1], initializer_range=[0.02], _name_or_path=["a/b"],
            transformers_version=["4.51.3", "5.24.0"], output_router_logits=[False], router_aux_loss_coef=[0.001], rope_interleaved=[False],
            quantization_config=[None], is_causal=[True], final_logit_softcapping=[None], attention_chunk_size=[None], pad_token_id=[0, None],
            residual_dropout=[0.1], n_group=[1, None], per_layer_config=[None], torch_dtype=["float32"])


def rope(r, family, positions):
    """Returns rope_parameters of a type that the family may have."""
    types = ["yarn", "yarn", "default"] if family == "gpt_oss" else ["default", "linear", "dynamic", "llama3", "yarn", "yarn"]
    found = dict(rope_type=r.choice(types), rope_theta=r.choice([10000.0, 10000, 150000, 1000000.0, 500000.0, 100.0, 7.5]))
    if found["rope_type"] != "default":
        found["factor"] = r.choice([1.0, 1, 1.5, 2.0, 4, 8.0])
    if found["rope_type"] == "llama3":
        found |= dict(low_freq_factor=r.choice([0.5, 1.0]), high_freq_factor=r.choice([2.5, 4.0, 32.0]),
                      original_max_position_embeddings=r.choice([positions // 2, 17]))
    if found["rope_type"] == "yarn":
        found["original_max_position_embeddings"] = r.choice([positions // 2, positions, 23])
        options = dict(beta_fast=[32, 4.0, None], beta_slow=[1, 0.25, None], truncate=[True, False], attention_factor=[0.9, 1, 1.3, None],
                       mscale=[1.0, 0.707, 2], mscale_all_dim=[1.0, 1.3])
        found |= {key: r.choice(values) for key, values in options.items() if r.random() < 0.3}
    return found


def windows(r, family, layers):
    """Returns the keys of sliding windows."""
    window, types = r.choice([1, 2, 5, 16, 31, 64, 100, 4096]), ["full_attention", "sliding_attention"]
    by_layer = dict(layer_types=[r.choice(types) for _ in range(layers)]) if r.random() < 0.4 else {}
    if family in ("qwen2", "qwen3"):
        used = r.random() < 0.6
        found = dict(use_sliding_window=used, sliding_window=window, max_window_layers=r.choice([0, 1, 3, 28]))
        if used and not by_layer and r.random() < 0.2:
            found["sliding_window"] = None
        return found | (by_layer if used else {})
    if family == "qwen3_moe":
        return dict(use_sliding_window=r.random() < 0.6, sliding_window=r.choice([window] * 4 + [None]))
    if family == "mistral" and r.random() < 0.7:
        return dict(sliding_window=window) | by_layer
    if family == "gpt_oss":
        return dict(sliding_window=r.choice([window, 128])) | by_layer
    return dict(sliding_window=r.choice([None, window])) if family in ("mistral", "mixtral") else {}


def draw(r, defaults, key, values, share=0.1):
    """Returns one of the values, or in some cases the class's default, so that respell() may leave the key out."""
    return defaults[key] if defaults.get(key) is not None and r.random() < share else r.choice(values)


def experts(r, family, layers, defaults):
    """Returns the keys of experts."""
    count = draw(r, defaults, "num_local_experts", [1, 2, 4, 5, 8, 9])
    found = dict(num_experts_per_tok=min(count, draw(r, defaults, "num_experts_per_tok", [1, 2, 3, 4], 0.3)))
    if family == "qwen3_moe":
        return found | dict(num_experts=count, norm_topk_prob=r.random() < 0.5, decoder_sparse_step=r.choice([1, 1, 2]),
                            moe_intermediate_size=draw(r, defaults, "moe_intermediate_size", [8, 20, 33, 64], 0.1 if count < 10 else 0),
                            mlp_only_layers=[i for i in range(layers) if r.random() < 0.25])
    return found | dict(num_local_experts=count) if family in ("mixtral", "gpt_oss") else {}


def biases(r, family):
    """Returns the keys of biases and of the activation."""
    keys = dict(llama=["attention_bias", "mlp_bias"], seed_oss=["attention_bias", "attention_out_bias", "mlp_bias"],
                qwen3=["attention_bias"], qwen3_moe=["attention_bias"], gpt_oss=["attention_bias"])
    found = {key: r.random() < 0.5 for key in keys.get(family, [])}
    if family in ("llama", "seed_oss"):
        found["hidden_act"] = r.choice(["silu", "silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh"])
    return found


def random_config(r, family, defaults):
    """Returns the keyword arguments of the family's config. `defaults` are those of its class."""
    kv = draw(r, defaults, "num_key_value_heads", [1, 1, 2, 3, 5, 8])
    heads = kv * (r.choice([1, 2, 3, 4, 7, 8]) if kv < 10 else 1)
    if r.random() < 0.15 and defaults["num_attention_heads"] % kv == 0:
        heads = defaults["num_attention_heads"]
    layers = draw(r, defaults, "num_hidden_layers", [1, 2, 3, 4], 0.02)
    head_dim = draw(r, defaults, "head_dim", [6, 8, 10, 16, 18, 24, 64, 128])
    if heads * head_dim > 640:
        head_dim = 16 if heads < 70 else 6
    # Llama's and Qwen2's heads follow from the hidden size.
    hidden = heads * head_dim if family in ("llama", "qwen2") else r.choice([17, 33, 40, 56, 88, 100, 130, 200, heads * head_dim])
    positions = draw(r, defaults, "max_position_embeddings", [64, 100, 131, 300])
    of_experts = experts(r, family, layers, defaults)
    ffn = draw(r, defaults, "intermediate_size", [16, 33, 56, 100, 129, 260], 0 if of_experts else 0.02)
    return dict(hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
                num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim, max_position_embeddings=positions,
                vocab_size=draw(r, defaults, "vocab_size", [37, 97, 128, 131, 257, 515], 0.02 if hidden < 64 else 0),
                rms_norm_eps=r.choice([1e-5, 1e-6, 3e-4, 0.013]),
                bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=r.random() < 0.4,
                rope_parameters=rope(r, family, positions)) | windows(r, family, layers) | of_experts | biases(r, family)


def coded_widths(r, family):
    """Returns the widths of a config whose matrices all formats of mkc quantize divide."""
    heads, kv, head_dim = r.choice([(2, 1, 64), (4, 2, 32), (8, 8, 16), (2, 2, 128), (8, 2, 32)])
    hidden = heads * head_dim if family in ("llama", "qwen2") else r.choice([128, 256])
    return dict(hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=kv, head_dim=head_dim,
                intermediate_size=r.choice([128, 256, 384])) | (dict(moe_intermediate_size=r.choice([128, 256])) if family == "qwen3_moe" else {})


def longest(config):
    """Returns the positions that a config's model is for. YaRN stretches its original context."""
    found = config["rope_parameters"]
    if found["rope_type"] != "yarn":
        return config["max_position_embeddings"]
    return max(config["max_position_embeddings"], int(found["factor"] * found["original_max_position_embeddings"]))


def spell_rope(r, config):
    """Spells RoPE as transformers 4 did (rope_theta and rope_scaling), or in a mixture of both ways."""
    found = config["rope_parameters"]
    form = r.choice(["new", "new", "old", "old", "theta outside", "theta within", "type"])
    if form in ("old", "type", "theta within"):
        del config["rope_parameters"]
        config["rope_scaling"] = None if set(found) == {"rope_type", "rope_theta"} and form != "theta within" else found
    if form in ("old", "type", "theta outside"):
        config["rope_theta"] = found.pop("rope_theta")
    if form == "type" and config["rope_scaling"]:
        found["type"] = found.pop("rope_type")
    if "original_max_position_embeddings" in found and r.random() < 0.2:
        config["original_max_position_embeddings"] = found.pop("original_max_position_embeddings")
    if config.get("original_max_position_embeddings", found.get("original_max_position_embeddings")) == config["max_position_embeddings"]:
        found.pop("original_max_position_embeddings", None)  # that is its default


def respell(r, path, defaults):
    """Rewrites a config.json as other tools and versions write the same config. `defaults` are those of its class."""
    config = json.loads(path.read_text())
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    spell_rope(r, config)
    if r.random() < 0.5:
        config["torch_dtype"] = config.pop("dtype")
    share = r.choice([0, 0.3, 1])  # of the keys that have the default, and are left out
    for key in [key for key, value in config.items() if key != "model_type" and key in defaults and value == defaults[key]]:
        if r.random() < share:
            del config[key]
    if r.random() < 0.2:
        del config["architectures"]
    if config.get("num_key_value_heads") == heads and config["model_type"] in ("llama", "seed_oss", "qwen2", "qwen3"):
        config["num_key_value_heads"] = None
    if config.get("head_dim", 0) * heads == hidden and r.random() < 0.3:
        if config["model_type"] in ("llama", "mistral", "mixtral", "seed_oss"):
            config["head_dim"] = None
        elif config["model_type"] in ("qwen2", "qwen3_moe"):
            del config["head_dim"]
    if r.random() < 0.2 and "num_local_experts" in config:
        config["num_experts"] = config.pop("num_local_experts")  # its other name
    for key, values in IDLE.items():
        if key not in config and r.random() < 0.2:
            config[key] = r.choice(values)
    path.write_text(json.dumps(config))
