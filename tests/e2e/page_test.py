"""These tests open the server's web page in a headless Chromium, and use it as a person does: mouse, keys, eyes on texts.
Usage: page_test.py MKC FAKE_SERVER ROOT
"""
import json
import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
MKC, FAKE, ROOT = (Path(argument).resolve() for argument in sys.argv[1:4])
sys.path.insert(0, str(ROOT / "tests" / "unit" / "serve"))
from browser import PROGRAMS, Browser, program  # noqa: E402
from client import Server, ServerCase  # noqa: E402

TINY = ROOT / "models" / "tiny-stories"
ENV = {**os.environ, "MKC_CACHE": str(MKC.parent / "tests" / "cache")}
COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}\n{% endfor %}"
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"  # until all is painted
FIELDS = {"temperature": 0.8, "seed": 7, "max_tokens": 40}


def bars_of(trace):
    """Returns (worker, grid, first task, tasks) of each task that a trace file has of a worker's consumers, in order."""
    bars = []
    for track in range(0, len(trace["tracks"]), 2):
        stamps = trace["tracks"][track]["stamps"]
        first = None
        for i in range(0, len(stamps), 5):
            _, kind, grid, task, _ = stamps[i:i + 5]
            if kind == 2:
                first = task
            if kind == 3:
                bars.append((track // 2, trace["grids"][grid], first, task - first))
                first = task
    return bars


class PageTest(ServerCase):
    def model_with_template(self):
        folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(TINY, folder / "chat")
        (folder / "chat" / "chat_template.jinja").write_text(TEMPLATE)
        (folder / "chat" / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin_of_text|>"}))
        return folder / "chat"

    def serve(self, model, *options):
        return self.start([MKC, "serve", model, "--device", "cpu", "--port", 0, *options], "stderr", env=ENV)

    def open(self, server, errors=0):
        """Opens the page. At the test's end, its requests have gone to the server alone, and its errors are few."""
        browser = Browser()
        self.addCleanup(browser.close)
        origin = f"http://127.0.0.1:{server.port}/"

        def check():
            browser.evaluate("1")  # takes the events that wait
            self.assertEqual([url for url in browser.requests if not url.startswith((origin, "blob:" + origin))], [])
            self.assertEqual(len(browser.errors), errors, browser.errors)

        self.addCleanup(check)
        browser.open(origin)
        return browser

    def set_fields(self, browser, **fields):
        for name, value in fields.items():
            browser.fill(f"[name={name}]", str(value))

    def say(self, browser, text):
        """Sends a message by the Enter key, and returns the text of the answer."""
        answers = len(browser.texts(".turn.assistant"))
        browser.fill("#message", text)
        browser.key("Enter")
        browser.until(f"document.querySelectorAll('.turn.assistant').length > {answers} && !document.getElementById('send').hidden")
        return browser.texts(".turn.assistant .words")[-1]

    def wait_ready(self, browser):
        browser.until("document.getElementById('status').textContent === 'ready'")

    def test_a_chat_equals_the_answers_of_the_api(self):
        server = self.serve(self.model_with_template(), "--served-model-name", "tiny")
        browser = self.open(server)
        self.wait_ready(browser)
        self.assertEqual((browser.text("#model"), browser.is_shown("#no-template")), ("tiny", False))
        self.set_fields(browser, **FIELDS, system="A story:")
        messages = [{"role": "system", "content": "A story:"}]
        for text in ("Once there was a boy named Sam.", "He had a <b>kite</b> & a dog."):
            messages.append({"role": "user", "content": text})
            answer = server.post(CHAT, {"messages": messages, **FIELDS})[1]
            expected = answer["choices"][0]["message"]["content"]
            self.assertGreater(len(expected), 10)
            self.assertEqual(self.say(browser, text), expected)
            self.assertEqual(browser.text("#tokens"), str(answer["usage"]["completion_tokens"]))
            self.assertTrue(browser.text("#prompt-tokens").startswith(str(answer["usage"]["prompt_tokens"])))
            self.assertGreater(float(browser.text("#rate").replace(",", "")), 0)
            self.assertRegex(browser.text("#first-token"), r"^[\d.,]+ (µs|ms|s)$")
            messages.append({"role": "assistant", "content": expected})
        self.assertEqual(browser.texts(".turn .words"), [m["content"] for m in messages[1:]])
        self.assertEqual(browser.evaluate("document.querySelectorAll('#turns b').length"), 0)
        browser.click("#new-chat")
        self.assertEqual(browser.texts(".turn"), [])
        self.assertEqual(self.say(browser, messages[1]["content"]), messages[2]["content"])
        self.assertEqual(browser.evaluate("document.getElementById('history').length"), 2)

    def test_a_text_goes_on_where_there_is_no_template(self):
        server = self.serve(TINY)
        browser = self.open(server)
        self.wait_ready(browser)
        self.assertTrue(browser.is_shown("#no-template"))
        self.assertFalse(browser.is_shown("[name=system]"))
        self.assertIn("mkc serve --trace-steps", browser.text("#step-none"))
        self.set_fields(browser, **FIELDS)
        text = "Once there was"
        for added in (text, "", " Then he"):
            text += added if added != text else ""
            expected = server.post(COMPLETIONS, {"prompt": text, **FIELDS})[1]["choices"][0]["text"]
            self.assertEqual(self.say(browser, added), expected)
            text += expected
        self.assertEqual("".join(browser.texts(".turn .words")), text)

    def test_errors_are_shown(self):
        server = self.serve(TINY)
        browser = self.open(server, errors=1)  # the browser's own word of the status 400
        self.wait_ready(browser)
        self.set_fields(browser, max_tokens=100000)
        self.say(browser, "Once")
        self.assertIn("100000 new ones, which need 100001 positions", browser.texts(".turn.assistant.failed .note")[0])
        self.assertEqual(browser.evaluate("document.getElementById('message').value"), "Once")
        self.set_fields(browser, max_tokens=3)
        expected = server.post(COMPLETIONS, {"prompt": "Now", "max_tokens": 3})[1]["choices"][0]["text"]
        self.assertEqual(self.say(browser, "Now"), expected)  # what failed is no part of the text

    def test_stop(self):
        """The stop button ends the request in the server, and keeps the text so far."""
        server = self.start([FAKE, "step_ms=30"], "stdout")
        browser = self.open(server)
        self.wait_ready(browser)
        self.set_fields(browser, max_tokens=4000)
        browser.fill("#message", "Once")
        browser.click("#send")
        browser.until("Number(document.getElementById('tokens').textContent) >= 3")
        browser.until("Number(document.getElementById('running').textContent) === 1")
        self.assertGreater(float(browser.text("#rate")), 0)
        browser.click("#stop")
        browser.until("!document.getElementById('send').hidden")
        self.assertTrue(browser.texts(".turn.assistant .note")[-1].startswith("stopped"))
        self.assertNotEqual(browser.texts(".turn.assistant .words")[-1], "")
        server.until(lambda: server.get("/health")[1]["requests"] == 0)
        self.assertEqual(server.metric("mkc_request_success_total", "abort"), 1)
        browser.until("Number(document.getElementById('running').textContent) === 0")

    def test_the_key(self):
        """The page asks for the key until it has the right one, and keeps it for its tab alone."""
        server = self.serve(TINY, "--api-key", "secret")
        browser = self.open(server, errors=3)  # the browser's own words of the status 401
        for given, expected in (("", "This server asks"), ("wrong", "This server asks"), ("secret", "refused this key")):
            browser.until("document.getElementById('key-dialog').open")
            self.assertIn(expected, browser.text("#key-text"))
            if not given:
                browser.key("Escape")
                browser.until("!document.getElementById('give-key').hidden")
                browser.click("#give-key")
                continue
            browser.fill("#key", given)
            browser.key("Enter")
            browser.until("!document.getElementById('key-dialog').open || document.getElementById('key').value === ''")
        self.wait_ready(browser)
        self.assertFalse(browser.is_shown("#give-key"))
        self.set_fields(browser, max_tokens=5)
        self.assertNotEqual(self.say(browser, "Once"), "")
        kept = browser.evaluate("[Object.values(sessionStorage), localStorage.length, document.cookie]")
        self.assertEqual(kept, [["secret"], 0, ""])

    def test_the_timeline_of_the_last_step(self):
        server = self.serve(self.model_with_template(), "--trace-steps", "--threads", 2)
        browser = self.open(server)
        self.wait_ready(browser)
        browser.until("document.getElementById('step-none').textContent.startsWith('No step has run')")
        self.set_fields(browser, max_tokens=4)
        self.say(browser, "Once there was a boy")
        browser.until("document.getElementById('legend').children.length")
        trace = server.get("/debug/step")[1]
        bars = bars_of(trace)
        self.assertGreater(len(bars), 50)
        self.assertEqual({kind for kind in browser.texts("#legend .kind")}, {grid.split(".")[-1] for _, grid, _, _ in bars})
        self.assertIn("measured on cpu", browser.text("#step-about"))
        found = self.walk(browser)
        self.assertEqual(found, [bar for worker in (0, 1) for bar in bars if bar[0] == worker])
        self.check_colour(browser, bars[-1][1].split(".")[-1])
        self.check_canvas(browser, set(trace["grids"]))

    def go_to_end(self, browser, key):
        """Presses a key until the picked bar stays the same. Yields the text of each bar."""
        last = None
        while (text := browser.text("#picked")) != last:
            yield (last := text)
            browser.key(key)

    def walk(self, browser):
        """Walks along all bars of two workers by keys. Returns those that are tasks, in the form of bars_of()."""
        browser.evaluate("document.getElementById('timeline').focus()")
        found = []
        for worker, key in enumerate(("ArrowRight", "ArrowDown")):
            browser.key(key)
            list(self.go_to_end(browser, "ArrowLeft"))
            for text in self.go_to_end(browser, "ArrowRight"):
                name, tasks, _ = text.split(" · ", 2)
                if not name.startswith("wait for inputs of "):
                    numbers = tasks.split(",")[0].split(" ")
                    first, end = int(numbers[1]), int(numbers[-1])
                    self.assertTrue(tasks.endswith(f"worker {worker}"), tasks)
                    found.append((worker, name, first, end - first + 1))
        return found

    def check_colour(self, browser, kind):
        """The picked bar, seen from near, has the colour of its kind in the legend."""
        for _ in range(60):
            browser.key("+")
        browser.evaluate(FRAMES)
        x, y, width, height = browser.box("#timeline")
        swatch = (f"[...document.querySelectorAll('#legend button')].find((b) => b.value === {json.dumps(kind)})"
                  ".querySelector('.swatch').style.background")
        found, expected = browser.evaluate(
            "(() => { const canvas = document.getElementById('timeline').getContext('2d'); const one = new OffscreenCanvas(1, 1).getContext('2d'); "
            f"one.fillStyle = {swatch}; one.fillRect(0, 0, 1, 1); "
            f"return [canvas.getImageData({round(width / 2)}, {round(height * 0.9)}, 1, 1), one.getImageData(0, 0, 1, 1)].map((i) => [...i.data]); }})()")
        self.assertEqual(found, expected)
        self.assertEqual(found[3], 255)

    def check_canvas(self, browser, grids):
        """A tip under the mouse names a grid. The wheel and the buttons change the picture, and change it back."""
        picture = "document.getElementById('timeline').toDataURL()"
        browser.key("0")
        browser.evaluate(FRAMES)
        whole = json.dumps(browser.evaluate(picture))
        x, y, width, height = browser.box("#timeline")
        tips = set()
        for i in range(40):
            browser.mouse("mouseMoved", x + width * (0.1 + 0.0224 * i), y + height * (0.45 if i % 2 else 0.8))
            if browser.is_shown("#tip"):
                tips.add(browser.text("#tip strong").removeprefix("wait for inputs of "))
        self.assertTrue(tips and tips <= grids, tips)
        for change, restores in ((lambda: browser.mouse("mouseWheel", x + width / 2, y + 40, deltaX=0, deltaY=-600), True),
                                 (lambda: browser.click("#zoom-in"), True), (lambda: browser.click("#legend button"), False)):
            change()
            browser.until(f"{picture} !== {whole}")
            browser.click("#zoom-all" if restores else "#legend button")
            browser.until(f"{picture} === {whole}")

    def test_widths_and_colours(self):
        """No width has a scroll bar to the side. The page is light or dark, as the user prefers."""
        server = self.start([FAKE, "traced=1"], "stdout")
        browser = self.open(server)
        self.wait_ready(browser)
        browser.until("document.getElementById('legend').children.length")
        grounds = set()
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            grounds.add(browser.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
            for width in (320, 400, 800, 1600):
                browser.resize(width, 800)
                self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), width)
        self.assertEqual(len(grounds), 2)


if __name__ == "__main__":
    if not program():
        print(f"SKIP: none of {', '.join(PROGRAMS)} is installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1], verbosity=2)
