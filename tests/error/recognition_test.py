"""These tests check that errors name what a model really is.
Usage: recognition_test.py MKC ROOT
"""
import json
import os
import shutil
import struct
import sys
import unittest

from command import FIXTURE, ROOT, TINY, Command

LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4968\n"
HTML = b"\n <!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"


class RecognitionTest(Command):
    def folder(self, **files):
        folder = self.dir / "odd"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        return folder

    def test_files_that_are_no_model(self):
        (self.dir / "m.gguf").write_bytes(b"GGUF\3\0\0\0")
        (self.dir / "m.bin").write_bytes(b"PK\3\4archive/data.pkl")
        (self.dir / "page").write_bytes(HTML)
        (self.dir / "pointer").write_bytes(LFS)
        for name, fault in (
                ("m.gguf", "is a GGUF file: mkc reads Hugging Face checkpoints (config.json, *.safetensors)"),
                ("m.bin", "is a PyTorch pickle: mkc reads Hugging Face checkpoints (config.json, *.safetensors)"),
                ("page", "is an HTML page, not the file itself: the download went wrong"),
                ("pointer", "is a Git LFS pointer, not the file itself: run git lfs pull, or download the file")):
            self.refuses(f"{name}: error: {fault}\n", "compile", name)
        for name, fault in (("config.json", "is a checkpoint's config.json"),
                            ("model.safetensors", "is a checkpoint's file of weights")):
            self.refuses(f"{FIXTURE}/{name}: error: {fault}, expected its directory: {FIXTURE}\n", "run",
                         FIXTURE / name, "--prompt-ids", 1)
        self.refuses("Qwen/Qwen3-0.6B: error: no such file or directory, and no models--Qwen--Qwen3-0.6B in /none/hub: mkc "
                     "downloads nothing, expected a checkpoint's directory or a model of that cache\n", "compile",
                     "Qwen/Qwen3-0.6B", HF_HOME="/none", HF_HUB_CACHE="")

    def test_folders_that_are_no_checkpoint(self):
        for files, fault in (
                ({}, "has no config.json"),
                ({"model__gguf": b"GGUF"}, "has no config.json, but model.gguf, a GGUF file: take the checkpoint it was "
                 "made from"),
                ({"consolidated__pth": b"PK\3\4", "params__json": b"{}"}, "has no config.json, but consolidated.pth, a "
                 "pickle: convert it to safetensors"),
                ({"adapter_model__safetensors": b""}, "has no config.json, but adapter_model.safetensors, an adapter: "
                 "merge it into its base model")):
            self.folder(**files)
            self.refuses(f"odd: error: {fault}\n", "compile", "odd")
        self.folder(config__json=LFS)
        self.refuses("odd/config.json: error: is a Git LFS pointer, ", "compile", "odd")
        config = (FIXTURE / "config.json").read_bytes()
        self.folder(config__json=config, pytorch_model__bin=b"PK\3\4")
        self.refuses("odd: error: has no model.safetensors, but pytorch_model.bin, PyTorch's pickles: convert them to "
                     "safetensors\n", "run", "odd", "--prompt-ids", 1)
        for content, kind in ((LFS, "a Git LFS pointer"), (HTML, "an HTML page")):
            self.folder(config__json=config, model__safetensors=content)
            self.refuses(f"odd/model.safetensors: error: is {kind}, not the file itself: ", "compile", "odd")
            folder = self.checkpoint()
            (folder / "tokenizer.json").write_bytes(content)
            self.refuses(f"model/tokenizer.json: error: is {kind}, ", "run", "model", "--prompt", "x")

    def test_names_of_models_in_the_hub_cache(self):
        hub, home = self.dir / "h" / "hub", {"HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "HF_HOME": self.dir / "h"}
        model = hub / "models--org--Tiny-0.6B"
        for revision in ("aaaa", "bbbb"):
            shutil.copytree(FIXTURE, model / "snapshots" / revision)
        (model / "snapshots" / "aaaa" / "config.json").write_text("{")
        run = ("run", "org/Tiny-0.6B", "--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 2, "--json")
        expected = self.mkc("run", FIXTURE, *run[2:])[1]
        snapshots = "h/hub/models--org--Tiny-0.6B/snapshots"
        self.refuses(f"{snapshots}: error: has 2 snapshots, expected one as MODEL: aaaa, bbbb\n", *run, **home)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("bbbb")
        for environment in (home, {**home, "HF_HOME": "/none", "HF_HUB_CACHE": hub},
                            {**home, "HF_HOME": "", "XDG_CACHE_HOME": self.dir / "x"}, {**home, "HF_HOME": "", "HOME": self.dir / "y"}):
            for cache in ("x/huggingface", "y/.cache/huggingface"):
                (self.dir / cache).parent.mkdir(parents=True, exist_ok=True)
                if not (self.dir / cache).exists():
                    (self.dir / cache).symlink_to(self.dir / "h")
            code, out, err = self.mkc(*run, **{name: str(value) for name, value in environment.items()})
            self.assertEqual((code, out), (0, expected), err)
        (model / "refs" / "main").write_text("aaaa")
        self.refuses(f"{snapshots}/aaaa/config.json:1:", *run, **home)
        # A directory of that path goes first.
        shutil.copytree(FIXTURE, self.dir / "org" / "Tiny-0.6B")
        self.assertEqual(self.mkc(*run, **{name: str(value) for name, value in home.items()})[1], expected)
        self.refuses("org/other: error: no such file or directory, and no models--org--other in h/hub: ", "run", "org/other",
                     "--prompt-ids", 1, **home)
        self.refuses("gpt3: error: ", "run", "gpt3", "--prompt-ids", 1, **home)

    def test_a_hub_cache_is_its_one_snapshot(self):
        model = self.dir / "hub" / "models--org--Tiny-0.6B"
        first, second = model / "snapshots" / "aaaa", model / "snapshots" / "bbbb"
        first.mkdir(parents=True)
        for file in FIXTURE.iterdir():
            os.symlink(file, first / file.name)
        code, out, err = self.mkc("compile", model, "--emit", "yaml")
        self.assertEqual(code, 0, err)
        self.assertIn(f'checkpoint: "{first}"', out.decode())
        self.refuses("hub: error: is a hub cache of 1 models, expected one as MODEL, such as hub/models--org--Tiny-0.6B\n",
                     "compile", "hub")
        second.mkdir()
        self.refuses("hub/models--org--Tiny-0.6B/snapshots: error: has 2 snapshots, expected one as MODEL: aaaa, bbbb\n",
                     "compile", model)
        (model / "refs").mkdir()
        (model / "refs" / "main").write_text("aaaa")
        self.assertEqual(self.mkc("compile", model, "--emit", "yaml")[0], 0)
        shutil.rmtree(model / "snapshots")
        (model / "snapshots").mkdir()
        self.refuses("hub/models--org--Tiny-0.6B: error: is a folder of a hub cache without a snapshot: download the "
                     "model\n", "compile", model)

    def test_errors_come_before_the_work(self):
        """None of these commands gets to compile, which takes longer than the refusal."""
        self.refuses(f"{FIXTURE}: error: has no tokenizer.json, expected one for --prompt; --prompt-ids needs none\n", "run",
                     FIXTURE, "--prompt", "x")
        folder = self.checkpoint()
        (folder / "tokenizer.model").write_bytes(b"")
        self.refuses("model: error: has no tokenizer.json but a tokenizer.model, which is not read, expected one for "
                     "--prompt; --prompt-ids needs none\n", "run", folder, "--prompt", "x")
        requests = self.dir / "requests.jsonl"
        requests.write_text('{"prompt_ids": [1]}\n{"prompt": "x"}\n')
        self.refuses(f"{FIXTURE}: error: has no tokenizer.json, expected one for the prompt at requests.jsonl:2; prompt_ids need none\n",
                     "run", FIXTURE, "--batch-file", requests)
        name = "model.embed_tokens.weight"

        def as_f8(header):
            for entry in (e for name, e in header.items() if name != "__metadata__"):
                entry["dtype"] = "F8_E4M3"
                entry["shape"] = entry["shape"][:-1] + [2 * entry["shape"][-1]]
        code, _, err = self.mkc("run", self.checkpoint(header=as_f8, config=lambda c: c.update(
            hidden_size=2 * c["hidden_size"])), "--prompt-ids", 1)
        self.assertEqual(code, 1)
        self.assertRegex(err, r'^model/model.safetensors: error: tensor "[^"]*" (is e4m3, expected bf16, f16 or f32|has shape)')

        def as_i64(header):
            header[name]["dtype"] = "I16"
        self.refuses(f'model/model.safetensors: error: tensor "{name}" is I16, expected bf16, f16 or f32\n', "run",
                     self.checkpoint(header=as_i64), "--prompt-ids", 1)

    def test_weights_that_do_not_fit_the_memory(self):
        large = self.dir / "large"
        large.mkdir()
        config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192,
                  "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
                  "rms_norm_eps": 1e-5, "rope_theta": 5e5, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}
        (large / "config.json").write_text(json.dumps(config))
        code, out, err = self.mkc("simulate", large, "--machine", "h100")
        self.assertEqual(code, 0, err)
        self.assertIn("\nsuch a step cannot run: 141 GB of weights do not fit in the 80 GB of h100\n", out.decode())
        # The checkpoint has one tensor of 2 TiB that takes no room on the disk.
        size = 2**41
        header = json.dumps({"x": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
        folder = self.checkpoint()
        with open(folder / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header)
            try:
                file.truncate(8 + len(header) + size)
            except OSError as e:
                self.skipTest(f"no sparse files: {e}")
        code, _, err = self.mkc("run", folder, "--prompt-ids", 1, "--device", "cpu")
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^model: error: 2199 GB of weights do not fit in the \d+ GB of cpu\n$")

    def test_caches_that_do_not_fit_the_memory(self):
        (self.dir / "f.jsonl").write_text('{"prompt_ids": [1]}\n')
        expected = r"^--pages: error: \d+ GB of weights and 1073741824 pages of the cache do not fit in the \d+ GB of cpu\n$"
        command = ("run", FIXTURE, "--device", "cpu", "--batch-file", "f.jsonl")
        code, _, err = self.mkc(*command, "--pages", 2**30, MKC_CACHE=str(self.dir / "cache"))
        self.assertEqual(code, 1)
        self.assertRegex(err, expected)
        self.assertEqual(list(self.dir.rglob("*.so")), [])  # no code was made
        self.assertEqual(self.mkc(*command)[0], 0)
        code, _, err = self.mkc(*command, "--pages", 2**30)  # the code is cached
        self.assertEqual(code, 1)
        self.assertRegex(err, expected)

    def test_keys_that_would_change_the_computation_are_refused(self):
        for key, value, said in (("attn_logit_softcapping", 50.0, "50"), ("final_logit_softcapping", 30.0, "30"),
                                 ("rope_interleaved", True, "true"), ("use_mrope", True, "true"),
                                 ("mrope_section", [16, 24, 24], "a list"), ("logit_scale", 0.0625, "0.0625"),
                                 ("routed_scaling_factor", 2.5, "2.5"), ("qk_layernorm", True, "true"),
                                 ("is_causal", False, "false"), ("n_group", 8, "8"), ("topk_group", 4, "4"),
                                 ("per_layer_config", {"0": {"rms_norm_eps": 0.5}}, "a map"),
                                 ("transformers_weights", "other.safetensors", '"other.safetensors"')):
            folder = self.checkpoint(config=lambda c: c.update({key: value}))
            lines = (folder / "config.json").read_text().splitlines()
            line = next(i for i, text in enumerate(lines, 1) if f'"{key}"' in text)
            self.refuses(f"model/config.json:{line}:2: error: {key} is {said}: the qwen3 family does not read it, and it "
                         "would change the computation\n", "compile", folder)
        for key, value in (("attn_logit_softcapping", None), ("rope_interleaved", False), ("routed_scaling_factor", 1.0),
                           ("is_causal", True), ("n_group", 1), ("per_layer_config", None)):
            folder = self.checkpoint(config=lambda c: c.update({key: value}))
            self.assertEqual(self.mkc("compile", folder, "--emit", "yaml")[0], 0)

    def test_weights_that_are_not_finite_are_named(self):
        name = "model.norm.weight"

        def run_with(element):
            begin = []

            def spoil(body):
                at = begin[0] + 6  # the offset of element 3
                return body[:at] + element + body[at + 2:]
            folder = self.checkpoint(header=lambda h: begin.append(h[name]["data_offsets"][0]), data=spoil)
            code, out, err = self.mkc("run", folder, "--prompt-ids", 1, "--max-new-tokens", 1, "--device", "cpu")
            self.assertEqual(code, 0, err)
            return err
        for element, said in ((b"\xc0\x7f", "that are not a number"), (b"\x80\x7f", "that are infinite")):
            err = run_with(element)
            self.assertTrue(err.startswith(f'model/model.safetensors: warning: tensor "{name}" holds 1 values {said}, '
                                           "the first at element 3\n"), err)
        self.assertNotIn(name, run_with(b"\x7f\x7f"))  # the greatest finite number


unittest.main(argv=sys.argv[:1], verbosity=1)
