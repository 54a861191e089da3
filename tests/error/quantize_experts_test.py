"""These tests check mkc quantize on gpt-oss, whose experts are stacked in one tensor: what it writes, held against the
definition of the format in Python's floats, and what it refuses.
Usage: quantize_experts_test.py MKC ROOT
"""
import json
import random
import struct
import sys
import unittest

from command import ROOT, Command
from quantized_weights import E2M1, candidates, floats, read_tensors, squared_error, to_bf16, write_tensors

CODED = ROOT / "tests" / "fixtures" / "quantized" / "gpt_oss_mxfp4"  # experts of 64 inputs and 96 columns
PLAIN = ROOT / "tests" / "fixtures" / "models" / "gpt_oss"           # experts of 40 inputs and 56 columns
EXPERTS = "model.layers.0.mlp.experts"
NUMBERS = E2M1 + [-x for x in E2M1]
PROMPT = json.loads((CODED / "expected.json").read_text())["prompt_ids"]


def bf16_bytes(values):
    return b"".join(struct.pack("<f", to_bf16(v))[2:] for v in values)


def rows_of_codes(tensors, name):
    """Returns the numbers of codes as rows of inputs, and the scales as rows of groups, of all experts and columns."""
    blocks, scales = tensors[name + "_blocks"], tensors[name + "_scales"]
    experts, columns, groups, _ = blocks[1]
    codes = [NUMBERS[code] for byte in blocks[2] for code in (byte & 15, byte >> 4)]
    inputs = 32 * groups
    return ([codes[at:at + inputs] for at in range(0, len(codes), inputs)],
            [[2.0 ** (e - 127) for e in scales[2][at:at + groups]] for at in range(0, experts * columns * groups, groups)])


