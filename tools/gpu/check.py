#!/usr/bin/env python3
"""Says whether mkc is right on this GPU: run it in a folder made by tools/gpu/bundle.

Every check runs by itself with a deadline, and its result is kept in FOLDER/gpu-check.json before the next begins; a
failure stops nothing. Needs Python 3.9 and the CUDA driver; uses torch, compute-sanitizer, nvdisasm and nvidia-smi where
they are. On a software GPU (docs/softgpu.md) and with --device emulator it is a rehearsal: fewer steps, and figures that
mean nothing; the result says so.
"""
import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path

import checks
from kit import HERE, TRACE, Missing, circumstances, end_with_the_caller, output, write

HOLDS = json.loads((HERE / "holds.json").read_text())  # of what the bundle has cubins
LAYERS = ["qwen3", "qwen3_moe"]  # every activation of these is looked at; of others once they are wrong
REFERENCES = ["qwen2", "qwen3", "qwen3_moe"]
SHAPES = ["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b"]  # of the published ones; of a small bundle all
SLOWER = 10  # times as long as on a GPU may a rehearsal's programs take


class Runner:
    """Runs a model of the bundle: mkrun and its cubin, or the compiler and the emulator."""

    def __init__(self, arguments, rehearsal):
        self.emulator = arguments.device == "emulator"
        self.rehearsal = rehearsal
        self.mkc = arguments.mkc
        self.out = arguments.out
        self.ceiling = 0  # bytes per microsecond; 0: not measured
        self.deadline = time.monotonic() + 60 * arguments.minutes

    def seconds(self, limit):
        """A program's deadline: what is left of the whole run's, at least a little."""
        return max(10, min(limit * (SLOWER if self.rehearsal else 1), self.deadline - time.monotonic()))

    def trace(self, model):
        """The file of a trace."""
        return self.out / TRACE.format(model)

    def command(self, model, *options, cubin=None, checkpoint=None):
        checkpoint = checkpoint or HERE / "models" / model
        cubin = cubin or model
        if self.emulator:
            mode = ["--mode", "kernels"] if cubin.endswith("-kernels") else []
            return [self.mkc, "run", checkpoint, "--device", "emulator", "--json", *mode, *options]
        weights = ["--checkpoint", checkpoint] if isinstance(checkpoint, str) or checkpoint.exists() else []
        return [HERE / "mkrun", HERE / "cubins" / f"{cubin}.cubin", *weights, *options]

    def run(self, model, *options, cubin=None, seconds=30, code=0):
        done = output(self.command(model, *options, cubin=cubin), self.seconds(seconds))
        checks.expect(done.returncode == code,
                      f"exit {done.returncode}, expected {code}: {done.stderr.strip()[-800:]}")
        if code != 0:
            return done.stderr
        result, *timings = map(json.loads, done.stdout.splitlines())
        return {**result, "timings": timings}


def all_checks(runner, arguments):
    """Yields for each check its name, its function, and whether the emulator can rehearse it.

    The checks that say most come first, then those that take long, then those that may not come back. A kernel hangs
    where a barrier's count is wrong, and under a sanitizer for reasons of its own.
    """
    shapes = [name for name in SHAPES if name in HOLDS["shapes"]] or HOLDS["shapes"]
    few = {"count": 1, "limit": 12 if not runner.emulator else 24} if runner.rehearsal else {}
    yield "loads", partial(checks.loads, runner), False
    yield "first story", partial(checks.stories, runner, count=1, limit=12), True
    yield "wide steps", partial(checks.sessions, runner, "tiny-stories-wide", 200, ["sizes,ragged"], seconds=30), False
    for name in HOLDS["bodies"]:
        yield f"body {name}", partial(checks.body, runner, name), True
    for name in HOLDS["kernels"]:
        yield f"kernels {name}", partial(checks.kernels, runner, name), True
    yield "limits", partial(checks.limits, runner), False
    for shape in shapes[:1]:
        yield f"speed {shape}", partial(checks.speed, runner, shape), False
    yield "stories", partial(checks.stories, runner, **few), True
    for name in HOLDS["families"]:
        yield f"logits {name}", partial(checks.family, runner, name), True
    for name in filter(HOLDS["families"].__contains__, LAYERS):
        yield f"layers {name}", partial(checks.layers, runner, name), False
    for name in HOLDS["traced"]:
        yield f"trace {name}", partial(checks.trace, runner, name), True
    if not HOLDS["small"]:
        yield "kernels stories", partial(checks.stories, runner, "tiny-stories-kernels", **few), True
    yield "sessions", partial(checks.sessions, runner), False
    yield "samples", partial(checks.samples, runner), False
    yield "repeats", partial(checks.repeats, runner, arguments.repeats), False
    yield "fault", partial(checks.fault, runner), False
    yield "two at once", partial(checks.two_at_once, runner), True
    for model in ["tiny-stories", *shapes]:
        yield f"sass {model}", partial(checks.sass, model), True
    for model in filter(HOLDS["families"].__contains__, REFERENCES):
        yield f"reference {model}", partial(checks.reference, runner, model), True
    for shape in shapes:
        yield f"reference {shape}", partial(checks.reference, runner, shape), False
    for shape in shapes[1:]:
        yield f"speed {shape}", partial(checks.speed, runner, shape), False
    for tool in ("memcheck", "racecheck", "synccheck"):
        yield f"sanitizer {tool}", partial(checks.sanitizer, runner, tool), False


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
    parser.add_argument("--mkc", default="mkc", help="the compiler, for a rehearsal on the emulator")
    parser.add_argument("--out", type=Path, metavar="FOLDER", default="results", help="of gpu-check.json and of traces")
    parser.add_argument("--go-on", action="store_true", help="leave out what has passed in --out")
    parser.add_argument("--only", default="", help="run the checks whose names contain this")
    parser.add_argument("--repeats", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=8, help="begin no check after this")
    arguments = parser.parse_args()
    end_with_the_caller()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "gpu-check.json"
    result = {**circumstances(), "checks": []}
    if arguments.device == "emulator":
        result.update(device="emulator", rehearsal=True)
    runner = Runner(arguments, "rehearsal" in result)
    before = passed_before(path, result) if arguments.go_on and path.exists() else {}
    result["checks"].extend(before.values())
    for name, check, rehearsable in all_checks(runner, arguments):
        if name in before or arguments.only not in name:
            continue
        begin = time.monotonic()
        entry = {"check": name, **run_one(check, runner, rehearsable)}
        entry["seconds"] = round(time.monotonic() - begin, 2)
        result["checks"].append(entry)
        write(path, result)
        show(entry)
    return 1 if any(entry["state"] == "failed" for entry in result["checks"]) else 0


sys.exit(main())
