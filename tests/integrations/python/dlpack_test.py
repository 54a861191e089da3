"""Arrays of torch: ids in and logits out, without copies, on processor and emulator."""
import json
import os
import sys
import unittest
from pathlib import Path

import torch

import mkc
from mkc import _dlpack

LLAMA = Path(os.environ["MKC_SOURCE"]) / "tests" / "fixtures" / "models" / "llama_f32"
EXPECTED = json.loads((LLAMA / "expected.json").read_text())
PROMPT = torch.tensor(EXPECTED["prompt_ids"], dtype=torch.int32)
WANTED = torch.tensor(EXPECTED["logits"])


class DlpackTest(unittest.TestCase):
    def test_steps_take_and_give_tensors(self):
        for device in ("cpu", "emulator"):
            with self.subTest(device), mkc.load(LLAMA, device) as model:
                session, n = model.session, len(PROMPT)
                out = torch.zeros(n, model.vocab)
                following, same = session.step(PROMPT, out=out)
                self.assertIs(same, out)
                self.assertEqual(following, EXPECTED["new_ids"][0])
                torch.testing.assert_close(out, WANTED[:n], rtol=1e-3, atol=1e-4)
                rows = torch.from_dlpack(session.logits)
                self.assertEqual((rows.data_ptr(), rows.device.type, rows.dtype), (session.logits_address, "cpu", torch.float32))
                self.assertTrue(torch.equal(rows, out))
                copy = torch.from_dlpack(session.logits, copy=True)
                session.step([following])
                self.assertFalse(torch.equal(rows, out))  # the first row is the next step's, in the same memory
                self.assertTrue(torch.equal(copy, out))
                torch.testing.assert_close(torch.from_dlpack(session.logits)[0], WANTED[n], rtol=1e-3, atol=1e-4)
                del rows

    def test_generation_takes_tensors(self):
        with mkc.load(LLAMA, "cpu") as model:
            self.assertEqual(model.generate(PROMPT, 6).ids, EXPECTED["new_ids"][:6])
            self.assertEqual([done.ids for done in model.generate([PROMPT, PROMPT[:4].contiguous()], 6)][0], EXPECTED["new_ids"][:6])

    def test_wrong_tensors_are_refused_by_type(self):
        with mkc.load(LLAMA, "cpu") as model:
            for error, pattern, tokens, out in (
                    (mkc.DtypeError, "tokens: error: found int64, expected int32$", PROMPT.long(), None),
                    (mkc.DtypeError, "out: error: found torch.bfloat16", [1], torch.zeros(1, 80, dtype=torch.bfloat16)),
                    (mkc.DtypeError, "out: error: found torch.float32 .*grad", [1], torch.zeros(1, 80, requires_grad=True)),
                    (mkc.LayoutError, "tokens: error: found strides", PROMPT[::2], None),
                    (mkc.ShapeError, r"out: error: found the shape \[2, 80\], expected \[1, 80\]$", [1], torch.zeros(2, 80)),
                    (mkc.ShapeError, r"tokens: error: found the shape \[\]", torch.tensor(3, dtype=torch.int32), None)):
                with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                    model.session.step(tokens, out=out)
            with self.assertRaises(mkc.Error):  # a tensor without memory
                model.session.step(PROMPT.to("meta"))

    def test_logits_of_a_gpu_are_named_by_address(self):
        array = _dlpack.DeviceArray(0x7f0000000000, (2, 80), (_dlpack.CUDA, 0), self)
        self.assertEqual(array.__dlpack_device__(), (2, 0))
        tensor = _dlpack._Managed.from_address(_dlpack._pointer(id_of(capsule := array.__dlpack__(stream=1)), b"dltensor")).tensor
        self.assertEqual((tensor.data, tensor.device_type, tensor.ndim, tensor.shape[:2], tensor.bits), (0x7f0000000000, 2, 2, [2, 80], 32))
        del capsule


def id_of(capsule):
    return id(capsule)  # CPython: the object's address


unittest.main()
