"""These tests open pages of mkc report from files in a headless Chromium, and use them as a person does.
Usage: report_page_test.py MKC ROOT
"""
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
MKC, ROOT = (Path(argument).resolve() for argument in sys.argv[1:3])
from browser import PROGRAMS, Browser, program  # noqa: E402

TINY = ROOT / "models" / "tiny-stories"
LARGE = ROOT / "tools" / "bench" / "configs" / "qwen3-8b"
LIMIT_S = 120
PICTURE = "document.getElementById('timeline').toDataURL()"
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


class ReportPageTest(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def mkc(self, *arguments):
        done = subprocess.run([MKC, *map(str, arguments)], cwd=self.dir, capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout

    def open(self, *arguments):
        """Opens the report of a step. At the test's end, the page has asked for nothing else, and has no errors."""
        self.mkc("report", *arguments, "-o", "report.html")
        address = (self.dir / "report.html").as_uri()
        browser = Browser()
        self.addCleanup(browser.close)

        def check():
            browser.evaluate("1")  # takes the events that wait
            self.assertEqual(browser.requests, [address])
            self.assertEqual(browser.errors, [])

        self.addCleanup(check)
        browser.open(address)
        browser.until("document.documentElement.dataset.ready === 'true'")
        self.data = json.loads(browser.text("#data"))
        return browser

    def column(self, browser, table, number):
        return browser.evaluate(f"[...document.querySelectorAll('#{table} tbody tr')].map((row) => row.cells[{number}].textContent)")

    def check_sorting(self, browser):
        """Headings sort the table of grids by numbers and by names, in both directions."""
        tasks = sorted((kind["tasks"] for kind in self.data["kinds"]), reverse=True)
        found = []
        for _ in range(2):
            browser.click("#grid-table th:nth-child(5) button")
            found.append([int(text.replace(",", "")) for text in self.column(browser, "grid-table", 4)])
        self.assertEqual(found, [tasks, tasks[::-1]])
        self.assertEqual(browser.evaluate("document.querySelector('#grid-table th:nth-child(5)').ariaSort"), "ascending")
        browser.click("#grid-table th:first-child button")
        self.assertEqual(self.column(browser, "grid-table", 0), sorted(kind["grid"] for kind in self.data["kinds"]))

    def check_zoom(self, browser):
        """Wheel, buttons and keys change the timeline, and 0 shows all of it again."""
        browser.evaluate("document.getElementById('timeline').focus()")
        browser.evaluate(PAINTED)
        whole = json.dumps(browser.evaluate(PICTURE))
        x, y, width, height = browser.box("#timeline")
        for change in (lambda: browser.mouse("mouseWheel", x + width / 2, y + height / 2, deltaX=0, deltaY=-600),
                       lambda: browser.key("w"), lambda: browser.key("+"), lambda: browser.click("#zoom-in")):
            change()
            browser.until(f"{PICTURE} !== {whole}")
            browser.evaluate("document.getElementById('timeline').focus()")
            zoomed = json.dumps(browser.evaluate(PICTURE))
            browser.key("d")
            browser.until(f"{PICTURE} !== {zoomed}")
            browser.key("0")
            browser.until(f"{PICTURE} === {whole}")
        browser.click("#path")
        browser.until(f"{PICTURE} !== {whole}")
        browser.click("#path")
        browser.until(f"{PICTURE} === {whole}")

    def test_a_small_step(self):
        browser = self.open(TINY)
        self.assertEqual(browser.text("#model"), "tiny-stories")
        self.assertIn("not run on a GPU", browser.text("#about"))
        step = self.data["step"]
        figures = browser.text("#figures")
        for text in (f"{100 * step['fraction']:.1f} %", f"{step['bytes']:,} B"):
            self.assertIn(text, figures)
        self.check_sorting(browser)
        self.check_zoom(browser)
        self.check_graph(browser)
        self.check_walk(browser)
        self.assertIn(self.data["proof"]["text"], browser.text("#proof"))

    def check_graph(self, browser):
        """Every grid of each section has a box, and every op shows its tensors when it has the focus."""
        for number, section in enumerate(self.data["graph"]):
            browser.evaluate(f"(() => {{ const s = document.getElementById('section'); s.value = '{number}'; s.dispatchEvent(new Event('change')); }})()")
            labels = browser.evaluate("[...document.querySelectorAll('.grid-box')].map((box) => box.getAttribute('aria-label'))")
            self.assertEqual(labels, [f"grid {node['grid']}" for node in section["nodes"]])
            ops = [(node, op) for node in section["nodes"] for op in node["ops"]]
            for i, (node, op) in enumerate(ops):
                browser.evaluate(f"document.querySelectorAll('.op')[{i}].focus()")
                shown = browser.text("#node")
                for operand in (*op["inputs"], *op["outputs"]):
                    self.assertIn(operand["tensor"] + operand["type"] + operand["shape"], shown)
                self.assertIn(f"grid {node['grid']}", shown)
            inside = browser.evaluate(
                "(() => { const s = document.querySelector('#drawing svg').getBoundingClientRect(); return [...document.querySelectorAll('.grid-box .box')]"
                ".every((b) => { const r = b.getBoundingClientRect(); return r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom; }); })()")
            self.assertTrue(inside)
            overlaps = browser.evaluate(
                "(() => { const r = [...document.querySelectorAll('.grid-box .box')].map((b) => b.getBoundingClientRect()); return r.some((a, i) => r.some((b, j) => "
                "i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)); })()")
            self.assertFalse(overlaps)

    def check_walk(self, browser):
        """Keys walk along the bars of the first worker, and say what they waited for."""
        browser.evaluate("document.getElementById('timeline').focus()")
        texts = []
        for _ in range(40):
            browser.key("ArrowRight")
            texts.append(browser.text("#picked"))
        self.assertTrue(any(text.startswith("wait for inputs of ") for text in texts), texts)
        self.assertTrue(any("last input from " in text for text in texts), texts)

    def test_the_largest_step(self):
        browser = self.open(LARGE)
        size = (self.dir / "report.html").stat().st_size
        self.assertLess(size, 5e6)
        bars = sum(len(row["bars"]) // 6 for row in self.data["timelines"][0]["rows"])
        self.assertGreater(bars, 97_626)
        self.check_sorting(browser)
        self.check_zoom(browser)

    def test_a_measured_step(self):
        options = ("--workers", 2)
        self.mkc("run", TINY, *options, "--device", "cpu", "--prompt", "Once there was", "--max-new-tokens", 1, "--trace", "raw.json")
        browser = self.open(TINY, *options, "--trace", "raw.json")
        self.assertEqual(browser.texts("#timelines button"), ["measured on cpu", "simulated step"])
        self.assertIn("measured on cpu", browser.text("#step-about"))
        self.assertIn("measured step", browser.text("#figures"))
        self.assertEqual(len(browser.texts("#measured tbody tr")), len(self.data["trace"]["times"]))
        browser.click("#timelines button:last-child")
        self.assertIn("simulated step", browser.text("#step-about"))
        self.check_zoom(browser)

    def test_joined_bars_of_the_emulator_are_apart_by_readings(self):
        options = ("--workers", 2)
        self.mkc("run", TINY, *options, "--device", "emulator", "--prompt-ids", "5,6", "--max-new-tokens", 1, "--trace", "raw.json")
        self.mkc("report", TINY, *options, "--trace", "raw.json", "-o", "report.html")
        page = self.dir / "report.html"
        page.write_text(page.read_text().replace('"joined":0', '"joined":32', 1))  # as that of a step of many bars
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(page.as_uri())
        browser.until("document.documentElement.dataset.ready === 'true'")
        self.assertIn("counted on emulator", browser.text("#step-about"))
        self.assertIn("bars of one grid less than 32 readings apart are joined", browser.text("#step-about"))

    def test_sizes_have_three_digits_and_the_next_unit_in_time(self):
        source = (ROOT / "tools" / "report" / "page" / "format.js").read_text()
        plain = "\n".join(line.removeprefix("export ") for line in source.splitlines() if not line.startswith("import "))
        expected = {0: "0 B", 999: "999 B", 1000: "1.00 kB", 999_499: "999 kB", 999_500: "1.00 MB", 999_999: "1.00 MB", 999_499_999: "999 MB",
                    999_500_000: "1.00 GB", 1_500_000_000_000_000: "1.50 PB"}
        browser = self.open(TINY)
        self.assertEqual(browser.evaluate(f"(() => {{ {plain}\nreturn {list(expected)}.map(bytesText); }})()"), list(expected.values()))

    def test_a_name_cannot_become_code(self):
        folder = self.dir / "a<" / "script><img src=x onerror=alert(1)><script>alert(2)<"
        folder.mkdir(parents=True)
        shutil.copy(TINY / "config.json", folder)
        browser = self.open(folder)
        self.assertEqual(browser.text("#model"), folder.name)
        self.assertEqual(browser.evaluate("document.images.length + document.scripts.length"), 2)

    def test_widths_and_colours(self):
        """No width has a scroll bar to the side. The page is light or dark, as the user prefers."""
        browser = self.open(TINY)
        grounds = set()
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            grounds.add(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
            for width in (320, 800, 1600):
                browser.resize(width, 800)
                self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    if not program():
        print(f"SKIP: none of {', '.join(PROGRAMS)} is installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
