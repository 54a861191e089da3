"""This module holds what the tests of the mkc command share. Each of them gets MKC ROOT as arguments."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MKC = Path(sys.argv[1]).resolve()
ROOT = Path(sys.argv[2]).resolve()
TINY = ROOT / "models" / "tiny-stories"
LIMIT_S = 120  # time limit of a call
CACHE = MKC.parent / "tests" / "cache"  # compilations of one test serve the next
FIXTURE = ROOT / "tests" / "fixtures" / "models" / "qwen3"


class Command(unittest.TestCase):
    def setUp(self):
        self.dir = Path(tempfile.mkdtemp(prefix="mkc-"))
        self.addCleanup(shutil.rmtree, self.dir)

    def mkc(self, *arguments, cwd=None, program=None, **environment):
        env = {**os.environ, "MKC_CACHE": str(CACHE), **environment}
        done = subprocess.run([program or MKC, *map(str, arguments)], cwd=cwd or self.dir, env=env, capture_output=True,
                              timeout=LIMIT_S)
        return done.returncode, done.stdout, done.stderr.decode().replace(f"{self.dir}/", "")

    def refuses(self, expected, *arguments, **environment):
        """Checks for exit code 1, this beginning of the message, and no new file."""
        before = sorted(self.dir.rglob("*"))
        code, out, err = self.mkc(*arguments, **environment)
        self.assertEqual((code, out), (1, b""), err)
        self.assertTrue(err.startswith(expected), f"\nfound:    {err}\nexpected: {expected}")
        self.assertEqual(sorted(self.dir.rglob("*")), before)

    def checkpoint(self, config=None, header=None, data=None, cut=None, more=b""):
        """Returns a copy of a small checkpoint, with its config, header or data edited."""
        folder = self.dir / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        document = json.loads((FIXTURE / "config.json").read_text())
        if config:
            config(document)
        (folder / "config.json").write_text(json.dumps(document, indent=1))
        bytes_ = (FIXTURE / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", bytes_[:8])[0]
        entries, body = json.loads(bytes_[8:8 + size]), bytes_[8 + size:]
        if header:
            header(entries)
        text = json.dumps(entries).encode()
        whole = struct.pack("<Q", len(text)) + text + (data(body) if data else body) + more
        (folder / "model.safetensors").write_bytes(whole[:cut])
        return folder
