"""These tests use Python's package mkc with the libraries of a build. They need no other package.
Usage: package_test.py ROOT BUILD
"""
import collections
import doctest
import gc
import importlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from in_tree import BUILD, CACHE, FIXTURES, ROOT, STORIES

import mkc
from mkc import _native

PROMPT = "Once there was a boy named Sam."
LLAMA = FIXTURES / "llama_f32"
EXPECTED = json.loads((LLAMA / "expected.json").read_text())


def command(*words):
    return subprocess.run([BUILD / "mkc", *map(str, words)], check=True, capture_output=True, text=True, timeout=120).stdout


def held():
    """Threads and open files of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


def make_a_scale_infinite(file):
    """Breaks a quantised checkpoint in a way that only the opening of a session sees."""
    data = bytearray(file.read_bytes())
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    [scale, *_] = (of for name, of in header.items() if name.endswith("weight_scale"))
    begin = 8 + size + scale["data_offsets"][0]
    data[begin:begin + 2] = b"\x80\x7f"  # infinity of bf16
    file.write_bytes(data)


class PackageTest(unittest.TestCase):
    def test_versions_are_those_of_the_build(self):
        [version] = re.findall(r"project\(mkc VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
        self.assertEqual((mkc.__version__, mkc.mkrt.version(BUILD / "libmkrt.so")), (version, version))

    def test_tokens_are_those_of_the_command_and_so_is_the_cache(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.environ.__setitem__, "MKC_CACHE", str(CACHE))
        os.environ["MKC_CACHE"] = folder.name
        said = json.loads(command("run", STORIES, "--device", "cpu", "--prompt", PROMPT, "--max-new-tokens", 20, "--json"))
        kept = set(Path(folder.name).rglob("*.so")) | set(Path(folder.name, "weights").glob("*"))
        self.assertEqual(len(kept), 2)  # code and packed weights
        with mkc.load(STORIES, device="cpu") as model:
            done = model.generate(PROMPT, 20)
            self.assertEqual((done.ids, done.text, model.encode(PROMPT)), (said["new_ids"], said["text"], said["prompt_ids"]))
            self.assertEqual(model.tokenizer.decode(said["prompt_ids"]), PROMPT)
            self.assertEqual(model.device, "cpu")
        self.assertEqual(set(Path(folder.name).rglob("*.so")) | set(Path(folder.name, "weights").glob("*")), kept)

    def test_tokens_are_those_of_transformers_on_processor_and_emulator(self):
        for device in ("cpu", "emulator"):
            for mode in ("megakernel", "kernels"):
                with self.subTest(device, mode=mode), mkc.load(LLAMA, device, mode=mode, context=96) as model:
                    self.assertEqual((model.device, model.context, model.vocab), (device, 96, 80))
                    done = model.generate(EXPECTED["prompt_ids"], 16)
                    self.assertEqual((done.ids, done.text, done.finish), (EXPECTED["new_ids"][:16], None, "length"))

    def test_batches_and_streams_have_the_tokens_of_single_prompts(self):
        prompts = [EXPECTED["prompt_ids"][:n] for n in (1, 19, 7, 3, 12)] * 2
        with mkc.load(LLAMA, "cpu", max_tokens=16, max_requests=4) as model:
            for sampling in ({}, {"temperature": 1.2, "top_k": 30, "seed": 5}):
                alone = [model.generate(prompt, 9, **sampling).ids for prompt in prompts]
                self.assertEqual([done.ids for done in model.generate(prompts, 9, **sampling)], alone)
                streamed = [[] for _ in prompts]
                for token in model.stream(prompts, 9, **sampling):
                    streamed[token.request].append(token.id)
                self.assertEqual(streamed, alone)
            stop = alone[1][4]
            done = model.generate(prompts[1], 9, stop=[stop], **sampling)
            self.assertEqual((done.ids, done.finish), (alone[1][:alone[1].index(stop)], "stop"))
            for wrong, said in ((["x"], "entry 0 is 'x', expected an integer"), ("x", "found str, expected a list of integers"),
                                (5, "found int, expected a list of integers")):
                with self.assertRaisesRegex(mkc.DtypeError, "^stop: error: " + said):
                    model.generate(prompts[1], 9, stop=wrong)

    def test_generation_leaves_a_sequence_of_the_session_alone(self):
        ids, prompt = EXPECTED["new_ids"], EXPECTED["prompt_ids"]
        with mkc.load(LLAMA, "cpu", context=96) as model:
            following = [model.session.step(prompt)]
            for call in (lambda: model.generate([1, 2, 3], 8), lambda: next(model.stream([1, 2, 3], 8))):
                with self.assertRaisesRegex(mkc.Error, f"^generate: error: the session has a sequence of {len(prompt)} positions, expected none"):
                    call()
            while len(following) < 5:
                following.append(model.session.step(following[-1:]))
            self.assertEqual(following, ids[:5])
            model.session.rewind()
            self.assertEqual(model.generate(prompt, 5).ids, ids[:5])
            self.assertEqual(model.session.step(prompt), ids[0])

    def test_a_generator_left_early_keeps_the_tokens_it_gave(self):
        ids, prompt = EXPECTED["new_ids"], EXPECTED["prompt_ids"]
        with mkc.load(LLAMA, "cpu", context=96) as model:
            session = model.session
            for steps, taken in itertools.product((1, 3, 16), (1, 2, 5)):
                with self.subTest(steps=steps, taken=taken):
                    session.rewind()
                    tokens = session.generate(prompt, 16, steps_per_launch=steps)
                    self.assertEqual(list(itertools.islice(tokens, taken)), ids[:taken])
                    tokens.close()
                    self.assertEqual(session.position, len(prompt) + taken - 1)
                    self.assertEqual(list(session.generate(ids[taken - 1:taken], 4)), ids[taken:taken + 4])
            def step():
                session.begin_step([([1], 1, [0])])
                session.end_step()
            for change in (lambda: session.step([1]), step, lambda: session.rewind(session.position - 1)):
                session.rewind()
                tokens = session.generate(prompt, 16, steps_per_launch=16)
                next(tokens)
                change()
                position = session.position
                tokens.close()  # leaves a sequence alone that was changed since
                self.assertEqual(session.position, position)
            session.rewind()
            self.assertRaisesRegex(mkc.Error, "^logprobs: error: generate yields none", next, session.generate(prompt, 3, logprobs=2))
            self.assertEqual(list(session.generate(prompt, 3, stop=iter([7]), allowed=[7])), [])
            session.rewind()
            self.assertEqual(list(session.generate(prompt, 3, allowed=iter([7]))), [7] * 3)
            with self.assertRaisesRegex(mkc.DtypeError, "^stop: error: "):
                list(session.generate(prompt, 3, stop=[0.5]))
            session.rewind()
            next(tokens := session.generate(prompt, 16, steps_per_launch=16))
        tokens.close()  # of a closed session

    def test_streamed_text_is_the_whole_text(self):
        with mkc.load(STORIES, "cpu") as model:
            pieces = [token.text for token in model.stream(PROMPT, 20)]
            self.assertEqual("".join(pieces), model.generate(PROMPT, 20).text)
            self.assertGreater(len(pieces), 15)
            text = mkc.TextStream(model.tokenizer)
            self.assertEqual(text.add(*model.encode("a\0b é", special=False)) + text.finish(), "a\0b é")
            with self.assertRaisesRegex(mkc.DtypeError, "^ids: error: entry 1 is 4294967301, expected an integer of 32 bits$"):
                model.tokenizer.decode([5, (1 << 32) + 5])

    def test_text_goes_on_behind_its_prompt(self):
        with tempfile.TemporaryDirectory() as folder:  # of a SentencePiece model, which removes a text's first space
            shutil.copy(ROOT / "tests" / "oracle" / "tokenizer" / "mistral_prepend.json", Path(folder) / "tokenizer.json")
            tokenizer = mkc.Tokenizer(folder)
            text = "the end of the house"
            ids = tokenizer.encode(text)
            for cut in range(len(ids) + 1):
                after = mkc.TextStream(tokenizer, prompt=ids[:cut])
                self.assertEqual(tokenizer.decode(ids[:cut]) + after.add(*ids[cut:]) + after.finish(), text)
            *run, invalid = 68, 13, 200  # <0x41>, <0x0A> and <0xC5>
            stream = mkc.TextStream(tokenizer)
            self.assertEqual([stream.add(id) for id in run], ["A", "\n"])
            self.assertEqual(stream.add(invalid) + stream.finish(), "\ufffd")
            self.assertEqual(tokenizer.decode([*run, invalid]), "\ufffd" * 3)
            with self.assertRaisesRegex(mkc.DtypeError, "^prompt: error: entry 0 is 'x', expected an integer$"):
                mkc.TextStream(tokenizer, prompt=["x"])
        with mkc.load(STORIES, "cpu") as model:
            *begin, last = model.encode("\u00e9")
            self.assertEqual(model.generate(begin, 1, allowed=[last]).text, "\u00e9")
            self.assertEqual([token.text for token in model.stream(begin, 1, allowed=[last])], ["\u00e9"])

    def test_artefacts_need_their_checkpoint(self):
        with tempfile.TemporaryDirectory() as folder:
            artefact = Path(folder) / "model.so"
            command("compile", LLAMA, "--target", "x86-64", "-o", artefact)
            with mkc.load(artefact, checkpoint=LLAMA) as model:
                self.assertEqual(model.generate(EXPECTED["prompt_ids"], 8).ids, EXPECTED["new_ids"][:8])
            for error, pattern, path, arguments in (
                    (mkc.ArtefactError, "model.so: error: holds no weights, expected checkpoint=", artefact, {}),
                    (mkc.DeviceError, "model.so: error: is for device cpu, expected one for emulator$", artefact,
                     {"device": "emulator", "checkpoint": LLAMA}),
                    (mkc.LimitError, "model.so: error: is compiled already, found the limits context$", artefact,
                     {"checkpoint": LLAMA, "context": 5}),
                    (mkc.CheckpointError, "config.json", artefact, {"checkpoint": FIXTURES / "llama"}),
                    (mkc.CheckpointError, "/none", artefact, {"checkpoint": "/none"}),
                    (mkc.ArtefactError, "^/none.so: error: cannot open", "/none.so", {"checkpoint": LLAMA}),
                    (mkc.ArtefactError, "config.json: error: is a file, expected a checkpoint's directory, or an artefact",
                     LLAMA / "config.json", {})):
                with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                    mkc.load(path, **arguments)
            damaged = bytearray(artefact.read_bytes())
            damaged[len(damaged) // 2] ^= 1
            artefact.write_bytes(damaged)
            with self.assertRaisesRegex(mkc.ArtefactError, "seal|hash"):
                mkc.load(artefact, checkpoint=LLAMA)

    def test_what_cannot_be_loaded_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / "model"
            shutil.copytree(LLAMA, copy)
            (copy / "config.json").write_text((copy / "config.json").read_text().replace('"llama"', '"lama"'))
            for error, pattern, arguments in (
                    (mkc.CompileError, "model/config.json.*lama", (copy, "cpu")),
                    (mkc.CompileError, "model/config.json.*lama", (copy, "emulator")),
                    (mkc.CompileError, "/none", ("/none", "cpu")),
                    (mkc.DeviceError, "^load: error: found the device 'gpu', expected one of auto, cpu, cuda, emulator$", (LLAMA, "gpu"))):
                with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                    mkc.load(*arguments)
        with self.assertRaisesRegex(mkc.LimitError, "^load: error: found the limit 'contxt', expected one of context, max_tokens, "):
            mkc.load(LLAMA, "cpu", contxt=5)
        for device in ("cpu", "emulator"):
            with self.assertRaisesRegex(mkc.CompileError, "context"):
                mkc.load(LLAMA, device, context=-3)
        with self.assertRaisesRegex(mkc.Error, "has its own weights, found checkpoint='x'"):
            mkc.load(LLAMA, checkpoint="x")

    def test_a_load_that_fails_leaves_no_device(self):
        with tempfile.TemporaryDirectory() as folder:
            copy, artefact = Path(folder) / "model", Path(folder) / "model.so"
            command("quantize", FIXTURES / "llama", "--format", "fp8", "-o", copy)
            command("compile", copy, "--target", "x86-64", "-o", artefact)
            make_a_scale_infinite(copy / "model.safetensors")
            mkc.load(LLAMA, "emulator", context=32).close()  # libmkc stays loaded
            before = held()
            for error, path, arguments in ((mkc.CheckpointError, copy, {"device": "cpu"}), (mkc.CheckpointError, copy, {"device": "emulator"}),
                                           (mkc.CheckpointError, artefact, {"checkpoint": copy}), (mkc.CompileError, LLAMA, {"device": "cpu", "context": -3})):
                with self.subTest(path=path, **arguments):
                    with self.assertRaises(error):
                        mkc.load(path, **arguments)
                    self.assertEqual(held(), before)

    def test_a_model_that_is_dropped_is_closed_with_the_last_user_of_its_session(self):
        prompt, ids = EXPECTED["prompt_ids"], EXPECTED["new_ids"]
        for device in ("cpu", "emulator"):
            with self.subTest(device):
                mkc.load(LLAMA, device, context=96).close()
                before = held()
                model = mkc.load(LLAMA, device, context=96)
                session = model.session
                del model
                gc.collect()
                self.assertEqual([session.step(prompt), session.step(ids[:1])], ids[:2])
                session.rewind()
                engine = session.engine()
                del session
                gc.collect()
                engine.submit(prompt, 4)
                self.assertEqual([outcome.tokens for outcome in engine.run()], [ids[:4]])
                engine.close()
                del engine
                gc.collect()
                self.assertEqual(held(), before)

    def test_a_library_of_another_version_is_refused(self):
        _native.checked.cache_clear()
        mine, _native.VERSION = _native.VERSION, "9.9.9"
        try:
            with self.assertRaisesRegex(mkc.VersionError, f"libmkrt.so: error: has version {mine}, expected 9.9.9, that of the package"):
                mkc.load(LLAMA, "cpu")
        finally:
            _native.VERSION = mine

    def test_wrong_prompts_are_refused_by_type(self):
        with mkc.load(LLAMA, "cpu", context=32) as model:
            for error, pattern, prompt in ((mkc.DtypeError, "entry 1 is 1.5, expected an integer", [1, 1.5]),
                                           (mkc.DtypeError, "entry 0 is 2147483648, expected an integer of 32 bits", [1 << 31]),
                                           (mkc.DtypeError, "found float, expected a text, ids, or a list", 1.5),
                                           (mkc.LimitError, "prompt 0: error: has 0 ids, expected 1 to 32", []),
                                           (mkc.LimitError, "prompt 1: error: has 33 ids, expected 1 to 32", [[1], [1] * 33]),
                                           (mkc.Error, "has the id 80, expected 0 to 79", [80]),
                                           (mkc.TokenizerError, "tokenizer.json", "text")):
                with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                    model.generate(prompt, 4)
            self.assertEqual(model.generate([1, 2], 0).ids, [])
            session = model.session
        model.close()
        for call in (lambda: model.generate([1], 1), lambda: model.session):
            with self.assertRaisesRegex(mkc.ClosedError, "^the model is closed, expected an open one$"):
                call()
        with self.assertRaisesRegex(mkc.ClosedError, "^the session is closed, expected an open one$"):
            session.step([1])

    def test_allowed_ids_are_ids_in_any_form_and_at_least_one(self):
        import array
        forms, wrongs = [[7], (7,), {7}, iter([7]), array.array("q", [7])], []
        try:
            import numpy
            forms.append(numpy.array([7], numpy.int32))
            wrongs.append((mkc.DtypeError, "^allowed: error: found int64, expected int32$", numpy.array([7])))
        except ImportError:
            print("SKIP allowed ids of NumPy: it is not installed")
        with mkc.load(LLAMA, "cpu", context=32) as model:
            for form in forms:
                with self.subTest(form):
                    self.assertEqual(model.generate([1, 2], 2, allowed=form).ids, [7, 7])
            self.assertEqual([done.ids for done in model.generate([[1], [2]], 2, allowed=iter([7]))], [[7, 7]] * 2)
            self.assertEqual([token.id for token in model.stream([1, 2], 2, allowed={7})], [7, 7])
            wrongs += [(mkc.Error, "^allowed: error: found no id, expected at least one$", []),
                       (mkc.DtypeError, "^allowed: error: entry 1 is 0.7, expected an integer$", [7, 0.7])]
            for call in (model.generate, lambda *arguments, **more: list(model.stream(*arguments, **more))):
                for error, pattern, wrong in wrongs:
                    with self.subTest(pattern), self.assertRaisesRegex(error, pattern):
                        call([1, 2], 2, allowed=wrong)
            self.assertEqual(len(model.generate([1, 2], 2, allowed=None).ids), 2)

    def test_ids_that_are_no_integers_are_refused(self):
        with mkc.load(LLAMA, "cpu", context=32) as model:
            session, pages = model.session, [0]
            calls = [("tokens", session.sample), ("tokens", lambda ids: list(session.generate(ids, 2))),
                     ("tokens", lambda ids: session.step_batch([(ids, 1, pages)])),
                     ("stop", lambda ids: session.sample([1], stop=ids)), ("allowed", lambda ids: session.sample([1], allowed=ids))]
            for wrong, said in (([0.7], "0.7"), ([True], "True"), (["1"], "'1'")):
                for name, call in calls:
                    with self.subTest(name, wrong=wrong), self.assertRaisesRegex(mkc.DtypeError, f"^{name}: error: entry 0 is {said}, expected an integer$"):
                        call(wrong)
                with session.engine() as engine:
                    for name in ("prompt", "stop", "allowed"):
                        with self.subTest(name, wrong=wrong), self.assertRaisesRegex(
                                mkc.DtypeError, f"^{name}: error: entry 0 is {said}, expected an integer$"):
                            engine.submit(**{"prompt": [1], name: wrong})
                    self.assertTrue(engine.idle)
            self.assertEqual(session.position, 0)

    def test_integers_that_do_not_fit_are_refused(self):
        with mkc.load(LLAMA, "cpu", context=32) as model:
            for pattern, call in (("^top_k: error: found 4294967296, expected 0 to 4294967295$", lambda: model.generate([1], 2, top_k=1 << 32)),
                                  ("^seed: error: found 18446744073709551616, ", lambda: model.generate([1], 2, seed=1 << 64)),
                                  ("^min_new_tokens: error: found -1, ", lambda: model.generate([1], 2, min_tokens=-1)),
                                  ("^max_new_tokens: error: found -1, expected 0 or more$", lambda: model.generate([1], -1)),
                                  ("^tokens: error: entry 0 is 4294967301, expected an integer of 32 bits$",
                                   lambda: model.session.sample([(1 << 32) + 5])),
                                  ("^position: error: found 4294967296, ", lambda: model.session.rewind(1 << 32)),
                                  ("^pages: error: found 4294967297, ", lambda: model.session.make_cache(16, (1 << 32) + 1)),
                                  ("^form: error: found 4294967296, ", lambda: model.session.make_cache(16, 4, 1 << 32)),
                                  ("^stream: error: found 18446744073709551621, ", lambda: model.session.set_stream((1 << 64) + 5)),
                                  ("^logprobs: error: found -1, expected 0 to 20$", lambda: model.session.sample([1], logprobs=-1)),
                                  ("^logprobs: error: found 21, expected 0 to 20$", lambda: model.session.sample([1], logprobs=21)),
                                  ("^logprobs: error: found 4294967296, ", lambda: model.session.sample([1], logprobs=1 << 32)),
                                  ("^biases: error: found 4294967297, ", lambda: model.session.sample([1], biases={(1 << 32) + 1: (1, 0)})),
                                  ("^strides: error: found -1, ", lambda: model.session.use_cache(16, 4, (-1, 0, 0), [0])),
                                  ("^base: error: found 18446744073709551616, ", lambda: model.session.use_cache(16, 4, (1, 1, 1), [1 << 64])),
                                  ("^ordinal: error: found 4294967296, ", lambda: mkc.mkrt.Device(1 << 32, BUILD / "libmkrt.so"))):
                with self.subTest(pattern), self.assertRaisesRegex(mkc.Error, pattern):
                    call()
            with model.session.engine() as engine:
                id = engine.submit([1, 2], 2)
                for pattern, call in (("^id: error: found 18446744073709551616, ", lambda: engine.cancel((1 << 64) + id)),
                                      ("^logprobs: error: found -1, ", lambda: engine.submit([1], logprobs=-1)),
                                      ("^logit_bias: error: found 4294967297, ", lambda: engine.submit([1], logit_bias={(1 << 32) + 1: 1}))):
                    with self.subTest(pattern), self.assertRaisesRegex(mkc.Error, pattern):
                        call()
                self.assertEqual([outcome.reason for outcome in engine.run()], [mkc.mkrt.Reason.LENGTH])

    def test_numbers_of_a_busy_session_are_errors(self):
        with mkc.load(LLAMA, "emulator", context=32) as model:
            session, busy = model.session, collections.Counter()
            self.assertEqual(session.position, 0)
            session.step([1])
            pages, address = session.pages, session.logits_address

            def steps():
                while fed[0] < 6:
                    try:
                        session.step([1])
                        fed[0] += 1
                    except mkc.Error as e:  # the other thread asks for a number
                        self.assertEqual(e.status, mkc.mkrt.Status.BUSY)

            fed = [1]
            thread = threading.Thread(target=steps)
            thread.start()
            while thread.is_alive():
                for name, values in (("position", range(1, 7)), ("pages", (pages,)), ("logits_address", (address,))):
                    try:
                        self.assertIn(getattr(session, name), values)
                    except mkc.Error as e:
                        self.assertEqual(e.status, mkc.mkrt.Status.BUSY)
                        busy[name] += 1
            thread.join()
            self.assertEqual((session.position, session.pages, len(busy)), (6, pages, 3))

    def test_words_of_any_kind_are_errors_of_the_package(self):
        for path in ("--help", "none\udcff"):
            for device in ("cpu", "emulator"):
                with self.assertRaisesRegex(mkc.CompileError, "error: cannot be read: No such file"):
                    mkc.load(path, device)
        with mkc.load(STORIES, "cpu", keep_activations=False) as model, self.assertRaisesRegex(mkc.Error, "is not valid UTF-8"):
            model.generate("\ud800")

    def test_doctests(self):
        for name in ("errors", "_arrays", "_compile", "_generate", "_model"):
            found = doctest.testmod(importlib.import_module(f"mkc.{name}"))
            self.assertEqual(found.failed, 0, name)
            self.assertGreater(found.attempted, 0, name)


unittest.main(argv=sys.argv[:1])
