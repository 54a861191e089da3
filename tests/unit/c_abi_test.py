"""libmkrt.so from outside: its symbols, the libraries it needs, and docs/c-abi.md's example as C99.
Usage: c_abi_test.py LIBRARY ROOT COMPILER"""
import ctypes
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

LIBRARY, ROOT, COMPILER = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


class CAbiTest(unittest.TestCase):
    def test_exports_the_header_and_nothing_else(self):
        declared = set(re.findall(r"\b(mkrt_\w+)\(", (ROOT / "runtime" / "mkrt.h").read_text()))
        out = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
        self.assertEqual({line.split()[-1] for line in out.splitlines()}, declared)

    def test_needs_neither_compiler_nor_toolkit(self):
        out = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
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

    def test_the_example_compiles_as_c99_and_runs(self):
        text = (ROOT / "docs" / "c-abi.md").read_text()
        source = re.search(r"<!-- example -->\n```c\n(.*?)```", text, re.S).group(1)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "example.c").write_text(source)
            subprocess.run([COMPILER, "-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}",
                            f"{folder}/example.c", LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-o", f"{folder}/example"],
                           check=True)
            done = subprocess.run([f"{folder}/example", "none.cubin", str(ROOT / "models" / "tiny-stories")],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^(cuda: error: |none\.cubin: error: )")


unittest.main(argv=sys.argv[:1])
