"""These tests check what a server does for many, slow and leaving clients, at its limits, by faults and by signals.
Usage: clients_test.py FAKE_SERVER
"""
import json
import signal
import socket
import sys
import threading
import time
import unittest

from client import BODY, COMPLETIONS, LIMIT_S, LONG, FakeCase, at_once, events_of, joined


class ClientsTest(FakeCase):
    def test_64_clients_at_once(self):
        server = self.fake(max_requests=16)
        bodies = [{"prompt": [3 + i, 5], "max_tokens": 40 + i, "temperature": i % 2, "seed": i, "stream": i % 3 == 0} for i in range(64)]
        alone = [server.post(COMPLETIONS, {**b, "stream": False})[1]["choices"][0]["text"] for b in bodies]
        together = [None] * 64

        def work(i):
            if bodies[i]["stream"]:
                together[i] = joined(server.stream(COMPLETIONS, bodies[i]), False)[0][0]["text"]
            else:
                together[i] = server.post(COMPLETIONS, bodies[i])[1]["choices"][0]["text"]

        at_once(64, work)
        self.assertEqual(together, alone)
        self.assertEqual(server.metric("mkc_num_requests_running"), 0)
        self.assertEqual(server.metric("mkc_request_success_total", '"length"'), 128)
        self.assertEqual(server.metric("mkc_generation_tokens_total"), 2 * sum(b["max_tokens"] for b in bodies))
        self.assertEqual(server.metric("mkc_prompt_tokens_total"), 256)
        self.assertEqual(server.metric("mkc_e2e_request_latency_seconds_count"), 128)

    def test_long_texts_do_not_hold_up_short_ones(self):
        server = self.fake(slow_pattern=1)
        answered = []

        def ask(name, text):
            status, answer = server.post("/tokenize", {"prompt": text})
            answered.append((name, status, answer["count"]))

        def work(i):
            if i < 3:  # more than there are threads for long texts
                return ask("long", "1" * 18000 + "\n" * 60000)
            time.sleep(0.2)
            ask("short", "\n")

        at_once(4, work)
        self.assertEqual([a[:2] for a in answered], [("short", 200)] + [("long", 200)] * 3)

    def test_clients_that_leave(self):
        server = self.fake(max_requests=1, step_ms=10)
        running, _ = server.open_stream(COMPLETIONS, LONG)
        waiting = server.connection()  # of a whole answer, which waits for the stream
        waiting.request("POST", COMPLETIONS, json.dumps(LONG), {"Content-Type": "application/json"})
        server.until(lambda: server.metric("mkc_num_requests_waiting") == 1)
        waiting.close()
        server.until(lambda: server.metric("mkc_num_requests_waiting") == 0)
        self.assertEqual(server.metric("mkc_num_requests_running"), 1)
        running.close()
        server.until(lambda: server.metric("mkc_request_success_total", '"abort"') == 2)
        self.assertEqual(server.post(COMPLETIONS, BODY)[0], 200)
        self.assertEqual(server.metric("mkc_kv_cache_usage_perc"), 0)

    def test_clients_that_leave_unread_bytes(self):
        """Bytes behind a request say nothing of whether the client is still there."""
        server = self.fake(max_requests=1, step_ms=10)
        for count, more in enumerate((b"\r\n", self.request(BODY), b"x" * (1 << 14)), 1):
            with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as leaving:
                leaving.sendall(self.request({**LONG, "stream": True}))
                self.assertTrue(leaving.recv(1000).startswith(b"HTTP/1.1 200 OK"))
                leaving.setblocking(False)
                leaving.send(more)
                self.assertEqual(server.metric("mkc_num_requests_running"), 1)
                leaving.shutdown(socket.SHUT_WR)
                server.until(lambda: server.metric("mkc_request_success_total", '"abort"') == count)
        # A client that stays is answered, and then its next request.
        found = self.raw(server, self.request({**BODY, "max_tokens": 50}) + self.request(headers=b"Connection: close\r\n"))
        self.assertEqual(found.count(b"HTTP/1.1 200 OK"), 2)

    def test_too_many_requests(self):
        server = self.fake(max_requests=1, max_waiting=1, step_ms=10)
        running, _ = server.open_stream(COMPLETIONS, LONG)
        waiting = server.connection()
        waiting.request("POST", COMPLETIONS, json.dumps(LONG), {"Content-Type": "application/json"})
        server.until(lambda: server.metric("mkc_num_requests_waiting") == 1)
        status, response, text = server.send("POST", COMPLETIONS, BODY)
        self.is_error((status, json.loads(text)), 429, "rate_limit_error", "at most 2")
        self.assertEqual(response.headers["Retry-After"], "1")
        self.is_error(server.post(COMPLETIONS, {**BODY, "n": 3}), 400, "invalid_request_error", "found 3 choices", "n")
        self.is_error(server.post(COMPLETIONS, {"prompt": 3 * [[1]]}), 400, "invalid_request_error", "prompt: found 3 choices of all prompts",
                      "prompt")
        # No prompt is copied for choices that are too many: the second one is not looked at.
        self.is_error(server.post(COMPLETIONS, {"prompt": [[1], [640]], "n": 128}), 400, "invalid_request_error", "found 256 choices", "n")
        running.close()
        waiting.close()
        server.until(lambda: server.post(COMPLETIONS, BODY)[0] == 200)

    def test_too_many_connections(self):
        server = self.fake(max_connections=2)
        held = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2)]
        for connection in held:  # each is served, as its answer shows
            connection.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
            self.assertTrue(connection.recv(1000).startswith(b"HTTP/1.1 200 OK"))
        self.is_error(server.get("/version"), 503, "overloaded_error", "too many connections")
        for connection in held:
            connection.close()
        server.until(lambda: server.get("/version")[0] == 200)

    def test_slow_readers(self):
        server = self.fake(client_timeout=1, step_ms=1)
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", server.port))
            slow.sendall(self.request({**LONG, "stream": True, "n": 3, "logprobs": 20}))
            server.until(lambda: server.metric("mkc_num_requests_running") == 3)
            # The client takes nothing. Others are answered, and its requests end before their last tokens.
            self.assertEqual(server.post(COMPLETIONS, BODY)[0], 200)
            server.until(lambda: server.metric("mkc_request_success_total", '"abort"') == 3)
        self.assertLess(server.metric("mkc_generation_tokens_total"), 3 * LONG["max_tokens"])
        self.assertEqual(server.post(COMPLETIONS, BODY)[0], 200)

    def test_streams_that_are_read_after_their_last_token(self):
        server = self.fake()
        body = {**LONG, "n": 3, "logprobs": 20, "stream": True}
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as late:
            late.sendall(self.request(body, headers=b"Connection: close\r\n", version=b"1.0"))
            server.until(lambda: server.metric("mkc_request_success_total", '"length"') == 3)
            found = b""
            while part := late.recv(1 << 20):
                found += part
        choices, _ = joined(events_of(found.split(b"\r\n\r\n", 1)[1].decode()), False)
        self.assertEqual([len(choice["logprobs"]) for choice in choices], 3 * [LONG["max_tokens"]])

    def test_time_limits_of_streams_that_are_read_late(self):
        server = self.fake(request_timeout=2)
        with socket.socket() as late:
            late.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            late.settimeout(LIMIT_S)
            late.connect(("127.0.0.1", server.port))
            late.sendall(self.request({**LONG, "logprobs": 20, "stream": True}, headers=b"Connection: close\r\n", version=b"1.0"))
            server.until(lambda: server.metric("mkc_request_success_total", '"length"') == 1)
            time.sleep(2.5)
            found = b""
            while part := late.recv(1 << 20):
                found += part
        events = events_of(found.split(b"\r\n\r\n", 1)[1].decode())
        self.assertEqual((events[-2]["error"]["type"], events[-1]), ("timeout_error", "[DONE]"))

    def test_time_limits(self):
        server = self.fake(request_timeout=1, step_ms=10)
        self.is_error(server.post(COMPLETIONS, LONG), 504, "timeout_error", "1 s")
        events = server.stream(COMPLETIONS, LONG)
        self.assertEqual((events[-2]["error"]["type"], events[-1]), ("timeout_error", "[DONE]"))
        server.until(lambda: server.metric("mkc_num_requests_running") == 0)
        server = self.fake(client_timeout=1)
        self.assertEqual(self.raw(server, b"POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"), b"")

    def test_device_faults(self):
        server = self.fake(fail_at=30)
        self.is_error(server.post(COMPLETIONS, LONG), 500, "device_error")
        status, health = server.get("/health")
        self.assertEqual((status, health["status"], health["steps_make_progress"]), (503, "device_error", False))
        self.is_error(server.post(COMPLETIONS, BODY), 500, "device_error", health["error"])
        server = self.fake(fail_at=30)
        events = server.stream(COMPLETIONS, LONG)
        self.assertEqual((events[-2]["error"]["type"], events[-1]), ("device_error", "[DONE]"))

    def test_sigterm_lets_streams_end(self):
        server = self.fake(step_ms=20)
        connection, response = server.open_stream(COMPLETIONS, {**BODY, "max_tokens": 60})
        server.signal()
        server.until(lambda: server.get("/health")[1]["status"] == "draining")
        self.assertEqual(server.get("/health")[0], 503)
        self.is_error(server.post(COMPLETIONS, BODY), 503, "overloaded_error", "shutting down")
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(server.wait(), 0)

    def test_grace_and_second_signal(self):
        server = self.fake(step_ms=20, grace=1)
        connection, response = server.open_stream(COMPLETIONS, LONG)
        whole = server.connection()
        whole.request("POST", COMPLETIONS, json.dumps(LONG), {"Content-Type": "application/json"})
        server.until(lambda: server.get("/health")[1]["requests"] == 2)
        server.signal(signal.SIGINT)
        # Requests that outlast the grace get an answer, behind which the connection closes.
        answer = whole.getresponse()
        self.assertEqual(answer.headers["Connection"], "close")
        self.is_error((answer.status, json.loads(answer.read())), 503, "overloaded_error", "shutting down")
        event, done = [line for line in response.read().decode().splitlines() if line][-2:]
        self.assertEqual((json.loads(event[len("data: "):])["error"]["type"], done), ("overloaded_error", "data: [DONE]"))
        self.assertEqual(server.wait(), 0)
        connection.close()
        server = self.fake(slow_pattern=1, grace=1)
        answers = []
        reading = threading.Thread(target=lambda: answers.append(server.post("/tokenize", {"prompt": "1" * 400_000})))
        reading.start()
        time.sleep(0.5)
        server.signal()  # the text takes a minute
        self.assertEqual(server.wait(), 0)
        reading.join()
        self.is_error(answers[0], 503, "overloaded_error", "shutting down")
        server = self.fake(step_ms=20)
        connection, response = server.open_stream(COMPLETIONS, LONG)
        server.signal()
        server.until(lambda: server.get("/health")[1]["status"] == "draining")
        server.signal()
        self.assertEqual(server.wait(), 128 + signal.SIGTERM)
        connection.close()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
