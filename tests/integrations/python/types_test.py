"""The annotations of the installed package, by mypy."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = """
import mkc

model = mkc.load("model", context=64)
reveal_type(model.generate("text"))
reveal_type(model.session.step([1]))
for token in model.stream(["a", "b"]):
    reveal_type(token.text)
with mkc.mkrt.Device.processor() as device:
    reveal_type(device.name)
model.generate(5.0, max_new_tokens="many")
"""
EXPECTED = ['Revealed type is "mkc._model.Completion"', 'Revealed type is "int"', 'Revealed type is "str"', 'Revealed type is "str"',
            'No overload variant of "generate" of "Model" matches argument types "float", "str"']


class TypesTest(unittest.TestCase):
    def mypy(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "program.py").write_text(PROGRAM)
            return subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, timeout=300,
                                  env={**os.environ, "MYPY_CACHE_DIR": folder})

    def test_the_package_is_typed_throughout(self):
        done = self.mypy("mypy", "--strict", "--ignore-missing-imports", "-p", "mkc")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_stubs_are_those_of_the_modules(self):
        done = self.mypy("mypy.stubtest", "--ignore-missing-stub", "mkc.mkrt")
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_program_sees_the_types(self):
        done = self.mypy("mypy", "--strict", "program.py")
        for line in EXPECTED:
            self.assertIn(line, done.stdout)
        self.assertEqual(done.stdout.count("error:"), 1, done.stdout)


unittest.main()
