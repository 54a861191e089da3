"""A plain PyTorch model with a static cache, as one writes it for torch.compile."""
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from shapes import rope_frequencies


def rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def rotated(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Dense(nn.Module):
    def __init__(self, hidden, ffn):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)

    def named(self, at):
        yield at + "down_proj.weight", self.down.weight
        for name, part in zip(("gate", "up"), self.gate_up.weight.chunk(2)):
            yield f"{at}{name}_proj.weight", part


class Experts(nn.Module):
    """Gathers the weights of each token's experts: what few tokens need is read once, and shapes stay static."""

    def __init__(self, s):
        super().__init__()
        self.s = s
        self.router = nn.Linear(s.hidden, s.experts, bias=False)
        self.gate_up = nn.Parameter(torch.empty(s.experts, 2 * s.ffn, s.hidden))
        self.down = nn.Parameter(torch.empty(s.experts, s.hidden, s.ffn))

    def forward(self, x):
        batch, rows, hidden = x.shape
        x = x.view(-1, hidden)
        weight, chosen = self.router(x).float().softmax(-1).topk(self.s.active, -1)
        if self.s.weights_of_chosen:
            weight = weight / weight.sum(-1, keepdim=True)
        gate, up = torch.einsum("th,tkfh->tkf", x, self.gate_up[chosen]).chunk(2, -1)
        each = torch.einsum("tkf,tkhf->tkh", F.silu(gate) * up, self.down[chosen])
        return torch.einsum("tkh,tk->th", each, weight.to(x.dtype)).view(batch, rows, hidden)

    def named(self, at):
        yield at + "gate.weight", self.router.weight
        for e in range(self.s.experts):
            yield f"{at}experts.{e}.down_proj.weight", self.down[e]
            for name, part in zip(("gate", "up"), self.gate_up[e].chunk(2)):
                yield f"{at}experts.{e}.{name}_proj.weight", part


class Layer(nn.Module):
    def __init__(self, s, number, batch, capacity, attention):
        super().__init__()
        self.s, self.attention = s, attention
        self.query, self.kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        self.norm, self.ffn_norm = (nn.Parameter(torch.ones(s.hidden)) for _ in range(2))
        self.qkv = nn.Linear(s.hidden, self.query + 2 * self.kv, bias=s.qkv_bias)
        self.out = nn.Linear(self.query, s.hidden, bias=False)
        self.ffn = Experts(s) if s.experts and number not in s.dense else Dense(s.hidden, s.dense_ffn if s.experts else s.ffn)
        if s.qk_norm:
            self.q_norm, self.k_norm = (nn.Parameter(torch.ones(s.head_dim)) for _ in range(2))
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(batch, s.kv_heads, capacity, s.head_dim))

    def attend(self, q, positions, mask):
        s, (batch, _, rows, _) = self.s, q.shape
        if self.attention == "flex":  # has a kernel that splits the cache among the multiprocessors
            def causal(score, b, h, row, key):
                return torch.where(key <= positions[row] if s.window == 0 else
                                   (key <= positions[row]) & (key > positions[row] - s.window), score, -float("inf"))
            return flex_attention(q, self.keys, self.values, score_mod=causal, enable_gqa=True)
        # The heads of a group are more rows of one head: nothing is repeated.
        group = s.heads // s.kv_heads
        q = q.reshape(batch, s.kv_heads, group * rows, s.head_dim)
        o = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask.repeat(group, 1))
        return o.view(batch, s.heads, rows, s.head_dim)

    def forward(self, x, positions, cos, sin, mask):
        s, (batch, rows, _) = self.s, x.shape
        q, k, v = self.qkv(rms_norm(x, self.norm, s.eps)).split((self.query, self.kv, self.kv), -1)
        q, k, v = (t.view(batch, rows, -1, s.head_dim).transpose(1, 2) for t in (q, k, v))
        if s.qk_norm:
            q, k = rms_norm(q, self.q_norm, s.eps), rms_norm(k, self.k_norm, s.eps)
        self.keys[:, :, positions] = rotated(k, cos, sin)
        self.values[:, :, positions] = v
        o = self.attend(rotated(q, cos, sin), positions, mask)
        x = x + self.out(o.transpose(1, 2).reshape(batch, rows, self.query))
        return x + self.ffn(rms_norm(x, self.ffn_norm, s.eps))


