"""These tests pass arrays to sessions: NumPy's, and DLPack views of logits. They are skipped without numpy.
Usage: arrays_test.py ROOT BUILD
"""
import contextlib
import gc
import io
import json
import re
import sys
import unittest

from in_tree import FIXTURES, ROOT  # noqa: F401

try:
    import numpy as np
except ImportError:
    print("SKIP: numpy is not installed; tools/python-env build/python installs it")
    sys.exit(77)

import mkc
from mkc import _dlpack

LLAMA = FIXTURES / "llama_f32"
EXPECTED = json.loads((LLAMA / "expected.json").read_text())
PROMPT = np.array(EXPECTED["prompt_ids"], dtype=np.int32)
WANTED = np.array(EXPECTED["logits"], dtype=np.float32)


class ArraysTest(unittest.TestCase):
    def check_logits(self, rows, wanted):
        self.assertLess(np.max(np.linalg.norm(rows - wanted, axis=-1) / np.linalg.norm(wanted, axis=-1)), 1e-4)

    def test_steps_take_and_give_arrays_on_processor_and_emulator(self):
        for device in ("cpu", "emulator"):
            with self.subTest(device), mkc.load(LLAMA, device) as model:
                session, n = model.session, len(PROMPT)
                following, rows = session.step(PROMPT, logits=True)
                self.assertEqual((following, rows.shape, rows.dtype), (EXPECTED["new_ids"][0], (n, 80), np.float32))
                self.check_logits(rows, WANTED[:n])
                session.rewind()
                out = np.zeros((n, 80), dtype=np.float32)
                self.assertIs(session.step(PROMPT, out=out)[1], out)
                np.testing.assert_array_equal(out, rows)
                view = np.from_dlpack(session.logits)
                self.assertEqual((view.shape, view.ctypes.data), ((n, 80), session.logits_address))
                np.testing.assert_array_equal(view, rows)
                session.rewind()
                session.step(PROMPT)
                np.testing.assert_array_equal(np.from_dlpack(session.logits), rows[-1:])

    def test_views_are_freed_with_their_last_user(self):
        with mkc.load(LLAMA, "cpu") as model:
            with self.assertRaisesRegex(mkc.Error, "^logits: error: found no step, expected one before$"):
                model.session.logits
            model.session.step([1])
            view = np.from_dlpack(model.session.logits)
            capsule = model.session.logits.__dlpack__()
            self.assertEqual(len(_dlpack._handed_out), 2)
            del view, capsule
            gc.collect()
            self.assertEqual(len(_dlpack._handed_out), 0)

    def test_a_copy_stays_as_it_is_and_other_devices_are_refused(self):
        with mkc.load(LLAMA, "cpu") as model:
            model.session.step([1])
            copy, view = np.from_dlpack(model.session.logits, copy=True), np.from_dlpack(model.session.logits, copy=False)
            before = copy.copy()
            np.testing.assert_array_equal(view, before)
            model.session.step([2])
            np.testing.assert_array_equal(copy, before)
            self.assertFalse(np.array_equal(view, before))
            np.testing.assert_array_equal(np.from_dlpack(model.session.logits, device="cpu"), view)
            with self.assertRaisesRegex(BufferError, r"^logits: error: are on the DLPack device \(1, 0\), found dl_device=\(2, 0\), expected the same$"):
                model.session.logits.__dlpack__(dl_device=(2, 0))
            del copy, view
            gc.collect()
            self.assertEqual(len(_dlpack._handed_out), 0)
        of_gpu = _dlpack.DeviceArray(0x7f0000000000, (2, 80), (_dlpack.CUDA, 0), self)
        for fields in ({"copy": True}, {"dl_device": (_dlpack.CPU, 0)}):
            with self.assertRaisesRegex(BufferError, r"^logits: error: are on the DLPack device \(2, 0\), found "):
                of_gpu.__dlpack__(**fields)

    def test_views_of_batches_have_a_row_for_each_request(self):
        with mkc.load(LLAMA, "cpu") as model:
            model.session.make_cache(16, 4)
            batch = [([1, 2], 2, [0]), ([3], 1, [1])]
            _, rows = model.session.step_batch(batch, logits=True)
            np.testing.assert_array_equal(np.from_dlpack(model.session.logits), rows)
            model.session.step_batch(batch)
            np.testing.assert_array_equal(np.from_dlpack(model.session.logits), rows[[1, 2]])
            model.session.begin_step(batch)
            model.session.end_step()
            np.testing.assert_array_equal(np.from_dlpack(model.session.logits), rows[[1, 2]])
            model.session.step_batch(batch[:1])
            model.session.sample_batch(batch, [{}, {"temperature": 1, "limit": 1}])
            np.testing.assert_array_equal(np.from_dlpack(model.session.logits), rows[[1, 2]])

    def test_an_engine_leaves_no_views(self):
        with mkc.load(LLAMA, "cpu") as model:
            for call in (lambda: model.generate([[1, 2], [3]], 2), lambda: model.session.engine().close()):
                model.session.step([1, 2], logits=True)
                self.assertEqual(model.session.logits.shape, (2, 80))
                model.session.rewind()
                call()
                with self.assertRaisesRegex(mkc.Error, "^logits: error: found no step, expected one before$"):
                    model.session.logits

    def test_wrong_arrays_are_refused_by_type(self):
        with mkc.load(LLAMA, "cpu") as model:
            step = model.session.step
            room = np.zeros((2, 80), dtype=np.float32)
            locked = room.copy()
            locked.flags.writeable = False
            for error, pattern, call in (
                    (mkc.DtypeError, "tokens: error: found int64, expected int32$", lambda: step(np.array([1, 2]))),
                    (mkc.DtypeError, "tokens: error: found int32 with the byte order of >i4, expected that of this machine$",
                     lambda: step(np.array([1, 2], dtype=">i4"))),
                    (mkc.DtypeError, "out: error: found float32 with the byte order of >f4, ", lambda: step([1, 2], out=room.astype(">f4"))),
                    (mkc.ShapeError, r"tokens: error: found the shape \[1, 2\], expected \[any\]$", lambda: step(np.array([[1, 2]], dtype=np.int32))),
                    (mkc.LayoutError, r"tokens: error: found strides \(8,\) bytes, expected a contiguous array$",
                     lambda: step(np.array([1, 2, 3], dtype=np.int32)[::2])),
                    (mkc.DtypeError, "out: error: found float64, expected float32$", lambda: step([1, 2], out=np.zeros((2, 80)))),
                    (mkc.ShapeError, r"out: error: found the shape \[2, 80\], expected \[1, 80\]$", lambda: step([1], out=room)),
                    (mkc.LayoutError, "out: error: found strides", lambda: step([1, 2], out=np.zeros((80, 2), dtype=np.float32).T)),
                    (mkc.LayoutError, "out: error: found a read-only array", lambda: step([1, 2], out=locked)),
                    (mkc.DtypeError, "tokens: error: found str, expected", lambda: step("12"))):
                with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                    call()
            self.assertEqual(model.session.position, 0)

    def test_arrays_of_allowed_ids_are_ids_but_for_words_of_bits(self):
        with mkc.load(LLAMA, "cpu") as model:
            session, words = model.session, np.zeros(3, np.uint32)  # 80 ids
            words[0] = 1 << 7
            for allowed in (np.array([7]), np.array([7], np.int32), words):
                session.rewind()
                self.assertEqual(list(session.generate([1, 2], 3, allowed=allowed)), [7] * 3)
            for wrong, shape in ((words[:0], "[0]"), (np.zeros(4, np.uint32), "[4]"), (words[None], "[1, 3]")):
                with self.assertRaisesRegex(mkc.Error, "^" + re.escape(
                        f"allowed: error: found a uint32 array of the shape {shape}, expected [3], a bit for each id, or ids as a list or "
                        "an int32 array") + "$"):
                    session.sample([1], allowed=wrong)
            for wrong in (np.array([[7]]), np.array(7)):
                with self.assertRaisesRegex(mkc.errors.DtypeError, "^allowed: error: "):
                    session.sample([1], allowed=wrong)

    def test_an_array_of_a_gpu_is_refused_by_its_device(self):
        class OnGpu:
            shape = (2,)

            def __dlpack__(self, **_):
                raise AssertionError("is not looked at")

            def __dlpack_device__(self):
                return _dlpack.CUDA, 3

        with mkc.load(LLAMA, "cpu") as model, self.assertRaisesRegex(mkc.DeviceError, "tokens: error: found an array on cuda:3, expected"):
            model.session.step(OnGpu())

    def test_examples_of_the_page_run(self):
        page = (ROOT / "docs" / "integrations.md").read_text()
        outputs = {}
        for name in ("python", "arrays"):
            [example] = re.findall(rf"<!-- example: {name} -->\n```python\n(.*?)```", page, re.S)
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(example, {})
            outputs[name] = said.getvalue()
        first, *done, last = outputs["python"].splitlines()
        self.assertEqual(len(done), 2)
        self.assertTrue(last.startswith(first) and last.endswith("(2, 640)"), last)
        self.assertEqual(outputs["arrays"].splitlines()[0], "True True")


unittest.main(argv=sys.argv[:1])
