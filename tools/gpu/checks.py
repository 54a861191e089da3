"""The checks of check.py: each is a function that raises where it fails, and returns what it found."""
import array
import ast
import contextlib
import json
import math
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE

from kit import CUBINS, HERE, Failed, Missing, lines, measuring_image, need, output, result_of, spread, started, traced
from machine import OTHER_BUNDLE, cuda, note_on_clock
from shapes import read_shape

TOLERANCE = 7.5e-2  # of a row's logits, bf16 weights: what transformers' own bf16 errs by on their worst row
CLEAR = 0.02  # a choice of greedy tokens closer than this may fall the other way in another order of sums
WIDE = {"wide": ("--max-tokens", "256", "--no-batch-invariant"),  # how tools/gpu/bundle compiles such bodies
        "wide-fp8": ("--max-tokens", "256", "--no-batch-invariant", "--activations", "fp8")}
TOOLKIT = "/usr/local/cuda/bin"
NO_ROOM = r"too many resources|LAUNCH_OUT_OF_RESOURCES|COOPERATIVE_LAUNCH_TOO_LARGE|does not fit a multiprocessor"  # of a launch
OPCODES = {"local_memory": r"LDL|STL", "bulk_copies": r"UBLKCP", "matrix": r"HMMA|HGMMA|QGMMA|IMMA",
           "wide_loads": r"LDG(?:\.\w+)*\.128", "loads": r"LDG", "spin_sleeps": r"NANOSLEEP"}


def expect(condition, message):
    if not condition:
        raise Failed(message)


def ids(tokens):
    return ",".join(map(str, tokens))


def read_npy(path):
    data = Path(path).read_bytes()
    size = 10 + int.from_bytes(data[8:10], "little")
    rows, cols = ast.literal_eval(data[10:size].decode())["shape"]
    values = array.array("f", data[size:])
    return [values[i * cols:(i + 1) * cols] for i in range(rows)]


def tool(name):
    """A program of the toolkit."""
    found = shutil.which(name) or shutil.which(f"{TOOLKIT}/{name}")
    if not found:
        raise Missing(f"{name} is not installed")
    return found


def loads(runner):
    """The driver takes every cubin, with the registers that the assembler counted; all workers can be resident. Where it
    takes none, later checks are skipped: their programs would make checkpoints first, and fail then."""
    cubins = sorted(CUBINS.glob("*.cubin"))
    rows = list(lines([sys.executable, HERE / "driver.py", *cubins], runner.seconds(30)))
    if rows and all("why" in row for row in rows):
        runner.useless = "the driver loads no cubin, as the check loads says"
        raise Failed(f"the driver supports CUDA {cuda(runner.driver_api)} and loads none of {len(rows)} cubins: "
                     f"{rows[0]['why']}; expected a newer driver, or {OTHER_BUNDLE}")
    wrong = []
    for row in rows:
        name = Path(row["cubin"]).stem
        compiled = HERE / "compiled" / f"{name}.json"
        row["cubin"], row["compiled_registers"], spilled = name, None, 0
        if compiled.exists():
            said = json.loads(compiled.read_text())
            row["compiled_registers"], spilled = said["registers"], said["spill_bytes"]
        if "why" in row:
            wrong.append(f"{name}: {row['why']}")
        elif row["resident"] < (row["workers"] if row["kernels"] == 1 else 1):
            wrong.append(f"{name}: {row['workers']} workers, {row['resident']} are resident at once")
        elif row["compiled_registers"] not in (None, row["registers"]) or (row["local_bytes"] and not spilled):
            wrong.append(f"{name}: {row['registers']} registers and {row['local_bytes']} bytes of local memory, compiled "
                         f"with {row['compiled_registers']}")
    expect(not wrong, "; ".join(wrong))
    return {"rows": rows}


def parted(found, wanted, margins, whose):
    """Where two greedy texts part, or None; Failed where the choice there was clear."""
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b), None)
    if at is None and len(found) == len(wanted):
        return None
    expect(at is not None and margins[at] < CLEAR, f"found {found}, expected {whose} {wanted}")
    return at


