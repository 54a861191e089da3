"""These tests check mkc quantize: what it writes, held against the definitions of the formats in Python's floats, and
what it refuses.
Usage: quantize_test.py MKC ROOT
"""
import json
import math
import os
import pty
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import unittest

from command import FIXTURE, LIMIT_S, MKC, TINY, Command
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

    def test_output_behind_links(self):
        """The first link dangles, and the second leads to an empty directory."""
        model, long = self.checkpoint(), "x" * 255
        (self.dir / "empty").mkdir()
        os.symlink("new", self.dir / "to-new")
        os.symlink("empty", self.dir / "to-empty")
        for output, folder in (("to-new", "new"), ("to-empty/", "empty"), (long, long)):
            code, _, err = self.mkc("quantize", model, "-o", output, "--format", "fp8")
            self.assertEqual(code, 0, err)
            self.assertTrue((self.dir / folder / "model.safetensors").exists())
        self.assertTrue((self.dir / "to-new").is_symlink() and (self.dir / "to-empty").is_symlink())
        code, out, err = self.mkc("quantize", model, "-o", ".", "--format", "fp8", cwd=self.dir / "model")
        self.assertEqual((code, out, err), (1, b"", ".: error: is the working directory, expected a new or another directory\n"))
        self.refuses(f"{long}y: error: cannot create: File name too long\n", "quantize", model, "-o", long + "y", "--format", "fp8")

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

    def large_checkpoint(self, rows, filled=1):
        """Returns a checkpoint with three matrices of 1024 x `rows` weights. A part of its file is random, the rest a hole."""
        folder, cols = self.dir / "large", 1024
        config = json.loads((FIXTURE.parent / "llama" / "config.json").read_text())
        config.update(hidden_size=cols, intermediate_size=rows, num_hidden_layers=1, num_attention_heads=8, num_key_value_heads=8,
                      head_dim=128, vocab_size=1000, tie_word_embeddings=True)
        layer = {"self_attn.q_proj": [1024, cols], "self_attn.k_proj": [1024, cols], "self_attn.v_proj": [1024, cols],
                 "self_attn.o_proj": [cols, 1024], "mlp.gate_proj": [rows, cols], "mlp.up_proj": [rows, cols], "mlp.down_proj": [cols, rows],
                 "input_layernorm": [cols], "post_attention_layernorm": [cols]}
        shapes = {"model.embed_tokens.weight": [1000, cols], "model.norm.weight": [cols]}
        shapes |= {f"model.layers.0.{name}.weight": shape for name, shape in layer.items()}
        header, at = {}, 0
        for name, shape in shapes.items():
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at := at + 2 * math.prod(shape)]}
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        text = json.dumps(header).encode()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            some = bytearray(1 << 20)
            some[::2] = random.Random(1).randbytes(1 << 19)
            some[1::2] = bytes(random.Random(2).choices(b"\x3c\xbc\x3d\xbd", k=1 << 19))
            for _ in range(filled):
                file.write(some)
            file.truncate(8 + len(text) + at)
        return folder, at

    def test_files_larger_than_memory_stream(self):
        limit = 96 << 20
        folder, size = self.large_checkpoint(rows=65536)
        self.assertGreater(size, 4 * limit)
        done = subprocess.run([MKC, "quantize", folder, "-o", "out", "--format", "int4-g128", "--threads", "2"], cwd=self.dir,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)), capture_output=True,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater((self.dir / "out" / "model.safetensors").stat().st_size, size / 5)

    def test_progress_is_shown_on_a_terminal_and_nothing_is_left_of_an_interrupted_run(self):
        folder, _ = self.large_checkpoint(rows=32768, filled=200)
        before = sorted(self.dir.iterdir())
        master, slave = pty.openpty()
        process = subprocess.Popen([MKC, "quantize", folder, "-o", "out", "--format", "int4-g128", "--threads", "1"], cwd=self.dir,
                                   stdout=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        shown = b""
        while b"quantizing: " not in shown:
            shown += os.read(master, 1000)
        self.assertRegex(shown, rb"quantizing: \d+ of 2\d\d MB")
        self.assertNotEqual(sorted(self.dir.iterdir()), before)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=LIMIT_S), -signal.SIGINT)
        os.close(master)
        self.assertEqual(sorted(self.dir.iterdir()), before)

    def test_links_to_nothing_are_left_out(self):
        model = self.dir / "model"
        shutil.copytree(TINY, model)
        for i in range(8):
            (model / f"{i}.txt").symlink_to("nowhere")
        code, out, err = self.mkc("quantize", "model", "-o", "out", "--format", "fp8")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("left out: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 5.txt, 6.txt, 7.txt\n", out.decode())

    def test_wrong_input_is_refused(self):
        def refuses(message, model, *more, form="fp8", out="out"):
            self.refuses(message, "quantize", model, "-o", out, "--format", form, *more)

        refuses("mkc: error: --format: found int3, expected fp8, fp8-block, int4-g128 or mxfp4", TINY, form="int3")
        refuses("none: error: ", "none")
        refuses('--keep: error: found "k_prj", which names no matrix of llama', TINY, "--keep", "k_prj")
        refuses('--keep: error: found "re:(", expected a regular expression: ', TINY, "--keep", "re:(")
        refuses("none/out: error: cannot create: No such file or directory", TINY, out="none/out")
        (self.dir / "out").write_text("")
        (self.dir / "held.txt").write_text("Once there was a boy.\n")
        # The loss before is not computed first: nothing is compiled into the cache.
        self.refuses("out: error: exists, expected a new or an empty directory", "quantize", TINY, "-o", "out", "--format", "fp8",
                     "--held-out", "held.txt", MKC_CACHE=str(self.dir / "cache"))
        (self.dir / "out").unlink()
        model = self.checkpoint()
        refuses('model/model.safetensors: error: tensor "model.layers.0.mlp.down_proj.weight" has 80 columns, expected a multiple of '
                "128 for int4-g128; --keep model.layers.0.mlp.down_proj leaves it as it is", model, form="int4-g128")
        refuses('model/model.safetensors: error: tensor "lm_head.weight" has 48 columns, expected a multiple of 32 for mxfp4; '
                "without --head it stays as it is", model, "--head", "--keep", "model.layers", form="mxfp4")
        refuses("--head: error: llama has no head that can get fp8", TINY, "--head", "--keep", "embed_tokens")
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
