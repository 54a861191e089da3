"""These tests check what becomes of the output and the source of mkc quantize: folders, permissions, signals, other files.
Usage: quantize_output_test.py MKC ROOT
"""
import fcntl
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
import time
import unittest

from command import FIXTURE, LIMIT_S, MKC, TINY, Command


class QuantizeOutputTest(Command):
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

    def has_written(self, mega):
        try:
            return any(path.stat().st_blocks * 512 >= mega << 20 for path in self.dir.rglob("model.safetensors.*"))
        except FileNotFoundError:  # a folder was gone before it was read
            return False

    def start(self, out, mega=0):
        """Returns a run of the large checkpoint that has written so many MB of weights, at least."""
        process = subprocess.Popen([MKC, "quantize", "large", "-o", out, "--format", "int4-g128", "--threads", "1"], cwd=self.dir,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)))
        while not self.has_written(mega):
            self.assertIsNone(process.poll())
            time.sleep(.001)
        return process

    def test_signals_leave_nothing_of_a_run(self):
        self.large_checkpoint(rows=32768, filled=200)
        (self.dir / "empty").mkdir(mode=0o750)
        before = sorted(self.dir.rglob("*"))
        for number, out in ((signal.SIGQUIT, "out"), (signal.SIGXCPU, "empty"), (signal.SIGUSR1, "out"), (signal.SIGALRM, "empty")):
            with self.subTest(number):
                process = self.start(out)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=LIMIT_S), -number)
                process.communicate(timeout=LIMIT_S)
                self.assertEqual(sorted(self.dir.rglob("*")), before)

    def test_files_that_appear_in_the_output_meanwhile_are_an_error_and_stay(self):
        self.large_checkpoint(rows=32768, filled=200)
        (self.dir / "empty").mkdir()
        process = self.start("empty")
        (self.dir / "empty" / "config.json").write_text("mine")
        _, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, err.decode().replace(f"{self.dir}/", "")),
                         (1, "empty: error: has config.json, which was not there before, expected an empty directory\n"))
        self.assertEqual([(p.name, p.read_text()) for p in (self.dir / "empty").iterdir()], [("config.json", "mine")])

    def test_a_signal_among_the_moves_waits_for_the_last(self):
        model, out, names = self.checkpoint(), self.dir / "out", 6000
        for i in range(names):
            (model / f"{i}.txt").write_bytes(b"")
        out.mkdir()
        process = subprocess.Popen([MKC, "quantize", model, "-o", out, "--format", "fp8"], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        while len(os.listdir(out)) < 2:
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertIn(process.wait(timeout=LIMIT_S), (-signal.SIGINT, 0))
        self.assertEqual(sorted(os.listdir(out)), sorted(os.listdir(model)))

    def test_what_a_killed_run_left_is_removed_and_what_another_writes_is_not(self):
        model, left = self.checkpoint(), self.dir / "out" / ".mkc.a1B2c3"
        left.mkdir(parents=True)
        (left / "model.safetensors").write_bytes(b"x")
        folder = os.open(left, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_EX)
        self.refuses("out: error: has .mkc.a1B2c3, which another mkc quantize writes\n", "quantize", model, "-o", "out", "--format", "fp8")
        os.close(folder)
        (left.parent / "mine").write_text("")
        self.refuses("out: error: exists, expected a new or an empty directory\n", "quantize", model, "-o", "out", "--format", "fp8")
        (left.parent / "mine").unlink()
        self.out_of("model", "out")
        self.assertEqual(sorted(os.listdir(left.parent)), sorted(os.listdir(model)))

    def test_a_source_that_changes_meanwhile_is_an_error_and_leaves_nothing(self):
        def touch(path):
            os.utime(path)

        def cut(path):
            os.truncate(path, 50 << 20)
        changed = "large/model.safetensors: error: changed meanwhile\n"
        shortened = "mkc: error: a file was shortened while mkc read it, or its disk failed\n"
        # The first cut is met by a copy, unless the run is faster than this test. The second is met by a product's rows.
        for change, mega, said in ((touch, 0, (changed,)), (cut, 0, (changed, shortened)), (cut, 4, (shortened,))):
            with self.subTest((change, mega)):
                folder, _ = self.large_checkpoint(rows=32768, filled=200)
                before = sorted(self.dir.iterdir())
                process = self.start("out", mega)
                change(folder / "model.safetensors")
                _, err = process.communicate(timeout=LIMIT_S)
                self.assertEqual(process.returncode, 1)
                self.assertIn(err.decode(), said)
                self.assertEqual(sorted(self.dir.iterdir()), before)
                shutil.rmtree(folder)

    def test_files_that_are_too_large_are_an_error_of_the_output(self):
        before = sorted(self.dir.iterdir())
        done = subprocess.run([MKC, "quantize", TINY, "-o", "out", "--format", "fp8"], cwd=self.dir, capture_output=True, timeout=LIMIT_S,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr.decode(), r"out/[\w.]+: error: cannot (write|copy): File too large\n$")
        self.assertEqual(sorted(self.dir.iterdir()), before)

    def test_permissions_are_those_of_the_mask_the_directory_and_the_source(self):
        model = self.checkpoint()
        (model / "model.safetensors").chmod(0o640)
        (self.dir / "empty").mkdir()
        (self.dir / "empty").chmod(0o2710)
        for out, mode in (("new", 0o770), ("empty", 0o2710)):
            done = subprocess.run([MKC, "quantize", model, "-o", out, "--format", "fp8"], cwd=self.dir, capture_output=True,
                                  timeout=LIMIT_S, preexec_fn=lambda: os.umask(0o007))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual((self.dir / out).stat().st_mode & 0o7777, mode)
            self.assertEqual((self.dir / out / "model.safetensors").stat().st_mode & 0o777, 0o640)
            self.assertEqual(sorted(p.name for p in (self.dir / out).iterdir()), sorted(p.name for p in model.iterdir()))

    def test_an_empty_directory_in_a_folder_that_takes_no_files(self):
        """Directories that file systems are mounted on cannot be renamed, either."""
        model = self.checkpoint()
        parent = self.dir / "closed"
        (parent / "out").mkdir(parents=True)
        (parent / "out").chmod(0o777)
        parent.chmod(0o555)
        self.dir.chmod(0o755)

        def leave_root():
            if os.getuid() == 0:
                os.setgroups([])
                os.setgid(54321)
                os.setuid(54321)

        for out, code, said in (("closed/out", 0, b""), ("closed/new", 1, b"closed/new: error: cannot create: Permission denied\n")):
            done = subprocess.run([MKC, "quantize", model, "-o", out, "--format", "fp8"], cwd=self.dir, capture_output=True,
                                  timeout=LIMIT_S, preexec_fn=leave_root)
            self.assertEqual((done.returncode, done.stderr), (code, said))
        self.assertTrue((parent / "out" / "config.json").exists())
        parent.chmod(0o755)

    def test_other_weights_and_folders_are_left_out(self):
        model = self.checkpoint()
        (model / "kept").mkdir()
        for name in ("a.onnx_data", "b.ckpt", "c.npz", "d.ot", "e.pkl"):
            (model / name).write_bytes(b"x")
        self.assertIn("left out: a.onnx_data, b.ckpt, c.npz, d.ot, e.pkl, kept\n", self.out_of("model", "out"))

    def test_an_output_in_the_source_or_around_it_is_refused(self):
        (self.checkpoint() / "empty").mkdir()
        os.symlink("model", self.dir / "link")
        for model in ("model", "model/"):
            for out in ("model/new", "model/empty", "model/empty/new", "link/new", "model/../model/new"):
                self.refuses(f"{out}: error: is inside {model}, which is quantized, expected a directory outside it\n", "quantize", model,
                             "-o", out, "--format", "fp8")
        done = subprocess.run([MKC, "quantize", ".", "-o", "new", "--format", "fp8"], cwd=self.dir / "model", capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (1, "new: error: is inside ., which is quantized, expected a directory outside it\n"))
        (self.dir / "around").mkdir()
        (self.dir / "model").rename(self.dir / "around" / "model")
        for model, out in (("around/model", "around"), ("around/model", "around/model")):
            self.refuses(f"{out}: error: exists, expected a new or an empty directory\n", "quantize", model, "-o", out, "--format", "fp8")

    def out_of(self, model, output):
        code, out, err = self.mkc("quantize", model, "-o", output, "--format", "fp8")
        self.assertEqual(code, 0, err)
        return out.decode()

    def test_links_to_nothing_are_left_out(self):
        model = self.dir / "model"
        shutil.copytree(TINY, model)
        for i in range(8):
            (model / f"{i}.txt").symlink_to("nowhere")
        code, out, err = self.mkc("quantize", "model", "-o", "out", "--format", "fp8")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("left out: 0.txt, 1.txt, 2.txt, 3.txt, 4.txt, 5.txt, 6.txt, 7.txt\n", out.decode())


unittest.main(argv=sys.argv[:1], verbosity=1)
