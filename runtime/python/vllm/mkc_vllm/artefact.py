"""Compiles a checkpoint for the device, and opens it by libmkrt."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from .settings import Unsupported


def checkpoint_of(model):
    """Returns the folder of a vLLM ModelConfig's checkpoint, fetched from the hub if it is a name."""
    if Path(model.model).is_dir():
        return Path(model.model)
    from huggingface_hub import snapshot_download
    return Path(snapshot_download(model.model, revision=model.revision,
                                  allow_patterns=["*.json", "*.safetensors", "*.model", "*.jinja"]))


def command():
    """Returns the path of mkc: MKC_COMMAND, or the first on PATH."""
    found = os.environ.get("MKC_COMMAND") or shutil.which("mkc")
    if not found:
        raise Unsupported("mkc: found no mkc on PATH, expected one there or at MKC_COMMAND")
    return found


def compile(folder, output, target, rows, requests):
    """Compiles for steps of so many rows and requests. Raises Unsupported with mkc's reason."""
    arguments = [command(), "compile", str(folder), "-o", str(output), "--max-tokens", str(rows),
                 "--max-requests", str(requests), *(["--target", target] if target else [])]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise Unsupported(f"mkc cannot serve {folder}: {done.stderr.strip()}")


def open_session(device, folder, target, rows, requests):
    """Opens a session of the checkpoint on a device of mkrt."""
    with tempfile.TemporaryDirectory(prefix="mkc-vllm-") as made:
        artefact = Path(made) / ("model.so" if target else "model.cubin")
        compile(folder, artefact, target, rows, requests)
        return device.open(artefact, folder)
