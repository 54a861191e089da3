"""The manual pages: every option of --help, and roff without warnings. Usage: man_test.py BUILD groff|mandoc

Exits with 77 where the formatter is not installed.
"""
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from help_text import commands_of  # noqa: E402

BUILD, FORMATTER = Path(sys.argv[1]), sys.argv[2]
# A page has no date, so that equal sources make equal pages.
CHECKS = {"groff": (["groff", "-k", "-man", "-ww", "-z"], None), "mandoc": (["mandoc", "-T", "lint", "-W", "warning"], "missing date")}


def page_of(program):
    return BUILD / "share" / "man" / "man1" / f"{program}.1"


def sections(page):
    """Returns the text below each .SH and .SS, as it prints."""
    text = re.sub(r"\\f[BIR]", "", page.read_text(encoding="utf-8")).replace("\\-", "-")
    parts = re.split(r"^\.S[SH] (.*)$", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


class ManTest(unittest.TestCase):
    def test_formatter_warns_of_nothing(self):
        command, known = CHECKS[FORMATTER]
        for program in ("mkc", "mkrun"):
            done = subprocess.run([*command, page_of(program)], capture_output=True, text=True, timeout=60)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if not known or known not in line]
            self.assertEqual(lines, [])

    def test_formatter_finds_faults(self):
        command, known = CHECKS[FORMATTER]
        text = page_of("mkc").read_text(encoding="utf-8") + ".TP\n.NOSUCHMACRO\n"
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
        self.assertIn("NOSUCHMACRO", done.stdout + done.stderr)

    def test_every_option_has_an_item(self):
        for program in ("mkc", "mkrun"):
            found = sections(page_of(program))
            for words, shown in commands_of(BUILD / program):
                text = found[" ".join(words) if len(words) > 1 else "OPTIONS"]
                items = re.findall(r"^\.TP\n(-.*)$", text, flags=re.M)
                flags = [word.rstrip(",") for item in items for word in item.split() if word.startswith("-")]
                self.assertEqual(sorted(flags), shown.flags(), words)
                for flags, _, names in shown.options.values():
                    self.assertIn(f"Values: {', '.join(names)}." if names else "", text)

    def test_sections(self):
        found = sections(page_of("mkc"))
        self.assertIn("mkc - compiles a language model's step", found["NAME"])
        self.assertIn("70", found['"EXIT STATUS"'])
        self.assertIn("Needs: --json.", found["mkc run"])
        self.assertIn("Excludes: --tokens.", found["mkc simulate"])
        self.assertIn("[OPTIONS] MODEL FILE", found["mkc trace"])
        self.assertNotIn("--worker\n", found["mkc doctor"])  # hidden


if __name__ == "__main__":
    if not shutil.which(FORMATTER):
        print(f"SKIP: {FORMATTER} is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
