"""A session: a model on a device."""
import collections
import ctypes
import os
import weakref
from ctypes import byref, c_float, c_int32, c_uint32, c_uint64

from ._engine import Engine
from ._library import (NHD, Error, NotFiniteError, _batch, _Bias, _EngineOptions, _fits, _Handle, _indices, _ints, _Logprobs, _logprobs_list,
                       _Samples, _sampling_of, Status)

_MAX_STEPS = 4096  # most samples of a launch


class Session(_Handle):
    """A model on a device: one sequence of its own, or steps of many requests over a cache of pages.

    A session that is dropped is closed, and `device` with it. kept: what must outlive the session and its engines.
    """

    def __init__(self, library, handle, device=None, kept=None):
        super().__init__(library, handle)
        self._kept = kept
        self._owned = [handle]
        weakref.finalize(self, _release, os.getpid(), library, self._owned, device, kept).atexit = False
        self._under_way = collections.deque()
        self._requests = 1  # of the last step
        self._launch = None  # generate()'s last one, while nothing else has changed the sequence

    @property
    def vocab(self):
        return self._library.mkrt_vocab(self._open())

    @property
    def max_tokens(self):
        """The most tokens of one step."""
        return self._library.mkrt_max_tokens(self._open())

    @property
    def context(self):
        """Positions that the cache holds."""
        return self._library.mkrt_context(self._open())

    @property
    def position(self):
        """How many tokens were fed so far. Errors: a call of another thread is under way."""
        position = self._library.mkrt_position(self._open())
        self._check(position == 0 and self._library.mkrt_error_status())
        return position

    def _number(self, function):
        """Returns the number of a function that has 0 for a failure alone. Errors: the call failed."""
        number = function(self._open())
        self._check(number == 0)
        return number

    def rewind(self, position=0):
        """Forgets what was fed at `position` and behind it."""
        self._launch = None
        self._check(self._library.mkrt_rewind(self._open(), _fits("position", position)))

    @property
    def finite(self):
        """Of each request of the last step: how many of the tokens that it sampled come before the first one without a finite
        greatest logit. Errors: no step has ended."""
        counts = (c_uint32 * self._requests)()
        self._check(self._library.mkrt_finite(self._open(), counts, len(counts)))
        return list(counts)

    def step(self, tokens, logits=False):
        """Feeds 1 to max_tokens tokens and returns the greedy successor of the last one. With logits, the result is a
        pair: the successor, and the logits of all rows as a numpy array [tokens, vocab] of float32.

        Errors: NotFiniteError after the tokens were fed, unless logits are asked for. `finite` tells then.
        """
        ids = _ints("tokens", tokens)
        if not logits:
            return self._greedy(ids)
        import numpy
        rows = numpy.empty((len(ids), self.vocab), dtype=numpy.float32)
        return self._greedy_with_logits(ids, rows.ctypes.data), rows

    def _greedy(self, ids):
        """Feeds ids and returns the greedy successor. Errors: NotFiniteError. One call of the library tells both."""
        token = (c_int32 * 1)()
        samples = _Samples(limit=1, ids=token)
        self._check(self._library.mkrt_sample(self._open(), ids, len(ids), byref(samples)))
        self._has_ended(1)
        if samples.finite == 0:
            raise NotFiniteError()
        return token[0]

    def _greedy_with_logits(self, ids, logits):
        token = c_int32()
        self._check(self._library.mkrt_step(self._open(), ids, len(ids), logits, byref(token)))
        self._has_ended(1)
        return token.value

    def _has_ended(self, requests):
        self._requests, self._launch = requests, None

    def sample(self, tokens, limit=1, stop=(), seen=(), logprobs=None, biases=None, allowed=None, **sampling):
        """Feeds tokens, samples up to `limit` tokens that follow in one launch, and returns them. A token of `stop`
        ends the launch. All samples but the last are fed.

        sampling: fields of Sampling.
        seen: the ids that a repetition penalty applies to.
        logprobs: None, or a number n. The result is then a pair: the tokens, and a Logprob with the n likeliest for
        each.
        biases: {id: (before, after)}, added to logits before and after the penalty. -inf forbids the id.
        allowed: the only ids that may be sampled. A uint32 array has a bit for each id, the lowest of a word first; others have ids.
        Errors: NotFiniteError after the launch, with the tokens before and their log-probabilities.
        """
        ids = _ints("tokens", tokens)
        samples = self._samples(limit, stop, seen, logprobs, sampling, biases, allowed)
        self._check(self._library.mkrt_sample(self._open(), ids, len(ids), byref(samples)))
        self._has_ended(1)
        ids = samples.ids[:samples.count]
        given = [] if logprobs is None else _logprobs_list(samples.logprobs, samples.count, min(logprobs, self.vocab))
        if samples.finite < samples.count:
            raise NotFiniteError(tokens=ids[:samples.finite], logprobs=given[:samples.finite])
        return ids if logprobs is None else (ids, given)

    def _id_set(self, name, ids):
        """Returns a bit for each id of the model, 32 in a word. `ids` are ids, or a uint32 array of these words."""
        words = (c_uint32 * ((self.vocab + 31) // 32))()
        if getattr(ids, "dtype", None) == "uint32":
            if ids.shape != (len(words),):
                raise Error(f"{name}: error: found a uint32 array of the shape {list(ids.shape)}, expected [{len(words)}], a bit "
                            "for each id, or ids as a list or an int32 array")
            ctypes.memmove(words, ids.tobytes(), ctypes.sizeof(words))
            return words
        for token in _indices(name, ids):
            if not 0 <= token < self.vocab:
                raise Error(f"found the id {token}, expected 0 to {self.vocab - 1}")
            words[token // 32] |= 1 << token % 32
        return words

    def _samples(self, limit=1, stop=(), seen=(), logprobs=None, sampling={}, biases=None, allowed=None):
        sampling = _sampling_of(sampling, logprobs)
        samples = _Samples(sampling=ctypes.pointer(sampling), limit=limit, stop_count=len(stop))
        if sampling.repetition_penalty != 1:
            samples.seen = self._id_set("seen", seen)
        if allowed is not None:
            samples.allowed = self._id_set("allowed", allowed)
        if biases:
            samples.biases = (_Bias * len(biases))(*((_fits("biases", token), *of) for token, of in sorted(biases.items())))
            samples.bias_count = len(biases)
        samples.stop_ids, samples.ids = _ints("stop", stop), (c_int32 * max(1, limit))()
        samples.logprobs, samples.logprobs_size = (_Logprobs * max(1, limit))(), ctypes.sizeof(_Logprobs)
        return samples

    @property
    def max_requests(self):
        """The most requests of one step."""
        return self._library.mkrt_max_requests(self._open())

    @property
    def pages(self):
        """The number of pages of the cache, and of the positions of each. Errors: a call of another thread is under way."""
        return self._number(self._library.mkrt_pages), self._number(self._library.mkrt_page_size)

    @property
    def caches(self):
        """The number of caches: keys and values of every layer, twice the layers."""
        return self._library.mkrt_caches(self._open())

    def make_cache(self, page_size, pages, form=NHD):
        """Makes another cache that the session owns, and forgets the old one."""
        self._launch = None
        self._check(self._library.mkrt_make_cache(self._open(), _fits("page_size", page_size), _fits("pages", pages),
                                                  _fits("form", form, c_int32)))

    def use_cache(self, page_size, pages, strides, base):
        """Takes the caller's cache where it lies.

        strides: (page, position, head) in bytes.
        base: the device address of each cache, layer by layer, keys before values (a torch tensor's data_ptr()).
        """
        self._launch = None
        numbers = [_fits("strides", stride, c_uint64) for stride in strides]
        addresses = (c_uint64 * len(base))(*(_fits("base", address, c_uint64) for address in base))
        self._check(self._library.mkrt_use_cache(self._open(), _fits("page_size", page_size), _fits("pages", pages), *numbers,
                                                 addresses, len(base)))

    def use_scales(self, scales):
        """Sets the scales of an e4m3 cache in place of the checkpoint's: a number for each head of each cache. What was fed is forgotten."""
        self._launch = None
        self._check(self._library.mkrt_use_scales(self._open(), (c_float * len(scales))(*scales), len(scales)))

    def step_batch(self, requests, logits=False):
        """Runs one step of requests and returns the greedy successor of each. With logits, the result is a pair: the
        successors, and the logits of all rows. `finite` has 0 for a successor without a finite greatest logit.

        requests: (tokens, kv_len, pages) for each: its next tokens, the positions in its cache with them, and its
        pages in the order of its positions.
        """
        batch = _batch(requests)
        rows, following = None, (c_int32 * max(1, len(requests)))()
        if logits:
            import numpy
            rows = numpy.empty((batch.row_begin[len(requests)], self.vocab), dtype=numpy.float32)
        self._check(self._library.mkrt_step_batch(self._open(), byref(batch), rows.ctypes.data if logits else None,
                                                  following))
        self._has_ended(len(requests))
        following = list(following)[:len(requests)]
        return (following, rows) if logits else following

    def read_tensor(self, name, rows, columns, element="f32"):
        """Returns what the last step left in a tensor, as a numpy array [rows, columns] of float32.

        name, element: the tensor's name in the manifest, and its type, "f32" or "bf16".

        Needs an artefact made with --keep-activations.
        """
        import numpy
        out = numpy.empty((rows, columns), dtype={"f32": numpy.float32, "bf16": numpy.uint16}[element])
        self._check(self._library.mkrt_read_tensor(self._open(), name.encode(), out.ctypes.data, out.nbytes))
        return out if element == "f32" else (out.astype(numpy.uint32) << 16).view(numpy.float32)

    def trace(self):
        """Returns the stamps of the workers in the last launch, as text for mkc trace. Needs an artefact made with
        --trace."""
        text = self._library.mkrt_trace(self._open())
        self._check(text is None)
        return text.decode()

    def engine(self, recompute=False, prefix_cache=False, max_rows_beside_decodes=0, steps_per_launch=1, max_waiting=0,
               page_size=16, pages=0, stop=()):
        """Opens an Engine over this session, which feeds it alone until it is closed. What the session was fed before is
        forgotten, and its position is 0.

        pages: the pages of a new cache of page_size positions each. 0 keeps the session's cache as it is, whatever page_size says.
        steps_per_launch: at most 4096. 0 is 1.
        max_waiting: requests that may wait. 0 sets no bound.
        """
        stops = _ints("stop", stop)
        options = _EngineOptions(preemption=recompute, prefix_cache=prefix_cache, steps_per_launch=steps_per_launch,
                                 max_rows_beside_decodes=max_rows_beside_decodes, max_waiting=max_waiting,
                                 page_size=page_size, pages=pages, stop_ids=stops, stop_count=len(stops))
        self._launch = None
        return Engine(self._library, self._library.mkrt_open_engine(self._open(), byref(options)), self)

    def set_stream(self, stream):
        """Sets the stream of all later steps: a CUstream by its number (a torch stream's cuda_stream), or 0 for the
        default one."""
        self._check(self._library.mkrt_set_stream(self._open(), _fits("stream", stream, c_uint64)))

    def set_timeout(self, milliseconds):
        """Sets the time after which a wait inside the kernel is a fault. 0 sets no limit."""
        self._check(self._library.mkrt_set_timeout(self._open(), _fits("milliseconds", milliseconds)))

    def begin_step(self, requests, limit=1, stop=(), samples=None, **sampling):
        """Puts a step of requests, as step_batch takes them, on the stream and returns. Two steps may be under way,
        or one that samples more than one token.

        Each request samples up to `limit` tokens by fields of Sampling, or `samples` has a dict of sample()'s
        arguments for each. A token -1 - b stands for what request b of the step before has sampled.
        """
        samples = self._samples_of(requests, limit, stop, sampling, samples)
        self._launch = None
        with self._alone():
            self._check(self._library.mkrt_begin_step(self._open(), byref(_batch(requests)), samples))
            self._under_way.append(samples)

    def end_step(self, logprobs=False):
        """Waits for the oldest step that was begun, or was filled in and run, and returns the tokens that each
        request has sampled. With logprobs, the result has a pair for each request: its tokens, and the Logprobs that
        it asked for. `finite` counts the tokens of each request before the first one without a finite greatest logit.

        Errors: those of the step, which has then ended; Status.BUSY, and the step is still under way."""
        with self._alone():
            # An interrupt behind the call finds the step ended, so its record is taken out before.
            samples = self._under_way.popleft() if self._under_way else None
            failed = self._library.mkrt_end_step(self._open(), None, samples)
            if samples is not None and failed in (Status.BUSY, Status.OUT_OF_ORDER):
                self._under_way.appendleft(samples)
            self._check(failed)
        self._requests = len(samples)
        ids = [of.ids[:of.count] for of in samples]
        return list(zip(ids, map(self._logprobs_of, samples))) if logprobs else ids

    def _logprobs_of(self, samples):
        asked = samples.sampling.contents.logprobs
        return _logprobs_list(samples.logprobs, samples.count, min(asked - 1, self.vocab)) if asked else []

    def sample_batch(self, requests, samples):
        """Runs one launch of requests, as step_batch takes them, and returns what end_step returns with logprobs, and as it does.
        `samples` has a dict of sample()'s arguments for each request."""
        made = self._samples_of(requests, 1, (), {}, samples)
        self._check(self._library.mkrt_sample_batch(self._open(), byref(_batch(requests)), made))
        self._has_ended(len(requests))
        return [(of.ids[:of.count], self._logprobs_of(of)) for of in made]

    def capture_step(self, limit=1, stops=0):
        """Puts a step into the graph while the stream is being captured. Its requests may sample up to `limit` tokens
        each, with at most `stops` stop ids.

        Each run of the graph is fill_step, the graph, and end_step.
        """
        self._launch = None
        self._check(self._library.mkrt_capture_step(self._open(), byref(self._samples(limit, [0] * stops))))

    def fill_step(self, requests, limit=1, stop=(), **sampling):
        """Sets the requests and samples of the graph's next run."""
        samples = self._samples_of(requests, limit, stop, sampling, None)
        self._launch = None
        with self._alone():
            self._check(self._library.mkrt_fill_step(self._open(), byref(_batch(requests)), samples))
            self._under_way.append(samples)

    @property
    def logits_address(self):
        """On the device, of the last step's: float32 [rows, vocab], until the next begins on the stream. Errors: a call of
        another thread is under way."""
        return self._number(self._library.mkrt_logits)

    def _samples_of(self, requests, limit, stop, sampling, samples):
        if samples is None:
            samples = [{"limit": limit, "stop": tuple(stop), **sampling}] * len(requests)
        if len(samples) != len(requests):
            raise Error(f"found samples of {len(samples)} requests, expected {len(requests)}")
        return (_Samples * len(requests))(*(self._sample_of(**of) for of in samples))

    def _sample_of(self, limit=1, stop=(), seen=(), logprobs=None, biases=None, allowed=None, **sampling):
        return self._samples(limit, stop, seen, logprobs, sampling, biases, allowed)

    def generate(self, tokens, count, stop=(), chunk=None, steps_per_launch=1, logit_bias=None, presence_penalty=0,
                 frequency_penalty=0, min_tokens=0, allowed=None, **sampling):
        """Feeds tokens, `chunk` a step, and yields up to `count` new ones, sampled greedily or by fields of Sampling.
        A token of `stop` ends it and is not yielded. The kernel goes on by itself for up to steps_per_launch of them, at
        most 4096. A generator that is closed early sets the position back to that of the last token yielded, which is not fed yet,
        unless the session was used otherwise since.

        logit_bias: {id: value added to its logit}.
        presence_penalty, frequency_penalty: taken off the logit of each new token, once and for each time.
        min_tokens: tokens before which none is of `stop`.
        allowed: as that of sample().
        Errors: NotFiniteError, behind the tokens that come before the one without a finite greatest logit.
        """
        tokens, chunk, stop = list(tokens), chunk or self.max_tokens, list(_ints("stop", stop))
        if allowed is not None and not hasattr(allowed, "dtype"):
            allowed = list(allowed)
        if not tokens:
            raise Error("no tokens to go on from")
        if sampling.get("logprobs") is not None:
            raise Error("logprobs: error: generate yields none, sample and an Engine give them")
        if not 1 <= steps_per_launch <= _MAX_STEPS:
            raise Error(f"steps_per_launch: error: found {steps_per_launch}, expected 1 to {_MAX_STEPS}")
        seen, first = set(tokens), sampling.pop("position", 0)
        *before, feed = (tokens[begin:begin + chunk] for begin in range(0, len(tokens), chunk))
        for part in before:
            self.sample(part, 0)
        made, times = 0, collections.Counter()
        while made < count:
            biases = {token: (value, 0) for token, value in (logit_bias or {}).items()}
            limit = 1 if presence_penalty or frequency_penalty else min(count - made, steps_per_launch)
            for token, number in times.items():
                if presence_penalty or frequency_penalty:
                    biases[token] = biases.get(token, (0, 0))[0], -(presence_penalty + frequency_penalty * number)
            if made < min_tokens:
                biases.update((token, (float("-inf"), 0)) for token in stop)
                limit = min(limit, min_tokens - made)
            error, kept = None, self.position + len(feed) - 1
            try:
                sampled = self.sample(feed, limit, stop, seen, position=first + made, biases=biases, allowed=allowed,
                                      **sampling)
            except NotFiniteError as e:
                sampled, error = e.tokens, e
            self._launch = launch = object()
            try:
                for token in sampled:
                    kept += 1
                    if token in stop:
                        return
                    yield token
                if error is not None:
                    kept += 1
                    raise error
            finally:
                if self._launch is launch and self._handle and self.position > kept:
                    self.rewind(kept)
            made, feed = made + len(sampled), sampled[-1:]
            seen.update(sampled)
            times.update(sampled)

    def close(self):
        self._owned.clear()
        if self._handle:
            self._library.mkrt_close_session(self._handle)
        self._handle = None


def _release(process, library, handles, device, kept):
    """Closes what a dropped session has not closed. A forked process lacks the threads of its parent's device."""
    if os.getpid() == process:
        for handle in handles:
            library.mkrt_close_session(handle)
        if device:
            device.close()
