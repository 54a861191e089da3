"""This module drives a headless Chromium by the DevTools protocol, over pipes.

The protocol's messages are JSON with a zero byte behind each (https://chromedevtools.github.io/devtools-protocol/).
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

LIMIT_S = 60  # time limit of a wait
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""),
        "ArrowDown": (40, "")}


def program():
    """Returns the path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def pipe():
    """Returns the two ends of a pipe, both above the numbers that Chromium reads and writes."""
    low = os.pipe()
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in low]
    os.close(low[0]), os.close(low[1])
    return high


class Browser:
    """One page of one browser. Events that tests look at are kept as lists."""

    def __init__(self, width=1200, height=900, scale=1):
        self.profile = tempfile.mkdtemp(prefix="mkc-")
        command = [program(), "--headless", "--remote-debugging-pipe", f"--user-data-dir={self.profile}", "--disable-gpu",
                   "--disable-background-networking", "--no-first-run", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        if os.geteuid() == 0:
            command.append("--no-sandbox")  # Chromium's sandbox refuses root
        theirs_in, self.out = pipe()
        self.inp, theirs_out = pipe()

        def take_pipes():
            os.dup2(theirs_in, 3)
            os.dup2(theirs_out, 4)

        self.process = subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=take_pipes, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(theirs_in), os.close(theirs_out)
        self.rest, self.session, self.number = b"", None, 0
        self.requests, self.errors = [], []  # addresses; texts of the console's errors and warnings
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height, scale)

    def close(self):
        """Ends the browser. A browser that is killed leaves processes, which write their profile again."""
        os.close(self.inp), os.close(self.out)
        try:
            self.process.wait(timeout=LIMIT_S)  # a browser ends with its pipes
        finally:
            self.process.kill()
            self.process.wait(timeout=LIMIT_S)
        shutil.rmtree(self.profile)

    def call(self, method, **parameters):
        """Calls a method of the protocol and returns its result."""
        self.number += 1
        number = self.number
        message = {"id": number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.take_event(answer)

    def receive(self):
        end = time.monotonic() + LIMIT_S
        while b"\0" not in self.rest:
            if not select.select([self.inp], [], [], max(0, end - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            part = os.read(self.inp, 1 << 20)
            if not part:
                raise AssertionError("the browser has ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def take_event(self, event):
        method, parameters = event["method"], event["params"]
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.errors.append(parameters["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in parameters["args"]]))

    def resize(self, width, height, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def prefer(self, scheme):
        """Sets the colour scheme that the user prefers: light or dark."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address):
        self.call("Page.navigate", url=address)
        self.until("document.readyState === 'complete'")

    def evaluate(self, expression):
        """Returns the value of JavaScript, which may be a promise."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression):
        """Waits until JavaScript is true, and returns its value."""
        end = time.monotonic() + LIMIT_S
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                raise AssertionError(f"does not come true: {expression}")
            time.sleep(0.02)
        return value

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.evaluate(f"[...document.querySelectorAll({json.dumps(selector)})].map((e) => e.textContent)")

    def is_shown(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).checkVisibility()")

    def box(self, selector):
        """Returns x, y, width and height of an element, which is scrolled into view."""
        return self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}}); "
                             "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, selector):
        x, y, width, height = self.box(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x + width / 2, y + height / 2, button="left", clickCount=1)

    def key(self, name):
        """Presses a key: one of KEYS, or a character."""
        code, text = KEYS.get(name, (ord(name[0].upper()), name))
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", key=name, windowsVirtualKeyCode=code, text=text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code)

    def fill(self, selector, text):
        """Types a text into a field in place of its own."""
        self.evaluate(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.focus(); e.select(); }})()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.evaluate("document.activeElement.value = ''")

    def screenshot(self, file, **more):
        """Writes what the page shows as a PNG. `more` are parameters of Page.captureScreenshot, such as clip."""
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, **more)["data"]
        with open(file, "wb") as out:
            out.write(base64.b64decode(data))
