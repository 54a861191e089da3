"""An engine: continuous batching over a session."""
import collections
import ctypes
import enum
import os
import weakref
from ctypes import byref, c_int32, c_uint64

from ._library import (Error, NotFiniteError, Status, _fits, _Handle, _ints, _LogitBias, _Logprobs, _logprobs_list, _Outcome,
                       _Progress, _Request, _sampling_of, _Stats)


class Reason(enum.IntEnum):
    """Why a request has finished (mkrt_finish_reason)."""
    UNFINISHED, STOP, LENGTH, ERROR, CANCELLED = range(5)


# New tokens of a streamed request. logprobs: as Session.sample gives them, or None.
Progress = collections.namedtuple("Progress", "id tokens logprobs")
# A finished request. reason: a Reason; error: an Error, or None; cached_tokens: of the prompt, from the prefix cache.
Outcome = collections.namedtuple("Outcome", "id tokens logprobs reason error cached_tokens")
# Stats has what an engine holds now, and counts since it was opened.
Stats = collections.namedtuple("Stats", "running waiting pages pages_used clock launches steps rows preemptions "
                                        "prefix_queries prefix_hits")


class Engine(_Handle):
    """Continuous batching over a session (docs/engine.md). Requests join and leave between launches, and each gets
    the tokens that it would get alone. Session.engine() opens one.

    One thread at a time may use an engine: a call beside another one is an Error with Status.BUSY, and loses nothing.
    An engine that is dropped is closed. kept: what must outlive it.
    """

    def __init__(self, library, handle, kept=None):
        super().__init__(library, handle)
        self._progress, self._outcomes = collections.deque(), collections.deque()  # taken, and not yet handed out
        self._owned = [handle]
        weakref.finalize(self, _release, os.getpid(), library, self._owned, kept).atexit = False

    def submit(self, prompt, max_new_tokens=16, stop=(), logprobs=None, logit_bias=None, allowed=None, min_tokens=0,
               presence_penalty=0, frequency_penalty=0, priority=0, stream=False, ignore_engine_stops=False,
               arrive_at_step=0, name=None, **sampling):
        """Hands in a request and returns its id: 0, 1, … A request that can never run has an outcome with its error
        at once.

        logprobs, logit_bias, allowed, penalties, sampling: those of Session.generate and Session.sample.
        min_tokens: tokens before which none is of `stop` or an end token of the engine.
        priority: a smaller number runs earlier.
        stream: progress() has its tokens as they come.

        An Error with Status.FULL means that the request can be submitted again later. A prompt with more tokens than the
        context is an Error, too, and so are allowed ids that are none. Ids that are no integers are a DtypeError.
        """
        sampling, prompt, stops = _sampling_of(sampling, logprobs), _ints("prompt", prompt), _ints("stop", stop)
        biases = [(_fits("logit_bias", token, c_int32), value) for token, value in (logit_bias or {}).items()]
        only = _ints("allowed", () if allowed is None else allowed)
        if allowed is not None and not len(only):
            raise Error("allowed: error: found no id, expected at least one")
        request = _Request(prompt_count=len(prompt), prompt=prompt, sampling=ctypes.pointer(sampling), stop_ids=stops,
                           logit_bias=(_LogitBias * len(biases))(*biases), allowed_ids=only, stop_count=len(stops),
                           bias_count=len(biases), allowed_count=len(only), max_new_tokens=max_new_tokens,
                           min_new_tokens=min_tokens, presence_penalty=presence_penalty,
                           frequency_penalty=frequency_penalty, priority=priority, stream=stream,
                           ignore_engine_stops=ignore_engine_stops, arrive_at_step=arrive_at_step,
                           name=None if name is None else name.encode())
        number = c_uint64()
        self._check(self._library.mkrt_submit(self._open(), byref(request), byref(number)))
        return number.value

    def cancel(self, id):
        """Ends a request; its outcome has the tokens so far. An id of no unfinished request is an Error."""
        self._check(self._library.mkrt_cancel(self._open(), _fits("id", id, c_uint64)))

    def advance(self):
        """Runs one launch for the requests that have arrived. An error ends all requests and every later one."""
        self._check(self._library.mkrt_advance(self._open()))

    def progress(self):
        """The new tokens of streamed requests since the last call: a list of Progress."""
        return self._take_all(self._progress, self._take_progress)

    def outcomes(self):
        """The requests that have finished since the last call: a list of Outcome."""
        return self._take_all(self._outcomes, self._take_outcome)

    def run(self):
        """Advances until no request is left, and yields their outcomes as they finish."""
        while True:
            yield from iter(self._next_outcome, None)
            if self.idle:
                return
            self.advance()

    @property
    def idle(self):
        stats = self.stats()
        return stats.running + stats.waiting == 0

    def stats(self):
        stats = _Stats()
        self._check(self._library.mkrt_stats(self._open(), byref(stats)))
        return Stats(*(getattr(stats, name) for name in Stats._fields))

    def close(self):
        """Drops the requests that have not finished. The session is free again."""
        with self._alone(wait=True):
            self._owned.clear()
            if self._handle:
                self._library.mkrt_close_engine(self._handle)
            self._handle = None

    def _take_all(self, kept, take):
        """Returns what `take` gives until it gives None, behind what was kept. An error keeps what was taken before it."""
        with self._alone():
            for item in iter(take, None):
                kept.append(item)
            items = list(kept)
            kept.clear()
            return items

    def _next_outcome(self):
        with self._alone():
            return self._outcomes.popleft() if self._outcomes else self._take_outcome()

    def _take_progress(self):
        taken = _Progress(logprobs_size=ctypes.sizeof(_Logprobs))
        self._check(self._library.mkrt_take_progress(self._open(), byref(taken)))
        if taken.count:
            return Progress(taken.request, taken.ids[:taken.count], self._logprobs(taken))

    def _take_outcome(self):
        taken = _Outcome(logprobs_size=ctypes.sizeof(_Logprobs))
        self._check(self._library.mkrt_take_outcome(self._open(), byref(taken)))
        if taken.reason:
            tokens, logprobs, error = taken.ids[:taken.count], self._logprobs(taken), None
            if taken.reason == Reason.ERROR:
                text = taken.error.decode()
                lost = taken.status == Status.NOT_FINITE
                error = NotFiniteError(text, tokens=tokens, logprobs=logprobs or ()) if lost else Error(text, taken.status)
            return Outcome(taken.request, tokens, logprobs, Reason(taken.reason), error, taken.cached_tokens)

    def _logprobs(self, taken):
        return _logprobs_list(taken.logprobs, taken.count, taken.top_count) if taken.logprobs else None


def _release(process, library, handles, kept):
    """Closes what a dropped engine has not closed. A forked process lacks the threads of its parent's device."""
    if os.getpid() == process:
        for handle in handles:
            library.mkrt_close_engine(handle)