def stories(runner, cubin="tiny-stories", count=None, limit=None):
    """Greedy tokens are those that transformers chose, and the emulator: they part at close choices only. limit: tokens of
    each story."""
    folder = HERE / "models" / "tiny-stories"
    told = json.loads((folder / "greedy.json").read_text())[:count]
    answers = [json.loads(line) for line in (folder / "emulator.jsonl").read_text().splitlines()]
    emulated = [answer["new_ids"] for answer in sorted(answers, key=lambda answer: answer["line"])]
    places = {"transformers'": [], "the emulator's": []}
    for story, on_emulator in zip(told, emulated):
        got = runner.run("tiny-stories", "--prompt-ids", ids(story["prompt_ids"]), "--max-new-tokens",
                         str(len(story["new_ids"][:limit])), cubin=cubin)["new_ids"]
        for whose, wanted in zip(places, (story["new_ids"], on_emulator)):
            places[whose].append(parted(got, wanted[:limit], story["margins"], whose))
    return {"stories": len(told), "parts_from": places}


def fed(runner, name, *options, cubin=None):
    """Returns what transformers gave a random model's prompt in float64, the new tokens here, and the rows of their
    logits."""
    expected = json.loads((HERE / "models" / name / "expected.json").read_text())
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/logits.npy"
        got = runner.run(name, "--prompt-ids", ids(expected["prompt_ids"]), "--max-new-tokens",
                         str(len(expected["new_ids"])), "--logits-out", path, *options, cubin=cubin)["new_ids"]
        return expected, got, read_npy(path)


def kernels(runner, name):
    """A kernel for each grid gives the one kernel's bits."""
    _, tokens, rows = fed(runner, name)
    _, found, other = fed(runner, name, cubin=f"{name}-kernels")
    different = [n for n, (a, b) in enumerate(zip(rows, other)) if a.tobytes() != b.tobytes()]
    expect(found == tokens and not different and len(rows) == len(other),
           f"tokens {found}, expected {tokens}; rows with other bits: {different} of {len(rows)}")
    return {"rows": len(rows)}


def trace(runner, name):
    """A kernel that stamps what it does samples the same tokens, and no stamp is lost."""
    _, tokens, _ = fed(runner, name)
    path = runner.trace(name)
    _, found, _ = fed(runner, name, "--trace", str(path), cubin=f"{name}-traced")
    has = traced(path)
    expect(found == tokens and has["stamps"] > 0 and has["lost"] == 0, f"tokens {found}, expected {tokens}; {has}")
    return has


def family(runner, name):
    """Logits of a random model agree with transformers' in float64."""
    expected, got, rows = fed(runner, name)
    tolerance = expected.get("tolerance", TOLERANCE)
    same = next((i for i, (a, b) in enumerate(zip(got, expected["new_ids"])) if a != b), len(got))
    worst = 0.0
    for n, (row, wanted) in enumerate(list(zip(rows, expected["logits"]))[:len(expected["prompt_ids"]) + same]):
        error = math.sqrt(sum((a - b) ** 2 for a, b in zip(row, wanted)) / sum(b * b for b in wanted))
        if not error <= tolerance:
            raise Failed(f"row {n}: relative error {error:.2e}, expected at most {tolerance}; {blamed(runner, name)}")
        worst = max(worst, error)
    return {"worst_row": worst, "same_tokens": same, "of": len(got)}


