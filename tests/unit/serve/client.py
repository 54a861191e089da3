"""This module holds what the tests of mkc serve share: a server as a process, and requests to it."""
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

LIMIT_S = 60  # time limit of a wait
COMPLETIONS = "/v1/completions"
BODY = {"prompt": [1, 2, 3], "max_tokens": 8}
LONG = {"prompt": [1, 2, 3], "max_tokens": 4000}


class Server:
    """A server process that is ready once its port is known. Lines of standard error are kept."""

    def __init__(self, command, port, ready=True, env=None):
        self.process = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=env)
        self.lines = []
        self.port = None
        while self.port is None:
            stream = self.process.stdout if port == "stdout" else self.process.stderr
            line = stream.readline()
            if not line:
                raise AssertionError(f"no server: {self.lines} {self.process.stderr.read()}")
            self.lines.append(line)
            match = re.search(r"(\d+)$", line) if port == "stdout" else re.search(r"http://\S+:(\d+),", line)
            if match:
                self.port = int(match[1])
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()
        if ready:
            self.until(lambda: self.get("/health")[0] == 200)

    def until(self, condition):
        """Waits for a condition."""
        end = time.monotonic() + LIMIT_S
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("the condition does not come true")
            time.sleep(0.01)

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=LIMIT_S)

    def send(self, method, path, body=None, headers=None):
        connection = self.connection()
        if body is not None:
            headers = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, body if isinstance(body, (str, bytes, type(None))) else json.dumps(body), headers or {})
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, response, text

    def get(self, path, headers=None):
        status, response, text = self.send("GET", path, headers=headers)
        return status, json.loads(text) if response.headers["Content-Type"] == "application/json" else text.decode()

    def post(self, path, body, headers=None):
        status, _, text = self.send("POST", path, body, headers)
        return status, json.loads(text)

    def stream(self, path, body):
        """Returns the events of a stream. The last one is "[DONE]"."""
        status, response, text = self.send("POST", path, {**body, "stream": True})
        if status != 200:
            raise AssertionError(f"{status}: {text}")
        if not response.headers["Content-Type"].startswith("text/event-stream"):
            raise AssertionError(response.headers["Content-Type"])
        return events_of(text.decode())

    def open_stream(self, path, body):
        """Returns a connection and its response after the first event."""
        connection = self.connection()
        connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200 or not response.readline().startswith(b"data: "):
            raise AssertionError(f"no stream: {response.status}")
        return connection, response

    def metric(self, name, labels=""):
        """Returns the value of a metric whose labels contain a text."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(name + "{") and labels in line:
                return float(line.rsplit(" ", 1)[1])
        raise AssertionError(f"no metric {name} {labels}")

    def signal(self, number=signal.SIGTERM):
        self.process.send_signal(number)

    def wait(self):
        code = self.process.wait(timeout=LIMIT_S)
        self.reader.join(LIMIT_S)
        return code

    def end(self):
        self.process.kill()
        self.wait()
        self.process.stdout.close()
        self.process.stderr.close()


def at_once(count, work):
    """Calls work(i) for each i below a count, each on a thread of its own."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)


def events_of(text):
    parts = text.split("\n\n")
    if parts.pop() != "" or not all(part.startswith("data: ") for part in parts):
        raise AssertionError(text)
    data = [part[len("data: "):] for part in parts]
    return [d if d == "[DONE]" else json.loads(d) for d in data]


def joined(events, chat):
    """Returns what the chunks of a stream say together: text, tokens and end of each choice, and the usage."""
    choices, usage = {}, None
    if events[-1] != "[DONE]":
        raise AssertionError(events[-1])
    for event in events[:-1]:
        usage = event.get("usage") or usage
        for part in event["choices"]:
            choice = choices.setdefault(part["index"], {"text": "", "logprobs": [], "finish_reason": None})
            if choice["finish_reason"] is not None:
                raise AssertionError(f"a chunk follows the end: {part}")
            choice["text"] += part["delta"].get("content", "") if chat else part["text"]
            choice["finish_reason"], choice["stop_reason"] = part["finish_reason"], part["stop_reason"]
            if part["logprobs"]:
                choice["logprobs"] += part["logprobs"]["content"] if chat else list(zip(*part["logprobs"].values()))
    return [choices[i] for i in sorted(choices)], usage


def whole(answer, chat):
    """Returns an answer in the form of joined()."""
    choices = []
    for choice in answer["choices"]:
        logprobs = choice["logprobs"]
        choices.append({
            "text": choice["message"]["content"] if chat else choice["text"],
            "logprobs": [] if not logprobs else logprobs["content"] if chat else list(zip(*logprobs.values())),
            "finish_reason": choice["finish_reason"], "stop_reason": choice["stop_reason"]})
    return choices, answer["usage"]


class ServerCase(unittest.TestCase):
    def start(self, *arguments, **options):
        server = Server(*arguments, **options)
        self.addCleanup(server.end)
        return server

    def is_error(self, answer, status, kind, message="", param=None):
        self.assertEqual(answer[0], status, str(answer[1])[:400])
        error = answer[1]["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual((error["type"], error["param"]), (kind, param), error)
        self.assertIn(message, error["message"])


class FakeCase(ServerCase):
    """The first argument of these tests is the program fake_server."""

    def fake(self, ready=True, **settings):
        return self.start([sys.argv[1], *(f"{name}={value}" for name, value in settings.items())], "stdout", ready=ready)

    def raw(self, server, data, shut=False):
        """Sends bytes on a connection of their own, and returns all that comes back."""
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as connection:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
            found = b""
            while part := connection.recv(65536):
                found += part
        return found

    def request(self, body=BODY, path=COMPLETIONS, headers=b"", version=b"1.1"):
        data = json.dumps(body).encode()
        return (b"POST " + path.encode() + b" HTTP/" + version + b"\r\nHost: x\r\nContent-Type: application/json\r\n" + headers +
                b"Content-Length: " + str(len(data)).encode() + b"\r\n\r\n" + data)
