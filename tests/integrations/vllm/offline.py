"""Runs requests by vLLM's class LLM on a device of mkc, and prints what came as JSON. Usage: offline.py emulator|software-gpu

The software GPU (docs/softgpu.md) stands for a GPU below mkc. torch has no tensors there: the cache's memory comes from its
driver.
"""
import ctypes
import json
import os
import sys

DEVICE = sys.argv[1]
os.environ.update({"MKC_VLLM": "emulator", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})

import torch  # noqa: E402
from mkc_vllm import settings, worker  # noqa: E402
from server import TINY  # noqa: E402
from vllm import LLM, SamplingParams  # noqa: E402

PROMPTS = ["Once there was a boy named Sam.", "The dog ran", "Once there was a boy named Sam. He had"]


class SoftwareGpuWorker(worker.Worker):
    """The worker, with mkc on the software GPU. Blocks of the cache lie in that GPU's memory, as in vLLM's tensors."""

    def init_device(self):
        super().init_device()
        self.mkc_device = "cuda"

    def _allocate(self, kv_cache_config):
        views = super()._allocate(kv_cache_config)
        host = next(iter(views.values())).untyped_storage()
        at = ctypes.c_uint64()
        driver = ctypes.CDLL("libcuda.so.1")
        if driver.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(host.nbytes())):
            raise RuntimeError("the software GPU has no memory")
        self._moved = at.value - host.data_ptr()
        return views

    def _address(self, view):
        return view.data_ptr() + self._moved


def main():
    if DEVICE == "software-gpu":
        settings.WORKER = "__main__.SoftwareGpuWorker"
    torch.set_num_threads(1)
    model = LLM(str(TINY), max_model_len=96, max_num_seqs=4, max_num_batched_tokens=48, kv_cache_memory_bytes=1 << 20)
    ways = [SamplingParams(temperature=0, max_tokens=8, logprobs=2),
            SamplingParams(temperature=1.5, seed=3, max_tokens=5, logprobs=0),
            SamplingParams(temperature=0, max_tokens=6, logprobs=1, allowed_token_ids=list(range(300, 400)), presence_penalty=0.5)]
    out = []
    for answer in model.generate(PROMPTS, ways):
        of = answer.outputs[0]
        out.append({"prompt": answer.prompt_token_ids, "ids": list(of.token_ids),
                    "ranks": [row[token].rank for row, token in zip(of.logprobs, of.token_ids)],
                    "logprobs": [row[token].logprob for row, token in zip(of.logprobs, of.token_ids)]})
    print(json.dumps(out))


if __name__ == "__main__":
    main()
