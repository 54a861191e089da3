#!/usr/bin/env python3
"""Runs a checkpoint of fp8 with scales of blocks on the software GPU, in steps whose products go by warpgroups.

The checkpoint is a layer of random weights, of other sizes in each block, which mkc quantize rounds. Tokens after a
prompt of 100 tokens, which are one step, are compared with the emulator's. Activations are bf16, and then codes of 8-bit floats
that quantize grids leave. A kernel of 64 tokens multiplies these in two steps. Skipped (77) without an assembler for PTX.
"""
import argparse
import json
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from software_gpu import ROOT, environment, require_assembler

SIZES = {"hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
         "head_dim": 64, "max_position_embeddings": 256, "layer_types": ["full_attention"]}
BLOCK, TOKENS, NEW_TOKENS = 128, 100, 8
QUARTER = bytes((b & 0x80) | max((b & 0x7F) - 1, 0) for b in range(256))  # the high bytes of bf16 numbers divided by 4

SHORT = [bytes((b & 0x80) | (b & 0x7F) * n // 8 for b in range(256)) for n in (8, 3, 5, 7)]  # low bytes with smaller mantissas


def spread_blocks(path):
    """Gives each block of 128 rows and 128 columns another greatest weight. Some blocks are divided by 4."""
    raw = bytearray(path.read_bytes())
    (length,) = struct.unpack_from("<Q", raw)
    for name, tensor in json.loads(raw[8:8 + length]).items():
        if not name.endswith("_proj.weight"):
            continue
        (rows, cols), begin = tensor["shape"], 8 + length + tensor["data_offsets"][0]
        for row in range(rows):
            for col in range(0, cols, BLOCK):
                block, at = row // BLOCK + col // BLOCK, begin + 2 * (row * cols + col)
                low = slice(at, at + 2 * min(BLOCK, cols - col), 2)
                high = slice(low.start + 1, low.stop + 1, 2)
                raw[low] = raw[low].translate(SHORT[block % len(SHORT)])
                if block % 3 == 0:
                    raw[high] = raw[high].translate(QUARTER)
    path.write_bytes(raw)


def make_checkpoint(mkc, folder):
    """Makes a checkpoint of fp8 in blocks and returns its folder and the size of its vocabulary."""
    config = json.loads((ROOT / "tests/fixtures/models/qwen3/config.json").read_text())
    config.update(SIZES)
    plain = folder / "config"
    plain.mkdir()
    (plain / "config.json").write_text(json.dumps(config))
    subprocess.run([sys.executable, ROOT / "tools/bench/random_checkpoint", plain, folder / "bf16"], check=True, timeout=120)
    spread_blocks(folder / "bf16/model.safetensors")
    subprocess.run([mkc, "quantize", folder / "bf16", "-o", folder / "fp8", "--format", "fp8-block"], check=True, stdout=subprocess.DEVNULL,
                   timeout=120)
    return folder / "fp8", config["vocab_size"]


def run(build, model, vocab, device, *options, **settings):
    """Returns what mkc run says as JSON, and its error output."""
    prompt = ",".join(str((7 * i + 3) % vocab) for i in range(TOKENS))
    command = [build / "mkc", "run", model, "--device", device, "--workers", "4", "--json", "--prompt-ids", prompt, "--context", "256",
               "--max-new-tokens", str(NEW_TOKENS), "--no-batch-invariant", *options]
    env = environment(build, gpu=device == "cuda", SOFTGPU_CC="90", **settings)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        raise AssertionError(f"{device}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def check(build, model, vocab, activations, max_tokens=128):
    """Returns how many matrix instructions of warpgroups the software GPU has executed."""
    options = ("--activations", activations, "--max-tokens", str(max_tokens))
    wanted, _ = run(build, model, vocab, "emulator", *options)
    found, said = run(build, model, vocab, "cuda", "--target", "sm_90a", *options, SOFTGPU_RACES="1", SOFTGPU_STATS="1")
    print(f"{found['device']}, activations {activations}, steps of {max_tokens}: tokens {found['new_ids']}\n{said}")
    if "software GPU" not in found["device"] or found["new_ids"] != wanted["new_ids"]:
        raise AssertionError(f"tokens {found['new_ids']} of {found['device']}, the emulator's are {wanted['new_ids']}")
    # The head has one row, so that products of warpgroups are those of weights of fp8.
    return int(re.search(r"(\d+) wgmma", said)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    build = parser.parse_args().build.resolve()
    require_assembler()
    with tempfile.TemporaryDirectory() as root:
        model, vocab = make_checkpoint(build / "mkc", Path(root))
        products = {activations: check(build, model, vocab, activations) for activations in ("bf16", "fp8")}
        in_two_steps = check(build, model, vocab, "fp8", 64)
    # An instruction takes 32 columns of codes, or 16 of bf16.
    if products["bf16"] == 0 or products["bf16"] != 2 * products["fp8"]:
        raise AssertionError(f"products by warpgroups: {products}, expected half as many with codes")
    # A pass of 128 tokens is two instructions, and one of 64 tokens is one.
    if in_two_steps != products["fp8"]:
        raise AssertionError(f"two steps of 64 tokens have {in_two_steps} instructions, expected {products['fp8']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
