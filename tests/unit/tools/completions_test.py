"""Completions, asked of the shell itself. Usage: completions_test.py BUILD SOURCE bash|zsh|fish

Exits with 77 where the shell is not installed.
"""
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from help_text import commands_of  # noqa: E402
from shells import SHELLS  # noqa: E402

BUILD, SOURCE, SHELL = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
MACHINES = sorted([path.stem for path in (SOURCE / "scheduler" / "machine").glob("*.json")] + ["native"])
COMMANDS = ["chat", "check", "compile", "completions", "doctor", "explain", "inspect", "man", "quantize", "report", "run", "serve", "simulate", "trace"]
# Lines to complete -> what is offered. The files are those of setUpClass.
OFFERS = {
    "mkc ": COMMANDS,
    "mkc comp": ["compile", "completions"],
    "mkc --v": ["--version"],
    "mkc compile --em": ["--emit"],
    "mkc compile models --em": ["--emit"],
    "mkc compile --emit s": ["schedule", "so"],
    "mkc compile --machine h2": ["h200"],
    "mkc compile --machine my": ["my.json"],
    "mkc compile --mode ": ["kernels", "megakernel"],
    "mkc compile --target sm_9": ["sm_90a"],
    "mkc explain --target e": ["emulator"],
    "mkc run --target x86-64": ["x86-64", "x86-64-amx", "x86-64-avx512", "x86-64-v3", "x86-64-v4"],
    "mkc compile --without wgmma,se": ["wgmma,setmaxnreg"],
    "mkc compile --print-after pl": ["place"],
    "mkc compile --workers ": [],
    "mkc compile --models-dir f": ["folder"],
    "mkc compile -o my": ["my.json"],
    "mkc run --trace my": ["my.json"],
    "mkc simulate --trace my": ["my.json"],
    "mkc compile --trace my": ["my.json"],  # the model: --trace takes no value here
    "mkc run --device e": ["emulator"],
    "mkc serve --dev": ["--device"],
    "mkc chat --sys": ["--system"],
    "mkc check two": ["two words.mkir"],
    "mkc doctor ": [],
    "mkc man ": [],
    "mkc completions ": ["bash", "fish", "zsh"],
    "mkrun my": ["my.json"],
    "mkrun --comp": ["--compare-samples", "--completions"],
    "mkrun --completions f": ["fish"],
}


class CompletionsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        (Path(folder.name) / "folder").mkdir()
        for name in ("my.json", "two words.mkir"):
            (Path(folder.name) / name).touch()
        cls.shell = SHELLS[SHELL](BUILD / "share", folder.name)
        cls.addClassCleanup(cls.shell.close)

    def test_offers(self):
        for line, expected in OFFERS.items():
            with self.subTest(line=line):
                self.assertEqual(self.shell.offers(line), sorted(expected))

    def test_value_behind_an_equals_sign(self):
        self.assertEqual([offer.removeprefix("--emit=") for offer in self.shell.offers("mkc compile --emit=sch")], ["schedule"])

    def test_machines(self):
        offers = set(self.shell.offers("mkc explain --machine "))
        self.assertEqual(offers - {"my.json", "folder", "two words.mkir"}, set(MACHINES))

    def test_every_option_of_help_is_offered(self):
        for program in ("mkc", "mkrun"):
            for words, shown in commands_of(BUILD / program):
                with self.subTest(words=words):
                    expected = [flag for flag in shown.flags() if flag.startswith("--")]
                    self.assertEqual(self.shell.offers(" ".join(words) + " --"), expected)
                    for flag in set(shown.flags()) - set(expected):
                        self.assertIn(flag, self.shell.short_flags(" ".join(words)))

    def test_every_named_value_of_help_is_offered(self):
        for program in ("mkc", "mkrun"):
            for words, shown in commands_of(BUILD / program):
                for flags, _, names in shown.options.values():
                    if names:
                        self.assertEqual(self.shell.offers(f"{' '.join(words)} {flags[0]} "), sorted(names))


if __name__ == "__main__":
    if not shutil.which(SHELL):
        print(f"SKIP: {SHELL} is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
