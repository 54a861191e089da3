#!/usr/bin/env python3
"""Times mkc, the GPU's limits and mkc's peers: run it in a folder made by tools/gpu/bundle.

Each part is a program of its own with a deadline. Its rows are in FOLDER/gpu-bench.json before the next part begins.
A part that is complete there is not run again. A peer's part goes on from the rows that it has, so that several runs
make one whole.

These times are expected on an H100, and were not measured:
    the limits                                     half a minute
    mkc, its kernels, its longer launches          half a minute to a minute and a half each for a model
    a point of a peer                              20 to 40 seconds with torch.compile, a few without

The first run therefore has mkc beside its kernels for the dense models, and the second the rest of mkc. The next five
or six have the peers at the points that docs/performance.md shows. The grids of all batches and contexts come last,
at four minutes a part and run, and may be left out.

Needs Python 3.9 and the CUDA driver; the peers need torch, one of them transformers. On a software GPU
(docs/softgpu.md) and with --device emulator it is a rehearsal, whose figures mean nothing. The result says so.
"""
import argparse
import datetime
import json
import sys
import time
from functools import partial
from pathlib import Path

from kit import (CUBINS, HERE, TRACE, Failed, Missing, end_with_the_caller, lines, manifest, measuring_image, need, position_bytes,
                 spread, symbols, traced, write)
from machine import circumstances, introduce, note_on_clock
from shapes import read_shape

# The models that matter most come first, then the others of the bundle.
MODELS = ["qwen3-0.6b", "llama-3.2-1b", "qwen3-8b", "llama-3.1-8b", "qwen3-30b-a3b"]
PEERS = ["compile-flex", "eager", "compile-sdpa", "transformers"]
CONTEXTS = [1024, 128, 8192, 32768]
BATCH_CONTEXT = 1024
BATCHES = [1, 2, 4, 8, 16, 32, 64]
CHUNKS = [16, 64]
STEPS_PER_LAUNCH = 8
PROMPT_CONTEXT, PROMPT_CHUNKS = 1024, [64, 256]
TRACED_STEPS = 20
MANY = {"contexts": CONTEXTS, "batches": BATCHES, "steps": 200}
FEW = {"contexts": [64, 32], "batches": [1, 4], "steps": 2}  # of a rehearsal, where nothing else is asked for
PAGE = 16  # positions of a page of mkrun's cache
RESULT = "gpu-bench.json"
UNSUPPORTED = "not supported by this artefact"
TOO_LARGE = "does not fit this GPU"