class Model(nn.Module):
    """Logits of all rows from tokens [batch, rows] and positions [rows]; the cache holds `capacity` positions."""

    def __init__(self, shape, batch, capacity, attention="sdpa"):
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape, n, batch, capacity, attention) for n in range(shape.layers))
        self.norm = nn.Parameter(torch.ones(shape.hidden))
        self.head = nn.Linear(shape.hidden, shape.vocab, bias=False)
        if shape.tied:
            self.head.weight = self.embed.weight
        angles = torch.outer(torch.arange(capacity, dtype=torch.float64),
                             torch.tensor(rope_frequencies(shape), dtype=torch.float64))
        self.register_buffer("cos", angles.cos().to(self.norm.dtype))
        self.register_buffer("sin", angles.sin().to(self.norm.dtype))
        self.register_buffer("keys", torch.arange(capacity))

    def forward(self, tokens, positions):
        mask = self.keys <= positions[:, None]
        if self.shape.window:
            mask &= self.keys > positions[:, None] - self.shape.window
        x, cos, sin = self.embed(tokens), self.cos[positions], self.sin[positions]
        for layer in self.layers:
            x = layer(x, positions, cos, sin, mask)
        return self.head(rms_norm(x, self.norm, self.shape.eps))

    def next_token(self, tokens, positions):
        return self(tokens, positions)[:, -1].argmax(-1)


def new_model(shape, device, dtype, *sizes, attention="sdpa"):
    """With random weights and a random cache."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = Model(shape, *sizes, attention=attention)
    finally:
        torch.set_default_dtype(before)
    for layer in model.layers:
        layer.keys.normal_()
        layer.values.normal_()
    return model.requires_grad_(False).eval()


def named_weights(model):
    """Name in a checkpoint of the Hugging Face layout, and the part of the model's weights that it is."""
    s = model.shape
    query, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    yield "model.embed_tokens.weight", model.embed.weight
    yield "model.norm.weight", model.norm
    if not s.tied:
        yield "lm_head.weight", model.head.weight
    for n, layer in enumerate(model.layers):
        at = f"model.layers.{n}."
        yield at + "input_layernorm.weight", layer.norm
        yield at + "post_attention_layernorm.weight", layer.ffn_norm
        yield at + "self_attn.o_proj.weight", layer.out.weight
        yield from layer.ffn.named(at + "mlp.")
        for kind in ("weight", "bias") if s.qkv_bias else ("weight",):
            parts = getattr(layer.qkv, kind).split((query, kv, kv))
            yield from ((f"{at}self_attn.{x}_proj.{kind}", part) for x, part in zip("qkv", parts))
        if s.qk_norm:
            yield at + "self_attn.q_norm.weight", layer.q_norm
            yield at + "self_attn.k_norm.weight", layer.k_norm


def load_weights(model, folder):
    from safetensors import safe_open
    with safe_open(Path(folder) / "model.safetensors", "pt") as file:
        for name, weight in named_weights(model):
            weight.copy_(file.get_tensor(name))


def save_weights(model, folder):
    from safetensors.torch import save_file
    save_file({name: weight.cpu().contiguous() for name, weight in named_weights(model)},
              Path(folder) / "model.safetensors")


def randomise(model, seed):
    """Weights that tell right from wrong: logits of order one, norms and biases not at their defaults."""
    torch.manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.normal_(std=weight.shape[-1] ** -0.5)
        else:
            weight.normal_(std=0.1)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.add_(1)
