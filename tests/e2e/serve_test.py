"""These tests serve a whole model on the processor by mkc serve, and compare its answers with those of mkc run.
Usage: serve_test.py MKC ROOT
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from tiny import CHAT, COMPLETIONS, ENV, MKC, PROMPT, ROOT, TINY  # noqa: E402

from client import LIMIT_S, Server, ServerCase, at_once, joined, whole  # noqa: E402


def serve(*options, model=TINY, env=None):
    return [[MKC, "serve", model, "--device", "cpu", "--port", 0, *options], "stderr"], {"env": {**ENV, **(env or {})}}


def run(*options):
    """Returns what mkc run makes of a prompt."""
    done = subprocess.run([MKC, "run", TINY, "--device", "cpu", "--json", *map(str, options)], capture_output=True, env=ENV,
                          timeout=LIMIT_S, check=True)
    return json.loads(done.stdout)


class ServeTest(ServerCase):
    @classmethod
    def setUpClass(cls):
        arguments, options = serve("--served-model-name", "tiny", "--log-requests", "--max-waiting", 2000, "--allowed-origin", "https://app.example")
        cls.server = Server(*arguments, **options)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def text(self, **body):
        status, answer = self.server.post(COMPLETIONS, {"prompt": PROMPT, "temperature": 0, **body})
        self.assertEqual(status, 200, answer)
        return answer["choices"][0]["text"]

    def test_facts(self):
        status, models = self.server.get("/v1/models")
        self.assertEqual((status, [m["id"] for m in models["data"]], models["data"][0]["max_model_len"]), (200, ["tiny"], 512))
        version = subprocess.run([MKC, "--version"], capture_output=True, text=True, timeout=LIMIT_S, check=True).stdout.split()[1]
        self.assertEqual(self.server.get("/version"), (200, {"version": version}))
        response = self.server.send("GET", "/version", headers={"Origin": "https://app.example"})[1]
        self.assertEqual(response.headers["Access-Control-Allow-Origin"], "https://app.example")
        health = self.server.get("/health")[1]
        self.assertEqual((health["status"], health["steps_make_progress"]), ("ok", True))
        self.assertTrue(any("ready: tiny on cpu" in line for line in self.server.lines), self.server.lines)

    def test_only_the_servers_own_names_reach_it_without_a_key(self):
        for host, status in (("evil.example", 403), ("localhost:8000", 200), ("app.example", 200)):
            self.assertEqual(self.server.send("GET", "/v1/models", headers={"Host": host})[0], status)
        arguments, options = serve("--api-key", "k")
        server = self.start(*arguments, **options)
        self.assertEqual(server.send("GET", "/v1/models", headers={"Host": "evil.example", "Authorization": "Bearer k"})[0], 200)

    def test_answers_are_those_of_run(self):
        for options, body in (((), {}), (("--temperature", 1, "--seed", 5), {"temperature": 1, "seed": 5}),
                              (("--temperature", 0.8, "--top-k", 20, "--top-p", 0.9, "--min-p", 0.01, "--repetition-penalty", 1.2, "--seed", 7),
                               {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "repetition_penalty": 1.2, "seed": 7})):
            found = run("--prompt", PROMPT, "--max-new-tokens", 60, *options)
            self.assertEqual(self.text(max_tokens=60, **body), found["text"])
            self.assertEqual(self.text(prompt=found["prompt_ids"], max_tokens=60, **body), found["text"])
        found = run("--prompt", PROMPT, "--max-new-tokens", 12, "--logprobs", 2)
        logprobs = self.server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 12, "logprobs": 2})[1]["choices"][0]["logprobs"]
        for token, expected in zip(logprobs["token_logprobs"], found["logprobs"], strict=True):
            self.assertAlmostEqual(token, expected["logprob"], places=5)

    def test_tokens(self):
        found = run("--prompt", PROMPT, "--max-new-tokens", 1)["prompt_ids"]
        self.assertEqual(self.server.post("/tokenize", {"prompt": PROMPT})[1],
                         {"count": len(found), "max_model_len": 512, "tokens": found})
        plain = self.server.post("/tokenize", {"prompt": PROMPT, "add_special_tokens": False})[1]["tokens"]
        self.assertEqual(self.server.post("/detokenize", {"tokens": plain})[1], {"prompt": PROMPT})

    def test_end_of_text(self):
        """A story ends by the end token, which ignore_eos goes past."""
        body = {"prompt": PROMPT, "temperature": 0, "max_tokens": 400}
        answer = self.server.post(COMPLETIONS, body)[1]
        self.assertEqual((answer["choices"][0]["finish_reason"], answer["choices"][0]["stop_reason"]), ("stop", None))
        self.assertLess(answer["usage"]["completion_tokens"], 400)
        past = self.server.post(COMPLETIONS, {**body, "ignore_eos": True})[1]
        self.assertEqual((past["choices"][0]["finish_reason"], past["usage"]["completion_tokens"]), ("length", 400))
        self.assertTrue(past["choices"][0]["text"].startswith(answer["choices"][0]["text"]))
        shown = self.server.post(COMPLETIONS, {**body, "skip_special_tokens": False, "include_stop_str_in_output": True})[1]
        text, plain = shown["choices"][0]["text"], answer["choices"][0]["text"]
        self.assertTrue(text.startswith(plain) and len(text) > len(plain), text)

    def test_biases(self):
        plain = self.server.post("/detokenize", {"tokens": [300] * 3})[1]["prompt"]
        for body in ({"logit_bias": {"300": 100}}, {"allowed_token_ids": [300]}):
            self.assertEqual(self.text(max_tokens=3, **body), plain)
        body = {"prompt": PROMPT, "temperature": 0, "max_tokens": 400}
        short = self.server.post(COMPLETIONS, body)[1]["usage"]["completion_tokens"]
        longer = self.server.post(COMPLETIONS, {**body, "min_tokens": short + 5})[1]["usage"]["completion_tokens"]
        self.assertGreaterEqual(longer, short + 5)
        self.assertNotEqual(self.text(max_tokens=80, presence_penalty=2, frequency_penalty=2), self.text(max_tokens=80))
        for field, value, message in (("logit_bias", {"999999": 1}, "found the id 999999, expected 0 to "),
                                      ("allowed_token_ids", [999999], "found the id 999999, expected 0 to ")):
            self.is_error(self.server.post(COMPLETIONS, {"prompt": PROMPT, field: value}), 400, "invalid_request_error", message, field)

    def test_streams_equal_whole_answers(self):
        for body in ({}, {"n": 2, "temperature": 1, "seed": 3}, {"stop": [".", "kite"]}, {"logprobs": 3}):
            body = {"prompt": PROMPT, "max_tokens": 50, "temperature": 0, **body}
            expected = whole(self.server.post(COMPLETIONS, body)[1], False)
            found = joined(self.server.stream(COMPLETIONS, {**body, "stream_options": {"include_usage": True}}), False)
            expected[1].pop("prompt_tokens_details"), found[1].pop("prompt_tokens_details")
            self.assertEqual(found, expected)

    def test_64_clients_get_what_each_gets_alone(self):
        bodies = [{"prompt": PROMPT[:5 + i % 20], "max_tokens": 10 + i, "temperature": (i % 2) * 0.9, "seed": i} for i in range(64)]
        alone = [self.text(**body) for body in bodies]
        together = [None] * 64

        def work(i):
            if i % 2:
                together[i] = self.text(**bodies[i])
            else:
                together[i] = joined(self.server.stream(COMPLETIONS, bodies[i]), False)[0][0]["text"]

        at_once(64, work)
        self.assertEqual(together, alone)

    def test_prefix_cache(self):
        """A prompt that was fed before is not fed again, and its text stays the same."""
        body = {"prompt": [0] + [300 + i % 50 for i in range(100)], "max_tokens": 8, "temperature": 0}
        first, second = (self.server.post(COMPLETIONS, body)[1] for _ in range(2))
        self.assertEqual(first["choices"], second["choices"])
        self.assertGreaterEqual(second["usage"]["prompt_tokens_details"]["cached_tokens"], 80)
        self.assertGreaterEqual(self.server.metric("mkc_prefix_cache_hits_total"), 80)
        arguments, options = serve("--no-prefix-cache")
        other = self.start(*arguments, **options)
        for _ in range(2):
            self.assertEqual(other.post(COMPLETIONS, body)[1]["usage"]["prompt_tokens_details"]["cached_tokens"], 0)

    def test_rows_of_prompts_beside_decodes(self):
        """A prompt of 200 tokens takes a step for each token while another request decodes, and no answer changes."""
        def run(server, prompt):
            body = {"prompt": [[0], prompt], "max_tokens": 200, "temperature": 0, "ignore_eos": True}
            before = server.metric("mkc_engine_steps_total")
            texts = [choice["text"] for choice in server.post(COMPLETIONS, body)[1]["choices"]]
            return server.metric("mkc_engine_steps_total") - before, texts
        for attempt in range(5):  # The second request may come some steps late.
            # The prefix cache has none of these prompts.
            prompt = [0] + [300 + (attempt + i) % 50 for i in range(199)]
            steps, texts = run(self.server, prompt)
            if steps < 220:
                break
        self.assertLess(steps, 220)
        arguments, options = serve("--max-rows-beside-decodes", 1)
        bounded_steps, bounded_texts = run(self.start(*arguments, **options), prompt)
        self.assertEqual(texts, bounded_texts)
        self.assertGreater(bounded_steps, 320)

    def test_requests_are_logged(self):
        self.text(max_tokens=3)
        self.server.until(lambda: any("POST /v1/completions 200: " in line and "3 new, length" in line for line in self.server.lines))

    def test_api_key(self):
        for options, env in ((("--api-key", "secret"), {}), ((), {"MKC_API_KEY": "secret"})):
            arguments, more = serve(*options, env=env)
            server = self.start(*arguments, **more)
            for given in (None, "Bearer secre", "Bearer secrets", "Bearer ", "secret", "Basic secret"):
                headers = {} if given is None else {"Authorization": given}
                self.is_error(server.post(COMPLETIONS, {"prompt": "x"}, headers), 401, "authentication_error", "Bearer KEY")
                self.is_error(server.get("/v1/models", headers), 401, "authentication_error")
                self.is_error(server.get("/v1/models/m", headers), 401, "authentication_error")
            self.assertEqual(server.get("/v1/models", {"Authorization": "Bearer secret"})[0], 200)
            self.assertEqual((server.get("/health")[0], server.get("/metrics")[0]), (200, 200))

    def test_chats(self):
        """A chat is the completion of what the template makes of it. A model without a template says so."""
        messages = [{"role": "user", "content": "Sam"}, {"role": "assistant", "content": "had"}, {"role": "user", "content": "a kite"}]
        chat = {"messages": messages, "max_tokens": 20, "temperature": 0}
        self.is_error(self.server.post(CHAT, chat), 400, "invalid_request_error", "no chat template", "messages")
        folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(TINY, folder / "chat")
        (folder / "chat" / "chat_template.jinja").write_text(
            "{{ bos_token }}{% if reasoning_effort %}{{ reasoning_effort }}{{ ' thinks' if enable_thinking }} {% endif %}{% for m in messages %}{% if m.role == 'tool' %}\n{{ raise_exception('no tools') }}{% endif %}"
            "{{ m.role[0] }}: {{ m.content | trim if trims else m.content }}{{ sep }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}")
        (folder / "chat" / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin_of_text|>"}))
        arguments, options = serve(model=folder / "chat")
        server = self.start(*arguments, **options)
        for more, expected in (({}, "<|begin_of_text|>u: Sama: hadu: a kitea:"),
                               ({"reasoning_effort": "high"}, "<|begin_of_text|>high u: Sama: hadu: a kitea:"),
                               ({"reasoning_effort": "low", "chat_template_kwargs": {"enable_thinking": True}},
                                "<|begin_of_text|>low thinks u: Sama: hadu: a kitea:"),
                               ({"chat_template_kwargs": {"sep": "; "}, "add_generation_prompt": False}, "<|begin_of_text|>u: Sam; a: had; u: a kite; "),
                               ({"messages": messages[:2], "add_generation_prompt": False, "continue_final_message": True,
                                 "chat_template_kwargs": {"sep": "; "}}, "<|begin_of_text|>u: Sam; a: had"),
                               ({"messages": [messages[0], {"role": "assistant", "content": " had "}], "add_generation_prompt": False,
                                 "continue_final_message": True, "chat_template_kwargs": {"sep": "; ", "trims": True}},
                                "<|begin_of_text|>u: Sam; a: had"),
                               ({"messages": [{"role": "assistant", "content": "", "tool_calls": None, "name": None}],
                                 "add_generation_prompt": False, "continue_final_message": True}, "<|begin_of_text|>a: ")):
            tokens = server.post("/tokenize", {"messages": messages, **more})[1]["tokens"]
            plain = server.post("/tokenize", {"prompt": expected, "add_special_tokens": False})[1]["tokens"]
            self.assertEqual(tokens, plain)
            whole_answer = server.post(CHAT, {**chat, **more})[1]
            text = server.post(COMPLETIONS, {"prompt": tokens, "max_tokens": 20, "temperature": 0})[1]["choices"][0]["text"]
            self.assertEqual(whole_answer["choices"][0]["message"], {"role": "assistant", "content": text})
            self.assertEqual(joined(server.stream(CHAT, {**chat, **more}), True)[0][0]["text"], text)
        self.is_error(server.post(CHAT, {"messages": [{"role": "tool", "content": "x"}]}), 400, "invalid_request_error",
                      "messages: chat_template.jinja:2: error: the template refuses the conversation: no tools", "messages")
        (folder / "chat" / "chat_template.jinja").write_text("\n{% for %}")
        done = subprocess.run([MKC, "serve", folder / "chat"], capture_output=True, text=True, env=ENV, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)
        self.assertIn("chat_template.jinja:2: error: ", done.stderr)

    def test_sigterm(self):
        arguments, options = serve()
        server = self.start(*arguments, **options)
        connection, response = server.open_stream(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 400, "ignore_eos": True})
        server.signal(signal.SIGTERM)
        self.assertTrue(response.read().endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(server.wait(), 0)

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_commands_of_the_documentation(self):
        text = (ROOT / "docs" / "serving.md").read_text().split("<!-- commands -->\n```sh\n")[1].split("```")[0]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        text = text.replace("8000", str(port)).replace("build/mkc", str(MKC))
        done = subprocess.run(["bash", "-c", text], cwd=ROOT, capture_output=True, text=True, env=ENV, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        for expected in ('"id":"tiny"', '"text":" He had a dog named Pip.', '"stop_reason":"."', "data: [DONE]", "generation_tokens_total"):
            self.assertIn(expected, done.stdout)

    def device_of(self, server):
        """Returns the process that runs the device of a server."""
        found = self.devices_of(server)
        self.assertEqual(len(found), 1)
        return found[0]

    def devices_of(self, server):
        def parent(status):
            try:
                return int(status.read_text().split("PPid:")[1].split()[0])
            except OSError:  # the process has ended meanwhile
                return None

        return [int(status.parent.name) for status in Path("/proc").glob("[0-9]*/status") if parent(status) == server.process.pid]

    def test_requests_outlive_the_process_of_the_device(self):
        """Another process takes over from one that is killed, crashes or hangs. No answer changes."""
        arguments, options = serve("--step-timeout", 3)
        server = self.start(*arguments, **options)
        bodies = [{"prompt": PROMPT[:5 + i], "max_tokens": 150, "temperature": (i % 2) * 0.9, "seed": i, "ignore_eos": True}
                  for i in range(8)]
        alone = [server.post(COMPLETIONS, body)[1]["choices"][0]["text"] for body in bodies]
        for restarts, number in enumerate((signal.SIGKILL, signal.SIGSEGV, signal.SIGSTOP), 1):
            with self.subTest(signal=number.name):
                device, sampled = self.device_of(server), server.metric("mkc_generation_tokens_total")
                together = [None] * len(bodies)

                def work(i):
                    together[i] = joined(server.stream(COMPLETIONS, bodies[i]), False)[0][0]["text"]

                threads = [threading.Thread(target=work, args=(i,)) for i in range(len(bodies))]
                for thread in threads:
                    thread.start()
                server.until(lambda: server.metric("mkc_generation_tokens_total") > sampled + 100)
                os.kill(device, number)
                for thread in threads:
                    thread.join(LIMIT_S)
                self.assertEqual(together, alone)
                self.assertNotEqual(self.device_of(server), device)
                self.assertEqual(server.metric("mkc_device_restarts_total"), restarts)
        self.assertEqual(server.get("/health")[0], 200)

    def test_an_idle_process_of_the_device_is_replaced(self):
        """Nobody has to ask for it."""
        arguments, options = serve()
        server = self.start(*arguments, **options)
        expected, device = self.text_of(server), self.device_of(server)
        os.kill(device, signal.SIGKILL)
        server.until(lambda: server.metric("mkc_device_restarts_total") == 1 and server.get("/health")[0] == 200)
        self.assertNotIn(self.device_of(server), (None, device))
        self.assertEqual(self.text_of(server), expected)

    def test_another_process_of_the_device_has_no_connections(self):
        """A connection that a process of the device has, too, would stay open when the server closes it."""
        arguments, options = serve("--client-timeout", 2)
        server = self.start(*arguments, **options)
        with socket.create_connection(("127.0.0.1", server.port), timeout=LIMIT_S) as idle:
            os.kill(self.device_of(server), signal.SIGKILL)
            self.text_of(server)
            files = Path(f"/proc/{self.device_of(server)}/fd")
            self.assertEqual(sum(str(file.readlink()).startswith("socket:") for file in files.iterdir()), 1)  # its link
            self.assertEqual(idle.recv(1), b"")

    def test_a_process_of_the_device_that_hangs_while_it_loads(self):
        arguments, options = serve("--load-timeout", 2, "--step-timeout", 2)
        server = self.start(*arguments, **options)
        expected, first = self.text_of(server), self.device_of(server)
        answers = []
        os.kill(first, signal.SIGKILL)
        thread = threading.Thread(target=lambda: answers.append(self.text_of(server)))
        thread.start()
        server.until(lambda: self.devices_of(server) not in ([], [first]))
        stopped = self.device_of(server)
        os.kill(stopped, signal.SIGSTOP)
        thread.join(LIMIT_S)
        self.assertEqual(answers, [expected])
        self.assertNotEqual(self.device_of(server), stopped)

    def test_a_process_that_hangs_does_not_outlast_the_grace(self):
        arguments, options = serve("--grace", 1, "--step-timeout", 0)
        server = self.start(*arguments, **options)
        device = self.device_of(server)
        os.kill(device, signal.SIGSTOP)
        connection = server.connection()
        connection.request("POST", COMPLETIONS, json.dumps({"prompt": PROMPT}), {"Content-Type": "application/json"})
        server.until(lambda: server.get("/health")[1]["requests"] == 1)
        server.signal(signal.SIGTERM)
        self.assertEqual(server.wait(), 0)
        self.assertFalse(Path(f"/proc/{device}").exists())

    def text_of(self, server):
        return server.post(COMPLETIONS, {"prompt": PROMPT, "max_tokens": 3})[1]["choices"][0]["text"]

    def test_a_device_that_does_not_come_back(self):
        folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(TINY, folder / "model")
        arguments, options = serve(model=folder / "model")
        server = self.start(*arguments, **options)
        device, expected = self.device_of(server), self.text_of(server)
        (folder / "model" / "config.json").rename(folder / "config.json")
        os.kill(device, signal.SIGKILL)
        for _ in range(2):
            self.is_error(server.post(COMPLETIONS, {"prompt": PROMPT}), 500, "device_error", "the device's process was ended by signal 9")
        status, health = server.get("/health")
        self.assertEqual((status, health["status"], health["steps_make_progress"]), (503, "device_error", False))
        self.assertTrue(any("config.json" in line for line in server.lines), server.lines)
        # A later start succeeds, and nobody has to restart the server.
        (folder / "config.json").rename(folder / "model" / "config.json")
        server.until(lambda: server.get("/health")[0] == 200)
        self.assertEqual(self.text_of(server), expected)
        self.assertEqual(server.metric("mkc_device_restarts_total"), 1)

    def test_traces_of_launches(self):
        """A trace is that of the last launch, which mkc trace takes. A device that is gone gives an error, and comes back."""
        arguments, options = serve("--trace-steps", "--threads", 2)
        server = self.start(*arguments, **options)
        body = {"prompt": [300 + i for i in range(20)], "max_tokens": 5, "temperature": 0}
        expected = server.post(COMPLETIONS, body)[1]["choices"]
        self.assertEqual(expected, self.server.post(COMPLETIONS, body)[1]["choices"])
        status, trace = server.get("/debug/step")
        self.assertEqual((status, trace["requests"], trace["unit"], len(trace["tracks"])), (200, [{"rows": 1, "kv_len": 24}], "ns", 4))
        folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, folder)
        (folder / "step.json").write_text(json.dumps(trace))
        done = subprocess.run([MKC, "trace", TINY, "--json", "--workers", "2", folder / "step.json"], capture_output=True, text=True,
                              env=ENV, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["times"]["all"]["measured_us"], 0)
        device = self.device_of(server)
        os.kill(device, signal.SIGKILL)
        server.until(lambda: server.metric("mkc_device_restarts_total") == 1)
        self.assertEqual(server.post(COMPLETIONS, body)[1]["choices"], expected)
        self.assertEqual(server.get("/debug/step")[1]["requests"], [{"rows": 1, "kv_len": 24}])

    def test_models_that_cannot_be_served(self):
        folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, folder)
        shutil.copytree(TINY, folder / "model")
        (folder / "model" / "tokenizer.json").unlink()
        for command, expected in (((folder / "none",), "none"), ((folder / "model",), "has no tokenizer.json, expected one for mkc serve"),
                                  ((TINY, "--trace-steps", "--mode", "kernels"), "--mode excludes --trace-steps"),
                                  ((TINY, "--port", 70000), "--port: found 70000, expected 0 to 65535"),
                                  ((TINY, "--api-key", ""), "mkc: error: --api-key: found an empty value, expected KEY"),
                                  ((TINY, "--allowed-origin", "https://a.example/"), "--allowed-origin: error: found https://a.example/, expected *"),
                                  ((TINY, "--host", ""), "mkc: error: --host: found an empty value, expected HOST"),
                                  ((TINY, "--host", "300.1.1.1"), "--host: error: found 300.1.1.1"),
                                  ((TINY, "--port", self.server.port), f"cannot listen on 127.0.0.1 port {self.server.port}"),
                                  ((TINY, "--port", 0, "--pages", 1 << 30), "--pages: error:")):
            done = subprocess.run([MKC, "serve", "--device", "cpu", *map(str, command)], capture_output=True, text=True, env=ENV,
                                  timeout=LIMIT_S)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(expected, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
