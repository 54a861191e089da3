"""These tests talk to mkc serve by OpenAI's own Python client. The package is not part of the build; without it they are skipped:

    python3 -m venv build/openai && build/openai/bin/pip install openai==3.54.0

Usage: openai_test.py MKC ROOT
"""
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
from tiny import ENV, MKC, PROMPT, TINY  # noqa: E402

from client import Server, ServerCase  # noqa: E402

PYTHON = MKC.parent / "openai" / "bin" / "python"
LIMIT_S = 300


class OpenAiTest(ServerCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp(prefix="mkc-"))
        shutil.copytree(TINY, cls.folder / "chat")
        (cls.folder / "chat" / "chat_template.jinja").write_text("{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")
        (cls.folder / "chat" / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<|begin_of_text|>"}))
        cls.server = Server([MKC, "serve", cls.folder / "chat", "--device", "cpu", "--port", 0, "--served-model-name", "org/tiny", "--api-key",
                             "secret"], "stderr", env=ENV)
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="secret", max_retries=0)
        # A chat of this template is the prompt itself, so that answers can be held against each other.
        cls.chat = {"model": "org/tiny", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 20, "temperature": 0}
        cls.text = {"model": "org/tiny", "prompt": PROMPT, "max_tokens": 20, "temperature": 0}

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.end()
        shutil.rmtree(cls.folder)

    def test_models(self):
        self.assertEqual([(m.id, m.owned_by) for m in self.client.models.list()], [("org/tiny", "mkc")])
        self.assertEqual((self.client.models.retrieve("org/tiny").id, self.client.models.retrieve("org/tiny").owned_by), ("org/tiny", "mkc"))

    def test_chats_and_completions(self):
        answer, text = self.client.chat.completions.create(**self.chat), self.client.completions.create(**self.text)
        self.assertGreater(len(text.choices[0].text), 20)
        self.assertEqual(answer.choices[0].message.content, text.choices[0].text)
        self.assertEqual((answer.object, answer.choices[0].message.role, answer.choices[0].finish_reason), ("chat.completion", "assistant", "length"))
        self.assertEqual((text.object, answer.usage.completion_tokens, text.usage.completion_tokens), ("text_completion", 20, 20))
        self.assertEqual(answer.usage.total_tokens, answer.usage.prompt_tokens + 20)

    def test_streams_with_usage(self):
        whole = self.client.chat.completions.create(**self.chat)
        chunks = list(self.client.chat.completions.create(**self.chat, stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), whole.choices[0].message.content)
        self.assertEqual((chunks[-1].choices, chunks[-1].usage.completion_tokens), ([], 20))
        self.assertEqual([c.usage for c in chunks[:-1]], [None] * (len(chunks) - 1))
        sentence = {**self.chat, "stop": ["."]}  # the client's own reader of streams takes no answer that is cut
        with self.client.chat.completions.stream(**sentence) as stream:
            expected = self.client.chat.completions.create(**sentence).choices[0].message.content
            self.assertEqual(stream.get_final_completion().choices[0].message.content, expected)
        text = list(self.client.completions.create(**self.text, stream=True))
        self.assertEqual("".join(c.choices[0].text for c in text), whole.choices[0].message.content)

    def test_a_stream_that_is_left(self):
        for chunk in (stream := self.client.completions.create(**{**self.text, "max_tokens": 400}, stream=True, extra_body={"ignore_eos": True})):
            stream.close()
            break
        self.server.until(lambda: self.server.get("/health")[1]["requests"] == 0)

    def test_logprobs(self):
        entries = self.client.chat.completions.create(**self.chat, logprobs=True, top_logprobs=2).choices[0].logprobs.content
        lists = self.client.completions.create(**self.text, logprobs=2).choices[0].logprobs
        self.assertEqual([e.token for e in entries], lists.tokens)
        for entry, value in zip(entries, lists.token_logprobs, strict=True):
            self.assertEqual((entry.logprob, len(entry.top_logprobs)), (value, 2))
            self.assertEqual(entry.logprob, max(t.logprob for t in entry.top_logprobs))  # greedy

    def test_errors(self):
        other = self.client.with_options(api_key="wrong")
        for call, kind, message in (
                (lambda: other.models.list(), openai.AuthenticationError, "API key"),
                (lambda: self.client.completions.create(**{**self.text, "model": "none"}), openai.NotFoundError, "none"),
                (lambda: self.client.models.retrieve("org/none"), openai.NotFoundError, "org/none"),
                (lambda: self.client.completions.create(**{**self.text, "temperature": -1}), openai.BadRequestError, "temperature"),
                (lambda: self.client.chat.completions.create(**self.chat, response_format={"type": "json_object"}), openai.BadRequestError,
                 "response_format"),
                (lambda: self.client.completions.create(**{**self.text, "max_tokens": 5000}), openai.BadRequestError, "512 positions")):
            with self.assertRaisesRegex(kind, message) as caught:
                call()
            self.assertEqual(set(caught.exception.body), {"message", "type", "param", "code"})


if __name__ == "__main__":
    if importlib.util.find_spec("openai"):
        import openai
        unittest.main(argv=sys.argv[:1], verbosity=2)
    if not PYTHON.exists():
        print(f"SKIP: the package openai is not installed, neither here nor in {PYTHON.parent.parent}")
        sys.exit(77)
    sys.exit(subprocess.run([PYTHON, *sys.argv], timeout=LIMIT_S).returncode)
