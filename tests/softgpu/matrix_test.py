#!/usr/bin/env python3
"""Runs every test model on every target on the software GPU and compares it with the emulator.

The cases cover weights and caches of all types, and prompts of 1, 7, 33 and 200 tokens. They also cover
several steps a launch, sampling, kernels of grids, and traces. A case has one of each. Together each target
meets all of them, and so does each type of caches. Skipped (77) without an assembler for PTX.
"""
import argparse
import concurrent.futures
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from software_gpu import ROOT, distance, environment, require_assembler
from softgpu_test import rows_of_npy

sys.path.insert(0, str(ROOT / "tools" / "gpu"))
from fixture import halves  # noqa: E402

MODELS = sorted(path.name for path in (ROOT / "tests/fixtures/models").iterdir())
TARGETS = ["sm_80", "sm_89", "sm_90a", "sm_120"]
CACHES = ["bf16", "f16", "f32", "e4m3"]
PROMPTS = [1, 7, 33, 200]
WAYS = {"plain": [], "4 steps a launch": ["--steps-per-launch", "4"], "drawn": ["--temperature", "0.8", "--seed", "5"],
        "kernels": ["--mode=kernels"], "traced": ["--trace", "trace.json"]}
CONTEXT, NEW_TOKENS = 256, 5
TOLERANCE = 0.05  # distance of a logit; rounding to 8-bit caches amplifies another order of sums


def make_model(name, as_f16, folder):
    """Makes a copy of a test model whose context holds the longest prompt. Returns its vocabulary size."""
    source = ROOT / "tests/fixtures/models" / name
    config = json.loads((source / "config.json").read_text())
    config["max_position_embeddings"] = 2 * CONTEXT
    weights = (source / "model.safetensors").read_bytes()
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(halves(weights) if as_f16 else weights)
    return config["vocab_size"]


def cases():
    """Returns cases (model, as f16, target, type of caches, tokens of the prompt, way), and checks that
    all pairs are there."""
    found = []
    for m, model in enumerate(MODELS):
        for t, target in enumerate(TARGETS):
            as_f16 = not model.endswith("_f32") and (m + t) % 3 == 0
            found.append((model, as_f16, target, CACHES[(m + t) % 4], PROMPTS[(m // 4 + m + 2 * t) % 4],
                          list(WAYS)[(m + 3 * t) % 5]))
    for first, second, count in ((2, 3, 16), (2, 4, 16), (2, 5, 20), (3, 4, 16), (1, 3, 8), (1, 2, 8)):
        assert len({(case[first], case[second]) for case in found}) == count, (first, second)
    return found


def run(case, build, folder):
    """Returns what went wrong, or None."""
    model, as_f16, target, cache, length, way = case
    vocab = make_model(model, as_f16, folder / "model")
    prompt = ",".join(str((7 * i + 3) % vocab) for i in range(length))
    command = [build / "mkc", "run", "model", "--workers", "4", "--json", "--prompt-ids", prompt, "--context", str(CONTEXT),
               "--kv-dtype", cache, "--max-new-tokens", str(NEW_TOKENS), *WAYS[way]]
    logits = way not in ("4 steps a launch",)
    results = []
    for device in ("cuda", "emulator"):
        capability = target.removeprefix("sm_").removesuffix("a")
        env = environment(build, SOFTGPU_CC=capability, MKC_CACHE=str(folder / "cache"))
        options = ["--target", target] if device == "cuda" else []
        options += ["--logits-out", f"{device}.npy"] if logits else []
        done = subprocess.run([*command, "--device", device, *options], cwd=folder, env=env, capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return f"{device}: {done.stdout[-500:]}{done.stderr[-1500:]}"
        results.append(json.loads(done.stdout.splitlines()[-1]))
    if "software GPU" not in results[0]["device"]:
        return f"ran on {results[0]['device']}"
    if results[0]["new_ids"] != results[1]["new_ids"] or len(results[0]["new_ids"]) != NEW_TOKENS:
        return f"tokens {results[0]['new_ids']}, the emulator's are {results[1]['new_ids']}"
    if logits:
        rows = [rows_of_npy(folder / f"{device}.npy") for device in ("cuda", "emulator")]
        worst = distance(*rows)
        if len(rows[0]) != len(rows[1]) or not worst <= TOLERANCE:
            return f"{len(rows[0])} logits differ from the emulator's {len(rows[1])} by {worst}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--only", help="cases of which the words say so")
    parser.add_argument("--every", type=int, default=1, help="each so-manieth case alone")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    require_assembler()
    failures = 0
    with tempfile.TemporaryDirectory() as root, concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        def attempt(numbered):
            number, case = numbered
            folder = Path(root) / str(number)
            folder.mkdir()
            return run(case, given.build.resolve(), folder)
        chosen = [case for case in cases()[::given.every] if not given.only or given.only in repr(case)]
        for case, fault in zip(chosen, pool.map(attempt, enumerate(chosen))):
            print(f"{case}: {fault or 'passed'}", flush=True)
            failures += fault is not None
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
