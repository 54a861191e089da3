"""mkc as the device of vLLM: forward and sampling of a step in one launch, on vLLM's own paged cache.

vLLM finds the package by the entry point `vllm.platform_plugins`, and keeps its server, scheduler and prefix cache.
MKC_VLLM chooses the device: "cpu", "emulator", "cuda", or "0" for none. The default is a GPU if there is one, else the
processor.
docs/integrations.md says what is supported.
"""
import os
from pathlib import Path

PLATFORMS = {"cpu": "mkc_vllm.processor.ProcessorPlatform", "emulator": "mkc_vllm.processor.ProcessorPlatform",
             "cuda": "mkc_vllm.cuda.CudaPlatform"}


def device():
    """Returns the name of the device that models are loaded onto, or "" where mkc stays out.

    Another name ends the process, because vLLM goes on after an exception."""
    wanted = os.environ.get("MKC_VLLM", "")
    if wanted == "0":
        return ""
    if wanted not in ("", *PLATFORMS):
        raise SystemExit(f"MKC_VLLM: found {wanted!r}, expected cpu, emulator, cuda or 0")
    return wanted or ("cuda" if Path("/proc/driver/nvidia/version").exists() else "cpu")


def checkpoint_of(model):
    """Returns the folder of a vLLM ModelConfig's checkpoint, fetched from the hub if it is a name."""
    if Path(model.model).is_dir():
        return Path(model.model)
    from huggingface_hub import snapshot_download
    files = ["*.json", "*.safetensors", "*.model", "*.jinja"]
    return Path(snapshot_download(model.model, revision=model.revision, allow_patterns=files))


def platform():
    """Returns the qualified name of the platform's class, or None to leave vLLM alone. vLLM calls it in every process.

    The function imports nothing of vLLM, because vLLM's platform is not known before it returns."""
    return PLATFORMS.get(device())
