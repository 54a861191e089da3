"""config.json says the shape of a model, from which the bytes follow that a step of it must read."""
import json
import math
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shape:
    family: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    eps: float
    rope: dict  # of transformers' rope_parameters
    window: int  # positions that a token sees; 0: all
    experts: int = 0  # of each layer but `dense`, `active` of them for a token, with `ffn` columns each
    active: int = 0
    weights_of_chosen: bool = True  # an expert's routing weight is among the chosen ones, not among all
    dense: tuple = ()  # layers without experts in a model of experts, with `dense_ffn` columns
    dense_ffn: int = 0

    @property
    def qkv_bias(self):
        return self.family == "qwen2"

    @property
    def qk_norm(self):
        return self.family in ("qwen3", "qwen3_moe")

    def weights(self, rows=1):
        """Returns the numbers that a step of `rows` tokens reads. They are all matrices but the embedding's rows, the
        norms, and as many experts as the tokens can be sent to."""
        query, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        ffn = self.layers * 3 * self.hidden * self.ffn
        if self.experts:
            routed = 3 * min(self.experts, rows * self.active) * self.ffn + self.experts
            ffn = self.hidden * ((self.layers - len(self.dense)) * routed + len(self.dense) * 3 * self.dense_ffn)
        layer = self.hidden * (2 * query + 2 * kv) + 2 * self.hidden
        layer += (query + 2 * kv) * self.qkv_bias + 2 * self.head_dim * self.qk_norm
        return self.layers * layer + ffn + self.hidden + self.vocab * self.hidden

    def step_bytes(self, context, tokens=1, batch=1, size=2):
        """Bytes that a step must move, of `batch` requests with `tokens` new ones each and `context` at its end."""
        seen = min(context, self.window + tokens - 1) if self.window else context
        cache = 2 * self.kv_heads * self.head_dim * self.layers * (seen + tokens) * batch
        return size * (self.weights(tokens * batch) + tokens * batch * self.hidden + cache)


def read_shape(folder):
    c = json.loads((Path(folder) / "config.json").read_text())
    family = c["model_type"]
    if family not in ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe"):
        raise ValueError(f"{folder}: model_type {family}, expected llama, mistral, qwen2, qwen3 or qwen3_moe")
    if "quantization_config" in c:
        raise ValueError(f"{folder}: quantized weights, expected weights of 16 bits, whose bytes are known")
    older = {"rope_theta": c.get("rope_theta", 10000.0), **(c.get("rope_scaling") or {})}
    rope = c.get("rope_parameters") or older
    windowed = family == "mistral" or c.get("use_sliding_window", False)
    heads, experts = c["num_attention_heads"], c.get("num_experts") or c.get("num_local_experts", 0)
    dense = [n for n in range(c["num_hidden_layers"] if experts else 0)
             if n in (c.get("mlp_only_layers") or ()) or (n + 1) % c.get("decoder_sparse_step", 1)]
    return Shape(family=family, hidden=c["hidden_size"], layers=c["num_hidden_layers"], heads=heads,
                 kv_heads=c["num_key_value_heads"], head_dim=c.get("head_dim") or c["hidden_size"] // heads,
                 ffn=c.get("moe_intermediate_size") or c["intermediate_size"], vocab=c["vocab_size"],
                 tied=c.get("tie_word_embeddings", False), eps=c["rms_norm_eps"], rope=rope,
                 window=(c.get("sliding_window") or 0) if windowed else 0, experts=experts, dense=tuple(dense),
                 dense_ffn=c["intermediate_size"], active=c.get("num_experts_per_tok", 0),
                 weights_of_chosen=c.get("norm_topk_prob", False))


def rope_frequencies(shape):
    """Radians per position of each pair of a head's dimensions."""
    rope, half = shape.rope, shape.head_dim // 2
    plain = [rope["rope_theta"] ** (-i / half) for i in range(half)]
    kind = rope.get("rope_type", "default")
    if kind == "default":
        return plain
    if kind != "llama3":
        raise ValueError(f"rope_type {kind}, expected default or llama3")
    low, high, trained = rope["low_freq_factor"], rope["high_freq_factor"], rope["original_max_position_embeddings"]
    scaled = []
    for f in plain:  # long waves slow down by `factor`, short ones stay, those between are mixed
        turns = trained * f / (2 * math.pi)
        stay = min(1, max(0, (turns - low) / (high - low)))
        scaled.append(f * (stay + (1 - stay) / rope["factor"]))
    return scaled
