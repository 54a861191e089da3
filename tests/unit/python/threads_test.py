"""These tests use a session and its engine from several threads, and drop both without a close.
Usage: threads_test.py ROOT BUILD
"""
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import threading
import unittest

from in_tree import BUILD, FIXTURES

import mkc
from mkc import mkrt

LLAMA = FIXTURES / "llama_f32"


def held():
    """Threads and open files of this process."""
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))


class Failing:
    """A library whose mkrt_end_step fails with a status."""

    def __init__(self, library, status):
        self._library = library
        self.mkrt_end_step = lambda *_: status
        self.mkrt_error, self.mkrt_error_status = lambda: b"failed", lambda: status

    def __getattr__(self, name):
        return getattr(self._library, name)


class ThreadsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = mkc.load(LLAMA, "cpu", context=96)
        cls.session = cls.model.session

    @classmethod
    def tearDownClass(cls):
        cls.model.close()

    @contextlib.contextmanager
    def busy(self):
        with self.assertRaises(mkrt.Error) as caught:
            yield
        self.assertEqual(caught.exception.status, mkrt.Status.BUSY)

    def test_a_busy_engine_loses_nothing_that_was_taken(self):
        for name, take in (("_take_outcome", "outcomes"), ("_take_progress", "progress")):
            with self.subTest(take), self.session.engine(pages=20) as engine:
                for token in range(5):
                    engine.submit([token], 1, stream=True)
                while not engine.idle:
                    engine.advance()
                real, calls = getattr(engine, name), []

                def third_is_busy():
                    calls.append(1)
                    if len(calls) == 3:
                        raise mkrt.Error("busy", mkrt.Status.BUSY)
                    return real()

                setattr(engine, name, third_is_busy)
                with self.busy():
                    getattr(engine, take)()
                self.assertEqual([of.id for of in getattr(engine, take)()], [0, 1, 2, 3, 4])
                self.assertEqual(getattr(engine, take)(), [])

    def test_a_run_that_is_left_early_leaves_its_outcomes(self):
        with self.session.engine(pages=20) as engine:
            for token in range(5):
                engine.submit([token], 1)
            self.assertEqual(next(engine.run()).id, 0)
            self.assertEqual([of.id for of in engine.run()], [1, 2, 3, 4])

    def test_no_other_call_comes_between_an_outcome_and_its_copy(self):
        with self.session.engine(pages=20) as engine:
            for token in range(3):
                engine.submit([token], 4, logprobs=1, stream=True)
            while not engine.idle:
                engine.advance()
            copied, seen, closing = engine._logprobs, [], threading.Thread(target=engine.close)

            def call(function):
                try:
                    seen.append(function())
                except mkrt.Error as e:
                    seen.append(e.status)

            def slow(taken):
                for function in (engine.outcomes, engine.progress):
                    thread = threading.Thread(target=call, args=(function,))
                    thread.start()
                    thread.join()
                if not closing.ident:
                    closing.start()
                closing.join(0.05)
                self.assertTrue(closing.is_alive())  # waits, because the copy reads memory of the engine
                return copied(taken)

            engine._logprobs = slow
            self.assertEqual([(of.id, len(of.tokens), len(of.logprobs)) for of in engine.outcomes()], [(id, 4, 4) for id in range(3)])
            closing.join()
            self.assertEqual(set(seen), {mkrt.Status.BUSY})

    def test_threads_that_advance_and_take_see_each_outcome_once(self):
        count, got, wrong = 300, [], []
        with self.session.engine(pages=40) as engine:
            for i in range(count):
                engine.submit([i % 80], 2, logprobs=1)
            ended = threading.Event()

            def work(step):
                while not ended.is_set():
                    try:
                        step()
                    except mkrt.Error as e:
                        if e.status != mkrt.Status.BUSY:
                            wrong.append(e)
                            ended.set()

            def advance():
                engine.advance()
                if engine.idle:
                    ended.set()

            takers = [threading.Thread(target=work, args=(lambda: got.extend(engine.outcomes()),)) for _ in range(2)]
            threads = [threading.Thread(target=work, args=(advance,)), *takers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            got += engine.outcomes()
        self.assertEqual((sorted(of.id for of in got), wrong), (list(range(count)), []))
        of_token = {}
        for of in got:
            self.assertEqual(of_token.setdefault(of.id % 80, (of.tokens, of.logprobs)), (of.tokens, of.logprobs))

    def test_a_forked_process_does_not_wait_for_a_thread_that_it_lacks(self):
        with self.session.engine(pages=20) as engine:
            engine.submit([1], 1)
            engine.advance()
            with engine._alone():
                child = os.fork()
                if child == 0:
                    with contextlib.suppress(BaseException):
                        taken = len(engine.outcomes())
                        engine.close()
                        os._exit(taken)
                    os._exit(99)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 1)
            self.assertEqual(len(engine.outcomes()), 1)

    def test_a_busy_end_of_a_step_can_be_made_again(self):
        session, library = self.session, self.session._library
        want = session.sample([5, 6, 7])
        session.rewind()
        self.addCleanup(setattr, session, "_library", library)
        for status in (mkrt.Status.BUSY, mkrt.Status.OUT_OF_ORDER):
            session.begin_step([([5, 6, 7], 3, [0])])
            session._library = Failing(library, status)
            for _ in range(2):
                with self.assertRaises(mkrt.Error) as caught:
                    session.end_step()
                self.assertEqual(caught.exception.status, status)
            session._library = library
            self.assertEqual(session.end_step(), [want])

    def test_an_interrupt_behind_the_end_of_a_step_leaves_later_steps_in_order(self):
        session, library = self.session, self.session._library
        self.addCleanup(setattr, session, "_library", library)

        def interrupted(*arguments):
            library.mkrt_end_step(*arguments)
            raise KeyboardInterrupt

        session.begin_step([([5], 1, [0])])
        session._library = Failing(library, 0)
        session._library.mkrt_end_step = interrupted
        with self.assertRaises(KeyboardInterrupt):
            session.end_step()
        session._library = library
        session.begin_step([([5], 1, [0]), ([6], 1, [1])])
        self.assertEqual(len(session.end_step()), 2)

    def test_a_step_that_ended_with_an_error_is_no_longer_under_way(self):
        session = self.session
        session.begin_step([([5, 6, 7], 3, [0])], limit=2)
        session._under_way[0][0].limit = 1  # no room for what was sampled
        with self.assertRaisesRegex(mkrt.Error, "request 0 has sampled 2 tokens, there is room for 1"):
            session.end_step()
        session.begin_step([([5], 1, [0]), ([6], 1, [1])])
        self.assertEqual(len(session.end_step()), 2)

    def test_an_engine_that_is_dropped_gives_its_session_back(self):
        def fails_with_a_request():
            self.session.engine(pages=20).submit([1], 4)
            raise ValueError

        with self.assertRaises(ValueError):
            fails_with_a_request()
        gc.collect()
        self.assertEqual(len(self.model.generate([1, 2], 3).ids), 3)

    def test_a_session_of_mkrt_that_is_dropped_is_closed_after_its_engine(self):
        with tempfile.TemporaryDirectory() as folder, mkrt.Device.processor() as device:
            artefact = f"{folder}/model.so"
            subprocess.run([BUILD / "mkc", "compile", LLAMA, "--target", "x86-64", "-o", artefact], check=True, capture_output=True, timeout=120)
            session = device.open(artefact, LLAMA)
            vocab, handle = device._library.mkrt_vocab, session._handle
            engine = session.engine(pages=20)
            del session
            gc.collect()
            self.assertEqual(vocab(handle), self.session.vocab)
            engine.submit([1, 2], 4)
            self.assertEqual([len(outcome.tokens) for outcome in engine.run()], [4])
            del engine
            gc.collect()
            self.assertEqual(vocab(handle), 0)

    def test_a_model_that_is_dropped_with_an_engine_is_closed(self):
        for device in ("cpu", "emulator"):
            for in_a_cycle in (False, True):
                with self.subTest(device, in_a_cycle=in_a_cycle):
                    mkc.load(LLAMA, device, context=96).close()
                    before = held()
                    engine = mkc.load(LLAMA, device, context=96).session.engine()
                    engine.submit([1, 2], 4)
                    engine.advance()
                    engine.kept = [engine] if in_a_cycle else []
                    del engine
                    gc.collect()
                    self.assertEqual(held(), before)


unittest.main(argv=sys.argv[:1])
