"""The servers that tools/bench/serve measures, with the same threads, places and model."""
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from common import ROOT

sys.path.insert(0, str(ROOT / "tests" / "unit" / "serve"))
from client import Server  # noqa: E402

PLACES, POSITIONS = 64, 512  # requests at once, and positions of each
START_S = 60
BUILD = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
         "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_WEBUI=OFF"]


def start_mkc(mkc, model, threads, *options):
    return Server([mkc, "serve", model, "--device", "cpu", "--threads", threads, "--port", 0, "--max-requests", PLACES,
                   "--max-tokens", 256, *options], "stderr")


class LlamaServer:
    """llama-server with a cache for each place. One cache for all made a step of 64 requests several times slower."""

    def __init__(self, program, model, threads):
        self.port = 18391
        command = [program, "-m", model, "-t", threads, "-tb", threads, "-np", PLACES, "-c", PLACES * POSITIONS, "--port", self.port,
                   "--no-ui", "-fit", "off", "-cram", 0, "--no-kv-unified", "--log-disable"]
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_S
        while not self.is_ready():
            if time.monotonic() > end or self.process.poll() is not None:
                self.end()
                raise SystemExit("serve: error: llama-server does not start")
            time.sleep(0.1)

    def is_ready(self):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def end(self):
        self.process.kill()
        self.process.wait(timeout=START_S)


def llama_version(program):
    done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=START_S, check=True)
    return (done.stdout + done.stderr).splitlines()[0]


def install(folder):
    """Builds llama-server for this processor from the sources in llama-cpp-python's sdist, and installs what writes its model."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=300)
    pip = folder / "bin" / "pip"
    subprocess.run([pip, "install", "gguf", "numpy"], check=True, timeout=1800)
    sources = folder / "sources"
    subprocess.run([pip, "download", "--no-deps", "--no-binary", "llama-cpp-python", "-d", sources, "llama-cpp-python"], check=True,
                   timeout=1800)
    archive = max(sources.glob("*.tar.gz"))
    subprocess.run(["tar", "xzf", archive, "-C", sources], check=True, timeout=300)
    source = sources / archive.name.removesuffix(".tar.gz") / "vendor" / "llama.cpp"
    subprocess.run(["cmake", "-S", source, "-B", folder / "build", *BUILD], check=True, timeout=600)
    subprocess.run(["ninja", "-C", folder / "build", "llama-server"], check=True, timeout=7200)


def threads_of(process):
    """Returns the processor seconds of each thread, by its id. The first thread has the process' id."""
    seconds = {}
    for thread in (Path("/proc") / str(process) / "task").iterdir():
        fields = (thread / "stat").read_text().rsplit(")", 1)[1].split()
        seconds[int(thread.name)] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds
