"""These tests check mkc quantize: what it writes, held against the definitions of the formats in Python's floats, and
what it refuses.
Usage: quantize_test.py MKC ROOT
"""
import json
import math
import struct
import sys
import unittest

from command import FIXTURE, TINY, Command
from quantized_weights import E2M1, candidates, e4m3, floats, read_tensors, squared_error, write_tensors

BLOCKS = {"fp8": (1, 0), "fp8-block": (128, 128), "int4-g128": (1, 128), "mxfp4": (1, 32)}  # columns 0: all of a row
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"


# The numbers of codes, without those that are no numbers.
NUMBERS = {"fp8": [e4m3(code) for code in range(256) if code & 0x7f != 0x7f], "int4-g128": list(range(-8, 8)),
           "mxfp4": E2M1 + [-x for x in E2M1]}
NUMBERS["fp8-block"] = NUMBERS["fp8"]


def codes_and_scales(tensors, name, form):
    """Returns the numbers of codes, and the scales, of a matrix that mkc quantize wrote."""
    if form.startswith("fp8"):
        return [e4m3(code) for code in tensors[name][2]], floats(tensors[name + "_scale"])
    nibbles = [code for byte in tensors[name + "_packed"][2] for code in (byte & 15, byte >> 4)]
    if form == "int4-g128":
        return [code - 8 for code in nibbles], floats(tensors[name + "_scale"])
    return [E2M1[code & 7] * (-1 if code & 8 else 1) for code in nibbles], [2.0 ** (b - 127) for b in tensors[name + "_scale"][2]]


def blocks_of(form, rows, cols):
    """Yields the elements of each block, in the order of the scales."""
    height, width = BLOCKS[form]
    width = width or cols
    for row in range(0, rows, height):
        for col in range(0, cols, width):
            yield [r * cols + c for r in range(row, min(row + height, rows)) for c in range(col, min(col + width, cols))]


