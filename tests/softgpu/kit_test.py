#!/usr/bin/env python3
"""Tests the GPU kit and batch files of mkc run on the software GPU.

kit: a small bundle of tools/gpu. Its check.py and bench.py run to their end, go on from results that they
left, and fail where they must.
ways: batch files by different numbers of workers.
Skipped (77) without an assembler for PTX.
"""
import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from software_gpu import ASSEMBLER, ROOT, environment, require_assembler

DEVICE = "software GPU sm_90"
STORIES = ROOT / "models/tiny-stories"


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


class Kit:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.env = environment(build)
        self.bundle = folder / "bundle"

    def do(self, *command, code=0, **more):
        """Returns the output of a program that must end with `code`."""
        done = subprocess.run(list(map(str, command)), cwd=self.bundle if self.bundle.exists() else None,
                              env={**self.env, **more}, capture_output=True, text=True, timeout=400)
        expect(done.returncode == code, f"{command}: exit {done.returncode}, expected {code}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def check(self, *options, code=0, out="results", **more):
        """Returns what check.py leaves, by the names of its checks."""
        self.do(sys.executable, "check.py", "--out", self.folder / out, *options, code=code, **more)
        result = json.loads((self.folder / out / "gpu-check.json").read_text())
        expect(result["device"] == DEVICE and result["rehearsal"] is True, f"results are of {result['device']}")
        return {entry["check"]: entry for entry in result["checks"]}

    def test_all(self):
        self.do(ROOT / "tools/gpu/bundle", self.bundle, self.build, "--small", "--assembler", ASSEMBLER, MKC_ASSEMBLER="")
        self.checks_pass()
        self.speeds_are_a_rehearsal()
        self.machines_are_explained()
        self.a_wrong_kernel_fails()
        self.sanitizers_end()
        self.all_ends_with_its_caller()

    def checks_pass(self):
        found = self.check()
        for name, entry in found.items():
            print(f"{entry['state']:>8}  {entry['seconds']:6.1f} s  {name}  {entry.get('why', '')}", flush=True)
            expect(entry["state"] == "passed" or (entry["state"] == "skipped" and "installed" in entry["why"]), entry)
        for name in ("loads", "first story", "kernels llama", "limits", "speed llama", "logits llama", "trace llama", "sessions",
                     "samples", "repeats", "fault", "two at once"):
            expect(found[name]["state"] == "passed", found[name])
        expect(found["fault"]["message"].count("waited for event") == 1, found["fault"])
        expect((self.folder / "results/gpu-trace-llama.json").exists(), "no trace beside the results")
        again = self.check("--go-on")
        ran_again = [name for name, entry in found.items() if entry["state"] == "passed" and again.get(name) != entry]
        expect(not ran_again, f"what had passed ran again: {ran_again}")

    def speeds_are_a_rehearsal(self):
        self.do(sys.executable, "bench.py", "--out", self.folder / "results")
        result = json.loads((self.folder / "results/gpu-bench.json").read_text())
        states = {name: part["state"] for name, part in result["parts"].items()}
        print(states, flush=True)
        expect(result["device"] == DEVICE and result["rehearsal"] is True, "results of another device")
        for name in ("limits", "mkc llama", "mkc kernels llama", "mkc launches llama", "trace llama"):
            expect(states[name] == "complete", (name, result["parts"][name]))
        expect(all(state in ("complete", "skipped") for state in states.values()), states)
        measured = {row["what"] for row in result["parts"]["limits"]["rows"] if "what" in row}
        expect(measured == {"continuous", "clock", "clock tick", "hop", "barrier", "launch, one after another", "burst"}, measured)
        render = (ROOT / "tools/bench/render").read_text()
        expect('"rehearsal"' in render, "a rehearsal could become a figure")

    def machines_are_explained(self):
        """Checks that no check begins where none could say anything, and that other findings are notes."""
        for script in ("check.py", "bench.py"):
            said = self.do(sys.executable, script, "--out", self.folder / "unusable", code=1, SOFTGPU_SAYS="cuInit=999")
            expect("error: cuInit gave CUDA_ERROR_UNKNOWN: often /dev/nvidia-uvm is missing" in said, said)
            said = self.do(sys.executable, script, "--out", self.folder / "unusable", code=1, SOFTGPU_CC="103")
            expect("is sm_103, and the cubins are for sm_90a" in said, said)
        expect(not list((self.folder / "unusable").iterdir()), "a script that could not begin left results")
        found = self.check(code=1, out="older", SOFTGPU_SAYS="driver=12080,cuModuleLoadData=200")
        expect("the driver supports CUDA 12.8 and loads none of" in found["loads"]["why"] and found["loads"]["state"] == "failed", found)
        expect(all(entry["state"] == "skipped" and entry["why"].startswith("the driver loads no cubin")
                   for name, entry in found.items() if name != "loads"), found)
        says = "driver=12080,compute_mode=3,free=200000000"
        said = self.do(sys.executable, "check.py", "--only", "two at once", "--out", self.folder / "notes", SOFTGPU_SAYS=says,
                       SOFTGPU_SMS="3")
        for part in ("the driver supports CUDA 12.8, and the cubins were assembled by CUDA 13: expected a driver of 13.0",
                     "compute mode is exclusive process", "190 MB of 4096 MB are free", "the GPU has 3 SMs, and the cubins have 4",
                     "1 checks, each with a limit of its own; none begins after 8 minutes", "skipped  two at once"):
            expect(part in said, (part, said))
        found = self.check("--only", "limits", out="clock", SOFTGPU_SAYS="clock_mhz=500")
        expect("the clock is 500 MHz, expected near 1000" in found["limits"]["note"], found)

    def a_wrong_kernel_fails(self):
        """Checks that a kernel whose lanes do not wait for each other fails."""
        self.do(self.build / "mkc", "compile", STORIES, "--emit", "ptx", "--target", "sm_90a", "--workers", "4", "-o",
                self.folder / "stories.ptx")
        text = (self.folder / "stories.ptx").read_text()
        (self.folder / "stories.ptx").write_text(re.sub(r"bar\.warp\.sync[^;]*;", "", text))
        found = self.check("--only", "first story", code=1, out="wrong", SOFTGPU_PTX=str(self.folder / "stories.ptx"),
                           SOFTGPU_RACES="1")
        expect(found["first story"]["state"] == "failed", found)

    def sanitizers_end(self):
        """Checks that a sanitizer without enough registers for its code is a skip, and one that finds
        something a failure."""
        fake = self.folder / "bin/compute-sanitizer"
        fake.parent.mkdir()
        for says, code, state in (("too many resources requested for launch", 0, "skipped"),
                                  ("error: the kernel does not fit a multiprocessor", 0, "skipped"), ("a race", 1, "failed")):
            fake.write_text(f"#!/bin/sh\necho ========= {says}\nexit 9\n")
            fake.chmod(0o755)
            found = self.check("--only", "sanitizer memcheck", code=code, out=state, PATH=f"{fake.parent}:{os.environ['PATH']}")
            expect(found["sanitizer memcheck"]["state"] == state and says in found["sanitizer memcheck"]["why"], found)

    def all_ends_with_its_caller(self):
        """Checks that everything ends with check.py: what it started, and what that started."""
        fake, mark = self.folder / "bin/compute-sanitizer", self.folder / "mark"
        fake.write_text(f"#!/bin/sh\nsleep 300 &\necho $! >{mark}.part\nmv {mark}.part {mark}\nwait\n")
        process = subprocess.Popen([sys.executable, "check.py", "--only", "sanitizer memcheck", "--out", self.folder / "ended"],
                                   cwd=self.bundle, env={**self.env, "PATH": f"{fake.parent}:{os.environ['PATH']}"})
        until = time.monotonic() + 60
        while not mark.exists() and time.monotonic() < until:
            time.sleep(0.05)
        child = int(mark.read_text())
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
        while Path(f"/proc/{child}").exists() and time.monotonic() < until:
            time.sleep(0.05)
        expect(not Path(f"/proc/{child}").exists(), "a grandchild is still there")


class Ways:
    """Batch files give the emulator's tokens by different numbers of workers."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder

    def requests(self, vocab, count):
        draw = random.Random(1)
        for n in range(count):
            prompt = [draw.randrange(1, vocab) for _ in range(draw.choice((1, 7, 20)))]
            request = {"prompt_ids": prompt, "max_new_tokens": draw.randint(1, 4), **({"temperature": 0.7, "seed": n} if n % 2 else {})}
            if n % 5 > 2:  # a greedy and a random request with biases, in many blocks of ids
                biases = {str(id): draw.choice((-100, 2.5)) for id in range(n, vocab, 11)}
                request.update(logit_bias=biases, presence_penalty=1, frequency_penalty=0.5, min_tokens=2, max_new_tokens=4)
            yield request

    def answers(self, model, file, device, workers, *options):
        command = [self.build / "mkc", "run", model, "--device", device, "--workers", workers, "--batch-file", file, *options]
        command += ["--target", "sm_90a"] if device == "cuda" else []
        done = subprocess.run(list(map(str, command)), env=environment(self.build, SOFTGPU_SMS="16") if device == "cuda" else None,
                              capture_output=True, text=True, timeout=400)
        expect(done.returncode == 0, f"{command}: exit {done.returncode}: {done.stderr}")
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        return [answer["new_ids"] for answer in sorted(answers, key=lambda answer: answer["line"])]

    def test_all(self):
        file = self.folder / "requests.jsonl"
        for model, counts in ((ROOT / "tests/fixtures/models/qwen3", (1, 7)), (STORIES, (5,))):
            vocab = json.loads((model / "config.json").read_text())["vocab_size"]
            file.write_text("".join(json.dumps(request) + "\n" for request in self.requests(vocab, 5)))
            wanted = self.answers(model, file, "emulator", 4)
            for workers in counts:
                begin = time.monotonic()
                found = self.answers(model, file, "cuda", workers)
                print(f"{model.name}, {workers} workers: {len(found)} requests, {time.monotonic() - begin:.1f} s", flush=True)
                expect(found == wanted, f"{model.name}, {workers} workers: {found}, the emulator's are {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("what", choices=["kit", "ways"])
    given = parser.parse_args()
    require_assembler()
    with tempfile.TemporaryDirectory() as folder:
        {"kit": Kit, "ways": Ways}[given.what](given.build.resolve(), Path(folder)).test_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
