"""A checkpoint may have a head that its config calls a copy of the embedding, and that is none: nothing runs it.
Usage: copies_test.py ROOT BUILD

The test opens an artefact by the C interface, by the package and by mkrun. tests/error/cache_test.py has the command mkc.
"""
import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from in_tree import BUILD, STORIES

import mkc
from mkc import mkrt

PROMPT = [5, 17, 3]
SAID = 'tie_word_embeddings is true, but tensor "lm_head.weight" differs from "model.embed_tokens.weight"'


def add_head(folder, change):
    """Gives a tied checkpoint a head: the embedding's bytes, with the last ones changed."""
    data = (STORIES / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8:8 + size]), data[8 + size:]
    embedding = header["model.embed_tokens.weight"]
    head = bytearray(body[slice(*embedding["data_offsets"])])
    head[-1] ^= change
    header["lm_head.weight"] = {**embedding, "data_offsets": [len(body), len(body) + len(head)]}
    text = json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + body + head)


class CopiesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.checkpoint, self.artefact = self.folder / "checkpoint", self.folder / "model.so"
        shutil.copytree(STORIES, self.checkpoint)
        subprocess.run([BUILD / "mkc", "compile", self.checkpoint, "--target", "x86-64", "-o", self.artefact], check=True, timeout=120)

    def open_by_library(self, kept=None):
        with mkrt.Device.processor(BUILD / "libmkrt.so") as device:
            device.keep_weights(kept)
            with device.open(self.artefact, self.checkpoint) as session:
                return session.step(PROMPT)

    def open_by_package(self):
        with mkc.load(self.artefact, device="cpu", checkpoint=self.checkpoint) as model:
            return model.session.step(PROMPT)

    def mkrun(self):
        done = subprocess.run([BUILD / "mkrun", self.artefact, "--checkpoint", self.checkpoint, "--prompt-ids", "5,17,3",
                               "--max-new-tokens", "1"], capture_output=True, text=True, timeout=120)
        return done.returncode, done.stderr if done.returncode else json.loads(done.stdout)["new_ids"]

    def test_a_head_that_is_no_copy_is_refused(self):
        first, kept = self.open_by_library(), self.folder / "kept"
        add_head(self.checkpoint, 0)
        self.assertEqual((self.open_by_library(kept), self.open_by_library(kept)), (first, first))
        self.assertEqual((self.open_by_package(), self.mkrun()), (first, (0, [first])))
        add_head(self.checkpoint, 1)
        text = f"{self.checkpoint}/config.json: error: {SAID}"
        for opened in (self.open_by_library, lambda: self.open_by_library(kept), self.open_by_package):
            with self.assertRaises(mkc.Error) as caught:
                opened()
            self.assertEqual(str(caught.exception), text)
        self.assertIsInstance(caught.exception, mkc.CheckpointError)
        self.assertEqual(self.mkrun(), (1, text + "\n"))


unittest.main(argv=["copies_test.py"])
