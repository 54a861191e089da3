"""These tests call the mkc command: what it accepts, and what it says of bad input.
Usage: command_test.py MKC ROOT
"""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from command import FIXTURE, LIMIT_S, MKC, ROOT, Command


class CommandTest(Command):
    # These tests run commands that work.

    def test_version_and_help(self):
        code, out, _ = self.mkc("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out.decode(), r"^mkc \d+\.\d+\.\d+( \([0-9a-f]{12}(-dirty)?\))?\n$")
        code, out, _ = self.mkc("--help")
        self.assertEqual(code, 0)
        for command in ("compile", "run", "serve", "check", "inspect", "explain", "simulate", "trace", "report", "doctor"):
            self.assertIn(command, out.decode())
            self.assertEqual(self.mkc(command, "--help")[0], 0)

    def test_doctor_says_where_it_looked(self):
        code, out, _ = self.mkc("doctor", CUDA_HOME="/nowhere", PATH="/bin:/some/where")
        self.assertEqual(code, 0)
        self.assertIn("/nowhere/bin/ptxas (CUDA_HOME)\n", out.decode())
        self.assertIn("/some/where/ptxas (PATH)\n", out.decode())
        self.assertIn("libcuda.so.1", out.decode())

    def test_compiles_from_config_alone(self):
        folder = self.checkpoint()
        (folder / "model.safetensors").unlink()
        for kind in ("ops", "tasks", "schedule", "dot", "ptx", "manifest", "llvm", "yaml"):
            code, out, err = self.mkc("compile", folder, "--emit", kind)
            self.assertEqual(code, 0, err)
            self.assertGreater(len(out), 200)
        code, out, _ = self.mkc("compile", folder, "--emit", "schedule", "-o", "s.mkir", "--time-passes")
        self.assertEqual((code, out), (0, b""))
        self.assertEqual(self.mkc("check", "s.mkir")[0], 0)
        code, out, err = self.mkc("compile", folder, "--emit", "yaml", "-o", "again.yaml")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.mkc("compile", "again.yaml", "--emit", "schedule")[0], 0)

    def test_a_model_yaml_gives_the_same_schedule_from_any_folder(self):
        def schedule(model):
            code, out, err = self.mkc("compile", model, "--emit", "schedule")
            self.assertEqual(code, 0, err)
            return re.sub(r'"(\\.|[^"\\])*"', '""', out.decode())
        name = 'two\n\tlines "ä\x7f'
        self.checkpoint().rename(self.dir / name)
        (self.dir / "folder").mkdir()
        shutil.copy(ROOT / "models" / "qwen3.yaml", self.dir / "f.yaml")
        os.symlink("folder/target.yaml", self.dir / "link.yaml")
        expected = schedule(name)
        for output in ("y.yaml", "folder/y.yaml", "link.yaml"):
            code, _, err = self.mkc("compile", name, "--family", "f.yaml", "--emit", "yaml", "-o", output)
            self.assertEqual(code, 0, err)
            self.assertEqual(schedule(output), expected)
        (self.dir / "folder" / "out.yaml").write_bytes(self.mkc("compile", name, "--emit", "yaml")[1])
        self.assertEqual(schedule("folder/out.yaml"), expected)
        bad = os.fsdecode(b"\xff")
        shutil.copytree(FIXTURE, self.dir / bad)
        code, out, err = self.mkc("compile", bad, "--emit", "yaml", "-o", "bad.yaml")
        self.assertEqual((code, err), (1, "bad.yaml:1:14: error: byte 0xff is not valid UTF-8, which --emit yaml cannot write\n"))
        self.assertFalse((self.dir / "bad.yaml").exists())

    def test_a_model_yaml_drops_no_flags(self):
        for flag, *value in (("--machine", "h100"), ("--without", "wgmma"), ("--mode", "kernels"), ("--trace",), ("--keep-activations",),
                             ("--ignore-measured",)):
            self.refuses(f"{flag}: error: a model.yaml cannot hold it", "compile", FIXTURE, flag, *value, "--emit", "yaml", "-o", "y.yaml")

    def test_batch_invariance_is_what_the_flag_says_or_else_the_model(self):
        def said(*arguments):
            code, out, err = self.mkc("compile", "m.yaml", "--emit", "yaml", *arguments)
            self.assertEqual(code, 0, err)
            return b"batch_invariant: true" in out
        code, out, err = self.mkc("compile", FIXTURE, "--emit", "yaml", "--batch-invariant", "-o", "m.yaml")
        self.assertEqual(code, 0, err)
        self.assertTrue(said())
        self.assertFalse(said("--no-batch-invariant"))
        (self.dir / "m.yaml").write_text((self.dir / "m.yaml").read_text().replace("batch_invariant: true", "batch_invariant: false"))
        self.assertFalse(said())
        self.assertTrue(said("--batch-invariant"))

    def test_prints_after_passes(self):
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "tasks", "--print-after", "fuse")
        self.assertEqual(code, 0)
        self.assertIn("// after fuse: ", err)
        self.assertNotIn("// after events: ", err)
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "ptx", "-o", "a.ptx", "--print-after", "prove", "--time-passes")
        self.assertEqual(code, 0)
        self.assertIn("// after prove: ", err)
        self.assertRegex(err, r"ms  prove, beside those above\n.* ms  in all")
        self.refuses("--print-after none: error: no such pass, expected all or one of ops, fuse, search, split, events, "
                     "place, prove", "compile", FIXTURE, "--print-after", "none")
        for emitted, name, expected in (("ops", "fuse", "ops"), ("yaml", "fuse", "ops"), ("tasks", "prove", "ops, fuse, search, split, events"),
                                        ("dot", "place", "ops, fuse, search, split, events")):
            self.refuses(f"--print-after {name}: error: --emit {emitted} runs no such pass, expected all or one of {expected}\n", "compile",
                         FIXTURE, "--emit", emitted, "--print-after", name)
        self.refuses("--print-after split: error: --emit yaml runs no such pass, expected all or one of ops, fuse, search\n", "compile",
                     FIXTURE, "--emit", "yaml", "-O3", "--print-after", "search", "--print-after", "split")
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "ops", "--print-after", "all")
        self.assertEqual((code, err.count("// after ")), (0, 1), err)

    def test_times_of_passes_are_printed_whatever_is_emitted(self):
        for emitted in ("llvm", "manifest", "ptx"):
            code, _, err = self.mkc("compile", FIXTURE, "--emit", emitted, "--time-passes")
            self.assertEqual(code, 0, err)
            self.assertRegex(err, r"ms  prove.*\n.* ms  in all", emitted)

    def test_a_cubin_is_checked_against_its_checkpoint(self):
        code, out, err = self.mkc("compile", FIXTURE, "--json")
        if "no assembler" in err:
            self.assertEqual((code, (self.dir / "qwen3.ptx").exists()), (0, True))
            self.skipTest("no assembler")
        self.assertEqual(code, 0, err)
        summary = json.loads(out)
        self.assertEqual((summary["output"], summary["spill_bytes"]), ("qwen3.cubin", 0))
        self.assertEqual(self.mkc("inspect", "qwen3.cubin")[0], 0)
        other = ROOT / "tests" / "fixtures" / "models" / "llama"
        self.refuses(f"{other}", "run", "qwen3.cubin", "--checkpoint", other, "--prompt-ids", 1)
        self.refuses("qwen3.cubin: error: holds no weights: name their checkpoint by --checkpoint", "run",
                     "qwen3.cubin", "--prompt-ids", 1)
        cubin = (self.dir / "qwen3.cubin").read_bytes()
        (self.dir / "cut.cubin").write_bytes(cubin[:len(cubin) // 2])
        self.refuses("cut.cubin: error: ", "inspect", "cut.cubin")
        code, out, err = self.mkc("compile", FIXTURE, "-o", "-")
        self.assertEqual((code, out), (0, cubin), err)

    def test_without_an_assembler_ptx_is_written(self):
        hidden = {"MKC_ASSEMBLER": str(self.dir / "none")}
        code, _, err = self.mkc("compile", FIXTURE, **hidden)
        self.assertEqual(code, 0, err)
        self.assertIn("no cubin was made\n", err)
        self.assertIn(b"mk_kernel", (self.dir / "qwen3.ptx").read_bytes())
        os.remove(self.dir / "qwen3.ptx")
        for named in (("--emit", "cubin"), ("-o", "a.cubin"), ("-o", "-")):
            self.refuses("MKC_ASSEMBLER none: error: cannot be started: No such file or directory", "compile", FIXTURE, *named, **hidden)
        self.assertEqual(list(self.dir.glob("*.ptx")), [])

    def test_default_names_are_checked_before_any_work(self):
        hidden = {"MKC_ASSEMBLER": str(self.dir / "none")}
        for target, ending in (("sm_90a", "ptx"), ("x86-64-v3", "so")):
            (self.dir / f"qwen3.{ending}").mkdir()
            code, _, err = self.mkc("compile", FIXTURE, "--target", target, "--print-after", "ops", **hidden)
            self.assertEqual(code, 1)
            self.assertIn(f"qwen3.{ending}: error: cannot write: Is a directory\n", err)
            self.assertNotIn("// after", err)

    # These tests run commands that fail.

    def test_command_lines(self):
        self.refuses("mkc: error: ", "compile")
        self.refuses("mkc: error: ", "compile", FIXTURE, "--nonsense")
        self.refuses("mkc: error: --emit: ", "compile", FIXTURE, "--emit", "exe")
        self.refuses("none: error: cannot be read: No such file or directory", "compile", "none")
        self.refuses("mkc: error: give one of --prompt, --prompt-ids and --batch-file", "run", FIXTURE)
        for flag, value, fault in (
                ("--temperature", -1, "is -1, expected 0 to 1000000"),
                ("--temperature", "nan", "is nan, expected 0 to 1000000"),
                ("--top-p", 0, "is 0, expected more than 0, at most 1"),
                ("--min-p", 2, "is 2, expected 0 to 1"),
                ("--repetition-penalty", 0, "is 0, expected 0.001 to 1000")):
            self.refuses(f"{flag}: error: {fault}\n", "run", FIXTURE, "--prompt-ids", 1, f"{flag}={value}")
        self.refuses("mkc: error: --top-k: found -3, expected 0 to 4294967295\n", "run", FIXTURE, "--top-k=-3")
        self.refuses("mkc: error: --logprobs: found 21, expected 0 to 20\n", "run", FIXTURE, "--json",
                     "--logprobs", 21)
        self.refuses("mkc: error: --logprobs requires --json\n", "run", FIXTURE, "--logprobs", 2)
        self.refuses("--checkpoint x: error: is for compiled models, ", "run", FIXTURE, "--checkpoint", "x", "--prompt-ids", 1)
        with open("/dev/full", "w") as full:
            done = subprocess.run([MKC, "--version"], stdout=full, stderr=subprocess.PIPE, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (1, b"mkc: error: cannot write to standard output\n"))
        self.refuses("error: no machine description for target 'sm_70'; known targets: ", "compile", FIXTURE,
                     "--target", "sm_70")
        self.refuses("none/f.ptx: error: cannot create: No such file or directory", "compile", FIXTURE, "--emit",
                     "ptx", "-o", "none/f.ptx")

    def test_empty_values_are_refused(self):
        for flag, expected in (("--logits-out", "FILE"), ("--machine", "MACHINE"), ("--checkpoint", "DIR"), ("--target", "TARGET")):
            self.refuses(f"mkc: error: {flag}: found an empty value, expected {expected}\n", "run", FIXTURE, "--prompt-ids", 1, flag, "")
        self.refuses("mkc: error: MODEL: found an empty value, expected PATH\n", "run", "", "--prompt-ids", 1)
        self.refuses("mkc: error: -o: found an empty value, expected FILE\n", "compile", FIXTURE, "-o", "")
        # Nothing behind the equals sign is an empty value, and not the next argument.
        for flag, expected in (("--logits-out", "FILE"), ("--top-k", "INT"), ("--json", "none")):
            self.refuses(f"mkc: error: {flag}: found an empty value, expected {expected}\n", "run", FIXTURE, f"{flag}=", "--prompt-ids", 1)
        self.refuses("mkc: error: --api-key: found an empty value, expected KEY\n", "serve", FIXTURE, "--api-key=", "--log-requests")
        tiny, run = ROOT / "models" / "tiny-stories", ("--device", "cpu", "--json", "--max-new-tokens", 1)
        for prompt in (("--prompt=",), ("--prompt", "")):
            code, out, err = self.mkc("run", tiny, *run, *prompt)
            self.assertEqual(code, 0, err)
            self.assertEqual(json.loads(out)["prompt_ids"], [0])
            self.refuses("prompt: error: is empty", "run", tiny, *run, *prompt, "--no-special-tokens")

    def test_pipes_are_refused_where_files_are_read(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        for arguments in (("explain", pipe), ("explain", FIXTURE, "--family", pipe), ("explain", FIXTURE, "--machine", pipe)):
            self.refuses("pipe: error: is not a regular file\n", *arguments)
        model = self.checkpoint()
        os.mkfifo(model / "tokenizer.json")
        self.refuses("model/tokenizer.json: error: not a regular file\n", "run", model, "--prompt", "x")

    def test_links_without_end_are_refused(self):
        for name in ("generation_config.json", "tokenizer_config.json", "hf_quant_config.json", "tokenizer.json", "model.safetensors"):
            link = self.checkpoint() / name
            link.unlink(missing_ok=True)
            link.symlink_to(name)
            fault = "cannot be read" if "config" in name else "cannot open"
            self.refuses(f"model/{name}: error: {fault}: Too many levels of symbolic links\n", "run", link.parent, "--prompt-ids", 1)
        self.refuses("model/model.safetensors: error: cannot open: Too many levels of symbolic links\n", "explain", link.parent)

    def test_safetensors(self):
        name = "model.layers.0.mlp.up_proj.weight"
        file = "model/model.safetensors: error: "
        compile_ = lambda **edits: ("compile", self.checkpoint(**edits), "--emit", "ops")
        self.refuses(file + "header of ", *compile_(cut=100))
        self.refuses(file, *compile_(cut=-1))
        self.refuses(file + "tensors end at byte ", *compile_(more=b"\0\0"))
        self.refuses(file + f"{name}.dtype: found \"BF1\"", *compile_(header=lambda h: h[name].update(dtype="BF1")))
        self.refuses(file + f"{name}.data_offsets: found ",
                     *compile_(header=lambda h: h[name].update(dtype="F32")))
        self.refuses(file + f"{name}.shape: has more than 2^63 bytes",
                     *compile_(header=lambda h: h[name].update(shape=[2**62, 4])))

        def overlap(header):
            header[name]["data_offsets"] = [0, header[name]["data_offsets"][1] - header[name]["data_offsets"][0]]
        self.refuses(file + "tensor ", *compile_(header=overlap))

    def test_tensors_that_do_not_fit_the_model(self):
        name = "model.layers.1.self_attn.q_norm.weight"

        def rename(header):
            header["model.layers.1.self_attn.q_norms.weight"] = header.pop(name)

        def reshape(header):
            header[name]["shape"] = [1, 16]
        for edit in (rename, reshape):
            code, _, err = self.mkc("compile", self.checkpoint(header=edit), "--emit", "ops")
            self.assertEqual(code, 1)
            self.assertIn(name, err)
        # The config has one layer fewer, so the tensors of the other layer are left over.
        def one_layer(c):
            c.update(num_hidden_layers=1, layer_types=c["layer_types"][:1])
        code, _, err = self.mkc("compile", self.checkpoint(config=one_layer), "--emit",
                                "ops")
        self.assertEqual(code, 1)
        self.assertIn("model.layers.1.", err)

    def test_configs(self):
        cases = [
            (lambda c: c.pop("hidden_size"), "hidden_size"),
            (lambda c: c.update(hidden_size="48"), "hidden_size"),
            (lambda c: c.update(hidden_size=0), "hidden_size"),
            (lambda c: c.update(num_attention_heads=0), "num_attention_heads"),
            (lambda c: c.update(num_key_value_heads=3), "num_key_value_heads"),
            (lambda c: c.update(num_hidden_layers=2**40), "num_hidden_layers"),
            (lambda c: c.update(rms_norm_eps=None), "rms_norm_eps"),
            (lambda c: c.update(architectures=["NoSuchModel"], model_type="none"), "NoSuchModel"),
            (lambda c: c.update(hidden_act="gelu"), "hidden_act"),
            (lambda c: c.update(eos_token_id=-1), "eos_token_id"),
        ]
        for edit, key in cases:
            with self.subTest(key):
                code, _, err = self.mkc("compile", self.checkpoint(config=edit), "--emit", "ptx")
                self.assertEqual(code, 1, err)
                self.assertIn(key, err)
                self.assertIn("model/config.json", err)
        folder = self.checkpoint()
        for text in ("{", "[" * 100000, '{"a": 1, "a": 2}', "\xff", ""):
            (folder / "config.json").write_bytes(text.encode("latin-1"))
            code, _, err = self.mkc("compile", folder, "--emit", "ops")
            self.assertEqual(code, 1)
            self.assertTrue(err.startswith("model/config.json"), err)

    def test_model_files(self):
        def refuse(expected, text):
            (self.dir / "model.yaml").write_text(text)
            self.refuses(expected, "compile", "model.yaml", "--emit", "ops")
        refuse("model.yaml:1:1: error: ", "checkpiont: x\n")
        refuse("model.yaml:2:", f"checkpoint: {FIXTURE}\nlimits: {{tokens: 0}}\n")
        refuse("model.yaml:", "a: &a [*a]\n")
        bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
            f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 9))
        refuse("model.yaml:", bomb)
        refuse("model.yaml:", "[" * 5000)
        refuse("model.yaml:2:18: error: ring is 3, expected 4 to 12, the stages of machine h100", f"checkpoint: {FIXTURE}\nschedule: {{ring: 3}}\n")
        refuse("model.yaml:2:18: error: ring is 13, expected 4 to 12, the stages of machine h100",
               f"checkpoint: {FIXTURE}\nschedule: {{ring: 13}}\n")
        (self.dir / "model.yaml").write_text(f"checkpoint: {FIXTURE}\nschedule: {{ring: 5}}\n")
        code, out, err = self.mkc("compile", "model.yaml", "--emit", "schedule")
        self.assertIn("\nring stages 5 bytes 16384\n", out.decode(), err)
        self.assertIn("ring: 5", self.mkc("compile", "model.yaml", "--emit", "yaml")[1].decode())
        refuse("other/config.json: error: ", "checkpoint: other\n")

    def test_numbers_of_flags(self):
        self.refuses("mkc: error: --workers: found abc, expected a whole number", "simulate", FIXTURE, "--workers", "abc")
        self.refuses("mkc: error: --workers: found 1.5, expected a whole number", "compile", FIXTURE, "--workers", "1.5")

    def test_mkir(self):
        (self.dir / "bad.mkir").write_text("mkir ops 1 \"x\"\nnonsense\n")
        self.refuses("bad.mkir:2:1: error: ", "check", "bad.mkir")
        self.refuses("none.mkir: error: cannot open: No such file or directory", "check", "none.mkir")
        # The proof finds a count that does not match.
        code, out, _ = self.mkc("compile", FIXTURE, "--emit", "schedule", "--machine", "emulator", "--target",
                                "emulator")
        self.assertEqual(code, 0)
        text = out.decode()
        line = next(l for l in text.splitlines() if l.startswith("event @l0.down_ready"))
        (self.dir / "count.mkir").write_text(text.replace(line, line.replace("expect ", "expect 1 + ")))
        self.refuses(f"count.mkir:{text.splitlines().index(line) + 1}:1: error: @l0.down_ready[] expects 11 notifications, 10 tasks notify it", "check", "count.mkir")
        # The ring must fit the machine.
        code, out, _ = self.mkc("compile", FIXTURE, "--emit", "schedule", "--machine", "h100")
        self.assertEqual(code, 0)
        (self.dir / "ring.mkir").write_text(re.sub(r"ring stages \d+ ", "ring stages 13 ", out.decode()))
        self.refuses("ring.mkir:3:1: error: the ring has 13 stages, expected at most 12, the stages of machine h100", "check", "ring.mkir")

    def test_gpu_that_is_not_there(self):
        code, _, err = self.mkc("run", FIXTURE, "--device", "cuda", "--prompt-ids", "1")
        if code == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(code, 1)
        self.assertIn("cuda: error: ", err)


unittest.main(argv=sys.argv[:1], verbosity=1)
