"""mkc as the device of vLLM: forward and sampling of a step in one launch, on vLLM's own paged cache.

vLLM finds the package by the entry point `vllm.platform_plugins`, and keeps its server, scheduler and prefix cache.
MKC_VLLM chooses the platform: "cpu", "cuda", or "0" for none. The default is a GPU if there is one, else the processor.
docs/integrations.md says what is supported.
"""
import os
from pathlib import Path

PLATFORMS = {"cpu": "mkc_vllm.processor.ProcessorPlatform", "cuda": "mkc_vllm.cuda.CudaPlatform"}


def platform():
    """Returns the qualified name of the platform's class, or None to leave vLLM alone. vLLM calls it in every process.

    The function imports nothing of vLLM, because vLLM's platform is not known before it returns."""
    wanted = os.environ.get("MKC_VLLM", "")
    if wanted == "0":
        return None
    if wanted not in ("", *PLATFORMS):
        raise ValueError(f"MKC_VLLM: found {wanted!r}, expected cpu, cuda or 0")
    has_gpu = Path("/proc/driver/nvidia/version").exists()
    return PLATFORMS[wanted or ("cuda" if has_gpu else "cpu")]
