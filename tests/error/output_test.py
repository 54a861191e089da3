"""These tests check what mkc prints and leaves behind.
Usage: output_test.py MKC ROOT
"""
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from command import CACHE, FIXTURE, LIMIT_S, MKC, ROOT, TINY, Command

COMMANDS = ("compile", "run", "chat", "serve", "check", "inspect", "quantize", "doctor", "explain", "simulate", "trace", "completions", "man")


class OutputTest(Command):
    def setUp(self):
        super().setUp()
        code, _, err = self.mkc("compile", FIXTURE, "--emit", "schedule", "-o", "s.mkir")
        self.assertEqual(code, 0, err)

    def printing(self):
        """Returns a command line of each kind that prints to standard output."""
        return [("--version",), ("--help",), ("compile", "--help"), ("compile", FIXTURE, "--emit", "schedule"),
                ("compile", FIXTURE, "--emit", "yaml"), ("run", FIXTURE, "--prompt-ids", 1, "--max-new-tokens", 2),
                ("run", FIXTURE, "--prompt-ids", 1, "--max-new-tokens", 2, "--json"), ("check", "s.mkir"),
                ("check", "s.mkir", "--json"), ("doctor",), ("doctor", "--json"), ("explain", FIXTURE),
                ("explain", FIXTURE, "--hops"), ("explain", FIXTURE, "--json"), ("simulate", FIXTURE),
                ("simulate", FIXTURE, "--json")]

    def spawn(self, arguments, **options):
        return subprocess.run([MKC, *map(str, arguments)], cwd=self.dir, env={**os.environ, "MKC_CACHE": str(CACHE)},
                              timeout=LIMIT_S, stderr=subprocess.PIPE, **options)

    def test_output_that_cannot_be_written_is_an_error(self):
        fault = b"mkc: error: cannot write to standard output\n"
        for arguments in [*self.printing(), ("man",), ("completions", "zsh")]:
            with self.subTest(arguments), open("/dev/full", "w") as full:
                done = self.spawn(arguments, stdout=full)
                self.assertEqual((done.returncode, done.stderr[-len(fault):]), (1, fault))
                # Nobody reads the pipe here.
                read, write = os.pipe()
                os.close(read)
                done = self.spawn(arguments, stdout=write)
                os.close(write)
                self.assertEqual((done.returncode, done.stderr[-len(fault):]), (1, fault))
                # The shell closes standard output here.
                done = self.spawn(["-c", 'exec "$@" >&-', "sh", MKC, *arguments], executable="/bin/sh")
                self.assertEqual((done.returncode, done.stderr[-len(fault):]), (1, fault))

    def test_temporary_files_that_do_not_fit_are_an_error(self):
        folder = self.dir / "tmp"
        folder.mkdir()
        for limit in (2 << 10, 64 << 10, 256 << 10, 420 << 10):  # of the code, of the bodies, of what is linked

            def limits():
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

            with self.subTest(limit):
                done = subprocess.run([MKC, "compile", FIXTURE, "--target", "x86-64-v3", "--no-cache", "-o", "a.so"], cwd=self.dir,
                                      env={**os.environ, "TMPDIR": str(folder)}, preexec_fn=limits, restore_signals=False,
                                      capture_output=True, timeout=LIMIT_S)
                self.assertEqual(done.returncode, 1, done.stderr)
                file = rb"code\.o" if limit < 10_000 else rb"\w+\.(o|so)"
                self.assertRegex(done.stderr, rb"tmp/mkc-\w+/" + file + rb": error: cannot write: File too large\n$")
                self.assertFalse((self.dir / "a.so").exists())
                self.assertEqual(list(folder.iterdir()), [])

    def test_a_process_without_further_threads(self):
        """Compilations and emulated steps need no further thread, a server does."""
        self.dir.chmod(0o755)
        out = self.dir / "out"
        out.mkdir()
        out.chmod(0o777)

        def limits():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            if os.getuid() == 0:  # root has no limit
                os.setgroups([])
                os.setgid(54321)
                os.setuid(54321)

        for code, *arguments in ((0, "compile", FIXTURE, "--target", "x86-64", "-o", "out/m.so"),
                                 (0, "run", FIXTURE, "--device", "emulator", "--emulator-threads", 3, "--prompt-ids", 1, "--max-new-tokens", 1),
                                 (1, "serve", TINY, "--device", "cpu", "--port", 0)):
            with self.subTest(arguments):
                done = subprocess.run([MKC, *map(str, arguments)], cwd=self.dir, preexec_fn=limits, capture_output=True, timeout=LIMIT_S,
                                      env={**os.environ, "MKC_CACHE": "off", "TMPDIR": str(out)})
                self.assertEqual(done.returncode, code, done.stderr)
                if code:
                    self.assertIn(b"mkc: error: no thread: ", done.stderr)
        self.assertEqual([p.name for p in out.iterdir()], ["m.so"])

    def test_temporary_folders_that_cannot_be_made_are_named(self):
        fault = "error: no folder for temporary files can be made in /nonexistent: No such file or directory\n"
        self.refuses(fault, "run", FIXTURE, "--device", "cpu", "--prompt-ids", 1, MKC_CACHE="off", TMPDIR="/nonexistent")
        code, _, err = self.mkc("compile", FIXTURE, "--target", "x86-64", "--no-cache", "-o", "m.so", TMPDIR="")
        self.assertEqual(code, 0, err)

    def test_a_limit_of_memory_that_llvm_meets_is_an_error(self):
        for limit_kib in range(262_000, 342_000, 16_000):
            done = subprocess.run([MKC, "compile", FIXTURE, "--target", "sm_90a", "--emit", "ptx", "-o", self.dir / "m.ptx"], capture_output=True,
                                  timeout=LIMIT_S, env=os.environ | {"MKC_CACHE": "off"},
                                  preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit_kib << 10, limit_kib << 10)))
            self.assertIn(done.returncode, (0, 1, 127), done.stderr)  # 127: its libraries do not fit
            if done.returncode == 1:
                self.assertEqual(done.stderr.splitlines()[-1], b"mkc: error: out of memory")

    def test_mkrun_refuses_numbers_and_says_what_it_cannot_write(self):
        mkrun = MKC.parent / "mkrun"
        for flag, value, expected in (("--hash-every", 0, "not in range 1 to"), ("--prompt-ids", -1, "not in range 0 to"),
                                      ("--steps", (1 << 32) - 1, "not in range 0 to"),
                                      ("--timeout-ms", (1 << 64) - 1, "not in range 0 to"), ("--cache-positions", 1 << 36, "not in range 1 to"),
                                      ("--contexts", 0, "not in range 1 to")):
            code, out, err = self.mkc("none.so", f"{flag}={value}", program=mkrun)
            self.assertEqual((code, out), (1, b""))
            self.assertRegex(err, f"^{flag}: Value .*{expected}")
        self.assertEqual(self.mkc("compile", FIXTURE, "--target", "x86-64", "-o", "m.so")[0], 0)
        self.refuses("m.so: error: is not traced, expected one of mkc compile --trace\n", "m.so", "--prompt-ids", 1, "--trace", "t.json",
                     program=mkrun)
        for arguments, fault in ((("--checkpoint", "", "--prompt-ids", 1), "--checkpoint: found an empty value"),
                                 (("--checkpoint=", "--prompt-ids", 1), "--checkpoint: found an empty value"),
                                 (("--random-seed", -3), "--random-seed: found -3, expected 0 to 18446744073709551615"),
                                 (("--logits-out", "l.npy"), "--logits-out requires --prompt-ids"),
                                 (("--max-new-tokens", 2), "--max-new-tokens requires --prompt-ids"),
                                 (("--compare-samples",), "--compare-samples requires --prompt-ids"),
                                 (("--tokens", 2), "--tokens requires --steps"), (("--warm-up", 2), "--warm-up requires --steps"),
                                 (("--random-seed", 2, "--checkpoint", FIXTURE),
                                  "--random-seed: is for random weights or --steps, not for --checkpoint"),
                                 (("--steps", 1, "--batch", 17), "--batch: error: found 17, expected 1 to 16\n"),
                                 (("--steps", 1, "--batch", 16, "--tokens", 5), "--tokens: error: found 5, expected 1 to 4 at --batch 16\n"),
                                 (("--steps", 1, "--tokens", 8, "--contexts", 4),
                                  "--contexts: error: found 4, expected 8 to 128 at --tokens 8 and --steps-per-launch 1\n")):
            code, out, err = self.mkc("m.so", *arguments, program=mkrun)
            self.assertEqual((code, out), (1, b""))
            self.assertTrue(err.startswith(fault), err)
        done = subprocess.run([mkrun, self.dir / "m.so", "--steps", "2", "--contexts", "512", "--batch", "16"], capture_output=True, timeout=LIMIT_S,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (20_000 << 10, 20_000 << 10)))
        self.assertEqual((done.returncode, b"error: " in done.stderr), (1, True), done.stderr)
        with open("/dev/full", "w") as full:
            done = subprocess.run([mkrun, self.dir / "m.so"], stdout=full, stderr=subprocess.PIPE, timeout=LIMIT_S)
        self.assertEqual((done.returncode, done.stderr), (1, b"mkrun: error: cannot write to standard output\n"))
        for arguments in (["--help"], ["--man"], ["--version"], ["--completions", "bash"], [self.dir / "m.so"]):
            for stream in ("> /dev/full", ">&-", "| (exec true)"):
                command = f'"$@" {stream}; exit ${{PIPESTATUS[0]}}'
                done = subprocess.run(["bash", "-c", command, "bash", mkrun, *arguments], stderr=subprocess.PIPE, timeout=LIMIT_S)
                if stream.startswith(">"):
                    self.assertEqual((done.returncode, done.stderr), (1, b"mkrun: error: cannot write to standard output\n"), (arguments, stream))
                else:  # the reader may take all of it
                    self.assertIn(done.returncode, (0, 1), arguments)
        self.assertEqual(self.mkc("compile", TINY, "--target", "x86-64", "-o", "m.so")[0], 0)  # logits are larger than its code
        limit = (self.dir / "m.so").stat().st_size + 4096
        done = subprocess.run([mkrun, "m.so", "--prompt-ids", ",".join(["5"] * 200), "--max-new-tokens", "1", "--logits-out", "l.npy"],
                              cwd=self.dir, capture_output=True, timeout=LIMIT_S,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, rb"l\.npy: error: cannot write: File too large\n$")
        self.assertEqual([p.name for p in self.dir.iterdir() if "npy" in p.name], [])

    def test_an_assembler_does_not_inherit_ignored_signals(self):
        ptxas, seen = self.dir / "ptxas", self.dir / "seen"
        ptxas.write_text(f'#!/bin/sh\ngrep SigIgn /proc/self/status >> {seen}\nexec python3 {ROOT}/tests/error/fake_ptxas.py "$@"\n')
        ptxas.chmod(0o755)
        code, _, err = self.mkc("compile", FIXTURE, "-o", "m.cubin", MKC_CACHE="off", MKC_ASSEMBLER=str(ptxas))
        self.assertEqual(code, 0, err)
        masks = [int(line.split()[1], 16) for line in seen.read_text().splitlines()]
        self.assertGreater(len(masks), 1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            self.assertEqual([mask >> (number - 1) & 1 for mask in masks], [0] * len(masks), number.name)

    def test_errors_that_cannot_be_written_are_still_errors(self):
        for stream in ("2>/dev/full", "2>&-"):
            done = subprocess.run(["/bin/sh", "-c", f'exec "$@" {stream}', "sh", MKC, "compile", "none"], timeout=LIMIT_S)
            self.assertEqual(done.returncode, 1)
        # A file never takes the place of a stream that is closed.
        done = self.spawn(["-c", 'exec "$@" >&- 2>&-', "sh", MKC, "compile", FIXTURE, "--emit", "ptx", "-o", "a.ptx"],
                          executable="/bin/sh")
        self.assertTrue((self.dir / "a.ptx").read_bytes().startswith(b"//"), done.returncode)

    def test_lines_fit(self):
        long = self.dir / "long"
        shutil.copytree(TINY, long)
        lines = [self.mkc(*a) for a in self.printing() if "--json" not in a and "--emit" not in a]
        lines += [self.mkc(command, "--help") for command in COMMANDS]
        lines += [self.mkc("explain", "long"), self.mkc("compile", "long"),
                  self.mkc("explain", ROOT / "tools" / "bench" / "configs" / "qwen3-0.6b"),
                  self.mkc("compile", ROOT / "tools" / "bench" / "configs" / "qwen3-0.6b", "--emit", "ptx", "-o", "b.ptx")]
        for code, out, err in lines:
            self.assertEqual(code, 0, err)
            for line in out.decode().splitlines() + err.splitlines():
                words = [word for word in line.split() if "/" not in word]  # paths may have any length
                self.assertLessEqual(len(" ".join(words)), 120, line)
                if len(words) == len(line.split()):
                    self.assertLessEqual(len(line), 120, line)

    def test_unknown_names_are_named(self):
        hint = "\nRun mkc --help for the commands and mkc COMMAND --help for options.\n"
        known = "compile, run, chat, serve, check, inspect, quantize, doctor, explain, simulate, trace, report, completions, man"
        for arguments, fault in (
                ((), f"no command, expected one of {known}"),
                (("complie", "x"), f"unknown command complie, did you mean compile?; known are {known}"),
                (("zzzzzzzz",), f"unknown command zzzzzzzz; known are {known}"),
                (("--verison",), "unknown flag --verison of mkc, did you mean --version?"),
                (("compile", "--max-token", 3), "unknown flag --max-token of mkc compile, did you mean --max-tokens?"),
                (("run", FIXTURE, "--promt=x"), "unknown flag --promt of mkc run, did you mean --prompt?"),
                (("check", "-x", "f"), "unknown flag -x of mkc check, did you mean -h?")):
            self.refuses(f"mkc: error: {fault}{hint}", *arguments)

    def test_values_that_have_names(self):
        hint = "\nRun mkc --help for the commands and mkc COMMAND --help for options.\n"
        kinds = "yaml, ops, tasks, schedule, dot, llvm, manifest, ptx, cubin or so"
        for command, flag, names in (("compile", "--emit", kinds), ("compile", "--mode", "megakernel or kernels"),
                                     ("compile", "--kv-dtype", "bf16, f16, f32 or e4m3"),
                                     ("run", "--device", "auto, cuda, cpu or emulator")):
            self.refuses(f"mkc: error: {flag}: found i32, expected {names}{hint}", command, FIXTURE, flag, "i32")
        self.refuses(f"mkc: error: SHELL: found tcsh, expected bash, zsh or fish{hint}", "completions", "tcsh")

    def test_json_of_every_command(self):
        for arguments in self.printing():
            if "--json" in arguments:
                code, out, err = self.mkc(*arguments)
                self.assertEqual((code, type(json.loads(out))), (0, dict), err)
        checked = json.loads(self.mkc("check", "s.mkir", "--json")[1])
        self.assertEqual((checked["file"], checked["level"]), ("s.mkir", "schedule"))
        code, out, err = self.mkc("compile", FIXTURE, "-o", "a.cubin", "--json")
        if (self.dir / "a.cubin").exists():
            self.assertIn("assembler", json.loads(out))
            code, out, err = self.mkc("inspect", "a.cubin", "--json")
            self.assertEqual((code, json.loads(out)["model"]), (0, "qwen3"), err)
        code, _, err = self.mkc("run", FIXTURE, "--device", "emulator", "--prompt-ids", 1, "--max-new-tokens", 2, "--trace",
                                "t.json")
        self.assertEqual(code, 0, err)
        code, out, err = self.mkc("trace", FIXTURE, "t.json", "--json")
        self.assertEqual((code, json.loads(out)["model"]), (0, "qwen3"), err)

    def test_standard_output_has_one_document(self):
        self.assertEqual(self.mkc("compile", FIXTURE, "--target", "x86-64", "-o", "m.so")[0], 0)
        taken = "takes standard output, expected a file\n"
        for emit in ((), ("--emit", "ptx"), ("--target", "x86-64")):
            self.refuses(f"-o -: error: --json {taken}", "compile", FIXTURE, *emit, "-o", "-", "--json")
        self.refuses("--json: error: --emit ptx takes standard output, expected -o FILE\n", "compile", FIXTURE, "--emit", "ptx", "--json")
        for emit in ("yaml", "ops", "tasks", "schedule", "dot", "llvm", "manifest"):
            self.refuses(f"--json: error: --emit {emit} has no summary, expected ptx, cubin or so\n", "compile", FIXTURE, "--emit", emit,
                         "--json", "-o", "f")
        run = ("run", FIXTURE, "--device", "cpu", "--prompt-ids", 1)
        for flag, *command in (("--trace", "simulate", FIXTURE), ("-o", "trace", FIXTURE, "raw.json"), ("--trace", *run), ("--logits-out", *run)):
            for json_flag in ((), ("--json",)):
                self.refuses(f"{flag} -: error: the result {taken}", *command, *json_flag, flag, "-")
        for flag in ("--logits-out", "--trace"):
            self.refuses("mkrun: error: the result takes standard output, expected a file in place of -\n", "m.so", "--prompt-ids", 1, flag,
                         "-", program=MKC.parent / "mkrun")

    def test_json_of_paths_that_are_not_utf_8(self):
        name = os.fsdecode(b"\xff")
        shutil.copytree(FIXTURE, self.dir / name)
        shutil.copy(self.dir / "s.mkir", self.dir / name)
        for arguments in (("compile", name, "--target", "x86-64", "-o", f"{name}/o.so", "--json"), ("explain", name, "--json"),
                          ("simulate", name, "--json"), ("check", f"{name}/s.mkir", "--json"),
                          ("doctor", "--json", "--no-checks", "--assembler", name)):
            done = self.spawn(arguments, stdout=subprocess.PIPE)
            self.assertEqual(done.returncode, int(arguments[0] == "doctor"), done.stderr)
            self.assertIn("\ufffd", str(json.loads(done.stdout)))

    def test_an_assembler_that_is_named_and_missing_is_an_error(self):
        for flags in ((), ("--json",)):
            code, out, err = self.mkc("doctor", "--no-checks", "--assembler", "none", *flags)
            self.assertEqual((code, err), (1, "--assembler none: error: cannot be started: No such file or directory\n"))
            self.assertIn(b"none", out)

    def test_the_assembler_is_printed(self):
        code, _, err = self.mkc("compile", FIXTURE, "-o", "a.cubin")
        if not (self.dir / "a.cubin").exists():
            self.skipTest("no assembler")
        self.assertRegex(err, r"\nassembled by (ptxas|nvJitLink) \d+\.\d+[^\n]* \(/[^\n]*\)\nwrote a\.cubin: ")

    def test_checkpoints_are_never_overwritten(self):
        folder = self.checkpoint()
        (self.dir / "m.yaml").write_text("checkpoint: model\n")
        os.symlink(folder / "config.json", self.dir / "link")
        os.link(folder / "model.safetensors", self.dir / "hard")
        for model in ("model", "m.yaml"):
            for output, source in (("model/config.json", "model/config.json"), ("link", "model/config.json"),
                                   ("hard", "model/model.safetensors"), ("./model/../model/config.json", "model/config.json")):
                self.refuses(f"{output}: error: would overwrite {source}, which the model is read from\n", "compile", model,
                             "--emit", "ptx", "-o", output)
        self.refuses("m.yaml: error: would overwrite m.yaml, which the model is read from\n", "compile", "m.yaml", "-o",
                     "m.yaml")
        run = ("run", "model", "--prompt-ids", 1, "--device", "emulator")
        for flag in ("--logits-out", "--trace"):
            self.refuses("model/config.json: error: would overwrite model/config.json, ", *run, flag, "model/config.json")
        self.refuses("link: error: would overwrite ", "simulate", "model", "--trace", "link")
        (self.dir / "requests.jsonl").write_text('{"prompt_ids": [1]}')
        self.refuses("requests.jsonl: error: would overwrite requests.jsonl, which is read\n", "run", "model", "--device", "cpu",
                     "--batch-file", "requests.jsonl", "--trace", "requests.jsonl")
        (self.dir / "trace.json").write_text("{}")
        self.refuses("trace.json: error: would overwrite ./trace.json, which is read\n", "trace", "model", "./trace.json", "-o", "trace.json")
        self.refuses("trace.json: error: would overwrite trace.json, which is read\n", "report", "model", "--trace", "trace.json", "-o",
                     "trace.json")
        self.assertEqual(self.mkc("compile", "model", "--target", "x86-64", "-o", "m.so")[0], 0)
        self.refuses("m.so: error: would overwrite m.so, which is read\n", "run", "m.so", "--checkpoint", "model", "--prompt-ids", 1,
                     "--logits-out", "m.so")
        mkrun = MKC.parent / "mkrun"
        for output in ("m.so", "model/config.json", "hard"):
            for flag in ("--logits-out", "--trace"):
                self.refuses(f"{output}: error: would overwrite ", "m.so", "--checkpoint", "model", "--prompt-ids", 1, flag, output, program=mkrun)
        for output in ("same", "./same"):  # The file comes to be between both.
            for name, program, command in (("mkc", MKC, run), ("mkrun", mkrun, ("m.so", "--prompt-ids", 1))):
                self.refuses(f"{output}: error: would overwrite same, which is written, too\n", *command, "--logits-out", "same", "--trace",
                             output, program=program)
            (self.dir / "same").touch()
        # Files that mkc made beside the checkpoint are overwritten.
        for _ in range(2):
            self.assertEqual(self.mkc("compile", "model", "--emit", "ptx", "-o", "model/a.ptx")[0], 0)

    def test_families_and_machines_are_never_overwritten(self):
        (self.dir / "families").mkdir()
        shutil.copy(ROOT / "models" / "qwen3.yaml", self.dir / "families")
        shutil.copy(ROOT / "models" / "qwen3.yaml", self.dir / "f.yaml")
        (self.dir / "m.json").write_bytes((ROOT / "scheduler" / "machine" / "h100.json").read_bytes())
        (self.dir / "model.yaml").write_text(f"checkpoint: {json.dumps(str(FIXTURE))}\nfamily: f.yaml\n")
        for output, *given in (("f.yaml", FIXTURE, "--family", "f.yaml"), ("families/qwen3.yaml", FIXTURE, "--models-dir", "families"),
                               ("m.json", FIXTURE, "--machine", "m.json"), ("f.yaml", "model.yaml")):
            self.refuses(f"{output}: error: would overwrite {output}, which the model is read from\n", "compile", *given, "--emit", "ops", "-o",
                         output)

    def test_outputs_that_cannot_be_written_are_refused_before_any_work(self):
        """The checkpoint is broken, and nobody reads it before the output's fault is known."""
        model = self.checkpoint(data=lambda body: body[:-1])
        (self.dir / "folder").mkdir()
        for command in (("run", model, "--prompt-ids", 1, "--device", "cpu", "--logits-out"), ("compile", model, "-o"),
                        ("run", model, "--prompt-ids", 1, "--device", "cpu", "--trace"), ("simulate", model, "--trace"),
                        ("report", model, "-o"), ("trace", model, "none.json", "-o")):
            self.refuses("folder: error: cannot write: Is a directory\n", *command, "folder")
            self.refuses("none/l.npy: error: cannot create: No such file or directory\n", *command, "none/l.npy")

    def assembling(self, *begin):
        """Returns mkc, begun by the command `begin`, while its assembler runs, which never ends. The assembler's number is in
        the file "pid"."""
        slow = self.dir / "bin" / "ptxas"
        slow.parent.mkdir(exist_ok=True)
        slow.write_text('#!/bin/sh\n[ "$1" = --version ] && { echo "Cuda compilation tools, release 13.0, V13.0.88"; exit; }\n'
                        'for last; do :; done\necho half > "$last"\necho $$ > "$PID.new"\nmv "$PID.new" "$PID"\nexec sleep 60\n')
        slow.chmod(0o755)
        temporary, pid = self.dir / "tmp", self.dir / "pid"
        temporary.mkdir(exist_ok=True)
        env = {**os.environ, "TMPDIR": str(temporary), "MKC_CACHE": str(self.dir / "cache"), "MKC_ASSEMBLER": str(slow), "PID": str(pid)}
        process = subprocess.Popen([*begin, MKC, "compile", FIXTURE, "-o", "a.cubin"], cwd=self.dir, env=env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + LIMIT_S
        while not pid.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(pid.exists())
        self.assertNotEqual(list(temporary.iterdir()), [])
        return process

    def check_nothing_is_left(self):
        self.assertEqual(list((self.dir / "tmp").iterdir()), [])
        self.assertFalse((self.dir / "a.cubin").exists())
        self.assertEqual([p for p in (self.dir / "cache").rglob("*") if p.is_file()], [])

    def test_nothing_is_left_where_a_signal_ends_it(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.assembling()
            process.send_signal(number)
            self.assertEqual(process.wait(timeout=LIMIT_S), -number)
            assembler = self.dir / "pid"
            os.kill(int(assembler.read_text()), signal.SIGKILL)
            assembler.unlink()
            self.check_nothing_is_left()

    def test_a_signal_ends_the_first_process_of_a_container(self):
        """The kernel ignores a signal that such a process has no handler for."""
        first = ("unshare", "--pid", "--fork", "--kill-child")
        if subprocess.run([*first, "true"], capture_output=True, timeout=LIMIT_S).returncode != 0:
            self.skipTest("needs the right to make a namespace of processes")
        parent = self.assembling(*first)
        child = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
        os.kill(child, signal.SIGTERM)
        self.assertEqual(parent.wait(timeout=LIMIT_S), 128 + signal.SIGTERM)
        self.check_nothing_is_left()

    def test_targets_of_all_machines(self):
        for target, machine in (("sm_80", "a100"), ("sm_86", "rtx3090"), ("sm_89", "rtx4090"), ("sm_90a", "h100"),
                                ("sm_100a", "b200"), ("sm_120", "rtx5090"), ("sm_121", "gb10")):
            code, out, err = self.mkc("compile", FIXTURE, "--target", target, "--emit", "schedule")
            self.assertEqual((code, f'machine "{machine}" '.encode() in out), (0, True), err)
            code, out, err = self.mkc("compile", FIXTURE, "--target", target, "--emit", "ptx")
            self.assertEqual((code, f".target {target}".encode() in out), (0, True), err)


unittest.main(argv=sys.argv[:1], verbosity=1)
