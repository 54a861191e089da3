"""The example of docs/integrations.md starts the server and asks it, as it stands behind the lines that install."""
import json
import os
import re
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from server import ROOT, START_S

INSTALLED = "build/vllm/bin/"  # in the example; here the interpreter's folder


class DocsTest(unittest.TestCase):
    def test_the_example_answers(self):
        page = (ROOT / "docs" / "integrations.md").read_text()
        lines = re.search(r"<!-- example: vllm -->\n```sh\n(.*?)```", page, re.S).group(1).splitlines()
        first = next(i for i, line in enumerate(lines) if "vllm serve" in line)
        script = "\n".join(lines[first:]).replace(INSTALLED, f"{Path(sys.executable).parent}/")
        process = subprocess.Popen(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
                                   start_new_session=True, env={**os.environ, "MKC_VLLM": "cpu", "VLLM_NO_USAGE_STATS": "1"})
        try:
            answer = ""
            while not answer.startswith('{"id"'):
                answer = process.stdout.readline()
                self.assertTrue(answer, "the server has ended without an answer")
            self.assertEqual(json.JSONDecoder().raw_decode(answer)[0]["choices"][0]["text"][:22], " named Nora. She had a")
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=START_S)


if __name__ == "__main__":
    unittest.main(verbosity=2)
