"""These tests talk with a small model by mkc chat, through a pipe and through a terminal, and compare its answers with
those of mkc run on the rendered template.
Usage: chat_test.py MKC ROOT
"""
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from pathlib import Path

MKC, ROOT = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
TINY = ROOT / "models" / "tiny-stories"
ENV = {**os.environ, "MKC_CACHE": str(MKC.parent / "tests" / "cache"), "TERM": "xterm"}
LIMIT_S = 120
TEMPLATE = ("{% for m in messages %}{% if m.content == 'no' %}{{ raise_exception('content no is refused') }}{% endif %}"
            "{{ '[' + m.role + '] ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}Once{% endif %}")
FIRST, SECOND = "Tell of Sam and a kite.", "Now of a dog named Pip, please."


def rendered(*contents, system=None):
    """Returns the prompt of a chat whose messages alternate between user and assistant."""
    turns = [("system", system)] if system else []
    turns += [(("user", "assistant")[i % 2], content) for i, content in enumerate(contents)]
    return "".join(f"[{role}] {content}\n" for role, content in turns) + "Once"


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *command):
        self.text, self.ended = "", None
        self.pid, self.end = pty.fork()
        if self.pid == 0:
            os.execve(str(command[0]), [str(word) for word in command], ENV)

    def type(self, text):
        os.write(self.end, text.encode())

    def wait_for(self, pattern):
        """Waits for a pattern in the output behind the last one, and returns its match."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            if match := re.search(pattern, self.text, re.S):
                self.text = self.text[match.end():]
                return match
            if time.monotonic() > deadline or not self.read(1):
                raise AssertionError(f"{pattern!r} does not come: {self.text!r}")

    def wait_for_prompt(self):
        """Waits for a prompt, and until keys are read as they are typed."""
        self.wait_for("> ")
        deadline = time.monotonic() + LIMIT_S
        while termios.tcgetattr(self.end)[3] & termios.ICANON and time.monotonic() < deadline:
            time.sleep(0.01)

    def read(self, seconds):
        """Reads what comes within some seconds. Returns False at the end."""
        if not select.select([self.end], [], [], seconds)[0]:
            return True
        try:
            more = os.read(self.end, 65536)
        except OSError:
            return False
        self.text += more.decode(errors="replace")
        return bool(more)

    def exit_code(self):
        deadline = time.monotonic() + LIMIT_S
        while self.read(0.1) and time.monotonic() < deadline:
            pass
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.ended = os.waitstatus_to_exitcode(status)
                return self.ended
            time.sleep(0.02)
        raise AssertionError("the program does not end")

    def close(self):
        if self.ended is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.end)


class ChatCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.dir = Path(tempfile.mkdtemp(prefix="mkc-"))
        cls.addClassCleanup(shutil.rmtree, cls.dir)
        cls.model = cls.dir / "model"
        shutil.copytree(TINY, cls.model)
        (cls.model / "chat_template.jinja").write_text(TEMPLATE)
        # Answers of this model go on until they are stopped: its end token is one that it never samples.
        cls.endless = cls.dir / "endless"
        shutil.copytree(cls.model, cls.endless)
        for name in ("generation_config.json", "config.json"):
            document = json.loads((TINY / name).read_text())
            (cls.endless / name).write_text(json.dumps({**document, "eos_token_id": 639}))

    def run_on(self, prompt, *options, model=TINY):
        """Returns what mkc run makes of a prompt."""
        done = subprocess.run([MKC, "run", model, "--device", "cpu", "--no-special-tokens", "--json", "--prompt", prompt,
                               *map(str, options)], env=ENV, timeout=LIMIT_S, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["text"]


class PipeTest(ChatCase):
    def chat(self, lines, *options, model=None, code=0):
        """Returns standard output and standard error of a chat through a pipe."""
        done = subprocess.run([MKC, "chat", model or self.model, "--device", "cpu", *map(str, options)], env=ENV, timeout=LIMIT_S,
                              input="".join(line + "\n" for line in lines), capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout, done.stderr

    def test_answers_are_those_of_run_on_the_rendered_history(self):
        for options in (("--max-new-tokens", 20), ("--max-new-tokens", 24, "--temperature", 0.8, "--top-k", 40, "--seed", 3),
                        ("--max-new-tokens", 20, "--no-prefix-cache"), ("--max-new-tokens", 20, "--steps-per-launch", 4)):
            one = self.run_on(rendered(FIRST), *[o for o in options if o != "--no-prefix-cache"])
            two = self.run_on(rendered(FIRST, one, SECOND), *[o for o in options if o != "--no-prefix-cache"])
            self.assertEqual(self.chat([FIRST, SECOND], *options), (f"{one}\n{two}\n", ""))

    def test_system_message(self):
        system = "You are a kind cat."
        expected = self.run_on(rendered(FIRST, system=system), "--max-new-tokens", 16)
        self.assertNotEqual(expected, self.run_on(rendered(FIRST), "--max-new-tokens", 16))
        self.assertEqual(self.chat([FIRST], "--system", system, "--max-new-tokens", 16), (expected + "\n", ""))

    def test_commands(self):
        one = self.run_on(rendered(FIRST), "--max-new-tokens", 12)
        out, err = self.chat([FIRST, "", "  ", "/reset", FIRST, "/help", "/exit", SECOND], "--max-new-tokens", 12)
        self.assertEqual(out, f"{one}\n{one}\n")
        for word in ("/exit", "/help", "/reset", "Ctrl-C"):
            self.assertIn(word, err)
        slash = self.run_on(rendered("/home is where?"), "--max-new-tokens", 12)
        self.assertEqual(self.chat(["//home is where?"], "--max-new-tokens", 12), (slash + "\n", ""))

    def test_wrong_lines_of_a_pipe_end_the_chat(self):
        one = self.run_on(rendered(FIRST), "--max-new-tokens", 12)
        out, err = self.chat([FIRST, "/quit now", SECOND], "--max-new-tokens", 12, code=1)
        self.assertEqual((out, err), (one + "\n", "/quit: error: unknown command, expected /exit, /help or /reset\n"))
        out, err = self.chat(["no"], code=1)
        self.assertEqual(out, "")
        self.assertRegex(err, r"^message: error: .*chat_template.jinja:1: error: .*content no is refused")
        out, err = self.chat(["kite " * 600], code=1)
        self.assertRegex(err, r"^message: error: found \d+ tokens with the chat template, the context has 512\n$")

    def test_a_full_context_forgets_the_oldest_exchange(self):
        lines = ["kite " * 110, "river " * 110, FIRST]
        options = ("--max-new-tokens", 16, "--context", 256)
        texts = [self.run_on(rendered(lines[0].strip()), *options)]
        # The second prompt has no room beside the first exchange.
        texts.append(self.run_on(rendered(lines[1].strip()), *options))
        texts.append(self.run_on(rendered(lines[1].strip(), texts[1], FIRST), *options))
        out, err = self.chat(lines, *options)
        self.assertEqual(out, "".join(text + "\n" for text in texts))
        self.assertEqual(err, "mkc chat: the context of 256 positions is full: forgot the oldest exchange\n")

    def test_checkpoints_that_cannot_chat_are_refused_before_they_are_compiled(self):
        env = {**ENV, "MKC_CACHE": str(self.dir / "cache")}
        plain = self.dir / "plain"
        shutil.copytree(self.model, plain)
        (plain / "tokenizer.json").unlink()
        for model, fault in ((TINY, f"{TINY}: error: has no chat template (chat_template.jinja, or the key chat_template of "
                              "tokenizer_config.json), expected one for mkc chat; mkc run --prompt continues a text\n"),
                             (plain, f"{plain}: error: has no tokenizer.json, expected one for mkc chat\n")):
            done = subprocess.run([MKC, "chat", model, "--device", "cpu"], env=env, timeout=LIMIT_S, input="", capture_output=True,
                                  text=True)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", fault))
            self.assertFalse((self.dir / "cache").exists())

    def test_wrong_options_are_refused(self):
        for options, fault in ((("--temperature", -1), "--temperature: error: is -1, expected 0 to "),
                               (("--page-size", 24), "--page-size: error: found 24, expected 16, 32 or 64\n"),
                               (("--max-new-tokens", 0), "mkc: error: --max-new-tokens: found 0, expected 1 to "),
                               (("--system", "a\udcff"), "--system: error: the text is not valid UTF-8: byte 0xff at offset 1\n"),
                               (("--recompute",), "mkc: error: unknown flag --recompute of mkc chat"),
                               (("--prompt", "x"), "mkc: error: unknown flag --prompt of mkc chat")):
            out, err = self.chat([FIRST], *options, code=1)
            self.assertEqual((out, err[:len(fault)]), ("", fault))

    def test_closed_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([MKC, "chat", self.model, "--device", "cpu", "--max-new-tokens", "4"], env=ENV, timeout=LIMIT_S,
                                  input=FIRST + "\n", stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stderr), (1, "mkc: error: cannot write to standard output\n"))

    def test_answers_come_while_they_are_made(self):
        """A reader has the first text long before a slow answer ends, and a signal stops the answer."""
        process = subprocess.Popen([MKC, "chat", self.endless, "--device", "emulator", "--max-new-tokens", "400"], env=ENV,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        process.stdin.write(FIRST.encode() + b"\n")
        process.stdin.flush()
        self.assertTrue(select.select([process.stdout], [], [], LIMIT_S)[0])
        begun = os.read(process.stdout.fileno(), 4096)
        process.send_signal(signal.SIGINT)
        # The chat goes on: the next line is answered.
        out, err = process.communicate(b"/help\n", timeout=LIMIT_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn(b"/reset", err)
        answer = (begun + out).decode()
        self.assertTrue(answer.endswith("\n"))
        whole = self.run_on(rendered(FIRST), "--max-new-tokens", 400, model=self.endless)
        self.assertTrue(whole.startswith(answer[:-1]) and len(answer) < len(whole), answer)

    def test_a_signal_while_a_pipe_waits_ends_the_chat(self):
        process = subprocess.Popen([MKC, "chat", self.model, "--device", "cpu", "--max-new-tokens", "4"], env=ENV,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        process.stdin.write(FIRST.encode() + b"\n")
        process.stdin.flush()
        answer = b""
        while not answer.endswith(b"\n"):
            self.assertTrue(select.select([process.stdout], [], [], LIMIT_S)[0])
            answer += os.read(process.stdout.fileno(), 4096)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT_S)
        self.assertEqual((process.returncode, out, err), (0, b"", b""))


class TerminalTest(ChatCase):
    def open(self, *options, model=None):
        terminal = Terminal(MKC, "chat", model or self.model, *options)
        self.addCleanup(terminal.close)
        terminal.wait_for(r"positions; /help lists the commands")
        terminal.wait_for_prompt()
        return terminal

    def ask(self, terminal, line):
        """Types a line, and returns the answer and the facts below it."""
        terminal.type(line + "\r")
        match = terminal.wait_for(r"\r\n(.*?)\r\n\x1b\[2m\[([^\]]*)\]\x1b\[0m\r\n")
        terminal.wait_for_prompt()
        return match[1].split("\r\x1b[K")[-1], match[2]

    def test_answers_and_facts(self):
        terminal = self.open("--device", "cpu", "--max-new-tokens", 20, model=self.endless)
        one = self.run_on(rendered(FIRST), "--max-new-tokens", 20, model=self.endless)
        two = self.run_on(rendered(FIRST, one, SECOND), "--max-new-tokens", 20, model=self.endless)
        self.assertNotIn("\n", one + two)
        for line, text, cached in ((FIRST, one, "0"), (SECOND, two, r"[1-9]\d*")):
            answer, facts = self.ask(terminal, line)
            self.assertEqual(answer, text)
            self.assertRegex(facts, rf"^20 tokens, \d+\.\d tokens/s, {cached} of \d+ prompt tokens cached, "
                             "ended by --max-new-tokens$")
        terminal.type("/quit\r")
        terminal.wait_for("/quit: error: unknown command, expected /exit, /help or /reset\r\n")
        terminal.wait_for_prompt()
        # A line that was begun is dropped. Ctrl-C at an empty line ends the chat.
        terminal.type("half a line")
        terminal.wait_for("half a line")
        terminal.type("\x03")
        terminal.wait_for(r"\^C\r\n")
        terminal.wait_for_prompt()
        terminal.type("/reset\r")
        terminal.wait_for_prompt()
        answer, _ = self.ask(terminal, FIRST)
        self.assertTrue(answer.endswith(one), answer)
        terminal.type("\x03")
        self.assertEqual(terminal.exit_code(), 0)

    def test_ends(self):
        for keys in ("\x04", "/exit\r", "\x03"):
            terminal = self.open("--device", "cpu")
            terminal.type(keys)
            self.assertEqual(terminal.exit_code(), 0)

    def test_lines_are_edited_and_remembered(self):
        terminal = self.open("--device", "cpu", "--max-new-tokens", 8)
        one = self.run_on(rendered("Ein Käse"), "--max-new-tokens", 8)
        # A character of two bytes is removed by one key.
        answer, _ = self.ask(terminal, "Ein Kö\x7fäse")
        self.assertTrue(answer.endswith(one), answer)
        terminal.type("/reset\r")
        terminal.wait_for_prompt()
        answer, _ = self.ask(terminal, "\x1b[A\x1b[A")
        self.assertTrue(answer.endswith(one), answer)

    def test_ctrl_c_stops_an_answer_and_its_text_stays(self):
        terminal = self.open("--device", "emulator", "--max-new-tokens", 400, model=self.endless)
        terminal.type(FIRST + "\r")
        terminal.wait_for(r"kite\.\r\n.*\w+ \w+ \w+")
        terminal.type("\x03")
        tokens = int(terminal.wait_for(r"\x1b\[2m\[(\d+) tokens, [^\]]*ended by Ctrl-C\]")[1])
        self.assertLess(tokens, 400)
        terminal.wait_for_prompt()
        partial = self.run_on(rendered(FIRST), "--max-new-tokens", tokens, model=self.endless)
        terminal.type("Go on.\r")
        terminal.wait_for(r"Go on\.\r\n.*\w+ \w+ \w+")
        terminal.type("\x03")
        facts = terminal.wait_for(r"(\d+) of (\d+) prompt tokens cached, ended by Ctrl-C\]")
        # The second prompt has as many tokens as the first with its partial answer and the new message.
        whole = subprocess.run([MKC, "run", TINY, "--device", "cpu", "--no-special-tokens", "--json", "--prompt",
                                rendered(FIRST, partial, "Go on."), "--max-new-tokens", "1"], env=ENV, timeout=LIMIT_S,
                               capture_output=True, check=True)
        self.assertEqual(int(facts[2]), len(json.loads(whole.stdout)["prompt_ids"]))
        self.assertGreater(int(facts[1]), 0)
        terminal.wait_for_prompt()
        terminal.type("\x04")
        self.assertEqual(terminal.exit_code(), 0)


unittest.main(argv=sys.argv[:1], verbosity=1)
