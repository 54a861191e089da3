"""The installed wheel, without the source tree on the path and without mkc on PATH."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib import metadata
from pathlib import Path

ROOT = Path(os.environ["MKC_SOURCE"])
PROGRAM = """
import sys, mkc
assert mkc.__file__.startswith(sys.prefix), mkc.__file__
for device in ("cpu", "emulator"):
    with mkc.load("tiny-stories", device, context=64) as model:
        done = model.generate("Once there was a girl", 5)
        print(device, done.text, "".join(token.text for token in model.stream("Once there was a girl", 5)))
"""


class WheelTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        shutil.copytree(ROOT / "models" / "tiny-stories", Path(self.folder.name) / "tiny-stories")
        self.env = {"PATH": "/usr/bin:/bin", "MKC_CACHE": self.folder.name + "/cache", "LD_LIBRARY_PATH": ""}

    def tearDown(self):
        self.folder.cleanup()

    def run_in_folder(self, *words):
        done = subprocess.run([str(word) for word in words], cwd=self.folder.name, env=self.env, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_it_generates_on_processor_and_emulator(self):
        text = " named Nora. She had"
        self.assertEqual(self.run_in_folder(sys.executable, "-I", "-c", PROGRAM).splitlines(),
                         [f"{device} {text} {text}" for device in ("cpu", "emulator")])

    def test_the_command_is_there(self):
        version = metadata.version("mkc")
        for words in ([Path(sys.prefix) / "bin" / "mkc"], [sys.executable, "-I", "-m", "mkc"]):
            self.assertRegex(self.run_in_folder(*words, "--version"), rf"^mkc {version}\b")
        self.assertIn("cpu: ", subprocess.run([*words, "run", "tiny-stories", "--prompt", "Once there was a girl", "--max-new-tokens", "4", "--device", "cpu"],
                                              cwd=self.folder.name, env=self.env, capture_output=True, text=True, timeout=120).stderr)

    def test_what_the_wheel_says_of_itself(self):
        of = metadata.metadata("mkc")
        self.assertEqual((of["License-Expression"], of["Requires-Python"]), ("Apache-2.0", ">=3.10"))
        files = {str(file) for file in metadata.files("mkc")}
        self.assertLessEqual({"mkc/py.typed", "mkc/libmkrt.so", "mkc/libmkc.so", "mkc/mkc", "mkc/transformers/__init__.py"}, files)


unittest.main()
