"""vLLM with mkc on the emulator, and on the software GPU in the place of a GPU; and the platform of GPUs against vLLM's own
classes. Nothing here runs on a GPU.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
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
REFUSED = [({"tensor_parallel_size": 2}, "tensor_parallel_size: found 2, expected 1"),
           ({"pipeline_parallel_size": 2}, "pipeline_parallel_size: found 2, expected 1"),
           ({"enable_lora": True}, "lora_config"),
           ({"speculative_config": {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3}}, "speculative_config"),
           ({"kv_cache_dtype": "fp8_e5m2"}, "kv_cache_dtype: found fp8_e5m2, expected auto"),
           ({"block_size": 128}, "block_size: found 128, expected 16 or 32 or 64"),
           ({"logprobs_mode": "processed_logprobs"}, "logprobs_mode: found processed_logprobs, expected raw_logprobs")]


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

    def contract(self, cases, environment):
        return json.loads(run(["contract.py", json.dumps(cases)], environment).split("RESULT")[1])

    def check_contract(self, environment):
        with tempfile.TemporaryDirectory() as folder:
            config = json.loads((TINY / "config.json").read_text())
            Path(folder, "config.json").write_text(json.dumps({**config, "hidden_act": "gelu_fast_and_odd"}))
            shutil.copy(TINY / "tokenizer.json", folder)
            cases = [{}, {"max_num_batched_tokens": 64, "max_num_seqs": 8}, {"model": folder}, *[case for case, _ in REFUSED]]
            found = self.contract(cases, environment)
        usual, smaller, odd, *refused = found["made"]
        self.assertEqual((usual, smaller), (["mkc_vllm.worker.Worker", 256, 64, True], ["mkc_vllm.worker.Worker", 64, 8, True]))
        self.assertIn("mkc cannot serve", odd)
        self.assertIn("gelu_fast_and_odd", odd)
        for reason, (case, wanted) in zip(refused, REFUSED, strict=True):
            self.assertIn(wanted, reason, case)
        return found["bases"]

    def test_settings_are_refused_when_vllm_starts(self):
        self.assertEqual(self.check_contract({"MKC_VLLM": "cpu"})[:2], ["mkc_vllm.processor.ProcessorPlatform", "vllm.platforms.interface.Platform"])

    @unittest.skipUnless(LIBRARY.exists(), f"needs the driver's functions in {LIBRARY}")
    def test_the_platform_of_gpus_is_vllms_with_another_worker(self):
        bases = self.check_contract({**SOFTWARE_GPU, "MKC_VLLM": "cuda"})
        self.assertEqual(bases[0], "mkc_vllm.cuda.CudaPlatform")
        self.assertIn("vllm.platforms.cuda.CudaPlatformBase", bases)

    def test_a_wrong_device_ends_the_start(self):
        done = subprocess.run([Path(sys.executable).parent / "vllm", "serve", TINY], capture_output=True, text=True, timeout=LIMIT_S,
                              env={**os.environ, "MKC_VLLM": "tpu"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("MKC_VLLM: found 'tpu', expected cpu, emulator, cuda or 0", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
