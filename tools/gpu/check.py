#!/usr/bin/env python3
"""Says whether mkc is right on this GPU, and how fast: run it in a folder made by tools/gpu/bundle.

Every check runs by itself with a deadline, and its result is kept in RESULT.json before the next begins. Needs Python
3.9 and the CUDA driver; uses torch, compute-sanitizer and nvidia-smi where they are.
With --device emulator it rehearses on a machine without a GPU, through the compiler.
"""
import argparse
import array
import ast
import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kit import HERE, Failed, circumstances, lines, spread, write
from shapes import read_shape

FAMILIES = ["llama", "qwen2", "qwen3", "mistral"]
SHAPES = ["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b"]
TOLERANCE = 4e-2  # of a row's logits, bf16 weights: about what the end-to-end tests allow these models


def expect(condition, message):
    if not condition:
        raise Failed(message)


class Runner:
    """Runs a model of the bundle: mkrun and its cubin, or the compiler and the emulator."""

    def __init__(self, arguments):
        self.emulator = arguments.device == "emulator"
        self.mkc = arguments.mkc
        self.ceiling = 0  # bytes per microsecond; 0: not measured

    def command(self, model, *options, cubin=None):
        checkpoint = HERE / "models" / model
        if self.emulator:
            return [self.mkc, "run", checkpoint, "--device", "emulator", "--json", *options]
        weights = ["--checkpoint", checkpoint] if checkpoint.exists() else []
        return [HERE / "mkrun", HERE / "cubins" / f"{cubin or model}.cubin", *weights, *options]

    def run(self, model, *options, cubin=None, seconds=120, code=0):
        command = [str(c) for c in self.command(model, *options, cubin=cubin)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
        expect(done.returncode == code, f"exit {done.returncode}, expected {code}: {done.stderr.strip()[-800:]}")
        return json.loads(done.stdout) if code == 0 else done.stderr


def ids(tokens):
    return ",".join(map(str, tokens))


def read_npy(path):
    data = Path(path).read_bytes()
    size = 10 + int.from_bytes(data[8:10], "little")
    rows, cols = ast.literal_eval(data[10:size].decode())["shape"]
    values = array.array("f", data[size:])
    return [values[i * cols:(i + 1) * cols] for i in range(rows)]


def check_stories(runner, cubin="tiny-stories", stories=None):
    """Greedy tokens are those that transformers chose, where its choice was clear."""
    told = json.loads((HERE / "models" / "tiny-stories" / "greedy.json").read_text())
    for story in told[:stories]:
        # A choice closer than this may fall the other way in another order of sums.
        clear = next((i for i, m in enumerate(story["margins"]) if m < 0.02), len(story["new_ids"]))
        wanted = story["new_ids"][:clear] or story["new_ids"][:1]
        got = runner.run("tiny-stories", "--prompt-ids", ids(story["prompt_ids"]), "--max-new-tokens",
                         str(len(wanted)), cubin=cubin)["new_ids"]
        expect(got == wanted, f"{story['prompt']!r}: found {got}, expected {wanted}")
    return {"stories": len(told[:stories])}


def check_family(runner, family):
    """Logits of a random model agree with transformers' in float64."""
    expected = json.loads((HERE / "models" / family / "expected.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/logits.npy"
        got = runner.run(family, "--prompt-ids", ids(expected["prompt_ids"]), "--max-new-tokens",
                         str(len(expected["new_ids"])), "--logits-out", path)["new_ids"]
        rows = read_npy(path)
    same = next((i for i, (a, b) in enumerate(zip(got, expected["new_ids"])) if a != b), len(got))
    worst = 0.0
    for row, wanted in list(zip(rows, expected["logits"]))[:len(expected["prompt_ids"]) + same]:
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(row, wanted)) / sum(b * b for b in wanted))
        expect(error <= TOLERANCE, f"row {len(rows)}: relative error {error:.2e}, expected at most {TOLERANCE}")
        worst = max(worst, error)
    return {"worst_row": worst, "same_tokens": same, "of": len(got)}


def check_repeats(runner, steps):
    """The same step again and again has one result."""
    timed = runner.run("tiny-stories", "--prompt-ids", "0", "--max-new-tokens", "1", "--steps", str(steps),
                       "--contexts", "300", seconds=200)["timings"][0]
    expect(timed["different"] == 0, f"{timed['different']} of the hashes differ")
    return {"steps": steps, "hash": timed["hash"], "us": spread(timed["us"])}


def check_two_at_once(runner):
    """Two processes on one GPU get the tokens that each gets alone."""
    options = ("--prompt-ids", "0,359,336", "--max-new-tokens", "8" if runner.emulator else "64")
    alone = runner.run("tiny-stories", *options)["new_ids"]
    command = [str(c) for c in runner.command("tiny-stories", *options)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=120)
        expect(process.returncode == 0 and json.loads(out)["new_ids"] == alone, "other tokens than alone")
    return {}


def check_fault(runner):
    """A plan that loses notifications ends within its deadline, names who waited, and harms nobody after it."""
    begin = time.monotonic()
    message = runner.run("tiny-stories", "--prompt-ids", "0", "--timeout-ms", "500", cubin="tiny-stories-broken",
                         seconds=30, code=1)
    for word in ("worker", "waited for event", "seen", "expected"):
        expect(word in message, f"the message lacks {word!r}: {message}")
    spent = time.monotonic() - begin
    check_stories(runner, stories=1)
    return {"message": message.strip(), "seconds": spent}


def check_sanitizer(runner, tool):
    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    expect(Path(sanitizer).exists(), "compute-sanitizer is not installed")
    command = [sanitizer, "--tool", tool, "--error-exitcode", "9",
               *map(str, runner.command("tiny-stories", "--prompt-ids", "0,359,336", "--max-new-tokens", "2",
                                        "--timeout-ms", "0"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150)
    expect(done.returncode == 0, f"exit {done.returncode}: {(done.stdout + done.stderr)[-1500:]}")
    return {}


def check_limits(runner):
    """The rate at which this GPU reads, which times are held against."""
    for row in lines([sys.executable, HERE / "measure.py", HERE / "measure.ptx", "continuous"], 60):
        runner.ceiling = max(runner.ceiling, row.get("bytes_per_us", 0))
    return {"bytes_per_us": runner.ceiling}


def check_speed(runner, shape):
    """Microseconds of a step with random weights, beside the time that its bytes alone must take."""
    out = runner.run(shape, "--steps", "100", "--tokens", "1,8,16", "--contexts", "128,1024,4096", seconds=240)
    timings = []
    for timed in out["timings"]:
        expect(timed["finite"] and timed["different"] == 0, f"logits are not finite, or differ: {timed['hash']}")
        row = {"context": timed["context"], "tokens": timed["tokens"], "us": spread(timed["us"])}
        if runner.ceiling:
            moved = read_shape(HERE / "shapes" / shape).step_bytes(row["context"], row["tokens"])
            row["fraction_of_ceiling"] = moved / runner.ceiling / row["us"]["median"]
        timings.append(row)
    return {"timings": timings}


def checks(runner, arguments):
    """Name, function, whether it can be rehearsed on the emulator."""
    yield "stories", lambda: check_stories(runner, stories=2 if runner.emulator else None), True
    for family in FAMILIES:
        yield f"logits {family}", lambda family=family: check_family(runner, family), True
    yield "stories, wide steps", lambda: check_stories(runner, "tiny-stories-wide"), False
    yield "repeats", lambda: check_repeats(runner, arguments.repeats), False
    yield "two at once", lambda: check_two_at_once(runner), True
    yield "fault", lambda: check_fault(runner), False
    yield "limits", lambda: check_limits(runner), False
    for shape in SHAPES:
        yield f"speed {shape}", lambda shape=shape: check_speed(runner, shape), False
    for tool in ("memcheck", "racecheck", "synccheck"):
        yield f"sanitizer {tool}", lambda tool=tool: check_sanitizer(runner, tool), False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulator"], default="cuda")
    parser.add_argument("--mkc", default="mkc", help="the compiler, for a rehearsal")
    parser.add_argument("--out", default="gpu-check.json")
    parser.add_argument("--only", default="", help="run the checks whose names contain this")
    parser.add_argument("--repeats", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=8, help="begin no check after this")
    arguments = parser.parse_args()
    runner = Runner(arguments)
    result = {**circumstances(), "checks": []}
    if runner.emulator:
        result["device"] = "emulator"
    begin, failed = time.monotonic(), 0
    for name, check, rehearsable in checks(runner, arguments):
        if arguments.only not in name:
            continue
        entry = {"check": name}
        started = time.monotonic()
        if runner.emulator and not rehearsable:
            entry["state"] = "not run on a GPU"
        elif started - begin > 60 * arguments.minutes:
            entry["state"] = "no time left"
        else:
            try:
                entry.update(state="passed", **check())
            except Exception as e:  # whatever it is, the next check still runs
                entry.update(state="failed", why=f"{type(e).__name__}: {e}")
                failed += 1
        entry["seconds"] = round(time.monotonic() - started, 2)
        result["checks"].append(entry)
        write(arguments.out, result)
        shown = {k: v for k, v in entry.items() if k not in ("check", "timings", "state")}
        print(f"{entry['state']:>16}  {name}  {json.dumps(shown)[:200]}", flush=True)
        for row in entry.get("timings", []):
            print(f"{'':18}context {row['context']}, {row['tokens']} tokens: {row['us']['median']:.1f} us"
                  + (f", {100 * row['fraction_of_ceiling']:.1f}% of the ceiling" if "fraction_of_ceiling" in row else ""),
                  flush=True)
    return 1 if failed else 0


sys.exit(main())
