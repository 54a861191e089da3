"""These tests check which compilations the cache of cubins serves, and which it does not.
Usage: cache_test.py MKC ROOT
"""
import json
import os
import re
import shutil
import struct
import sys
import unittest
from pathlib import Path

from command import FIXTURE, MKC, ROOT, Command
from quantized_weights import read_tensors, write_tensors

PTXAS = (Path(__file__).parent / "fake_ptxas.py").read_text()


class CacheTest(Command):
    """The tests use a quick assembler of their own. The cache keeps the cubins of NVIDIA's assembler
    likewise.
    """

    def setUp(self):
        super().setUp()
        self.assemble_by(PTXAS)

    def assemble_by(self, script):
        ptxas = self.dir / "ptxas"
        ptxas.write_text(script)
        ptxas.chmod(0o755)
        self.environment = {"MKC_CACHE": str(self.dir / "cache"), "MKC_ASSEMBLER": str(ptxas)}

    def compile(self, model, *options, program=None):
        """Returns whether the cubin came from the cache, and all that mkc said and made but the times."""
        output = self.dir / "out.cubin"
        code, out, err = self.mkc("compile", model, "-o", output, "--json", *options, program=program, **self.environment)
        self.assertEqual(code, 0, err)
        summary = json.loads(out)
        del summary["ms"]
        return summary.pop("cached"), (summary, output.read_bytes())

    def entries(self):
        return sorted((self.dir / "cache").iterdir())

    def assert_new(self, *arguments, **options):
        self.assertFalse(self.compile(*arguments, **options)[0])

    def test_the_same_request_is_served(self):
        first, made = self.compile(FIXTURE)
        again, kept = self.compile(FIXTURE)
        self.assertEqual((first, again), (False, True))
        self.assertEqual(kept, made)
        self.assertEqual(len(self.entries()), 1)
        said = [self.mkc("compile", FIXTURE, *options, **self.environment)[2] for options in ([], ["--no-cache"])]
        self.assertEqual(said[0].replace(", from the cache", ""), said[1])
        self.assertEqual((self.dir / "qwen3.cubin").read_bytes(), made[1])
        _, _, err = self.mkc("compile", FIXTURE, "--time-passes", **self.environment)
        self.assertRegex(err, r"^ +\d+\.\d ms  cache\n +\d+\.\d ms  in all\n")
        _, _, err = self.mkc("compile", FIXTURE, "--print-after", "fuse", **self.environment)
        self.assertIn("// after fuse: ", err)

    def test_whatever_it_depends_on_makes_another(self):
        model = self.checkpoint()
        self.assert_new(model)
        self.assertTrue(self.compile(model)[0])
        for option in (["--max-tokens", 8], ["--workers", 5], ["--keep-activations"], ["--trace"], ["-O3", "--evaluations", 1],
                       ["-O3", "--evaluations", 2], ["--batch-invariant"], ["--scheduler", "static"], ["--target", "sm_90a"]):
            with self.subTest(option):
                served = option == ["--target", "sm_90a"]  # sm_90a is the default
                self.assertEqual(self.compile(model, *option)[0], served)
                self.assertTrue(self.compile(model, *option)[0])

        def epsilon(config):
            config["rms_norm_eps"] = 3e-6

        def end(config):
            config["eos_token_id"] = 5

        self.assert_new(self.checkpoint(config=epsilon))
        self.assert_new(self.checkpoint(config=end))
        self.assertTrue(self.compile(self.checkpoint())[0])
        (self.checkpoint() / "model.safetensors").unlink()
        self.assert_new(model)  # the compiler reads config.json alone

        family = self.dir / "family.yaml"
        family.write_text((ROOT / "models" / "qwen3.yaml").read_text())
        self.assert_new(model, "--family", family)
        family.write_text(family.read_text() + "# edited\n")
        self.assert_new(model, "--family", family)

        machine = self.dir / "machine.json"
        text = (ROOT / "scheduler" / "machine" / "h100.json").read_text()
        machine.write_text(text)
        self.assertTrue(self.compile(model, "--machine", machine)[0])  # the text is the default's
        machine.write_text(text.replace('"reduce_ns": {"value": 300', '"reduce_ns": {"value": 301'))
        self.assert_new(model, "--machine", machine)

    def test_code_for_the_emulator_is_kept(self):
        def run(*options):
            code, out, err = self.mkc("run", FIXTURE, "--device", "emulator", "--prompt-ids", "3,1,4", "--max-new-tokens", 3,
                                      "--logits-out", "l.npy", *options, **self.environment)
            self.assertEqual(code, 0, err)
            return out, (self.dir / "l.npy").read_bytes()
        first = run()
        (entry,) = self.entries()
        self.assertEqual(entry.suffix, ".o")
        made, whole = entry.stat().st_ino, entry.read_bytes()
        self.assertEqual((run(), self.entries(), entry.stat().st_ino), (first, [entry], made))
        entry.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
        self.assertEqual((run(), entry.read_bytes()), (first, whole))
        self.assertEqual(run("--race"), first)
        self.assertEqual((run("--race"), len(self.entries())), (first, 2))
        run("--workers", 2)
        self.assertEqual(len(self.entries()), 3)

    def test_a_head_that_differs_from_the_embedding_is_an_error_of_a_warm_start_too(self):
        """The config calls the head a copy of the embedding, which only the weights' bytes can belie."""
        model = self.checkpoint(config=lambda config: config.update(tie_word_embeddings=True))
        tensors = read_tensors(model / "model.safetensors")
        embedding = tensors["model.embed_tokens.weight"]
        dtype, shape, data = embedding

        def store(head):
            write_tensors(model / "model.safetensors", {**tensors, "lm_head.weight": head})
        asked = ("--device", "cpu", "--prompt-ids", "3,1,4", "--max-new-tokens", 2, "--keep-weights", "no")
        store(embedding)
        code, _, err = self.mkc("compile", model, "--target", "x86-64", "-o", "x.so", **self.environment)
        self.assertEqual(code, 0, err)
        starts = (("run", model, *asked), ("run", "x.so", "--checkpoint", model, *asked))
        for start in starts * 2:
            code, _, err = self.mkc(*start, **self.environment)
            self.assertEqual(code, 0, err)
        kept = self.entries()
        store((dtype, shape, data[:-2] + bytes(2)))
        for start in starts:
            code, _, err = self.mkc(*start, **self.environment)
            self.assertEqual(code, 1)
            self.assertIn('tie_word_embeddings is true, but tensor "lm_head.weight" differs from "model.embed_tokens.weight"', err)
        self.assertEqual(self.entries(), kept)
        family = (ROOT / "models/qwen3.yaml").read_text()
        for was, now in (("{bool: config.tie_word_embeddings}", "{bool: \"false\"}"),  # reads the head itself
                         (", copy_of: model.embed_tokens.weight, key: tie_word_embeddings", "")):  # lets it differ
            (self.dir / "own.yaml").write_text(family.replace(was, now))
            code, _, err = self.mkc("compile", model, "--family", "own.yaml", "--target", "x86-64", "-o", "own.so", **self.environment)
            self.assertEqual(code, 0, err)
            code, _, err = self.mkc("run", "own.so", "--checkpoint", model, *asked, **self.environment)
            self.assertEqual(code, 0, err)

    def test_what_modelopt_says_of_a_checkpoint_makes_another(self):
        model = self.checkpoint()
        self.assert_new(model)
        said = model / "hf_quant_config.json"
        said.write_text('{"quantization": {"quant_algo": "W4A8"}}')
        self.refuses("model/hf_quant_config.json:1:", "compile", model, "-o", self.dir / "out.cubin", **self.environment)
        said.write_text('{"quantization": {"quant_algo": "FP8"}}')
        self.assert_new(model)
        self.assertTrue(self.compile(model)[0])

    def test_another_assembler_makes_another(self):
        self.assert_new(FIXTURE)
        self.assemble_by(PTXAS.replace("V13.0.1", "V13.0.2"))
        self.assert_new(FIXTURE)

    def test_another_program_makes_another(self):
        program = self.dir / "mkc"
        shutil.copy(MKC, program)
        self.assert_new(FIXTURE, program=program)
        self.assertTrue(self.compile(FIXTURE, program=program)[0])
        bytes_ = program.read_bytes()
        notes = list(re.finditer(rb"(?s)" + struct.pack("<I", 4) + rb"(.)\0\0\0" + struct.pack("<I", 3) + rb"GNU\0", bytes_))
        self.assertEqual(len(notes), 1)
        at = notes[0].end()
        program.write_bytes(bytes_[:at] + bytes([bytes_[at] ^ 1]) + bytes_[at + 1:])
        self.assert_new(FIXTURE, program=program)

    def test_what_is_damaged_or_failed_is_not_served(self):
        _, made = self.compile(FIXTURE)
        (entry,) = self.entries()
        whole = entry.read_bytes()
        for damaged in (whole[:-1], whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], b""):
            entry.write_bytes(damaged)
            self.assertEqual(self.compile(FIXTURE), (False, made))
            self.assertEqual(entry.read_bytes(), whole)

        # A pipe at the entry's name has no reader to wait for, and a link's target is no entry.
        entry.unlink()
        os.mkfifo(entry)
        self.assertEqual(self.compile(FIXTURE), (False, made))
        self.assertEqual(entry.read_bytes(), whole)
        (self.dir / "other").write_bytes(b"other")
        entry.unlink()
        entry.symlink_to(self.dir / "other")
        self.assertEqual(self.compile(FIXTURE), (False, made))
        self.assertEqual((entry.is_symlink(), entry.read_bytes(), (self.dir / "other").read_bytes()), (False, whole, b"other"))

        def no_id(config):
            config["eos_token_id"] = "none"

        for _ in range(2):
            self.assertEqual(self.mkc("compile", self.checkpoint(config=no_id), **self.environment)[0], 1)
        self.assertEqual(self.entries(), [entry])


unittest.main(argv=sys.argv[:1], verbosity=1)
