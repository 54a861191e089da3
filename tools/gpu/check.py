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
from kit import CUBINS, HERE, TRACE, Missing, end_with_the_caller, output, write
from machine import EXCLUSIVE, circumstances, introduce

HOLDS = json.loads((HERE / "holds.json").read_text())  # of what the bundle has cubins
LAYERS = ["qwen3", "qwen3_moe"]  # every activation of these is looked at; of others once they are wrong
REFERENCES = ["qwen2", "qwen3", "qwen3_moe"]
SHAPES = ["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b"]  # of the published ones; of a small bundle all
VARIANTS = {"-kernels": ["--mode", "kernels"], "-e4m3": ["--kv-dtype", "e4m3"]}  # options of mkc by the end of a cubin's name
SLOWER = 10  # times as long as on a GPU may a rehearsal's programs take


class Runner:
    """Runs a model of the bundle: mkrun and its cubin, or the compiler and the emulator."""

    def __init__(self, arguments, found):
        self.emulator = arguments.device == "emulator"
        self.rehearsal = "rehearsal" in found
        self.driver_api = found["driver_api"]
        self.useless = None  # why no further check can say anything
        self.mkc = arguments.mkc
        self.out = arguments.out
        self.ceiling = 0  # bytes per microsecond; 0: not measured
        self.deadline = self.until = time.monotonic() + 60 * arguments.minutes
        self.exclusive = found.get("compute_mode") == EXCLUSIVE

    def begin(self, limit):
        """Begins a check that may take `limit` seconds in all."""
        self.until = min(self.deadline, time.monotonic() + self.scaled(limit))

    def scaled(self, limit):
        return limit * (SLOWER if self.rehearsal else 1)

    def seconds(self, limit):
        """A program's deadline: what is left of its check's and of the whole run's, at least a little."""
        return max(10, min(self.scaled(limit), self.until - time.monotonic()))

    def two_processes(self):
        """Raises where a second process may not use the GPU."""
        if self.exclusive:
            raise Missing("compute mode is exclusive process, expected default")

    def trace(self, model):
        """The file of a trace."""
        return self.out / TRACE.format(model)

    def command(self, model, *options, cubin=None, checkpoint=None):
        checkpoint = checkpoint or HERE / "models" / model
        cubin = cubin or model
        if self.emulator:
            mode = next((options for end, options in VARIANTS.items() if cubin.endswith(end)), [])
            return [self.mkc, "run", checkpoint, "--device", "emulator", "--json", *mode, *options]
        weights = ["--checkpoint", checkpoint] if isinstance(checkpoint, str) or checkpoint.exists() else []
        return [HERE / "mkrun", CUBINS / f"{cubin}.cubin", *weights, *options]

    def run(self, model, *options, cubin=None, seconds=30, code=0):
        done = output(self.command(model, *options, cubin=cubin), self.seconds(seconds))
        checks.expect(done.returncode == code,
                      f"exit {done.returncode}, expected {code}: {done.stderr.strip()[-800:]}")
        if code != 0:
            return done.stderr
        result, *timings = map(json.loads, done.stdout.splitlines())
        return {**result, "timings": timings}


