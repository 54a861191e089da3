"""The shapes of tools/bench/cpu: what a step must move and compute, and the files that systems read."""
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

from common import ROOT

BENCH = ROOT / "tools" / "bench"


@dataclasses.dataclass(frozen=True)
class Shape:
    """A model of random weights. `config` is a folder of tools/bench/configs, `options` those of random_checkpoint."""
    name: str
    config: str
    options: tuple = ()


SHAPES = [Shape("qwen3-0.6b", "qwen3-0.6b"), Shape("llama-3.2-1b", "llama-3.2-1b"),
          Shape("qwen3-moe-8x32", "qwen3-30b-a3b", ("--layers", "8", "--experts", "32"))]


class Sizes:
    """Counts of a config: elements of matrices, and bytes and multiply-adds of steps. Norms are left out."""

    def __init__(self, config):
        hidden, self.layers = config["hidden_size"], config["num_hidden_layers"]
        self.heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or hidden // self.heads
        self.kv_bytes = self.layers * 2 * kv * self.head_dim * 2  # of a position, in 16 bits
        self.attention = 2 * hidden * (self.heads + kv) * self.head_dim
        self.experts, self.active = config.get("num_experts", 1), config.get("num_experts_per_tok", 1)
        inner = config["moe_intermediate_size"] if "num_experts" in config else config["intermediate_size"]
        self.expert = 3 * hidden * inner
        self.router = hidden * config["num_experts"] if "num_experts" in config else 0
        self.head = hidden * config["vocab_size"]

    def step_bytes(self, batch, context, kind):
        """Bytes that a decode step of a Kind must read: weights once, and keys and values. Tokens choose experts at random:
        the number of experts that a batch needs is the expected one."""
        needed = self.experts * (1 - (1 - self.active / self.experts) ** batch) if self.router else 1
        elements = self.layers * (self.attention + self.router + needed * self.expert)
        return elements * kind.bytes + self.head * kind.head_bytes + batch * context * self.kv_bytes

    def prefill_madds(self, tokens):
        """Multiply-adds of a prompt, with logits of its last token only."""
        of_token = self.layers * (self.attention + self.router + self.active * self.expert)
        scores = self.layers * 2 * self.heads * self.head_dim * tokens * (tokens + 1) // 2
        return tokens * of_token + scores + self.head


def sizes_of(checkpoint):
    return Sizes(json.loads((checkpoint / "config.json").read_text()))


def make_checkpoint(shape, folder, timeout):
    """Returns the folder of the shape's checkpoint, which is kept for later runs."""
    out = folder / shape.name
    if not out.exists():
        partial = folder / f"{shape.name}.partial"
        subprocess.run([sys.executable, BENCH / "random_checkpoint", BENCH / "configs" / shape.config, partial,
                        *shape.options], check=True, timeout=timeout)
        partial.rename(out)
    return out


def make_quantized(checkpoint, coding, mkc, timeout):
    """Returns the folder of the checkpoint that mkc quantize writes, which is kept for later runs. Its head has the format,
    too, as those of llama.cpp's files have."""
    out = Path(f"{checkpoint}.{coding}-head")
    if not out.exists():
        subprocess.run([mkc, "quantize", checkpoint, "-o", out, "--format", coding, "--head"], check=True, timeout=timeout,
                       capture_output=True)
    return out


def make_gguf(checkpoint, kind, python, timeout):
    """Returns the file of the checkpoint's weights for llama.cpp, which is kept for later runs."""
    out = Path(f"{checkpoint}.{kind}.gguf")
    if not out.exists():
        subprocess.run([python, BENCH / "cpu_peers.py", "gguf", checkpoint, out, kind], check=True, timeout=timeout,
                       capture_output=True)
    return out
