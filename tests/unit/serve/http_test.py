"""These tests check the server's HTTP side with a model whose logits are hashes: routes, bodies, answers.
Usage: http_test.py FAKE_SERVER
"""
import json
import random
import re
import sys
import unittest
from pathlib import Path

from client import BODY, COMPLETIONS, LONG, FakeCase, events_of, joined, whole

TOOLS = Path(__file__).resolve().parents[3] / "tools"
CHAT = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "Once there was"}]


class HttpTest(FakeCase):
    def test_health_while_loading(self):
        server = self.fake(ready=False, load_ms=1500)
        self.assertEqual(server.get("/health")[0], 503)
        self.assertEqual(server.get("/health")[1]["status"], "loading")
        self.is_error(server.post(COMPLETIONS, BODY), 503, "overloaded_error", "loading")
        server.until(lambda: server.get("/health")[0] == 200)
        self.assertEqual(server.post(COMPLETIONS, BODY)[0], 200)

    def test_routes_and_methods(self):
        server = self.fake()
        self.is_error(server.get("/nothing"), 404, "not_found_error", "GET /nothing")
        self.is_error(server.get(COMPLETIONS), 405, "invalid_request_error", "expected POST")
        self.assertEqual(server.send("PUT", "/health")[1].headers["Allow"], "GET")
        self.assertEqual(server.send("HEAD", "/health")[2], b"")
        self.assertEqual(server.get("/health?verbose=1")[0], 200)
        for kind in ("text/plain", "", "application/jsonp"):
            self.is_error(server.post(COMPLETIONS, BODY, {"Content-Type": kind}), 415, "invalid_request_error", kind)
        for kind in ("Application/JSON; charset=utf-8", "application/json\t;charset=utf-8"):
            self.assertEqual(server.post(COMPLETIONS, BODY, {"Content-Type": kind})[0], 200)

    def test_the_object_of_a_model(self):
        server = self.fake(ready=False, load_ms=500)
        self.is_error(server.get("/v1/models/fake"), 503, "overloaded_error", "loading")
        server.until(lambda: server.get("/health")[0] == 200)
        for name in ("fake", "f%61ke", "fake?x=1"):
            self.assertEqual(server.get(f"/v1/models/{name}"), (200, server.get("/v1/models")[1]["data"][0]))
        for name, found in (("org/name", "org/name"), ("org%2fname", "org/name"), ("", ""), ("fake/", "fake/"), ("%", "%"), ("%-1", "%-1"),
                            ("fake%0", "fake%0"), ("%ff", "\ufffd")):
            answer = server.get(f"/v1/models/{name}")
            self.is_error(answer, 404, "not_found_error", f'model: found "{found}", expected "fake"', "model")
            self.assertEqual(answer[1]["error"]["code"], "model_not_found")
        self.assertEqual(server.send("DELETE", "/v1/models/fake")[1].headers["Allow"], "GET")

    def test_the_files_of_the_web_page(self):
        server = self.fake(ready=False, load_ms=500)  # the page comes before the model
        names = {path.name: path.read_bytes() for folder in ("serve/page", "page") for path in (TOOLS / folder).glob("[a-z]*")}
        kinds = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
                 ".svg": "image/svg+xml"}
        for name, expected in names.items():
            path = "/" if name == "index.html" else f"/page/{name}"
            status, response, text = server.send("GET", path)
            self.assertEqual((status, text), (200, expected), path)
            self.assertEqual(response.headers["Content-Type"], kinds[Path(name).suffix])
            self.assertEqual(response.headers["X-Content-Type-Options"], "nosniff")
            policy = response.headers["Content-Security-Policy"]
            self.assertIn("default-src 'none'", policy)
            self.assertNotIn("unsafe", policy)
            status, response, text = server.send("HEAD", path)
            self.assertEqual((status, response.headers["Content-Length"], text), (200, str(len(expected)), b""))
            self.assertEqual(server.send("POST", path, {})[1].headers["Allow"], "GET")
        for path in ("/page/none.js", "/page/", "/page", "/page/index.html", "/index.html", "/page/../README.md", "/page/.clang-format",
                     "/page/main.js/", "/page/%6dain.js"):
            self.is_error(server.get(path), 404, "not_found_error", path)
            self.assertEqual(server.send("HEAD", path)[0], 404)
        for path in re.findall(rb'(?:src|href)="(/[^"]*)"', names["index.html"]):
            self.assertEqual(server.send("GET", path.decode())[0], 200, path)

    def test_the_state(self):
        server = self.fake(ready=False, load_ms=500)
        status, state = server.get("/debug/state")
        self.assertEqual((status, state["status"], state["model"]), (200, "loading", None))
        server.until(lambda: server.get("/debug/state")[1]["status"] == "ok")
        self.assertEqual(server.get("/debug/state")[1]["model"],
                         {"name": "fake", "device": "none", "chat": True, "traced": False, "positions": 4096, "max_requests": 4,
                          "sampling": {"temperature": 0, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}})
        server.post(COMPLETIONS, BODY)
        figures = server.get("/debug/state")[1]["figures"]
        self.assertEqual(figures, {"running": 0, "waiting": 0, "pages": 1024, "pages_used": 0, "steps": figures["steps"],
                                   "prompt_tokens": 3, "generation_tokens": 8})

    def test_the_trace_of_a_launch(self):
        self.is_error(self.fake().get("/debug/step"), 404, "not_found_error", "start mkc serve with --trace-steps")
        self.is_error(self.fake(trace_fails=1).get("/debug/step"), 500, "device_error", "is gone")
        server = self.fake(traced=1, step_ms=20)
        trace = server.get("/debug/step")[1]
        self.assertEqual((trace["grids"], trace["tracks"][0]["stamps"][-5:]), (["l0.norm"], [3000, 3, 0, 1, 0]))
        connection, response = server.open_stream(COMPLETIONS, {**LONG, "max_tokens": 100})
        for _ in range(3):  # between the launches of a request
            self.assertEqual(server.get("/debug/step")[1], trace)
        self.assertEqual(server.get("/health")[1]["requests"], 1)
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()

    def test_requests_that_are_no_http(self):
        server = self.fake(max_body_bytes=1000)
        for data, status in ((b"hello\r\n\r\n", 400), (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
                             (b"GET / HTTP/1.1\r\nHost x\r\n\r\n", 400),
                             (b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40000 + b"\r\n\r\n", 431),
                             (b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"X: yy\r\n" * 9000 + b"\r\n", 431),
                             (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n" + b"y" * 1001, 413),
                             (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400),
                             (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400),
                             (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + b"200\r\n" + b"y" * 512 + b"\r\n200\r\n" +
                              b"y" * 512 + b"\r\n0\r\n\r\n", 413),
                             (b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400)):
            found = self.raw(server, data)
            self.assertTrue(found.startswith(f"HTTP/1.1 {status} ".encode()), (data[:80], found[:200]))
            self.assertEqual(json.loads(found.split(b"\r\n\r\n", 1)[1])["error"]["type"], "invalid_request_error")
        self.assertEqual(self.raw(server, b"GET /health HTTP/1.1\r\nHost", shut=True), b"")
        self.assertEqual(server.get("/health")[0], 200)

    def test_forms_of_http(self):
        server = self.fake()
        expected = server.post(COMPLETIONS, BODY)[1]["choices"]
        close = b"Connection: close\r\n"
        # A client may wait for leave to send its body.
        found = self.raw(server, self.request(headers=b"Expect: 100-continue\r\n" + close))
        self.assertTrue(found.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), found)
        found = self.raw(server, self.request(headers=b"Expect: 100-continue\r\n", version=b"1.0"))
        self.assertTrue(found.startswith(b"HTTP/1.1 200 OK\r\n"), found)  # HTTP/1.0 knows no such leave
        # The body may come in chunks, and the next request before the first answer.
        data = json.dumps(BODY).encode()
        chunked = (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
                   b"5\r\n" + data[:5] + b"\r\n" + hex(len(data) - 5)[2:].encode() + b"\r\n" + data[5:] + b"\r\n0\r\n\r\n")
        found = self.raw(server, chunked + self.request(headers=close))
        answers = [json.loads(part.split(b"\r\n\r\n", 1)[1]) for part in found.split(b"HTTP/1.1 200 OK")[1:]]
        self.assertEqual([a["choices"] for a in answers], [expected, expected])
        # HTTP/1.0 has no chunks: the end of the connection ends the stream.
        found = self.raw(server, self.request({**BODY, "stream": True}, version=b"1.0"))
        head, text = found.split(b"\r\n\r\n", 1)
        self.assertNotIn(b"chunked", head)
        self.assertEqual(joined(events_of(text.decode()), False)[0][0]["text"], expected[0]["text"])
        # A client that has closed its sending side still gets an answer that needs no step.
        self.assertTrue(self.raw(server, b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", shut=True).startswith(b"HTTP/1.1 200 OK"))

    def test_requests_whose_end_is_unknown(self):
        """The body of such a request is not read as another request."""
        server = self.fake()
        inner = b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n"
        for version, coding in ((b"1.1", b"gzip"), (b"1.1", b"chunked, identity"), (b"1.1", b"identity"), (b"1.0", b"chunked")):
            found = self.raw(server, b"POST /tokenize HTTP/" + version + b"\r\nHost: x\r\nContent-Type: application/json\r\n" +
                             b"Transfer-Encoding: " + coding + b"\r\n\r\n" + inner)
            self.assertTrue(found.startswith(b"HTTP/1.1 400 Bad Request\r\n"), found)
            self.assertEqual((found.count(b"HTTP/1.1"), found.count(b"Connection: close")), (2, 1), found)
            self.assertIn(b"found Transfer-Encoding: " + coding, found)

    def test_hosts_and_targets(self):
        server = self.fake(api_key=1)
        close = b"Connection: close\r\n\r\n"
        for head in (b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n"):
            found = self.raw(server, head + b"\r\n")
            self.assertTrue(found.startswith(b"HTTP/1.1 400 "), found)
            self.assertIn(b"headers Host, expected one", found)
        self.assertTrue(self.raw(server, b"GET /health HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 "))
        for target, status in ((b"http://h/health", 200), (b"HTTP://h:80/health?x=/y", 200), (b"https://h/", 200), (b"http://h?x=1", 200),
                               (b"http://h/none", 404), (b"ftp://h/health", 404)):
            found = self.raw(server, b"GET " + target + b" HTTP/1.1\r\nHost: h\r\n" + close)
            self.assertTrue(found.startswith(b"HTTP/1.1 " + str(status).encode()), (target, found[:100]))
        for key, status in (("Bearer key", 200), ("bearer key", 200), ("BEARER key", 200), ("bearer", 401), ("basic key", 401)):
            self.assertEqual(server.get("/v1/models", {"Authorization": key})[0], status, key)

    def test_random_bodies(self):
        """Bodies that differ from good ones in some bytes get an answer, and harm nobody."""
        server = self.fake()
        rng = random.Random(7)
        good = [json.dumps({**BODY, "temperature": 0.5, "stop": ["a", "b"], "n": 2, "logprobs": 1}).encode(),
                json.dumps({"messages": MESSAGES, "max_tokens": 4, "top_p": 0.5, "seed": 5, "stream": True}).encode()]
        connection = server.connection()
        for _ in range(400):
            index = rng.randrange(2)
            data = bytearray(good[index])
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), *b'{}[]",:0e-'])
            connection.request("POST", (COMPLETIONS, CHAT)[index], bytes(data), {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
            self.assertIn(response.status, (200, 400, 404), data)
            if response.status != 200:
                self.assertTrue(json.loads(text)["error"]["message"], data)
        connection.close()
        self.assertEqual(server.get("/health")[1]["status"], "ok")

    def test_streams_equal_whole_answers(self):
        server = self.fake()
        chat = {"messages": MESSAGES, "max_tokens": 40}
        for path, body in ((COMPLETIONS, BODY), (COMPLETIONS, {**BODY, "n": 3, "temperature": 1, "seed": 4}),
                           (COMPLETIONS, {"prompt": ["Once", "He had a dog"], "max_tokens": 30, "echo": True}),
                           (COMPLETIONS, {"prompt": [[5, 6], [7]], "max_tokens": 30, "logprobs": 2}),
                           (COMPLETIONS, {"prompt": [[5, 6], [7]], "max_tokens": 30, "logprobs": 2, "echo": True}),
                           (COMPLETIONS, {"prompt": ["Once", "He had a dog"], "max_tokens": 0, "logprobs": 1, "echo": True}),
                           (CHAT, chat), (CHAT, {**chat, "n": 2, "logprobs": True, "top_logprobs": 3, "temperature": 1, "seed": 9}),
                           (COMPLETIONS, {**BODY, "max_tokens": 100, "stop": ["e", "zz"], "include_stop_str_in_output": True}),
                           (COMPLETIONS, {**BODY, "max_tokens": 100, "stop": "the", "logprobs": 0})):
            is_chat = path == CHAT
            status, answer = server.post(path, body)
            self.assertEqual(status, 200, answer)
            events = server.stream(path, {**body, "stream_options": {"include_usage": True}})
            choices, usage = joined(events, is_chat)
            self.assertEqual((choices, usage), whole(answer, is_chat))
            self.assertEqual(len(choices), len(body.get("prompt", "x")) if isinstance(body.get("prompt", 0), list) and
                             isinstance(body["prompt"][0], (str, list)) else body.get("n", 1))
            self.assertTrue(all(event["usage"] is None for event in events[:-2]))
            self.assertEqual(len({event["id"] for event in events[:-1]}), 1)

    def test_choices_have_seeds_in_order(self):
        server = self.fake()
        body = {**BODY, "temperature": 1}
        three = server.post(COMPLETIONS, {**body, "n": 3, "seed": 10})[1]["choices"]
        self.assertEqual([c["index"] for c in three], [0, 1, 2])
        self.assertEqual(len({c["text"] for c in three}), 3)
        for i, choice in enumerate(three):
            self.assertEqual(server.post(COMPLETIONS, {**body, "seed": 10 + i})[1]["choices"][0]["text"], choice["text"])
        free = {server.post(COMPLETIONS, {**body, "max_tokens": 30})[1]["choices"][0]["text"] for _ in range(4)}
        self.assertEqual(len(free), 4)

    def test_stop_strings_and_ids(self):
        server = self.fake()
        body = {**BODY, "max_tokens": 200}
        full = server.post(COMPLETIONS, body)[1]["choices"][0]["text"]
        stop = full[60:64]
        at = full.find(stop)
        for include in (False, True):
            answer = server.post(COMPLETIONS, {**body, "stop": [stop, "@@@"], "include_stop_str_in_output": include})[1]
            choice = answer["choices"][0]
            self.assertEqual(choice["text"], full[:at + 4 * include])
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))
            self.assertLess(answer["usage"]["completion_tokens"], 200)
        logprobs = server.post(COMPLETIONS, {**body, "max_tokens": 10, "logprobs": 0})[1]["choices"][0]["logprobs"]
        token = server.post("/tokenize", {"prompt": logprobs["tokens"][4], "add_special_tokens": False})[1]["tokens"]
        self.assertEqual(len(token), 1)
        choice = server.post(COMPLETIONS, {**body, "stop_token_ids": token})[1]["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", token[0]))
        self.assertTrue(full.startswith(choice["text"]))
        self.assertLess(len(choice["text"]), len(full))

    def test_chat_templates(self):
        server = self.fake()
        tokens = server.post("/tokenize", {"messages": MESSAGES})[1]
        text = server.post("/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"]
        self.assertEqual(text, "<user>Once there was\n<assistant>")
        # The model goes on with the whole message, also where its text comes again behind it.
        for content in (" a boy ", "", "<", "\n", "assistant", ">\n"):
            last = [*MESSAGES, {"role": "assistant", "content": content}]
            go_on = {"messages": last, "add_generation_prompt": False, "continue_final_message": True}
            tokens = server.post("/tokenize", go_on)[1]
            text = server.post("/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"]
            self.assertEqual(text, "<user>Once there was\n<assistant>" + content)
        self.is_error(server.post(CHAT, {"messages": [{"role": "tool", "content": "x"}]}), 400, "invalid_request_error",
                      "template.jinja:3: error: no tools here", "messages")

    def test_sizes(self):
        server = self.fake()
        self.is_error(server.post(COMPLETIONS, {"prompt": [1] * 4097}), 400, "invalid_request_error", "4097 tokens", "prompt")
        self.is_error(server.post(COMPLETIONS, {"prompt": "a boy " * 150000}), 400, "invalid_request_error", "tokens, expected at most 4096",
                      "prompt")
        answer = server.post(COMPLETIONS, {"prompt": [1] * 4000, "max_tokens": 98})
        self.is_error(answer, 400, "invalid_request_error", "which need 4097 positions", "prompt")
        self.assertEqual(answer[1]["error"]["code"], "context_length_exceeded")
        for stream in (False, True):
            self.is_error(server.post(COMPLETIONS, {**BODY, "stop_token_ids": [639, 640], "stream": stream}), 400, "invalid_request_error",
                          "found the id 640, expected 0 to 639", "stop_token_ids")
        self.is_error(server.post(COMPLETIONS, {"prompt": [640]}), 400, "invalid_request_error", "0 to 639", "prompt")
        empty = {"prompt": "", "add_special_tokens": False}
        self.is_error(server.post(COMPLETIONS, empty), 400, "invalid_request_error", "no tokens", "prompt")
        self.assertEqual(server.post("/tokenize", empty), (200, {"count": 0, "max_model_len": 4096, "tokens": []}))
        self.is_error(server.post(COMPLETIONS, {**BODY, "model": "other"}), 404, "not_found_error", "\"fake\"", "model")
        self.is_error(server.post("/detokenize", {"tokens": [9999]}), 400, "invalid_request_error", "9999", "tokens")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