def all_checks(runner, arguments):
    """Yields for each check its name, its limit in seconds, its function, and whether the emulator can rehearse it.

    The checks that say most come first, up to the first speed. Then come those that take long, then those that may not
    come back. A kernel hangs where a barrier's count is wrong, and under a sanitizer for reasons of its own.
    """
    shapes = [name for name in SHAPES if name in HOLDS["shapes"]] or HOLDS["shapes"]
    few = {"count": 1, "limit": 12 if not runner.emulator else 24} if runner.rehearsal else {}
    yield "loads", 30, partial(checks.loads, runner), False
    yield "first story", 30, partial(checks.stories, runner, count=1, limit=12), True
    yield "wide steps", 30, partial(checks.sessions, runner, "tiny-stories-wide", 200, ["sizes,ragged"], seconds=30), False
    for name in HOLDS["bodies"]:
        yield f"body {name}", 30, partial(checks.body, runner, name), True
    for name in HOLDS["kernels"]:
        yield f"kernels {name}", 30, partial(checks.kernels, runner, name), True
    yield "limits", 60, partial(checks.limits, runner), False
    for shape in shapes[:1]:
        yield f"speed {shape}", 60, partial(checks.speed, runner, shape), False
    yield "stories", 60, partial(checks.stories, runner, **few), True
    for name in HOLDS["families"]:
        yield f"logits {name}", 90, partial(checks.family, runner, name), True
    for name in HOLDS["traced"]:
        yield f"trace {name}", 60, partial(checks.trace, runner, name), True
    if not HOLDS["small"]:
        yield "kernels stories", 60, partial(checks.stories, runner, "tiny-stories-kernels", **few), True
    yield "sessions", 120, partial(checks.sessions, runner), False
    yield "samples", 30, partial(checks.samples, runner), False
    yield "repeats", 60, partial(checks.repeats, runner, arguments.repeats), False
    yield "fault", 60, partial(checks.fault, runner), False
    yield "two at once", 60, partial(checks.two_at_once, runner), True
    for model in ["tiny-stories", *shapes]:
        yield f"sass {model}", 60, partial(checks.sass, model), True
    for shape in shapes[1:]:
        yield f"speed {shape}", 120, partial(checks.speed, runner, shape), False
    for name in filter(HOLDS["families"].__contains__, LAYERS):
        yield f"layers {name}", 60, partial(checks.layers, runner, name), False
    for model in filter(HOLDS["families"].__contains__, REFERENCES):
        yield f"reference {model}", 120, partial(checks.reference, runner, model), True
    for shape in shapes:
        yield f"reference {shape}", 180, partial(checks.reference, runner, shape), False
    for tool in ("memcheck", "racecheck", "synccheck"):
        yield f"sanitizer {tool}", 60, partial(checks.sanitizer, runner, tool), False


def plan_of(chosen, runner, minutes):
    """Says what a run will take, by the limits of its checks in order."""
    names = [name for name, *_ in chosen]
    first = next((n + 1 for n, name in enumerate(names) if name.startswith("speed ")), 0)
    early = (f"; the first {first}, up to {names[first - 1]}, end within {sum(runner.scaled(c[1]) for c in chosen[:first])} s"
             if first else "")
    return (f"{len(chosen)} checks, each with a limit of its own; none begins after {minutes:g} minutes{early}. Results are "
            f"kept in {runner.out} as they come")


def run_one(limit, check, runner, rehearsable):
    if runner.emulator and not rehearsable:
        return {"state": "not run on a GPU"}
    if time.monotonic() > runner.deadline:
        return {"state": "no time left"}
    if runner.useless:
        return {"state": "skipped", "why": runner.useless}
    runner.begin(limit)
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
    if "note" in entry:
        print(f"{'':18}note: {entry['note']}", flush=True)
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
        result.update(device="emulator", rehearsal=True, notes=[])
    elif "unusable" in result:
        print(f"check: error: {result['unusable']}")
        return 1
    runner = Runner(arguments, result)
    before = passed_before(path, result) if arguments.go_on and path.exists() else {}
    result["checks"].extend(before.values())
    chosen = [c for c in all_checks(runner, arguments) if c[0] not in before and arguments.only in c[0]]
    introduce(result, plan_of(chosen, runner, arguments.minutes))
    for name, limit, check, rehearsable in chosen:
        begin = time.monotonic()
        entry = {"check": name, **run_one(limit, check, runner, rehearsable)}
        entry["seconds"] = round(time.monotonic() - begin, 2)
        result["checks"].append(entry)
        write(path, result)
        show(entry)
    return 1 if any(entry["state"] == "failed" for entry in result["checks"]) else 0


sys.exit(main())
