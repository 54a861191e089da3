"""Every relative link of the repository's pages leads to a file, and its anchor to a heading. Usage: links_test.py SOURCE"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from links import broken, links  # noqa: E402

SOURCE = Path(sys.argv[1])
PAGE = """# A page: its `title`
## Again
## Again
[here](#a-page-its-title) [second](#again-1) ![picture](picture.svg) `[code](none.md)` [web](https://example.org/none)
[named]: other.md#b
```
[fenced](none.md)
```
"""


class LinksTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "other.md").write_text("# B\n")
        (self.root / "picture.svg").touch()

    def page(self, text):
        page = self.root / "page.md"
        page.write_text(text)
        return page

    def test_pages_of_the_repository(self):
        names = subprocess.run(["git", "ls-files", "*.md"], cwd=SOURCE, capture_output=True, text=True, timeout=60).stdout.split()
        pages = [SOURCE / name for name in names] or [SOURCE / "README.md", *SOURCE.glob("docs/**/*.md")]
        self.assertEqual(broken(pages, SOURCE), [])
        self.assertGreater(sum(len(list(links(page))) for page in pages), 100)

    def test_links_that_lead_somewhere(self):
        page = self.page(PAGE)
        self.assertEqual([target for _, target in links(page)],
                         ["#a-page-its-title", "#again-1", "picture.svg", "other.md#b"])
        self.assertEqual(broken([page], self.root), [])

    def test_links_that_lead_nowhere(self):
        for target in ("none.md", "#none", "other.md#c", "../other.md", "#again-1"):
            self.assertEqual(len(broken([self.page(f"# Again\n[text]({target})\n")], self.root)), 1, target)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
