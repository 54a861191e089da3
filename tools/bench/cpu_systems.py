"""The systems that tools/bench/cpu measures. Each is a process of its own that answers requests (cpu_step.cc), and every
wait for one has a limit."""
import dataclasses
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time

from common import ROOT

PEERS = ROOT / "tools" / "bench" / "cpu_peers.py"


@dataclasses.dataclass(frozen=True)
class Kind:
    """The bytes of a weight that a system multiplies, in layers and in the head. `peer` is the kind of cpu_peers.py;
    others are mkc. `gguf` is the type of llama.cpp's weights, and `coding` the format of mkc quantize --head."""
    bytes: float = 2
    head_bytes: float = 2
    peer: str | None = None
    gguf: str | None = None
    coding: str | None = None
    prompts: bool = True


# The bytes of a weight: blocks of 32 with a scale of 2 bytes, and half a byte with a scale of 2 bytes for 64 columns in
# memory, whatever the checkpoint's groups are.
Q8_0, Q4_0, INT4_G128 = 34 / 32, 18 / 32, 17 / 32
KINDS = {"mkc": Kind(), "llama.cpp bf16": Kind(peer="llama", gguf="bf16"),
         "mkc fp8": Kind(1, 1, coding="fp8"), "llama.cpp q8_0": Kind(Q8_0, Q8_0, "llama", "q8_0"),
         "mkc int4": Kind(INT4_G128, INT4_G128, coding="int4-g128"), "llama.cpp q4_0": Kind(Q4_0, Q4_0, "llama", "q4_0"),
         "torch eager": Kind(peer="eager"), "torch.compile": Kind(peer="compile", prompts=False)}
NO_PROMPTS = "a prompt needs a graph of its own, which takes minutes to compile"
LOAD_S, BEGIN_S, RUN_S, COMPILE_S = 120, 60, 60, 180


class Missing(Exception):
    """Says why a figure is missing."""


class Clock:
    """The time that is left of the whole run."""

    def __init__(self, minutes):
        self.minutes, self.end = minutes, time.monotonic() + 60 * minutes

    def share(self, parts):
        """The clock of the next of so many parts that are left."""
        return Clock((self.end - time.monotonic()) / parts / 60)

    def limit(self, seconds):
        left = self.end - time.monotonic()
        if left <= 1:
            raise Missing(f"no time left of {self.minutes:.1f} minutes")
        return min(seconds, left)


class System:
    def __init__(self, name, command, clock, env=None):
        self.name, self.clock, self.waiting = name, clock, b""
        self.errors = tempfile.TemporaryFile()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        env={**os.environ, **(env or {})})
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.process.stdout, selectors.EVENT_READ)
        try:
            self.facts = self.answer(LOAD_S)
        except Missing:
            self.close()
            raise

    def answer(self, seconds):
        end = time.monotonic() + self.clock.limit(seconds)
        while b"\n" not in self.waiting:
            left = end - time.monotonic()
            if left <= 0 or not self.selector.select(left):
                self.close()
                raise Missing(f"no answer within {seconds:.0f} s, or the run's time was over")
            part = os.read(self.process.stdout.fileno(), 1 << 16)
            if not part:
                raise Missing(f"ended with {self.process.wait()}: {self.last_words()}")
            self.waiting += part
        line, self.waiting = self.waiting.split(b"\n", 1)
        return json.loads(line)

    def ask(self, *words, seconds):
        if self.process.poll() is not None:
            raise Missing(f"has ended: {self.last_words()}")
        self.clock.limit(seconds)
        try:
            self.process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its end is seen by answer()
        return self.answer(seconds).get("ms")

    def last_words(self):
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def install(folder):
    """Installs the peers from the Python index; llama.cpp is built for this processor, which takes minutes."""
    pip = folder / "bin" / "pip"
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
    env = {**os.environ, "CMAKE_ARGS": "-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF"}
    for packages in (["--no-binary", "llama-cpp-python", "llama-cpp-python"], ["torch", "transformers", "gguf", "numpy"]):
        subprocess.run([pip, "install", *packages], check=True, env=env, timeout=3600)


def versions(folder):
    """Versions of the peers; empty where none are installed."""
    python = folder / "bin" / "python"
    if not python.exists():
        return {}
    done = subprocess.run([python, PEERS, "versions"], check=True, capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def memory_available():
    with open("/proc/meminfo") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable"))
