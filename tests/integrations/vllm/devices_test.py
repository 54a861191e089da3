"""vLLM with mkc on the emulator, and on the software GPU in the place of a GPU; and the platform of GPUs against vLLM's own
classes. Nothing here runs on a GPU.
"""
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from reference import MARGIN, Reference, log_softmax, only, penalties
from server import ROOT, TINY

LIMIT_S = 900
LIBRARY = ROOT / "build" / "tests" / "softgpu" / "lib"
HERE = Path(__file__).resolve().parent
SOFTWARE_GPU = {"LD_LIBRARY_PATH": f"{LIBRARY}:{os.environ.get('LD_LIBRARY_PATH', '')}", "SOFTGPU_SMS": "4",
                "MKC_ASSEMBLER": str(ROOT / "tests/softgpu/ptxas")}
CONTRACT = """
import json
from unittest import mock
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform, interface
from vllm.platforms.cuda import CudaPlatform
kind = type(current_platform)
out = {"kind": kind.__qualname__, "is_cuda": current_platform.is_cuda(), "is_vllms": issubclass(kind, CudaPlatform)}
kind.get_device_capability = classmethod(lambda cls, device_id=0: interface.DeviceCapability(9, 0))
kind.get_device_name = classmethod(lambda cls, device_id=0: "a GPU that is not there")
kind.get_device_total_memory = classmethod(lambda cls, device_id=0: 80 << 30)
def made(**more):
    try:
        config = EngineArgs(model=MODEL, max_model_len=512, **more).create_engine_config()
    except Exception as reason:
        return str(reason)
    return [config.parallel_config.worker_cls, config.scheduler_config.max_num_batched_tokens, config.scheduler_config.max_num_seqs,
            str(config.compilation_config.mode)]
out["usual"] = made()
out["lora"] = made(enable_lora=True)
out["fp8"] = made(kv_cache_dtype="fp8_e5m2")
print("RESULT" + json.dumps(out))
"""


def run(command, environment):
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=LIMIT_S, cwd=HERE,
                          env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", **environment})
    if done.returncode != 0:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-6000:])
    return done.stdout


class DevicesTest(unittest.TestCase):
    def check(self, answers):
        reference = Reference(TINY)
        changes = [lambda x, out: x, None, lambda x, out: only(range(300, 400))(penalties([], presence=0.5)(x, out), out)]
        for answer, change in zip(answers, changes, strict=True):
            if change:
                reference.check_greedy(answer["prompt"], answer["ids"], change=change)
            rows = reference.logits(answer["prompt"] + answer["ids"])[len(answer["prompt"]) - 1:]
            for row, token, rank, logprob in zip(rows, answer["ids"], answer["ranks"], answer["logprobs"]):
                self.assertAlmostEqual(logprob, log_softmax(row)[token], delta=MARGIN)
                surely, maybe = np.sum(row >= row[token] + MARGIN), np.sum(row >= row[token] - MARGIN)
                self.assertTrue(max(1, surely) <= rank <= maybe, f"rank {rank}, expected {surely} to {maybe}")

    def test_the_emulator(self):
        self.check(json.loads(run(["offline.py", "emulator"], {}).splitlines()[-1]))

    @unittest.skipUnless(LIBRARY.exists(), f"needs the software GPU in {LIBRARY}")
    def test_the_software_gpu(self):
        self.check(json.loads(run(["offline.py", "software-gpu"], SOFTWARE_GPU).splitlines()[-1]))

    def contract(self, wanted):
        text = run(["-c", CONTRACT.replace("MODEL", repr(str(TINY)))], {**SOFTWARE_GPU, "MKC_VLLM": wanted})
        return json.loads(text.split("RESULT")[1])

    @unittest.skipUnless(LIBRARY.exists(), f"needs the driver's functions in {LIBRARY}")
    def test_the_platform_of_gpus_is_vllms_with_another_worker(self):
        found = self.contract("cuda")
        self.assertEqual((found["kind"], found["is_cuda"], found["is_vllms"]), ("CudaPlatform", True, True))
        self.assertEqual(found["usual"], ["mkc_vllm.worker.Worker", 256, 64, "CompilationMode.NONE"])
        self.assertIn("lora_config", found["lora"])
        self.assertIn("kv_cache_dtype", found["fp8"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
