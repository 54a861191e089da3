"""These tests check that mkc run keeps packed weights between starts, and what it says if it cannot.
Usage: kept_weights_test.py MKC ROOT
"""
import os
import sys
import unittest

from command import Command, FIXTURE


class KeptWeightsTest(Command):
    def setUp(self):
        super().setUp()
        self.cache = self.dir / "cache"
        self.model = self.checkpoint()

    def run_model(self, *options, says=""):
        """Returns the logits of a run on the processor, which must say just this."""
        logits = self.dir / "logits.npy"
        code, out, err = self.mkc("run", self.model, "--device", "cpu", "--prompt-ids", "1,2,3", "--max-new-tokens", 4, "--json",
                                  "--logits-out", logits, *options, MKC_CACHE=str(self.cache))
        self.assertEqual((code, err), (0, says))
        return out, logits.read_bytes()

    def kept(self):
        return sorted(self.cache.glob("weights/*"))

    def edit(self, path, at, value):
        """Changes one byte of a file, and sets back the time of its last write."""
        before = path.stat()
        with open(path, "r+b") as file:
            file.seek(at)
            file.write(bytes([value]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def test_a_second_start_takes_the_kept_weights(self):
        first = self.run_model()
        [file] = self.kept()
        before = file.stat()
        os.utime(file, ns=(0, 0))
        self.assertEqual(self.run_model(), first)
        self.assertEqual([file], self.kept())
        self.assertEqual(file.stat().st_ino, before.st_ino)
        self.assertGreater(file.stat().st_mtime_ns, 0)  # the file was used
        self.assertEqual(self.run_model("--keep-weights", "no"), first)

    def test_nothing_is_kept_without_leave(self):
        without = self.run_model("--keep-weights=no")
        self.assertEqual(self.kept(), [])
        environment = {"MKC_CACHE": "off", "XDG_CACHE_HOME": str(self.cache), "HOME": str(self.cache)}
        code, out, err = self.mkc("run", self.model, "--device", "cpu", "--prompt-ids", "1,2,3", "--max-new-tokens", 4, "--json",
                                  **environment)
        self.assertEqual((code, out, err), (0, without[0], ""))
        self.assertFalse(list(self.cache.rglob("*.weights")))

    def test_a_changed_weight_is_seen_even_if_its_file_looks_older(self):
        file = self.model / "model.safetensors"
        first = self.run_model()
        at = file.stat().st_size - 1
        self.edit(file, at, file.read_bytes()[at] ^ 0x01)
        changed = self.run_model()
        self.assertNotEqual(changed, first)
        self.assertEqual(self.run_model("--keep-weights=no"), changed)
        self.assertEqual(len(self.kept()), 1)

    def test_a_damaged_file_is_named_once_and_made_anew(self):
        first = self.run_model()
        [file] = self.kept()
        whole = file.read_bytes()
        self.edit(file, len(whole) - 1, whole[-1] ^ 1)
        says = f"cache/weights/{file.name}: warning: differs from its hashes: damaged; the weights are packed again\n"
        self.assertEqual(self.run_model(says=says), first)
        self.assertEqual(file.read_bytes(), whole)
        self.assertEqual(self.run_model(), first)

    def test_a_folder_that_cannot_be_made_is_named_once(self):
        self.run_model("--keep-weights=no")
        (self.cache / "weights").write_text("")
        says = "cache/weights: warning: cannot create: Not a directory; the packed weights are not kept\n"
        self.run_model(says=says)

    def test_tensors_with_nan_are_named_at_every_start(self):
        self.edit(self.model / "model.safetensors", (self.model / "model.safetensors").stat().st_size - 1, 0x7f)
        self.edit(self.model / "model.safetensors", (self.model / "model.safetensors").stat().st_size - 2, 0xff)
        command = ("run", self.model, "--device", "cpu", "--prompt-ids", "1", "--max-new-tokens", 1)
        said = [self.mkc(*command, *options, MKC_CACHE=str(self.cache))[2].splitlines()[0]
                for options in ([], [], ["--keep-weights=no"])]
        self.assertRegex(said[0], 'model/model.safetensors: warning: tensor ".*" holds 1 values that are not a number')
        self.assertEqual(said, said[:1] * 3)
        self.assertEqual(len(self.kept()), 1)

    def test_tensors_with_infinities_are_named_at_every_start(self):
        size = (self.model / "model.safetensors").stat().st_size
        for at, byte in ((1, 0xff), (2, 0x80)):
            self.edit(self.model / "model.safetensors", size - at, byte)
        command = ("run", self.model, "--device", "cpu", "--prompt-ids", "1", "--max-new-tokens", 1)
        for options in ([], [], ["--keep-weights=no"]):
            said = self.mkc(*command, *options, MKC_CACHE=str(self.cache))[2].splitlines()[0]
            self.assertRegex(said, 'model/model.safetensors: warning: tensor ".*" holds 1 values that are infinite, the first at element')

    def test_wrong_values_are_refused(self):
        run = ("run", FIXTURE, "--prompt-ids", "1")
        self.refuses("mkc: error: --keep-weights: ", *run, "--keep-weights", "maybe")
        self.refuses("mkc: error: --kept-weights-gb: found 0, expected 1 to 1000000", *run, "--kept-weights-gb", 0)
        for flag, value in (("--keep-weights", "no"), ("--kept-weights-gb", 1)):
            self.refuses(f"{flag}: error: is for the processor\n", *run, flag, value, "--device", "emulator")
        self.refuses("--kept-weights-gb: error: --keep-weights no keeps none\n", *run, "--kept-weights-gb", 1, "--keep-weights", "no")


unittest.main(argv=sys.argv[:1], verbosity=1)
