"""Measures what 8-bit activations cost in accuracy: the loss of models/tiny-stories on held-out stories, on the emulator.

The weights are rounded to E4M3 with a scale for each row, as compressed-tensors stores them. Steps hold whole stories, so
that all their tokens have 8-bit activations. Quantize grids round them for warpgroups, or consumers do without warpgroups.
Usage: fp8_activations_test.py MKC ROOT [--stories N]
"""
import array
import bisect
import json
import math
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

MKC, ROOT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
STORIES = int(sys.argv[4]) if "--stories" in sys.argv else 6
TINY = ROOT / "models" / "tiny-stories"
sys.path.insert(0, str(ROOT / "tools" / "train_tiny"))
from corpus import held_out_stories  # noqa: E402

# Magnitudes of E4M3 by code (OCP 8-bit floating point specification).
MAGNITUDES = [math.ldexp(c % 8 + (8 if c >= 8 else 0), max(c // 8, 1) - 10) for c in range(127)]


def code_of(value):
    """Returns the nearest code; ties go to the even one."""
    magnitude = abs(value)
    above = min(bisect.bisect_left(MAGNITUDES, magnitude), 126)
    below = max(above - 1, 0)
    to_below, to_above = magnitude - MAGNITUDES[below], MAGNITUDES[above] - magnitude
    code = below if to_below < to_above or (to_below == to_above and below % 2 == 0) else above
    return code | (0x80 if value < 0 else 0)


def quantized(raw):
    """Returns a safetensors file whose matrices of layers are E4M3 with f32 scales of rows."""
    (length,) = struct.unpack_from("<Q", raw)
    header, data, out, body = json.loads(raw[8:8 + length]), raw[8 + length:], {}, bytearray()

    def add(name, dtype, shape, bytes_):
        out[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(bytes_)]}
        body.extend(bytes_)

    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        begin, end = tensor["data_offsets"]
        if not name.endswith("_proj.weight"):
            add(name, tensor["dtype"], tensor["shape"], data[begin:end])
            continue
        rows, cols = tensor["shape"]
        words = struct.unpack(f"<{rows * cols}H", data[begin:end])
        values = struct.unpack(f"<{rows * cols}f", struct.pack(f"<{rows * cols}I", *(word << 16 for word in words)))
        codes, scales = bytearray(), []
        for row in range(rows):
            of_row = values[row * cols:(row + 1) * cols]
            scale = struct.unpack("<f", struct.pack("<f", max(map(abs, of_row)) / 448 or 1))[0]
            scales.append(scale)
            codes.extend(code_of(v / scale) for v in of_row)
        add(name, "F8_E4M3", [rows, cols], bytes(codes))
        add(name + "_scale", "F32", [rows, 1], struct.pack(f"<{rows}f", *scales))
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(body)


def make_checkpoint(folder):
    for name in ("tokenizer.json", "generation_config.json"):
        shutil.copy(TINY / name, folder)
    config = json.loads((TINY / "config.json").read_text())
    floats = {"num_bits": 8, "type": "float", "symmetric": True}
    config["quantization_config"] = {
        "quant_method": "compressed-tensors", "format": "float-quantized", "ignore": ["lm_head"],
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {**floats, "strategy": "channel"},
                                      "input_activations": {**floats, "strategy": "token", "dynamic": True}}}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(quantized((TINY / "model.safetensors").read_bytes()))


def loss_of(folder, story, activations, *options):
    """Returns the sum of nats of a story's tokens from its second on, and how many these are."""
    done = subprocess.run([MKC, "run", folder, "--device", "emulator", "--prompt", story, "--json", "--max-tokens", "256",
                           "--context", "512", "--max-new-tokens", "1", "--logits-out", "logits.npy",
                           "--no-batch-invariant", "--activations", activations, *options],
                          cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    ids = json.loads(done.stdout.splitlines()[-1])["prompt_ids"]
    raw = (folder / "logits.npy").read_bytes()
    logits = array.array("f", raw[10 + struct.unpack_from("<H", raw, 8)[0]:])
    vocab = len(logits) // len(ids)
    nats = 0.0
    for at, wanted in enumerate(ids[1:]):
        row = logits[at * vocab:(at + 1) * vocab]
        top = max(row)
        nats += top + math.log(sum(math.exp(v - top) for v in row)) - row[wanted]
    return nats, len(ids) - 1


def main():
    stories = held_out_stories(STORIES)
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        make_checkpoint(folder)
        losses = {}
        for way, activations, *options in (("bf16", "bf16"), ("fp8 by quantize grids", "fp8"), ("fp8 by consumers", "fp8", "--without", "wgmma")):
            parts = [loss_of(folder, story, activations, *options) for story in stories]
            losses[way] = sum(nats for nats, _ in parts) / sum(tokens for _, tokens in parts)
            print(f"activations {way}: {losses[way]:.4f} nats a token, {len(stories)} stories of "
                  f"{sum(tokens for _, tokens in parts)} tokens")
    bf16 = losses.pop("bf16")
    assert 0.3 < bf16 < 0.8, "the held-out loss of the model is 0.56"
    for way, loss in losses.items():
        print(f"{way} costs {loss - bf16:+.4f} nats a token")
        assert loss != bf16, "the setting has no effect"
        assert abs(loss - bf16) < 0.02, "8-bit activations cost more than stated"
    assert len(set(losses.values())) == len(losses), "both ways are one"


main()
