"""These tests run C programs that CMake has built, with the model of models/tiny-stories on the processor.
Usage: c_programs_test.py ROOT MKC SERVE_REQUESTS STEPS_MEMORY CXX
SERVE_REQUESTS is docs/examples/serve_requests.c.
"""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT, MKC, SERVE_REQUESTS, STEPS_MEMORY, CXX = Path(sys.argv[1]), *sys.argv[2:]
TINY = ROOT / "models" / "tiny-stories"
STORY = json.loads((TINY / "greedy.json").read_text())[0]["new_ids"]


class CProgramsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.artefact = f"{cls.folder.name}/model.so"
        subprocess.run([MKC, "compile", TINY, "--target", "x86-64", "-o", cls.artefact], check=True, timeout=120)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_program(self, program, artefact=None):
        done = subprocess.run([program, artefact or self.artefact, TINY], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout, done.stderr

    def test_the_example_serves_four_requests(self):
        status, said, errors = self.run_program(SERVE_REQUESTS)
        self.assertEqual((status, errors), (0, ""))
        streamed = [int(id) for line in re.findall(r"^request 0 goes on:(.*)$", said, re.M) for id in line.split()]
        self.assertEqual(streamed, STORY[:12])
        ends = dict(re.findall(r"^request (\d), (\w+), \d+ tokens of the prompt cached: ", said, re.M))
        self.assertEqual(ends, {"0": "length", "1": "length", "2": "length", "3": "cancelled"})
        self.assertLess(said.index("request 2,"), said.index("request 0,"))  # it runs first, and is short
        self.assertIn(f"request 2, length, 0 tokens of the prompt cached:  {' '.join(map(str, STORY[:4]))}\n", said)
        self.assertRegex(said, r"request 1, .*:(  ?\d+ \(-?\d+\.\d\d\)){12}\n")
        self.assertRegex(said, r"\n\d+ steps of \d+ rows in 20 launches\n$")

    def test_the_example_says_what_is_wrong(self):
        self.assertEqual(self.run_program(SERVE_REQUESTS, "none.so"),
                         (1, "", "status 3: none.so: error: cannot open: No such file or directory\n"))

    def test_the_example_is_c_plus_plus_too(self):
        program = ROOT / "docs" / "examples" / "serve_requests.c"
        done = subprocess.run([CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", "-I", ROOT / "runtime" / "c_api", "-x", "c++", program],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_decode_steps_allocate_nothing(self):
        self.assertEqual(self.run_program(STEPS_MEMORY), (0, "1 1 0\n", ""))


unittest.main(argv=sys.argv[:1])
