"""These tests open what mkc quantize writes with transformers and compressed-tensors. gpt-oss has a form of its own.

Their weights must be those that numpy unpacks by the formats' definitions. Their logits and tokens must be those of mkc.
The variable MKC names the program to test; default: that of the wheel.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, CompressedTensorsConfig, Mxfp4Config

SOURCE = Path(os.environ["MKC_SOURCE"])
MKC = os.environ.get("MKC", Path(sys.executable).parent / "mkc")
TINY = SOURCE / "models" / "tiny-stories"
LIMIT_S = 300
FORMATS = ("fp8", "fp8-block", "int4-g128", "mxfp4")
E2M1 = numpy.array([0, .5, 1, 1.5, 2, 3, 4, 6])
STORIES = 40


def mkc(*arguments):
    done = subprocess.run([MKC, *map(str, arguments)], capture_output=True, timeout=LIMIT_S, text=True)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def nibbles(data):
    return numpy.stack([data & 15, data >> 4], -1).reshape(data.shape[0], -1).astype(int)


def dequantized(folder, form):
    """Returns the matrices of the folder by name of the weight, in float64."""
    t, weights = load_file(folder / "model.safetensors"), {}
    for name in [n.removesuffix("_scale") for n in t if n.endswith(".weight_scale")]:
        scales = t[name + "_scale"]
        if form.startswith("fp8"):
            codes, scales = t[name].double().numpy(), scales.double().numpy()
        elif form == "int4-g128":
            codes = nibbles(t[name + "_packed"].numpy().view(numpy.uint8)) - 8
            scales = scales.double().numpy()
        else:
            packed = nibbles(t[name + "_packed"].numpy())
            codes, scales = numpy.where(packed & 8, -1, 1) * E2M1[packed & 7], 2.0 ** (scales.numpy().astype(float) - 127)
        block = {"fp8": (1, codes.shape[1]), "fp8-block": (128, 128), "int4-g128": (1, 128), "mxfp4": (1, 32)}[form]
        weights[name] = codes * scales.repeat(block[0], 0).repeat(block[1], 1)[:codes.shape[0], :codes.shape[1]]
    return weights


def dequantized_experts(folder):
    """Returns the experts [experts, inputs, outputs] of the form of gpt-oss, in float64."""
    t, weights = load_file(folder / "model.safetensors"), {}
    for name in [n.removesuffix("_blocks") for n in t if n.endswith("_blocks")]:
        codes = t[name + "_blocks"].numpy()
        codes = numpy.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:3], 32)
        numbers = numpy.where(codes & 8, -1, 1) * E2M1[codes & 7] * 2.0 ** (t[name + "_scales"].numpy().astype(float) - 127)[..., None]
        weights[name] = numbers.reshape(*codes.shape[:2], -1).swapaxes(1, 2)
    return weights


def open_dequantized(folder, form=CompressedTensorsConfig):
    """Opens a folder that mkc quantize wrote. Its weights are unpacked while they are loaded."""
    config = form(dequantize=True)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=config).eval()


def held_out_stories():
    sys.path.insert(0, str(SOURCE / "tools" / "train_tiny"))
    from corpus import held_out_stories as stories
    return stories(STORIES)


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = Path(folder.name) / "out"
        self.held_out = Path(folder.name) / "held_out.txt"

    def test_weights_are_those_of_the_definitions(self):
        for form, *head in [(form,) for form in FORMATS] + [(form, "--head") for form in FORMATS]:
            with self.subTest((form, *head)):
                out = Path(f"{self.out}-{form}{''.join(head)}")
                mkc("quantize", TINY, "-o", out, "--format", form, *head)
                expected = dequantized(out, form)
                self.assertEqual(len(expected), 28 + len(head))
                found = dict(open_dequantized(out).named_parameters())
                for name, weight in expected.items():
                    # Some formats are unpacked in the scales' type, so a product may be rounded to bf16.
                    rounded = torch.from_numpy(weight).to(torch.bfloat16).double().numpy()
                    unpacked = found[name].detach().double().numpy()
                    self.assertTrue(((unpacked == weight) | (unpacked == rounded) | (abs(unpacked - weight) < 1e-7)).all(), name)

    def test_loss_and_tokens_are_those_of_mkc(self):
        from evaluate import cross_entropy, load
        stories = held_out_stories()
        self.held_out.write_text("\n".join(stories) + "\n")
        prompt = "Once there was a boy named Max. He had three nuts in a basket."
        for form, *head in [(form,) for form in FORMATS] + [("fp8", "--head"), ("int4-g128", "--head")]:
            with self.subTest((form, *head)):
                out = Path(f"{self.out}-{form}{''.join(head)}")
                said = mkc("quantize", TINY, "-o", out, "--format", form, *head, "--held-out", self.held_out).splitlines()[-1].split()
                losses = float(said[said.index("nats/token") - 1]), float(said[-2])
                source, tokenizer = load(TINY)
                model = open_dequantized(out)
                for opened, loss in zip((source, model), losses, strict=True):
                    self.assertAlmostEqual(cross_entropy(opened, tokenizer, stories)[0], loss, delta=0.004, msg=str(said))
                run = json.loads(mkc("run", out, "--device", "cpu", "--prompt", prompt, "--max-new-tokens", 24, "--json"))
                with torch.no_grad():
                    ids = model.generate(torch.tensor([run["prompt_ids"]]), max_new_tokens=24, do_sample=False)[0].tolist()
                new = ids[len(run["prompt_ids"]):]
                print(f"{' '.join((form, *head))}: loss {losses[0]:.4f} before, {losses[1]:.4f} after; transformers' tokens "
                      f"{'equal' if new == run['new_ids'] else 'differ'}", flush=True)
                self.assertEqual(new[:8], run["new_ids"][:8])

    def test_experts_open(self):
        moe = SOURCE / "tests" / "fixtures" / "models" / "qwen3_moe"
        mkc("quantize", moe, "-o", self.out, "--format", "fp8")
        self.check_logits(open_dequantized(self.out), json.loads((moe / "expected.json").read_text())["prompt_ids"])

    def check_logits(self, model, prompt):
        """Compares transformers' greatest log-probabilities behind a prompt with those of mkc, whose activations are bf16."""
        run = json.loads(mkc("run", self.out, "--device", "cpu", "--prompt-ids", ",".join(map(str, prompt)), "--max-new-tokens", 1,
                             "--json", "--logprobs", 4))
        with torch.no_grad():
            expected = model(torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
        for top in run["logprobs"][0]["top"]:
            self.assertAlmostEqual(top["logprob"], expected[top["id"]].item(), delta=0.15)

    def gpt_oss(self):
        """Returns a bf16 checkpoint of gpt-oss whose experts MXFP4 has no codes for, and a prompt."""
        fixture = SOURCE / "tests" / "fixtures" / "quantized" / "gpt_oss_mxfp4"
        source = AutoModelForCausalLM.from_pretrained(fixture, dtype=torch.bfloat16, quantization_config=Mxfp4Config(dequantize=True))
        torch.manual_seed(1)
        weights = {name: weight.detach().to(torch.bfloat16) for name, weight in source.named_parameters()}
        for name in weights:
            if name.endswith(("gate_up_proj", "down_proj")):
                weights[name] = weights[name] * (1 + 0.3 * torch.randn_like(weights[name]))
        # transformers would save the form that it has read, so the test writes the files itself.
        folder = self.out.parent / "source"
        folder.mkdir()
        save_file(weights, folder / "model.safetensors", {"format": "pt"})
        config = json.loads((fixture / "config.json").read_text())
        del config["quantization_config"]
        (folder / "config.json").write_text(json.dumps(config))
        return folder, json.loads((fixture / "expected.json").read_text())["prompt_ids"]

    def test_gpt_oss_opens(self):
        source, prompt = self.gpt_oss()
        for form in ("mxfp4", "fp8", "fp8-block"):
            with self.subTest(form):
                self.out = source.parent / form
                keep = [] if form == "mxfp4" else ["--keep", "mlp.experts"]
                mkc("quantize", source, "-o", self.out, "--format", form, *keep)
                model = open_dequantized(self.out, Mxfp4Config if form == "mxfp4" else CompressedTensorsConfig)
                expected = dequantized_experts(self.out) if form == "mxfp4" else dequantized(self.out, form)
                self.assertEqual(len(expected), 4 if form == "mxfp4" else 8)
                found = dict(model.named_parameters())
                for name, weight in expected.items():
                    unpacked = found[name].detach().double().numpy()
                    self.assertLess(abs(unpacked - weight).max(), 2 ** -8 * abs(weight).max(), name)
                self.check_logits(model, prompt)


if __name__ == "__main__":
    sys.path.insert(0, str(SOURCE / "tools" / "train_tiny"))
    unittest.main(verbosity=1)