def weights_of(tensors, name):
    return [[n * scales[i // 32] for i, n in enumerate(row)] for row, scales in zip(*rows_of_codes(tensors, name), strict=True)]


def stacked_rows(tensor):
    """Returns the columns of all experts of a tensor [experts, inputs, columns], each with its inputs."""
    (experts, inputs, columns), values = tensor[1], floats(tensor)
    return [values[(expert * inputs) * columns + column:(expert + 1) * inputs * columns:columns]
            for expert in range(experts) for column in range(columns)]


def stacked(rows, experts, inputs):
    columns = len(rows) // experts
    return ("BF16", [experts, inputs, columns],
            bf16_bytes(rows[expert * columns + c][k] for expert in range(experts) for k in range(inputs) for c in range(columns)))


class QuantizeExpertsTest(Command):
    def source(self, spread=0.0, edit=None):
        """Returns a checkpoint with the fixture's dequantized experts, each weight moved by up to a part of itself."""
        folder, move = self.dir / "model", random.Random(1)
        folder.mkdir(exist_ok=True)
        config = json.loads((CODED / "config.json").read_text())
        del config["quantization_config"]
        (folder / "config.json").write_text(json.dumps(config))
        tensors = read_tensors(CODED / "model.safetensors")
        for name in [n.removesuffix("_blocks") for n in tensors if n.endswith("_blocks")]:
            rows = [[w * (1 + spread * move.uniform(-1, 1)) for w in row] for row in weights_of(tensors, name)]
            tensors[name] = stacked(rows, tensors[name + "_blocks"][1][0], len(rows[0]))
            del tensors[name + "_blocks"], tensors[name + "_scales"]
        if edit:
            edit(tensors)
        write_tensors(folder / "model.safetensors", tensors)
        return folder

    def quantize(self, model, form, *more):
        code, out, err = self.mkc("quantize", model, "-o", "out", "--format", form, *more)
        self.assertEqual(code, 0, err)
        return out.decode(), read_tensors(self.dir / "out" / "model.safetensors"), json.loads((self.dir / "out" / "config.json").read_text())

    def run_model(self, model):
        code, out, err = self.mkc("run", model, "--device", "cpu", "--prompt-ids", ",".join(map(str, PROMPT)), "--max-new-tokens", 6,
                                  "--json", "--logprobs", 4, "--keep-weights", "no")
        self.assertEqual(code, 0, err)
        run = json.loads(out)
        return run["new_ids"], run["logprobs"]

    def test_dequantized_experts_get_the_form_and_the_numbers_that_they_had(self):
        before = read_tensors(CODED / "model.safetensors")
        out, after, config = self.quantize(self.source(), "mxfp4")
        self.assertEqual({name: t[:2] for name, t in after.items()}, {name: t[:2] for name, t in before.items()})
        for name, tensor in before.items():
            if name.endswith("_blocks"):
                self.assertEqual(weights_of(after, name.removesuffix("_blocks")), weights_of(before, name.removesuffix("_blocks")), name)
            elif not name.endswith("_scales"):
                self.assertEqual(after[name], tensor)
        section = config.pop("quantization_config")
        self.assertEqual(config | {"quantization_config": 0}, json.loads((CODED / "config.json").read_text()) | {"quantization_config": 0})
        layers = [f"model.layers.{n}.{module}" for n in (0, 1)
                  for module in ("mlp.router", *(f"self_attn.{m}_proj" for m in ("k", "o", "q", "v")))]
        self.assertEqual(section, {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head", *layers]})
        self.assertRegex(out, r"(?m)^out: 4 matrices, relative error 0\.00000, ")
        self.assertRegex(out, rf"(?m)^{EXPERTS}\.gate_up_proj +\[4, 64, 192\]  mxfp4 +relative error 0\.00000$")
        self.assertEqual(self.run_model("out"), self.run_model(CODED))

    def check_blocks(self, source, after, every):
        """Each code is the nearest, and each `every`-th scale the best of the search."""
        checked = 0
        for name in [n.removesuffix("_blocks") for n in after if n.endswith("_blocks")]:
            codes, scales = rows_of_codes(after, name)
            rows = stacked_rows(source[name])
            self.assertEqual((len(codes), len(codes[0])), (len(rows), len(rows[0])))
            for number in range(0, len(rows) * len(scales[0]), every):
                row, group = divmod(number, len(scales[0]))
                part = slice(32 * group, 32 * group + 32)
                weights, scale = rows[row][part], scales[row][group]
                found = sum((w - n * scale) ** 2 for w, n in zip(weights, codes[row][part]))
                self.assertLessEqual(found, squared_error(weights, scale, NUMBERS) * (1 + 1e-6))
                self.assertLessEqual(found, min(squared_error(weights, c, NUMBERS) for c in candidates("mxfp4", weights)) * (1 + 1e-5))
                checked += 1
        return checked

    def test_scales_are_the_best_of_the_search_and_codes_are_the_nearest(self):
        model = self.source(spread=0.5)
        _, after, _ = self.quantize(model, "mxfp4")
        self.assertGreater(self.check_blocks(read_tensors(model / "model.safetensors"), after, 7), 300)

    def test_rows_of_many_experts_are_taken_in_chunks_by_any_number_of_threads(self):
        """Chunks of 2^20 weights end within an expert."""
        experts, inputs, columns = 36, 64, 960
        chosen = random.Random(2)
        def edit(tensors):
            high = chosen.choices(b"\x3c\xbc\x3d\xbd", k=experts * inputs * columns)
            low = chosen.randbytes(experts * inputs * columns)
            for name in list(tensors):
                if ".layers.1." in name:
                    del tensors[name]
            tensors[EXPERTS + ".gate_up_proj"] = ("BF16", [experts, inputs, columns], bytes(x for pair in zip(low, high) for x in pair))
            tensors[EXPERTS + ".gate_up_proj_bias"] = ("BF16", [experts, columns], bytes(2 * experts * columns))
            tensors[EXPERTS + ".down_proj"] = ("BF16", [experts, columns // 2, inputs], b"\x80\x3c" * (experts * columns // 2 * inputs))
            tensors[EXPERTS + ".down_proj_bias"] = ("BF16", [experts, inputs], bytes(2 * experts * inputs))
            tensors["model.layers.0.mlp.router.weight"] = ("BF16", [experts, inputs], bytes(2 * experts * inputs))
            tensors["model.layers.0.mlp.router.bias"] = ("BF16", [experts], bytes(2 * experts))
        model = self.source(edit=edit)
        config = json.loads((model / "config.json").read_text())
        config.update(num_local_experts=experts, intermediate_size=columns // 2, num_hidden_layers=1, layer_types=["sliding_attention"])
        (model / "config.json").write_text(json.dumps(config))
        files = []
        for threads in (1, 3):
            _, after, _ = self.quantize(model, "mxfp4", "--threads", threads)
            files.append((self.dir / "out" / "model.safetensors").read_bytes())
            for path in (self.dir / "out").iterdir():
                path.unlink()
        self.assertEqual(*files)
        self.check_blocks(read_tensors(model / "model.safetensors"), after, 97)

    def test_formats_without_a_form_for_stacked_experts_are_refused_unless_experts_are_kept(self):
        model = self.source()
        for form in ("fp8", "fp8-block", "int4-g128"):
            self.refuses(f'model/model.safetensors: error: tensor "{EXPERTS}.down_proj" has all experts, for which {form} has no form, '
                         f"expected mxfp4; --keep {EXPERTS} leaves it as it is, --keep mlp.experts those of all layers\n", "quantize", model, "-o", "out", "--format", form)
        self.refuses('model/model.safetensors: error: tensor "model.layers.0.self_attn.k_proj.weight" has 64 columns, expected a multiple '
                     "of 128 for int4-g128; --keep model.layers.0.self_attn.k_proj leaves it as it is, --keep k_proj those of all layers\n",
                     "quantize", model, "-o", "out", "--format", "int4-g128", "--keep", "mlp.experts")

    def test_kept_experts_stay_floats_beside_attention_of_another_format(self):
        model = self.source()
        before = read_tensors(model / "model.safetensors")
        _, after, config = self.quantize(model, "fp8", "--keep", "mlp.experts")
        changed = {name for name in before if after.get(name) != before[name]}
        self.assertEqual(changed, {f"model.layers.{n}.self_attn.{m}_proj.weight" for n in (0, 1) for m in "koqv"})
        self.assertEqual(config["quantization_config"]["quant_method"], "compressed-tensors")
        self.assertIn(EXPERTS, config["quantization_config"]["ignore"])
        exact, found = (self.run_model(folder)[1][0]["top"] for folder in (model, "out"))
        exact = {top["id"]: top["logprob"] for top in exact}
        close = [abs(exact[top["id"]] - top["logprob"]) for top in found if top["id"] in exact]
        self.assertGreater(len(close), 1)
        self.assertLess(max(close), 0.2)

    def test_a_layer_of_kept_experts_stays_floats_beside_coded_ones(self):
        model = self.source()
        before = read_tensors(model / "model.safetensors")
        _, after, config = self.quantize(model, "mxfp4", "--keep", "layers.1.mlp.experts")
        self.assertEqual(after["model.layers.1.mlp.experts.down_proj"], before["model.layers.1.mlp.experts.down_proj"])
        self.assertIn(EXPERTS + ".down_proj_blocks", after)
        self.assertIn("model.layers.1.mlp.experts", config["quantization_config"]["modules_to_not_convert"])
        (ids, found), (expected_ids, expected) = self.run_model("out"), self.run_model(CODED)
        self.assertEqual(ids, expected_ids)
        # Other instructions multiply floats than codes, so an activation may round to the other neighbour in bf16.
        for one, other in zip(found, expected, strict=True):
            self.assertAlmostEqual(one["logprob"], other["logprob"], delta=0.02)

    def test_wrong_input_is_refused(self):
        self.refuses("--head: error: gpt_oss has no head that can get mxfp4", "quantize", PLAIN, "-o", "out", "--format", "mxfp4", "--head")
        self.refuses(f'{PLAIN}/model.safetensors: error: tensor "{EXPERTS}.down_proj" has 56 inputs, expected a multiple of 32 for mxfp4; '
                     f"--keep {EXPERTS} leaves it as it is, --keep mlp.experts those of all layers\n", "quantize", PLAIN, "-o", "out", "--format", "mxfp4")
        for form in ("mxfp4", "fp8"):
            self.refuses(f"{CODED}/config.json:44:3: error: quantization_config has quant_method \"mxfp4\", expected weights that are not "
                         "quantized\n", "quantize", CODED, "-o", "out", "--format", form)

        def spoil(tensors):
            dtype, shape, data = tensors[EXPERTS + ".gate_up_proj"]
            at = 2 * ((2 * 64 + 5) * 192 + 7)
            tensors[EXPERTS + ".gate_up_proj"] = (dtype, shape, data[:at] + b"\xc0\x7f" + data[at + 2:])
        model = self.source(edit=spoil)
        code, _, err = self.mkc("quantize", model, "-o", "out", "--format", "mxfp4")
        self.assertEqual((code, err), (1, f'model/model.safetensors: error: tensor "{EXPERTS}.gate_up_proj" has nan at row 5, column 7 of '
                                          "matrix 2, expected a finite number\n"))
        self.assertFalse((self.dir / "out").exists())


unittest.main(argv=sys.argv[:1], verbosity=1)