class QuantizeTest(Command):
    def quantize(self, model, form, *more, code=0):
        found, out, err = self.mkc("quantize", model, "-o", "out", "--format", form, *more)
        self.assertEqual(found, code, err)
        return out.decode()

    def test_scales_are_the_best_of_the_search_and_codes_are_the_nearest(self):
        before = read_tensors(TINY / "model.safetensors")
        for form in BLOCKS:
            with self.subTest(form):
                out = self.quantize(TINY, form)
                after = read_tensors(self.dir / "out" / "model.safetensors")
                _, (rows, cols), _ = before[Q_PROJ]
                weights = floats(before[Q_PROJ])
                codes, scales = codes_and_scales(after, Q_PROJ, form)
                errors = squares = 0
                for number, (scale, block) in enumerate(zip(scales, blocks_of(form, rows, cols), strict=True)):
                    inside = [weights[i] for i in block]
                    found = sum((weights[i] - codes[i] * scale) ** 2 for i in block)
                    errors, squares = errors + found, squares + sum(w * w for w in inside)
                    for i in block[:64]:
                        nearest = min(abs(weights[i] - n * scale) for n in NUMBERS[form])
                        self.assertLessEqual(abs(weights[i] - codes[i] * scale), nearest + 1e-6 * abs(weights[i]))
                    if number % 41 == 0 and form != "fp8-block":
                        best = min(squared_error(inside, c, NUMBERS[form]) for c in candidates(form, inside))
                        self.assertLessEqual(found, best * (1 + 1e-5))
                self.assertIn(f"{Q_PROJ:<52} {'[128, 128]':>16}  {form:<9} relative error {math.sqrt(errors / squares):.5f}", out)
                self.drop_out()

    def drop_out(self):
        for path in (self.dir / "out").iterdir():
            path.unlink()

    def test_embeddings_norms_heads_routers_and_kept_modules_stay_and_files_are_copied(self):
        before = read_tensors(FIXTURE.parent / "qwen3_moe" / "model.safetensors")
        out = self.quantize(FIXTURE.parent / "qwen3_moe", "fp8", "--keep", "o_proj", "--keep", "re:.*layers.1.mlp.up")
        after = read_tensors(self.dir / "out" / "model.safetensors")
        same = {name for name in before if name in after and before[name] == after[name]}
        for name in before:
            module = name.removesuffix(".weight")
            kept = (module.endswith(("norm", "lm_head", "embed_tokens", "mlp.gate", "o_proj")) or module == "model.layers.1.mlp.up_proj")
            self.assertEqual(name in same, kept, name)
        config = json.loads((self.dir / "out" / "config.json").read_text())
        section = config.pop("quantization_config")
        self.assertEqual(config, json.loads((FIXTURE.parent / "qwen3_moe" / "config.json").read_text()))
        routers = [f"model.layers.{n}.mlp.gate" for n in (0, 2)]
        self.assertEqual(section["ignore"], sorted(["lm_head", *routers, "model.layers.1.mlp.up_proj",
                                                    *[f"model.layers.{n}.self_attn.o_proj" for n in range(3)]]))
        self.assertIn("as it is", out)
        self.assertEqual((self.dir / "out" / "expected.json").read_bytes(), (FIXTURE.parent / "qwen3_moe" / "expected.json").read_bytes())

    def test_the_head_is_quantized_where_it_is_asked_for(self):
        """A head that is the embedding becomes a matrix of its own, of the same numbers as any other matrix."""
        embedding = "model.embed_tokens.weight"
        before = read_tensors(TINY / "model.safetensors")
        weights, cols = floats(before[embedding]), before[embedding][1][1]
        for form in BLOCKS:
            with self.subTest(form):
                out = self.quantize(TINY, form, "--head")
                self.assertRegex(out, rf"lm_head\.weight .* {form} +relative error 0\.\d+\n")
                after = read_tensors(self.dir / "out" / "model.safetensors")
                self.assertEqual(after[embedding], before[embedding])
                codes, scales = codes_and_scales(after, "lm_head.weight", form)
                self.assertEqual(len(codes), len(weights))
                for scale, block in zip(scales, blocks_of(form, len(weights) // cols, cols), strict=True):
                    for i in block[:16]:
                        nearest = min(abs(weights[i] - n * scale) for n in NUMBERS[form])
                        self.assertLessEqual(abs(weights[i] - codes[i] * scale), nearest + 1e-6 * abs(weights[i]))
                config = json.loads((self.dir / "out" / "config.json").read_text())
                self.assertIs(config["tie_word_embeddings"], False)
                self.assertNotIn("lm_head", config["quantization_config"]["ignore"])
                self.drop_out()
        self.checkpoint_with_both_heads(before)
        self.quantize("model", "fp8", "--head")
        self.assertEqual(read_tensors(self.dir / "out" / "model.safetensors")["lm_head.weight"][:2], ("F8_E4M3", before[embedding][1]))
        self.drop_out()
        moe = FIXTURE.parent / "qwen3_moe"
        self.quantize(moe, "fp8", "--head")
        self.assertEqual(read_tensors(self.dir / "out" / "model.safetensors")["lm_head.weight"][0], "F8_E4M3")
        config = json.loads((self.dir / "out" / "config.json").read_text())
        self.assertEqual(config["quantization_config"]["ignore"], [f"model.layers.{n}.mlp.gate" for n in (0, 2)])
        self.assertEqual(config["tie_word_embeddings"], json.loads((moe / "config.json").read_text())["tie_word_embeddings"])

    def checkpoint_with_both_heads(self, tensors):
        """Makes a checkpoint that has its tied head as a tensor of its own, too, which is a copy that nobody reads."""
        (self.dir / "model").mkdir()
        (self.dir / "model" / "config.json").write_bytes((TINY / "config.json").read_bytes())
        write_tensors(self.dir / "model" / "model.safetensors", {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]})

    def test_sharded_checkpoints_stay_sharded_and_other_weights_are_left_out(self):
        tensors = read_tensors(TINY / "model.safetensors")
        model = self.dir / "model"
        (model / "original").mkdir(parents=True)
        for file in ("config.json", "tokenizer.json"):
            (model / file).write_bytes((TINY / file).read_bytes())
        (model / "consolidated.pth").write_bytes(b"x")
        halves = [dict(list(tensors.items())[i::2]) for i in range(2)]
        names = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
        for name, half in zip(names, halves):
            write_tensors(model / name, half)
        index = {"metadata": {}, "weight_map": {t: name for name, half in zip(names, halves) for t in half}}
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        out = self.quantize("model", "int4-g128")
        self.assertIn("left out: consolidated.pth, original\n", out)
        self.assertEqual(sorted(p.name for p in (self.dir / "out").iterdir()),
                         ["config.json", *names, "model.safetensors.index.json", "tokenizer.json"])
        sharded = {name: t for file in names for name, t in read_tensors(self.dir / "out" / file).items()}
        index = json.loads((self.dir / "out" / "model.safetensors.index.json").read_text())
        self.assertEqual(set(index["weight_map"]), set(sharded))
        self.assertEqual(index["metadata"]["total_size"], sum(len(t[2]) for t in sharded.values()))
        self.drop_out()
        self.quantize(TINY, "int4-g128")
        self.assertEqual(read_tensors(self.dir / "out" / "model.safetensors"), sharded)

    def test_results_do_not_depend_on_threads(self):
        for form in BLOCKS:
            files = []
            for threads in (1, 3):
                self.quantize(TINY, form, "--threads", threads)
                files.append((self.dir / "out" / "model.safetensors").read_bytes())
                self.drop_out()
            self.assertEqual(*files)

    def test_every_format_runs_and_its_loss_is_near_that_of_the_source(self):
        (self.dir / "held_out.txt").write_text("Once there was a boy named Max. He had three nuts in a basket.\n\n[0, 5, 6, 7]\n")
        for form, limit, *more in (("fp8", .02), ("fp8-block", .02), ("int4-g128", .15), ("mxfp4", .3), ("fp8", .02, "--head"),
                                   ("int4-g128", .15, "--head")):
            with self.subTest((form, *more)):
                out = self.quantize(TINY, form, "--held-out", "held_out.txt", *more)
                words = out.splitlines()[-1].split()
                before, after = float(words[words.index("nats/token") - 1]), float(words[-2])
                self.assertLess(abs(after - before), limit * before, out)
                self.assertNotEqual(before, after)
                self.drop_out()

    def test_documents_are_measured_apart(self):
        """Documents that follow each other have the loss of one alone, though all of them would not fit in the context."""
        document = "Once there was a boy named Max. He had three nuts in a basket.\n"
        losses = set()
        for times in (1, 20):
            (self.dir / "held_out.txt").write_text(document * times)
            losses.add(self.quantize(TINY, "int4-g128", "--held-out", "held_out.txt").splitlines()[-1].split(": ")[1])
            self.drop_out()
        self.assertEqual(len(losses), 1, losses)

    def test_scales_of_huge_and_tiny_weights_are_those_of_weights_of_order_one(self):
        """Weights are multiplied by a power of 2, so codes stay and scales are multiplied by it, too."""
        source = self.tensors_of_f32()
        weights = floats(source[Q_PROJ])
        for form in ("fp8", "mxfp4"):
            found = []
            for exponent in (0, 100, -80):
                scaled = struct.pack(f"<{len(weights)}f", *(math.ldexp(w, exponent) for w in weights))
                self.quantize(self.source_of({**source, Q_PROJ: (*source[Q_PROJ][:2], scaled)}), form)
                after = read_tensors(self.dir / "out" / "model.safetensors")
                codes, scales = codes_and_scales(after, Q_PROJ, form)
                found.append((codes, [math.ldexp(s, -exponent) for s in scales]))
                self.drop_out()
            self.assertEqual(found[0], found[1], form)
            self.assertEqual(found[0], found[2], form)

    def tensors_of_f32(self):
        """Returns the same numbers as TINY has in bf16."""
        tensors = {}
        for name, (_, shape, data) in read_tensors(TINY / "model.safetensors").items():
            wide = bytearray(2 * len(data))
            wide[2::4], wide[3::4] = data[::2], data[1::2]
            tensors[name] = ("F32", shape, bytes(wide))
        return tensors

    def source_of(self, tensors):
        model = self.dir / "source"
        model.mkdir(exist_ok=True)
        (model / "config.json").write_bytes((TINY / "config.json").read_bytes())
        write_tensors(model / "model.safetensors", tensors)
        return model

    def test_mxfp4_of_other_floats_than_bf16_has_a_warning(self):
        of_f32 = self.source_of(self.tensors_of_f32())
        said = "source: warning: weights of F32 become mxfp4, which transformers opens, but cannot run: it needs BF16\n"
        for model, form, expected in ((of_f32, "mxfp4", said), (of_f32, "fp8", ""), (TINY, "mxfp4", "")):
            code, _, err = self.mkc("quantize", model, "-o", "out", "--format", form)
            self.assertEqual((code, err), (0, expected))
            self.drop_out()

    def test_layers_whose_gate_and_up_projections_differ_in_format_run(self):
        self.quantize(FIXTURE.parent / "qwen3_moe", "fp8", "--keep", "gate_proj")
        code, _, err = self.mkc("run", "out", "--device", "cpu", "--prompt-ids", "1,2", "--max-new-tokens", 2, "--keep-weights", "no")
        self.assertEqual(code, 0, err)

    def test_lines_of_held_out_that_are_no_documents_are_refused(self):
        vocab = 640
        for line, said in ((f"[1, {vocab}]", f"found {vocab}, expected ids from 0 to {vocab - 1}"),
                           ("[1, -2]", f"found -2, expected ids from 0 to {vocab - 1}"),
                           ('[1, "a"]', f'found "a", expected ids from 0 to {vocab - 1}'),
                           ("[[1, 2]]", f"found an array, expected ids from 0 to {vocab - 1}"),
                           ('[{"a": 1}, null]', f"found an object, expected ids from 0 to {vocab - 1}"),
                           ("[" * 200000 + "]" * 200000, f"found an array, expected ids from 0 to {vocab - 1}"),
                           (f'["{"ä" * 1000}"]', f'found "{"ä" * 39}…, expected ids from 0 to {vocab - 1}'),
                           ("[1, 2, 1e400]", f"found 1e400, expected ids from 0 to {vocab - 1}"),
                           ("[1, 2.5]", f"found 2.5, expected ids from 0 to {vocab - 1}"),
                           ("[]", "found 0 token, expected at least 2"),
                           (b"a \xff b", "the text is not valid UTF-8: byte 0xff at offset 2")):
            (self.dir / "lines.txt").write_bytes(b"Once\n[1, 2]\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n")
            self.refuses(f"lines.txt:3:1: error: {said}\n", "quantize", TINY, "-o", "out", "--format", "fp8", "--held-out", "lines.txt")

    def test_wrong_input_is_refused(self):
        def refuses(message, model, *more, form="fp8", out="out"):
            self.refuses(message, "quantize", model, "-o", out, "--format", form, *more)

        refuses("mkc: error: --format: found int3, expected fp8, fp8-block, int4-g128 or mxfp4", TINY, form="int3")
        refuses("none: error: ", "none")
        refuses('--keep: error: found "k_prj", which names no matrix of llama\n', TINY, "--keep", "k_prj")
        refuses('--keep: error: found "lm_head", which names no matrix of llama: its head is the embedding, model.embed_tokens\n',
                TINY, "--head", "--keep", "lm_head")
        refuses('--keep: error: found "re:(", expected a regular expression: ', TINY, "--keep", "re:(")
        refuses("--keep: error: names all matrices of llama, expected one that gets fp8\n", TINY, "--keep", "*")
        refuses("--keep: error: found model.layers.0.mlp.experts.1.gate_proj kept and model.layers.0.mlp.experts.0.gate_proj not, expected "
                "all experts of a layer or none\n", FIXTURE.parent / "qwen3_moe", "--keep", "*.experts.1.*")
        refuses("none/out: error: cannot create: No such file or directory", TINY, out="none/out")
        (self.dir / "out").write_text("")
        (self.dir / "held.txt").write_text("Once there was a boy.\n")
        # The loss before is not computed first: nothing is compiled into the cache.
        self.refuses("out: error: exists, expected a new or an empty directory", "quantize", TINY, "-o", "out", "--format", "fp8",
                     "--held-out", "held.txt", MKC_CACHE=str(self.dir / "cache"))
        (self.dir / "out").unlink()
        model = self.checkpoint()
        refuses('model/model.safetensors: error: tensor "model.layers.0.mlp.down_proj.weight" has 80 columns, expected a multiple of '
                "128 for int4-g128; --keep model.layers.0.mlp.down_proj leaves it as it is, --keep down_proj those of all layers\n", model, form="int4-g128")
        refuses('model/model.safetensors: error: tensor "lm_head.weight" has 48 columns, expected a multiple of 32 for mxfp4; '
                "without --head it stays as it is", model, "--head", "--keep", "model.layers", form="mxfp4")
        refuses("--head: error: --keep leaves the head of llama as it is, expected one of the two\n", TINY, "--head", "--keep", "embed_tokens")
        refuses("--head: error: --keep leaves the head of qwen3 as it is, expected one of the two\n", self.checkpoint(), "--head", "--keep", "lm_head")
        model = self.checkpoint(config=lambda c: c.update(of_no_meaning=1 << 70))
        lines = (model / "config.json").read_text().splitlines()
        line, text = next((n, text) for n, text in enumerate(lines, 1) if "of_no_meaning" in text)
        refuses(f"model/config.json:{line}:{text.index(': ') + 3}: error: found the integer {1 << 70}, expected at most 64 bits\n{text}\n", model)
        model = self.checkpoint(config=lambda c: c.update(quantization_config={"quant_method": "fp8"}))
        refuses("model/config.json:", model)
        (model / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
        model = self.checkpoint()
        (model / "hf_quant_config.json").write_text('{"quantization": {"quant_algo": "FP8"}}')
        refuses("model: error: has hf_quant_config.json, expected weights that are not quantized", model)
        (self.dir / "empty.txt").write_text("\n")
        refuses("empty.txt: error: has no line of text or of ids", TINY, "--held-out", "empty.txt")
        (self.dir / "short.txt").write_text("\n[7]\n")
        refuses("short.txt:2:1: error: found 1 token, expected at least 2", TINY, "--held-out", "short.txt")

    def test_weights_that_are_no_numbers_are_refused_and_leave_nothing(self):
        for bits, said in ((0x7fc0, "nan"), (0x7f80, "inf"), (0xff80, "-inf")):
            tensors = read_tensors(TINY / "model.safetensors")
            dtype, shape, data = tensors[Q_PROJ]
            at = 2 * (3 * 128 + 5)
            tensors[Q_PROJ] = (dtype, shape, data[:at] + struct.pack("<H", bits) + data[at + 2:])
            folder = self.dir / "model"
            folder.mkdir(exist_ok=True)
            (folder / "config.json").write_bytes((TINY / "config.json").read_bytes())
            write_tensors(folder / "model.safetensors", tensors)
            before = sorted(self.dir.rglob("*"))
            code, _, err = self.mkc("quantize", "model", "-o", "out", "--format", "mxfp4")
            self.assertEqual((code, err), (1, f'model/model.safetensors: error: tensor "{Q_PROJ}" has {said} at row 3, column 5, expected '
                                              "a finite number\n"))
            self.assertEqual(sorted(self.dir.rglob("*")), before)


unittest.main(argv=sys.argv[:1], verbosity=1)