def sessions(runner, cubin="tiny-stories", length=32, only=(), seconds=120):
    """Checks sessions through the library: every size of a step, ragged batches, several steps in a launch, sessions
    in turn and on two streams, a graph.

    length: of the prompt. only: the names of some checks.
    """
    try:
        need("numpy")
        without = {}
    except Missing as e:
        if only:
            raise
        only, without = ["turns,launches,streams,graph,fault"], {"without": f"sizes, ragged: {e}"}
    length = min(length, 72 if length > 64 else 12) if runner.rehearsal else length
    prompt = json.loads((HERE / "models" / "tiny-stories" / "greedy.json").read_text())[0]["prompt_ids"]
    prompt = (prompt * length)[:length]
    command = [sys.executable, HERE / "sessions.py", CUBINS / f"{cubin}.cubin",
               HERE / "models" / "tiny-stories"]
    few = ["--few"] if runner.rehearsal else []
    return {"rows": list(lines([*command, ids(prompt), *only, *few], runner.seconds(seconds))), **without}


def samples(runner):
    """Tokens sampled by temperature, filters and penalty are those that the host samples from the same logits."""
    got = runner.run("tiny-stories", "--prompt-ids", "0,359,336", "--max-new-tokens", "6" if runner.rehearsal else "100",
                     "--compare-samples")
    expect(got["different"] == 0, f"{got['different']} of {got['samples']} differ; the first, {got.get('number')} by parameters "
                                  f"{got.get('sampling')}: found {got.get('found')}, expected {got.get('expected')}")
    return {"samples": got["samples"]}


def repeats(runner, steps):
    """Checks that equal steps have equal results."""
    steps, context = (min(steps, 5), 40) if runner.rehearsal else (steps, 300)
    timed = runner.run("tiny-stories", "--steps", str(steps), "--contexts", str(context), "--hash-every", "1", "--warm-up",
                       str(min(steps, 10)), seconds=200)["timings"][0]
    expect(timed["different"] == 0, f"{timed['different']} of the hashes differ")
    return {"steps": steps, "hash": timed["hash"], "us": spread(timed["us"])}


def two_at_once(runner):
    """Two processes on one GPU get the tokens that each gets alone."""
    runner.two_processes()
    options = ("--prompt-ids", "0,359,336", "--max-new-tokens", "8" if runner.rehearsal else "64")
    alone = runner.run("tiny-stories", *options)["new_ids"]
    command = runner.command("tiny-stories", *options)
    with contextlib.ExitStack() as both:
        for process in [both.enter_context(started(command, stdout=PIPE, stderr=PIPE, text=True)) for _ in range(2)]:
            done = result_of(process, runner.seconds(30))
            expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr.strip()[-800:]}")
            expect(json.loads(done.stdout)["new_ids"] == alone, "other tokens than alone")
    return {}


def fault(runner):
    """A plan that loses notifications ends within its deadline, names who waited, and harms nobody after it."""
    begin = time.monotonic()
    message = runner.run("tiny-stories", "--prompt-ids", "0", "--timeout-ms", "500", "--unsafe-artefact",
                         cubin="tiny-stories-broken", seconds=30, code=1)
    for word in ("worker", "waited for event", "seen", "expected"):
        expect(word in message, f"the message lacks {word!r}: {message}")
    spent = time.monotonic() - begin
    stories(runner, count=1)
    return {"message": message.strip(), "seconds_to_fault": spent}


def sanitizer(runner, name):
    """compute-sanitizer finds nothing in a few steps of a tiny model."""
    command = [tool("compute-sanitizer"), "--tool", name, "--error-exitcode", "9",
               *runner.command("llama", "--prompt-ids", "5,17,3", "--max-new-tokens", "2", "--timeout-ms", "0")]
    done = output(command, runner.seconds(60))
    said = done.stdout + done.stderr
    if re.search(NO_ROOM, said, re.IGNORECASE):  # instrumented code needs more registers
        raise Missing(f"under {name} the kernel does not fit: {said.strip()[-300:]}")
    expect(done.returncode == 0, f"exit {done.returncode}: {said[-1500:]}")
    return {}


