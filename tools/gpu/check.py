#!/usr/bin/env python3
"""Says whether mkc is right on this GPU: run it in a folder made by tools/gpu/bundle.

Every check runs by itself with a deadline, and its result is kept in RESULT.json before the next begins; a failure stops
nothing. Needs Python 3.9 and the CUDA driver; uses torch, compute-sanitizer, nvdisasm and nvidia-smi where they are.
With --device emulator it rehearses on a machine without a GPU, through the compiler.
"""
import argparse
import json
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import checks
from kit import HERE, Missing, circumstances, write

BODIES = ["attention", "product", "norm", "gated"]
FAMILIES = ["llama", "qwen2", "qwen3", "mistral", "qwen3_moe"]
KERNELS = ["llama", "qwen3_moe"]  # of these the bundle has every grid as a kernel, too
TRACED = ["llama", "qwen3_moe"]  # and one that stamps what it does
KEPT = ["qwen3", "qwen3_moe"]  # every activation of these is looked at; of others once they are wrong
SHAPES = ["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b"]


class Runner:
    """Runs a model of the bundle: mkrun and its cubin, or the compiler and the emulator."""

    def __init__(self, arguments):
        self.emulator = arguments.device == "emulator"
        self.mkc = arguments.mkc
        self.ceiling = 0  # bytes per microsecond; 0: not measured
        self.deadline = time.monotonic() + 60 * arguments.minutes

    def seconds(self, most):
        """A program's deadline: what is left of the whole run's, at least a little."""
        return max(10, min(most, self.deadline - time.monotonic()))

    def command(self, model, *options, cubin=None, checkpoint=None):
        checkpoint = checkpoint or HERE / "models" / model
        cubin = cubin or model
        if self.emulator:
            mode = ["--mode", "kernels"] if cubin.endswith("-kernels") else []
            return [self.mkc, "run", checkpoint, "--device", "emulator", "--json", *mode, *options]
        weights = ["--checkpoint", checkpoint] if isinstance(checkpoint, str) or checkpoint.exists() else []
        return [HERE / "mkrun", HERE / "cubins" / f"{cubin}.cubin", *weights, *options]

    def run(self, model, *options, cubin=None, seconds=120, code=0):
        command = [str(c) for c in self.command(model, *options, cubin=cubin)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=self.seconds(seconds))
        checks.expect(done.returncode == code,
                      f"exit {done.returncode}, expected {code}: {done.stderr.strip()[-800:]}")
        if code != 0:
            return done.stderr
        result, *timings = map(json.loads, done.stdout.splitlines())
        return {**result, "timings": timings}


def all_checks(runner, arguments):
    """Name, function, whether the emulator can rehearse it; what says most comes first."""
    few = {"count": 1, "most": 24} if runner.emulator else {}
    yield "loads", partial(checks.loads, runner), False
    yield "stories", partial(checks.stories, runner, **few), True
    for name in BODIES:
        yield f"body {name}", partial(checks.body, runner, name), True
    for family in FAMILIES:
        yield f"logits {family}", partial(checks.family, runner, family), True
    for name in KEPT:
        yield f"layers {name}", partial(checks.layers, runner, name), False
    for family in KERNELS:
        yield f"kernels {family}", partial(checks.kernels, runner, family), True
    for family in TRACED:
        yield f"trace {family}", partial(checks.trace, runner, family), True
    yield "kernels stories", partial(checks.stories, runner, "tiny-stories-kernels", **few), True
    yield "sessions", partial(checks.sessions, runner), False
    yield "wide steps", partial(checks.sessions, runner, "tiny-stories-wide", 200, ["sizes,ragged"]), False
    yield "draws", partial(checks.draws, runner), False
    yield "repeats", partial(checks.repeats, runner, arguments.repeats), False
    yield "fault", partial(checks.fault, runner), False
    yield "two at once", partial(checks.two_at_once, runner), True
    for tool in ("memcheck", "racecheck", "synccheck"):
        yield f"sanitizer {tool}", partial(checks.sanitizer, runner, tool), False
    for model in ["tiny-stories", *SHAPES]:
        yield f"sass {model}", partial(checks.sass, model), True
    for model in ["qwen2", "qwen3", "qwen3_moe"]:
        yield f"reference {model}", partial(checks.reference, runner, model), True
    yield "limits", partial(checks.limits, runner), False
    for shape in SHAPES:
        yield f"reference {shape}", partial(checks.reference, runner, shape), False
        yield f"speed {shape}", partial(checks.speed, runner, shape), False


def run_one(check, runner, rehearsable):
    if runner.emulator and not rehearsable:
        return {"state": "not run on a GPU"}
    if time.monotonic() > runner.deadline:
        return {"state": "no time left"}
    try:
        return {"state": "passed", **check()}
    except Missing as e:
        return {"state": "skipped", "why": str(e)}
    except Exception as e:  # whatever it is, the next check still runs
        return {"state": "failed", "why": f"{type(e).__name__}: {e}"}


def passed_before(path, result):
    """The checks that passed in an earlier run, by name; of the same device and commit."""
    earlier = json.loads(path.read_text())
    for key in ("device", "commit"):
        if earlier[key] != result[key]:
            sys.exit(f"check: error: {path} is of {key} {earlier[key]}, not {result[key]}")
    return {entry["check"]: entry for entry in earlier["checks"] if entry["state"] == "passed"}


def show(entry):
    said = {k: v for k, v in entry.items() if k not in ("check", "timings", "rows", "state")}
    print(f"{entry['state']:>16}  {entry['check']}  {json.dumps(said)[:200]}", flush=True)
    for row in entry.get("timings", []):
        print(f"{'':18}context {row['context']}, {row['tokens']} tokens: {row['us']['median']:.1f} us"
              + (f", {100 * row['fraction_of_ceiling']:.1f}% of the ceiling" if "fraction_of_ceiling" in row else ""),
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulator"], default="cuda")
    parser.add_argument("--mkc", default="mkc", help="the compiler, for a rehearsal")
    parser.add_argument("--out", type=Path, default="gpu-check.json")
    parser.add_argument("--go-on", action="store_true", help="leave out what has passed in --out")
    parser.add_argument("--only", default="", help="run the checks whose names contain this")
    parser.add_argument("--repeats", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=8, help="begin no check after this")
    arguments = parser.parse_args()
    runner = Runner(arguments)
    result = {**circumstances(), "checks": []}
    if runner.emulator:
        result["device"] = "emulator"
    before = passed_before(arguments.out, result) if arguments.go_on and arguments.out.exists() else {}
    result["checks"].extend(before.values())
    for name, check, rehearsable in all_checks(runner, arguments):
        if name in before or arguments.only not in name:
            continue
        begin = time.monotonic()
        entry = {"check": name, **run_one(check, runner, rehearsable)}
        entry["seconds"] = round(time.monotonic() - begin, 2)
        result["checks"].append(entry)
        write(arguments.out, result)
        show(entry)
    return 1 if any(entry["state"] == "failed" for entry in result["checks"]) else 0


sys.exit(main())
