"""`vllm serve` of a checkpoint with mkc on the processor, for tests by the official client."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import openai

ROOT = Path(os.environ.get("MKC_SOURCE", Path(__file__).resolve().parents[3]))
TINY = ROOT / "models" / "tiny-stories"
NAME = "tiny"
START_S = 300
ENVIRONMENT = {"MKC_VLLM": "cpu", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_WORKER_MULTIPROC_METHOD": "fork"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """A server with these arguments; a with statement ends it. `log` has what it printed."""

    def __init__(self, *arguments, model=TINY, environment=()):
        self.port = free_port()
        self.log = tempfile.NamedTemporaryFile("w+", prefix="mkc-vllm-", suffix=".log")
        command = [Path(sys.executable).parent / "vllm", "serve", model, "--served-model-name", NAME, "--host", "127.0.0.1",
                   "--port", str(self.port), *arguments]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True,
                                        env={**os.environ, **ENVIRONMENT, **dict(environment)})

    def text(self):
        return Path(self.log.name).read_text(errors="replace")

    def wait(self):
        """Waits until the server answers. Raises RuntimeError with its last lines if it ends before."""
        for _ in range(START_S * 4):
            if self.process.poll() is not None:
                raise RuntimeError("vllm serve ended: " + self.text()[-3000:])
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
                return self
            except OSError:
                time.sleep(0.25)
        raise RuntimeError(f"vllm serve did not answer in {START_S} s: " + self.text()[-3000:])

    def client(self):
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0, timeout=300)

    def metric(self, name):
        """Returns the sum of a counter of /metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as page:
            lines = page.read().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name + "{"))

    def __enter__(self):
        return self.wait()

    def __exit__(self, *_):
        if self.process.poll() is not None:
            print("vllm serve has ended: " + self.text()[-6000:], flush=True)
            return
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=60)
        self.log.close()