class Bench:
    def __init__(self, arguments):
        self.a = arguments
        self.out = arguments.out / RESULT
        self.ceiling = None  # bytes per microsecond, measured in this run
        self.deadline = time.monotonic() + 60 * arguments.minutes
        self.result = {"benchmark": "gpu", **circumstances(), "parts": {}}
        if arguments.device == "emulator":
            self.result.update(device="rehearsal", rehearsal=True, notes=[])
            self.result.pop("unusable", None)
        self.rehearsal = "rehearsal" in self.result

    def shape(self, model):
        """The model's shape, or None where nobody here knows what its steps must read."""
        try:
            return read_shape(self.a.shapes / model)
        except ValueError:
            return None

    def measure(self, _):
        few = ["--few"] if self.rehearsal else []
        for row in lines([sys.executable, HERE / "measure.py", measuring_image(), *few], self.left(120)):
            if "device" in row:
                self.result["machine"] = row["device"]
            elif row["what"] == "continuous":
                self.ceiling = max(self.ceiling or 0, row["bytes_per_us"])
            elif row["what"] == "clock" and (note := note_on_clock(row["mhz"], row["of"])):
                row["note"] = note
            yield row

    def batches(self, model):
        """Those that mkc's artefact has."""
        cubin = CUBINS / f"{model}.cubin"
        limit = symbols(cubin).get("B", 1) if cubin.exists() else 1
        return [batch for batch in self.a.batches if batch <= limit]

    def positions(self, cubin):
        """Returns the positions of all requests' caches that fit beside the weights."""
        says = manifest(cubin)
        machine = self.result.get("machine", {"memory_bytes": 0, "free_bytes": 0})
        room = min(0.95 * machine["memory_bytes"], 0.97 * machine["free_bytes"])  # others may hold a part of the memory
        return int(room - says["weight_bytes"] - says["workspace_bytes"]) // position_bytes(says)

    def mkc(self, model, cubin, _, launch=1):
        """Steps of one request, of one token and of chunks, then of batches, by the runner; or launches of several steps,
        of one token each."""
        cubin = CUBINS / f"{cubin}.cubin"
        if not cubin.exists():
            yield {"state": "not in this bundle"}
            return
        has, batches, room = symbols(cubin), self.batches(model), self.positions(cubin)
        contexts = [c for c in self.a.contexts if c + launch - 1 <= has["kv_len"]]
        yield from ({"context": c, "state": UNSUPPORTED} for c in self.a.contexts if c not in contexts)
        yield from ({"batch": b, "state": UNSUPPORTED} for b in self.a.batches if b not in batches)
        yield from ({"batch": b, "context": c, "state": TOO_LARGE} for b in batches for c in contexts if b * c > room)
        chunks = [n for n in [1, *CHUNKS] if n <= has["T"] and n <= min(contexts)] if launch == 1 else [1]
        more = [b for b in batches if b > 1 and b * min(contexts) <= room]
        yield from self.runner(cubin, room, contexts, [1], chunks, self.a.steps, launch)
        if more:
            yield from self.runner(cubin, room, contexts, more, [1], max(1, self.a.steps // 4), launch)

    def runner(self, cubin, room, contexts, batches, tokens, steps, launch):
        each = -(-(max(contexts) + launch - 1) // PAGE) * PAGE
        limit = min(room, each * max(batches))
        for said in lines([HERE / "mkrun", cubin, "--steps", steps, "--contexts", joined(contexts), "--batch",
                           joined(batches), "--tokens", joined(tokens), "--cache-positions", limit, "--steps-per-launch",
                           launch, *self.warm_up()], self.left(240)):
            if "us" not in said:
                continue
            if not said["finite"] or said["different"]:
                raise Failed(f"batch {said['batch']}, context {said['context']}: logits are not finite, or differ: "
                             f"{said['hash']}")
            yield said

    def prompt(self, model, _):
        """Steps of a prompt's tokens, by a kernel whose warpgroups multiply those of more than 64."""
        cubin = CUBINS / f"{model}-prompt.cubin"
        has = symbols(cubin)
        yield from self.runner(cubin, self.positions(cubin), [min(PROMPT_CONTEXT, has["kv_len"])], [1],
                               [tokens for tokens in PROMPT_CHUNKS if tokens <= has["T"]], max(1, self.a.steps // 4), 1)

    def warm_up(self):
        return ["--warm-up", 1, "--hash-every", self.a.steps] if self.rehearsal else []

    def trace(self, model, _):
        """Steps of one token by a kernel that stamps what it does, and a file of the last one's stamps."""
        path = self.out.with_name(TRACE.format(model))
        steps = min(TRACED_STEPS, self.a.steps)
        for said in lines([HERE / "mkrun", CUBINS / f"{model}-traced.cubin", "--steps", steps, "--contexts",
                           self.a.contexts[0], "--trace", path, *self.warm_up()], self.left(120)):
            if "us" in said:
                yield said
        yield traced(path)

    def points(self, peer, rest):
        """Context, batch and tokens of a peer's steps: one request at every context, chunks and batches at one; the rest:
        batches at the others."""
        more = [batch for batch in self.a.batches if batch > 1]
        if rest:
            return [(context, batch, 1) for context in self.a.contexts if context != BATCH_CONTEXT for batch in more]
        chunks = [] if peer == "transformers" else CHUNKS
        return ([(context, 1, 1) for context in self.a.contexts] + [(BATCH_CONTEXT, 1, tokens) for tokens in chunks]
                + [(BATCH_CONTEXT, batch, 1) for batch in more])

    def peer(self, model, peer, kept, rest=False):
        """Yields the rows of a peer: those kept from earlier runs, then those that earlier runs have not."""
        yield from kept
        had = {(row["context"], row["batch"], row.get("tokens", 1)) for row in kept}
        points = self.points(peer, rest)
        wanted = ",".join("x".join(map(str, point)) for point in points if point not in had)
        if wanted and not self.shape(model):
            raise Missing(f"a plain model of {model} is not there")
        if wanted:
            need("torch", *(["transformers"] if peer == "transformers" else []))
            yield from lines([sys.executable, HERE / "peers.py", peer, self.a.shapes / model, "--device",
                              "cpu" if self.rehearsal else "cuda", "--mode", self.a.mode, "--steps",
                              self.a.steps, "--checks", HERE / "models", "--points", wanted], self.left(240))

    def left(self, limit):
        return max(1, min(limit, self.deadline - time.monotonic()))

    def parts(self):
        """Name, model, what gives rows from those that an earlier run has timed; what matters most comes first."""
        yield "limits", None, self.measure
        for model in self.a.models:
            yield f"mkc {model}", model, partial(self.mkc, model, model)
            yield f"mkc kernels {model}", model, partial(self.mkc, model, model + "-kernels")
        for what, end, rows in (("mkc prompt", "prompt", self.prompt), ("trace", "traced", self.trace)):
            for model in self.a.models:
                if (CUBINS / f"{model}-{end}.cubin").exists():
                    yield f"{what} {model}", model, partial(rows, model)
        for model in self.a.models:
            yield f"mkc launches {model}", model, partial(self.mkc, model, model, launch=STEPS_PER_LAUNCH)
        for peer in self.a.peers:
            for model in self.a.models:
                yield f"{peer} {model}", model, partial(self.peer, model, peer)
        for peer in self.a.peers:
            for model in self.a.models:
                yield f"{peer} grid {model}", model, partial(self.peer, model, peer, rest=True)

    def finished(self, row, model):
        """A row with its spread, the bytes it must move and how near the ceiling that is."""
        if not isinstance(row.get("us"), list):
            return row
        row["raw_us"], row["us"] = [round(us, 2) for us in row["us"]], spread(row["us"])
        tokens, batch = row.get("tokens", 1), row.get("batch", 1)
        shape = self.shape(model)
        if shape:
            row["bytes"] = shape.step_bytes(row["context"], tokens, batch)
        if shape and self.ceiling:
            row["ceiling_bytes_per_us"] = self.ceiling
            row["fraction_of_ceiling"] = row["bytes"] / self.ceiling / row["us"]["median"]
        return row

    def run_part(self, name, model, rows, kept):
        began = time.monotonic()
        part = self.result["parts"][name] = {"state": "running", "date": datetime.date.today().isoformat(), "rows": []}
        try:
            for row in rows([row for row in kept if "us" in row or "state" in row]):
                part["rows"].append(self.finished(row, model))
                write(self.out, self.result)
                show(name, row)
            part["state"] = "complete"
        except Missing as e:
            part.update(state="skipped", why=str(e))
        except Exception as e:  # whatever it is, the next part still runs
            part.update(state="failed", why=f"{type(e).__name__}: {e}")
        part["seconds"] = round(time.monotonic() - began, 1)
        write(self.out, self.result)
        print(f"{part['state']:>10}  {name}  {part['seconds']} s  {part.get('why', '')}", flush=True)

    def plan(self, earlier):
        """Says what a run will take: its parts in order, as far as time lets them begin."""
        left = [name for name, *_ in self.parts()
                if name != "limits" and self.a.only in name and earlier.get(name, {}).get("state") != "complete"]
        return (f"at most {self.a.minutes:g} minutes: limits (120 s at most), then {len(left)} parts (240 s each at most), the "
                f"first of them {', '.join(left[:4])}. Results are kept in {self.out} as they come")

    def run(self, earlier):
        self.result["parts"].update(earlier)  # a run that is cut off loses nothing
        for name, model, rows in self.parts():
            kept = earlier.get(name, {})
            if name != "limits" and (kept.get("state") == "complete" or self.a.only not in name):
                continue
            if self.deadline - time.monotonic() < 15:
                self.result["parts"].setdefault(name, {"state": "no time left", "rows": []})
            else:
                self.run_part(name, model, rows, kept.get("rows", []))
        write(self.out, self.result)
        return all(part["state"] in ("complete", "skipped") for part in self.result["parts"].values())


def show(name, row):
    if "fraction_of_ceiling" in row:
        print(f"            {name}: context {row['context']}, batch {row.get('batch', 1)}, tokens {row.get('tokens', 1)}: "
              f"{row['us']['median']:.1f} us, {100 * row['fraction_of_ceiling']:.1f}% of the ceiling", flush=True)
    elif "bytes_per_us" in row:
        print(f"            {row['what']}, {row['by']}, {row['bytes'] >> 20} MB: {row['bytes_per_us'] / 1e6:.3f} TB/s",
              flush=True)
    elif "note" in row:
        print(f"            note: {row['note']}", flush=True)


def joined(values):
    return ",".join(map(str, values))


def numbers(text):
    return [int(n) for n in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, metavar="FOLDER", default="results",
                        help="of gpu-bench.json, which is gone on from, and of traces")
    parser.add_argument("--minutes", type=float, default=9, help="of all parts together")
    parser.add_argument("--only", default="", help="run the parts whose names contain this, and the limits")
    parser.add_argument("--models", type=lambda text: text.split(","), help="default: those of the bundle")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=PEERS)
    parser.add_argument("--contexts", type=numbers)
    parser.add_argument("--batches", type=numbers)
    parser.add_argument("--steps", type=int, help="samples of each figure; default: 200")
    parser.add_argument("--mode", choices=["reduce-overhead", "max-autotune"], default="reduce-overhead",
                        help="of torch.compile")
    parser.add_argument("--shapes", type=Path, default=HERE / "shapes", help="folder of the models' config.json")
    parser.add_argument("--device", choices=["cuda", "emulator"], default="cuda",
                        help="emulator: a rehearsal, the peers on the processor; its figures mean nothing")
    arguments = parser.parse_args()
    end_with_the_caller()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / RESULT
    try:
        earlier = json.loads(path.read_text()) if path.exists() else {"parts": {}}
    except ValueError as e:
        parser.error(f"{path} is no result to go on from: {e}")
    if not arguments.shapes.is_dir():
        parser.error(f"--shapes {arguments.shapes}: no such folder")
    if arguments.models is None:
        has = [path.name for path in sorted(arguments.shapes.iterdir()) if not path.name.startswith("body-")]
        arguments.models = [name for name in MODELS if name in has] + [name for name in has if name not in MODELS]
    bench = Bench(arguments)
    for key, value in (FEW if bench.rehearsal else MANY).items():
        if getattr(arguments, key) is None:
            setattr(arguments, key, value)
    if "unusable" in bench.result:
        print(f"bench: error: {bench.result['unusable']}")
        return 1
    for key in ("device", "commit"):
        if earlier.get(key, bench.result[key]) != bench.result[key]:
            parser.error(f"{path} is of {key} {earlier[key]}, not {bench.result[key]}")
    introduce(bench.result, bench.plan(earlier["parts"]))
    return 0 if bench.run(earlier["parts"]) else 1


if __name__ == "__main__":
    sys.exit(main())