def reference(runner, model, script="reference.py", family=None, packages=("torch", "safetensors"), emulated=()):
    """Random weights and a random prompt: every row of logits beside those that another program computes, which is on the
    GPU, too. emulated: more options on the emulator."""
    need("numpy", *packages)
    if packages:
        runner.two_processes()
    folder = HERE / "shapes" / model
    folder = folder if folder.exists() else HERE / "models" / model
    more = [*(["--family", family] if family else []), *emulated] if runner.emulator else []
    program = runner.command(model, "--prompt-ids", "{prompt}", "--logits-out", "{logits}", *more, checkpoint="{checkpoint}")
    device = "cpu" if runner.rehearsal else "cuda"
    try:
        (row,) = lines([sys.executable, HERE / script, folder, "--device", device, "--", *program], runner.seconds(180))
    except Failed as e:
        raise Failed(f"{e}; {blamed(runner, model)}") from None
    return row


def layers(runner, model):
    """Every activation of a step is the plain PyTorch model's."""
    need("numpy", "torch", "safetensors")
    cubin = CUBINS / f"{model}-kept.cubin"
    if not cubin.exists():
        raise Missing(f"the bundle has no {cubin.name}")
    folder = HERE / "shapes" / model
    folder = folder if folder.exists() else HERE / "models" / model
    device = "cpu" if runner.rehearsal else "cuda"
    (row,) = lines([sys.executable, HERE / "layers.py", cubin, folder, "--device", device], runner.seconds(60))
    return row


def blamed(runner, model):
    """Returns the grid that is the first to be wrong, where that can be told."""
    if runner.emulator:
        return "which grid is wrong is told on a GPU"
    try:
        held = layers(runner, model)["tensors"]
    except (Failed, Missing) as e:
        return str(e)
    return f"where activations share no memory, all {held} are right: look at what reuses it too early"


def body(runner, name):
    """One operator behind attention, in float64: which rows and columns are wrong."""
    return reference(runner, f"body-{name}", "bodies.py", HERE / "bodies.yaml", packages=(), emulated=WIDE.get(name, ()))


def limits(runner):
    """The rate at which this GPU reads, which times are held against, and the clock that it ran at."""
    few = ["--few"] if runner.rehearsal else []
    found = {}
    for row in lines([sys.executable, HERE / "measure.py", measuring_image(), "--rate", *few], runner.seconds(60)):
        runner.ceiling = max(runner.ceiling, row.get("bytes_per_us", 0))
        if row.get("what") == "clock":
            note = note_on_clock(row["mhz"], row["of"])
            found = {"clock_mhz": row["mhz"], "largest_mhz": row["of"], **({"note": note} if note else {})}
    return {"bytes_per_us": runner.ceiling, **found}


def speed(runner, shape):
    """Microseconds of a step with random weights, beside the time that its bytes alone must take."""
    few = ["--steps", "2", "--warm-up", "1", "--tokens", "1,8", "--contexts", "32,64"]
    many = ["--steps", "100", "--tokens", "1,8,16", "--contexts", "128,1024,4096"]
    out = runner.run(shape, *(few if runner.rehearsal else many), seconds=120)
    timings = []
    for timed in out["timings"]:
        expect(timed["finite"] and timed["different"] == 0, f"logits are not finite, or differ: {timed['hash']}")
        row = {"context": timed["context"], "tokens": timed["tokens"], "us": spread(timed["us"])}
        if runner.ceiling:
            moved = read_shape(HERE / "shapes" / shape).step_bytes(row["context"], row["tokens"])
            row["fraction_of_ceiling"] = moved / runner.ceiling / row["us"]["median"]
        timings.append(row)
    return {"timings": timings}


def sass(model):
    """The machine code streams weights by bulk copies, multiplies on the matrix units and keeps nothing in local memory."""
    done = output([tool("nvdisasm"), "-c", CUBINS / f"{model}.cubin"], 60)
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr[-800:]}")
    text = done.stdout
    count = {what: len(re.findall(rf"\s(?:{opcode})\b", text)) for what, opcode in OPCODES.items()}
    for what, right in (("local_memory", count["local_memory"] == 0), ("bulk_copies", count["bulk_copies"] > 0),
                        ("matrix", count["matrix"] > 0)):
        expect(right, f"{what}: {count[what]} instructions")
    return count
