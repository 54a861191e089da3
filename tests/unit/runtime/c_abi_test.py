"""These tests use libmkrt.so from outside: its symbols, its libraries, and the examples of docs/c-abi.md as
C99.
Usage: c_abi_test.py LIBRARY ROOT COMPILER MKC [CUBIN CHECKPOINT]
The last two make the examples for a GPU run on a driver that samples the token 1 each time.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, ROOT, COMPILER, MKC = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
CUBIN, CHECKPOINT = sys.argv[5:] or (None, None)
TINY = ROOT / "models" / "tiny-stories"


class CAbiTest(unittest.TestCase):
    def test_exports_the_header_and_nothing_else(self):
        declared = set(re.findall(r"\b(mkrt_\w+)\(", (ROOT / "runtime" / "c_api" / "mkrt.h").read_text()))
        out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True, timeout=120).stdout
        self.assertEqual({line.split()[-1] for line in out.splitlines()}, declared)

    def test_needs_neither_compiler_nor_toolkit(self):
        out = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True, timeout=120).stdout
        needed = {line.split()[0].split("/")[-1].split(".so")[0] for line in out.splitlines()}
        self.assertLessEqual(needed, {"linux-vdso", "libstdc++", "libm", "libgcc_s", "libc", "ld-linux-x86-64",
                                      "libasan", "libtsan", "libubsan", "librt", "libdl", "libpthread", "libresolv"})

    def test_from_ctypes(self):
        mkrt = ctypes.CDLL(str(LIBRARY))
        mkrt.mkrt_version.restype = mkrt.mkrt_error.restype = ctypes.c_char_p
        mkrt.mkrt_open_session.restype = ctypes.c_void_p
        self.assertRegex(mkrt.mkrt_version().decode(), r"^\d+\.\d+\.\d+$")
        self.assertIsNone(mkrt.mkrt_open_session(None, b"f.cubin", b"."))
        self.assertEqual(mkrt.mkrt_error(), b"mkrt: error: device is NULL")
        mkrt.mkrt_open_processor.restype = ctypes.c_void_p
        device = ctypes.c_void_p(mkrt.mkrt_open_processor())
        for artefact, checkpoint, name in ((b"", b".", b"artefact"), (b"f.so", b"", b"checkpoint")):
            self.assertIsNone(mkrt.mkrt_open_session(device, artefact, checkpoint))
            self.assertEqual(mkrt.mkrt_error(), b"mkrt: error: %s is empty, expected a path" % name)
        mkrt.mkrt_close_device(device)

    def test_the_examples_compile_as_c99_and_run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.build_fake_cuda(folder)
            for name in ("example", "example: graph", "example: processor"):
                self.build_example(folder, name)
                self.assertEqual(self.run_example(folder, "none.cubin", TINY),
                                 (1, "", "none.cubin: error: cannot open: No such file or directory\n"))
                if CUBIN and name != "example: processor":
                    told = self.run_example(folder, CUBIN, CHECKPOINT)
                    self.assertEqual(told, (0, "1\n" * 16, ""), name)
        if not CUBIN:
            print("SKIP examples with a cubin: none is given")

    def test_the_examples_run_a_shared_object_on_the_processor_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.build_fake_cuda(folder)
            artefact = f"{folder}/model.so"
            subprocess.run([MKC, "compile", TINY, "--target", "x86-64", "-o", artefact], check=True, timeout=120)
            self.build_example(folder, "example: processor")
            status, sampled, said = self.run_example(folder, artefact, TINY)
            self.assertEqual((status, said), (0, ""))
            self.assertRegex(sampled, r"^(\d+ -\d+\.\d\d\n){16}$")
            self.build_example(folder, "example", lambda text: text.replace("mkrt_open_cuda(0)", "mkrt_open_processor()"))
            tokens = [line.split()[0] + "\n" for line in sampled.splitlines()]
            self.assertEqual(self.run_example(folder, artefact, TINY), (0, "".join(tokens), ""))
            self.build_example(folder, "example")
            status, sampled, said = self.run_example(folder, artefact, TINY)
            self.assertEqual((status, sampled), (1, ""))
            self.assertRegex(said, r"^rehearsal: error: the artefact is for x86-64-\w+, the device runs sm_90\n$")

    def build_fake_cuda(self, folder):
        source = ROOT / "tests" / "fixtures" / "fake_cuda" / "libcuda.c"
        subprocess.run([COMPILER, "-shared", "-fPIC", source, "-o", f"{folder}/libcuda.so.1"], check=True, timeout=120)

    def build_example(self, folder, name, edit=lambda text: text):
        text = (ROOT / "docs" / "c-abi.md").read_text()
        source = re.search(f"<!-- {name} -->\n```c\n(.*?)```", text, re.S).group(1)
        (Path(folder) / "example.c").write_text(edit(source))
        subprocess.run([COMPILER, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}",
                        f"-I{ROOT}/tests/fixtures/fake_cuda", f"{folder}/example.c", LIBRARY, f"{folder}/libcuda.so.1",
                        f"-Wl,-rpath,{LIBRARY.parent}", "-o", f"{folder}/example"], check=True, timeout=120)

    def run_example(self, folder, artefact, checkpoint):
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "FAKE_CUDA_SAMPLES": "1"}
        done = subprocess.run([f"{folder}/example", artefact, checkpoint], capture_output=True, text=True, timeout=60,
                              env=environment)
        return done.returncode, done.stdout, done.stderr


unittest.main(argv=sys.argv[:1])
