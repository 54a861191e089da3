"""runtime/python/mkrt.py on the emulator. Usage: python_mkrt_test.py LIBRARY ROOT; LIBRARY: python_emulator.cc with the C
interface."""
import ctypes
import json
import re
import sys
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    np = None
    print("SKIP tests of arrays: numpy is not installed")

LIBRARY, ROOT = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(ROOT / "runtime" / "python"))
sys.dont_write_bytecode = True
import mkrt  # noqa: E402

CHECKPOINT = ROOT / "tests" / "fixtures" / "models" / "llama_f32"
EXPECTED = json.loads((CHECKPOINT / "expected.json").read_text())
PROMPT, NEW = EXPECTED["prompt_ids"], EXPECTED["new_ids"]


class Kernel(ctypes.Structure):
    _fields_ = [("entry", ctypes.c_void_p), ("manifest", ctypes.c_void_p), ("manifest_bytes", ctypes.c_size_t),
                ("plan", ctypes.c_void_p), ("plan_bytes", ctypes.c_size_t)]


class MkrtTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernel = Kernel()
        build = ctypes.CDLL(str(LIBRARY)).emulated_kernel
        build.argtypes = [ctypes.c_char_p, ctypes.POINTER(Kernel)]
        assert build(str(CHECKPOINT).encode(), ctypes.byref(cls.kernel)) == 0

    def setUp(self):
        k = self.kernel
        self.artefact = (ctypes.string_at(k.manifest, k.manifest_bytes), ctypes.string_at(k.plan, k.plan_bytes), None)
        self.device = mkrt.Device.emulator(k.entry, library=LIBRARY)
        self.session = self.device.open_from_memory(*self.artefact, CHECKPOINT)

    def tearDown(self):
        self.session.close()
        self.device.close()

    @unittest.skipUnless(np, "needs numpy")
    def test_logits_and_successor_are_those_of_transformers(self):
        self.assertEqual((self.device.name, self.session.vocab, self.session.position), ("emulator", 80, 0))
        following, rows = self.session.step(PROMPT[:16], logits=True)
        wanted = np.array(EXPECTED["logits"][:16])
        self.assertEqual((rows.shape, rows.dtype), ((16, 80), np.float32))
        self.assertLess(np.max(np.linalg.norm(rows - wanted, axis=1) / np.linalg.norm(wanted, axis=1)), 1e-4)
        self.assertEqual(following, int(np.argmax(wanted[-1])))
        self.assertEqual(self.session.position, 16)

    def test_generates_what_transformers_does_whatever_the_chunks(self):
        for chunk in (None, 1, 7):
            self.assertEqual(list(self.session.generate(PROMPT, 12, chunk=chunk)), NEW[:12])
            self.assertEqual(self.session.position, len(PROMPT) + 11)
            self.session.rewind()
        stop = NEW[4]
        self.assertEqual(list(self.session.generate(PROMPT, 12, stop={stop})), NEW[:NEW.index(stop)])

    @unittest.skipUnless(np, "needs numpy")
    def test_arrays_of_any_integers_are_tokens(self):
        first = self.session.step(np.array(PROMPT[:3], dtype=np.int64))
        self.session.rewind(0)
        self.assertEqual(self.session.step(np.array(PROMPT[:6], dtype=np.uint8)[[0, 1, 2]]), first)

    def test_two_sessions_do_not_mix(self):
        with self.device.open_from_memory(*self.artefact, CHECKPOINT) as other:
            a, b = self.session.generate(PROMPT, 6), other.generate(PROMPT[::-1], 6)
            mixed = [token for pair in zip(a, b) for token in pair]
            other.rewind()
            self.assertEqual(mixed[1::2], list(other.generate(PROMPT[::-1], 6)))
        self.assertEqual(mixed[::2], NEW[:6])

    def test_failures_are_exceptions_and_change_nothing(self):
        with self.assertRaisesRegex(mkrt.Error, "^step: error: token 1 has the id 80, expected 0 to 79$"):
            self.session.step([1, 80])
        with self.assertRaisesRegex(mkrt.Error, "^step: error: 17 tokens, expected 1 to 16$"):
            self.session.step([1] * 17)
        with self.assertRaisesRegex(mkrt.Error, "^no tokens to go on from$"):
            next(self.session.generate([], 3))
        with self.assertRaisesRegex(mkrt.Error, "^mkrt: error: cannot go back to position 5, the session is at 0$"):
            self.session.rewind(5)
        with self.assertRaisesRegex(mkrt.Error, "^/none.cubin: error: cannot open"):
            self.device.open("/none.cubin", CHECKPOINT)
        with self.assertRaisesRegex(mkrt.Error, "^no libmkrt: .*none.so"):
            mkrt.Device(0, "/none.so")
        self.session.close()
        with self.assertRaisesRegex(mkrt.Error, "^the session is closed$"):
            self.session.step([1])

    def test_every_function_of_the_header_is_declared(self):
        text = re.sub(r"/\*.*?\*/", "", (ROOT / "runtime" / "mkrt.h").read_text(), flags=re.S)
        text = text.replace("(*kernel)(const void* session, const void* step)", " kernel")
        declared = {name: 0 if arguments == "void" else arguments.count(",") + 1
                    for name, arguments in re.findall(r"(mkrt_\w+)\(([^)]*)\);", text)}
        self.assertEqual({name: len(arguments) - 1 for name, arguments in mkrt._SIGNATURES.items()}, declared)


unittest.main(argv=sys.argv[:1])
