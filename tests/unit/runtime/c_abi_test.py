"""These tests use libmkrt.so from outside: its symbols, its libraries, and the examples of docs/c-abi.md as
C99.
Usage: c_abi_test.py LIBRARY ROOT COMPILER [CUBIN CHECKPOINT]
The last two make the examples run on a driver that samples the token 1 each time.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, ROOT, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
CUBIN, CHECKPOINT = sys.argv[4:] or (None, None)


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

    def test_the_examples_compile_as_c99_and_run(self):
        text = (ROOT / "docs" / "c-abi.md").read_text()
        fake = ROOT / "tests" / "fixtures" / "fake_cuda"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([COMPILER, "-shared", "-fPIC", fake / "libcuda.c", "-o", f"{folder}/libcuda.so.1"], check=True, timeout=120)
            for name in ("example", "example: graph"):
                source = re.search(f"<!-- {name} -->\n```c\n(.*?)```", text, re.S).group(1)
                (Path(folder) / "example.c").write_text(source)
                subprocess.run([COMPILER, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}", f"-I{fake}",
                                f"{folder}/example.c", LIBRARY, f"{folder}/libcuda.so.1", f"-Wl,-rpath,{LIBRARY.parent}",
                                "-o", f"{folder}/example"], check=True, timeout=120)
                self.assertEqual(self.run_example(folder, "none.cubin", ROOT / "models" / "tiny-stories"),
                                 (1, "", "none.cubin: error: cannot open: No such file or directory\n"))
                if CUBIN:
                    told = self.run_example(folder, CUBIN, CHECKPOINT)
                    self.assertEqual(told, (0, "1\n" * 16, ""), name)
        if not CUBIN:
            print("SKIP examples with a cubin: none is given")

    def run_example(self, folder, cubin, checkpoint):
        environment = {**os.environ, "LD_LIBRARY_PATH": folder, "FAKE_CUDA_SAMPLES": "1"}
        done = subprocess.run([f"{folder}/example", cubin, checkpoint], capture_output=True, text=True, timeout=60,
                              env=environment)
        return done.returncode, done.stdout, done.stderr


unittest.main(argv=sys.argv[:1])
