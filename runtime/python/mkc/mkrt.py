"""libmkrt from Python: load an artefact that mkc made, bind a checkpoint, run steps or serve requests. runtime/c_api/mkrt.h
says what calls do.

    with mkrt.Device(0) as device, device.open("model.cubin", "checkpoint") as session:
        for token in session.generate([0, 359, 336], 16):
            print(token)

An artefact is a cubin for a GPU, or a shared object for a processor, which mkrt.Device.processor() opens.
Needs libmkrt.so beside this file, where the loader looks, or at MKRT_LIBRARY; numpy for logits. Failures are mkrt.Error.
"""
import collections
import ctypes
import enum
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

_SIGNATURES = {
    "mkrt_version": (c_char_p,),
    "mkrt_error": (c_char_p,),
    "mkrt_error_status": (c_int,),
    "mkrt_open_cuda": (c_void_p, c_int),
    "mkrt_open_processor": (c_void_p,),
    "mkrt_open_emulator": (c_void_p, c_void_p, c_void_p, c_uint64),
    "mkrt_open_emulator_kernels": (c_void_p, POINTER(c_void_p), c_uint32, c_void_p, c_uint64),
    "mkrt_device_name": (c_char_p, c_void_p),
    "mkrt_accept_unsealed": (c_int, c_void_p, c_int),
    "mkrt_keep_weights": (c_int, c_void_p, c_char_p),
    "mkrt_close_device": (None, c_void_p),
    "mkrt_open_session": (c_void_p, c_void_p, c_char_p, c_char_p),
    "mkrt_open_session_from_memory": (c_void_p, c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_char_p, c_size_t,
                                      c_char_p),
    "mkrt_close_session": (None, c_void_p),
    "mkrt_vocab": (c_uint32, c_void_p),
    "mkrt_max_tokens": (c_uint32, c_void_p),
    "mkrt_context": (c_uint32, c_void_p),
    "mkrt_position": (c_uint32, c_void_p),
    "mkrt_rewind": (c_int, c_void_p, c_uint32),
    "mkrt_step": (c_int, c_void_p, POINTER(c_int32), c_uint32, c_void_p, POINTER(c_int32)),
    "mkrt_sample": (c_int, c_void_p, POINTER(c_int32), c_uint32, c_void_p),
    "mkrt_max_requests": (c_uint32, c_void_p),
    "mkrt_page_size": (c_uint32, c_void_p),
    "mkrt_pages": (c_uint32, c_void_p),
    "mkrt_caches": (c_uint32, c_void_p),
    "mkrt_make_cache": (c_int, c_void_p, c_uint32, c_uint32, c_int),
    "mkrt_use_cache": (c_int, c_void_p, c_uint32, c_uint32, c_uint64, c_uint64, c_uint64, POINTER(c_uint64), c_uint32),
    "mkrt_use_scales": (c_int, c_void_p, POINTER(c_float), c_uint32),
    "mkrt_step_batch": (c_int, c_void_p, c_void_p, c_void_p, POINTER(c_int32)),
    "mkrt_sample_batch": (c_int, c_void_p, c_void_p, c_void_p),
    "mkrt_set_stream": (c_int, c_void_p, c_void_p),
    "mkrt_set_timeout": (c_int, c_void_p, c_uint32),
    "mkrt_begin_step": (c_int, c_void_p, c_void_p, c_void_p),
    "mkrt_end_step": (c_int, c_void_p, POINTER(c_int32), c_void_p),
    "mkrt_capture_step": (c_int, c_void_p, c_void_p),
    "mkrt_fill_step": (c_int, c_void_p, c_void_p, c_void_p),
    "mkrt_read_tensor": (c_int, c_void_p, c_char_p, c_void_p, c_size_t),
    "mkrt_trace": (c_char_p, c_void_p),
    "mkrt_logits": (c_uint64, c_void_p),
    "mkrt_open_engine": (c_void_p, c_void_p, c_void_p),
    "mkrt_close_engine": (None, c_void_p),
    "mkrt_submit": (c_int, c_void_p, c_void_p, POINTER(c_uint64)),
    "mkrt_cancel": (c_int, c_void_p, c_uint64),
    "mkrt_advance": (c_int, c_void_p),
    "mkrt_take_progress": (c_int, c_void_p, c_void_p),
    "mkrt_take_outcome": (c_int, c_void_p, c_void_p),
    "mkrt_stats": (c_int, c_void_p, c_void_p),
}
NHD, HND, PACKED = range(3)  # forms of a page of the cache


_TOP = 20  # tokens whose log-probabilities may be asked for


class _Sized(ctypes.Structure):
    """A struct that begins with its size, by which the library knows its version."""

    def __init__(self, **fields):
        names = [name for name, _ in self._fields_[1:]]
        for name in fields.keys() - names:
            raise Error(f"found the field {name!r}, expected one of {', '.join(names)}", Status.BAD_ARGUMENT)
        super().__init__(size=ctypes.sizeof(self), **fields)


class Sampling(_Sized):
    """How tokens are sampled (docs/sampling.md); greedily, unless a field is given."""
    _fields_ = [("size", c_uint32), ("repetition_penalty", c_float), ("temperature", c_float), ("top_k", c_uint32),
                ("top_p", c_float), ("min_p", c_float), ("seed", c_uint64), ("logprobs", c_uint32), ("position", c_uint32)]

    def __init__(self, **fields):
        super().__init__(**{"repetition_penalty": 1, "top_p": 1, **fields})


class _Logprobs(ctypes.Structure):
    _fields_ = [("sampled", c_float), ("top", c_float * _TOP), ("top_id", c_uint32 * _TOP), ("rank", c_uint32)]


# A sampled token's log-probability; pairs (id, log-probability) of the likeliest; how many logits are at least as great as
# the token's.
Logprob = collections.namedtuple("Logprob", "sampled top rank")


class _Bias(ctypes.Structure):
    _fields_ = [("id", c_uint32), ("before", c_float), ("after", c_float)]


class _Samples(_Sized):
    _fields_ = [("size", c_uint32), ("limit", c_uint32), ("sampling", POINTER(Sampling)), ("stop_ids", POINTER(c_int32)),
                ("biases", POINTER(_Bias)), ("seen", POINTER(c_uint32)), ("allowed", POINTER(c_uint32)),
                ("ids", POINTER(c_int32)), ("logprobs", POINTER(_Logprobs)), ("logprobs_size", c_uint32),
                ("stop_count", c_uint32), ("bias_count", c_uint32), ("count", c_uint32)]


class _Batch(_Sized):
    _fields_ = [("size", c_uint32), ("requests", c_uint32)]
    _fields_ += [(name, POINTER(c_int32)) for name in ("tokens", "row_begin", "kv_len", "page_begin", "page_index")]


class _LogitBias(ctypes.Structure):
    _fields_ = [("id", c_int32), ("value", c_float)]


class _EngineOptions(_Sized):
    _fields_ = [(name, c_uint32) for name in ("size", "preemption", "prefix_cache", "max_rows_beside_decodes",
                                              "steps_per_launch", "max_waiting", "page_size", "pages")]
    _fields_ += [("stop_ids", POINTER(c_int32)), ("stop_count", c_uint32), ("reserved", c_uint32)]


class _Request(_Sized):
    _fields_ = [("size", c_uint32), ("prompt_count", c_uint32), ("prompt", POINTER(c_int32)),
                ("sampling", POINTER(Sampling)), ("stop_ids", POINTER(c_int32)), ("logit_bias", POINTER(_LogitBias)),
                ("allowed_ids", POINTER(c_int32)), ("name", c_char_p), ("stop_count", c_uint32), ("bias_count", c_uint32),
                ("allowed_count", c_uint32), ("max_new_tokens", c_uint32), ("min_new_tokens", c_uint32),
                ("presence_penalty", c_float), ("frequency_penalty", c_float), ("priority", c_int32),
                ("stream", c_uint32), ("ignore_engine_stops", c_uint32), ("arrive_at_step", c_uint64)]


class _Progress(_Sized):
    _fields_ = [("size", c_uint32), ("logprobs_size", c_uint32), ("request", c_uint64), ("ids", POINTER(c_int32)),
                ("logprobs", POINTER(_Logprobs)), ("count", c_uint32), ("top_count", c_uint32)]


class _Outcome(_Sized):
    _fields_ = [("size", c_uint32), ("logprobs_size", c_uint32), ("request", c_uint64), ("reason", c_uint32),
                ("status", c_uint32), ("error", c_char_p), ("ids", POINTER(c_int32)), ("logprobs", POINTER(_Logprobs)),
                ("count", c_uint32), ("top_count", c_uint32), ("cached_tokens", c_uint32), ("reserved", c_uint32)]


class _Stats(_Sized):
    _fields_ = [(name, c_uint32) for name in ("size", "running", "waiting", "pages", "pages_used", "reserved")]
    _fields_ += [(name, c_uint64) for name in ("clock", "launches", "steps", "rows", "preemptions",
                                               "prefix_queries", "prefix_hits")]


def _ints(values):
    return (c_int32 * len(values))(*map(int, values))


def _batch(requests):
    """Requests (tokens, kv_len, pages) as the library takes them."""
    tokens, lengths, pages = zip(*requests) if requests else ((), (), ())
    begin = lambda lists: _ints([sum(map(len, lists[:i])) for i in range(len(lists) + 1)])
    lists = {"tokens": _ints([t for of in tokens for t in of]), "row_begin": begin(tokens), "kv_len": _ints(lengths),
             "page_begin": begin(pages), "page_index": _ints([p for of in pages for p in of])}
    return _Batch(**{name: ctypes.cast(values, POINTER(c_int32)) for name, values in lists.items()},
                  requests=len(requests))


class Status(enum.IntEnum):
    """The status of a call (mkrt_status)."""
    OK, BAD_ARGUMENT, BAD_HANDLE, BAD_FILE, OUT_OF_ORDER, BUSY, FULL, NO_MEMORY, NO_DEVICE, TIMEOUT, FAULT, BUG = range(12)


def _logprobs_list(logprobs, count, top):
    """Returns a Logprob with the `top` likeliest for each of `count` tokens."""
    return [Logprob(of.sampled, list(zip(of.top_id, of.top))[:top], of.rank) for of in logprobs[:count]]


class Error(Exception):
    """A failed call. The message has what was found and what was expected, and `status` is a Status."""

    def __init__(self, message, status=Status.BAD_ARGUMENT):
        super().__init__(message)
        self.status = Status(status)

    @classmethod
    def last(cls, library):
        """The error of this thread's last failed call."""
        return cls(library.mkrt_error().decode(), library.mkrt_error_status())


def _load(path):
    beside = Path(__file__).resolve().parent / "libmkrt.so"
    path = path or os.environ.get("MKRT_LIBRARY") or (beside if beside.exists() else "libmkrt.so.0")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise Error(f"no libmkrt: {e}", Status.BAD_FILE) from None
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class _Handle:
    """Something that the library owns until it is closed; a with statement closes it."""

    def __init__(self, library, handle):
        if not handle:
            raise Error.last(library)
        self._library, self._handle = library, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self):
        if not self._handle:
            raise Error(f"the {type(self).__name__.lower()} is closed", Status.BAD_HANDLE)
        return self._handle

    def _check(self, failed):
        if failed:
            raise Error.last(self._library)


class Device(_Handle):
    """A GPU by its ordinal; processor() and emulator() open others. One thread at a time may use a device's sessions."""

    def __init__(self, ordinal=0, library=None):
        library = _load(library)
        super().__init__(library, library.mkrt_open_cuda(ordinal))

    @classmethod
    def processor(cls, library=None):
        """Opens the processor of this machine, for shared objects of mkc compile --target x86-64. Each worker is a
        thread."""
        self = cls.__new__(cls)
        library = _load(library)
        _Handle.__init__(self, library, library.mkrt_open_processor())
        return self

    @classmethod
    def emulator(cls, kernel, pack, seed=0, library=None):
        """Opens the emulator, for kernels that were compiled against this library in this process.

        kernel: the kernel's address, or a list of addresses by kind for kernels of grids (None where a kind has
        none).
        pack: the address of the kernel that packs weights.
        """
        self = cls.__new__(cls)
        library = _load(library)
        if isinstance(kernel, int):
            handle = library.mkrt_open_emulator(kernel, pack, seed)
        else:
            handle = library.mkrt_open_emulator_kernels((c_void_p * len(kernel))(*kernel), len(kernel), pack, seed)
        _Handle.__init__(self, library, handle)
        return self

    @property
    def name(self):
        return self._library.mkrt_device_name(self._open()).decode()

    def accept_unsealed(self, accept=True):
        """Lets sessions be opened of artefacts whose seal is broken, or whose schedule was not proved."""
        self._check(self._library.mkrt_accept_unsealed(self._open(), accept))

    def keep_weights(self, folder):
        """Keeps packed weights of sessions opened from now on in files of a folder, for later sessions; None: nowhere."""
        self._check(self._library.mkrt_keep_weights(self._open(), None if folder is None else os.fsencode(folder)))

    def open(self, artefact, checkpoint):
        """Opens a session of an artefact's file. The checkpoint, a Hugging Face folder, is the one that it was
        compiled for."""
        return Session(self._library, self._library.mkrt_open_session(self._open(), os.fsencode(artefact),
                                                                     os.fsencode(checkpoint)))

    def open_from_memory(self, manifest, plan, image, checkpoint):
        """Opens a session as open() does, of an artefact in memory. image: the bytes of the cubin or shared object,
        or None on the emulator."""
        return Session(self._library, self._library.mkrt_open_session_from_memory(
            self._open(), manifest, len(manifest), plan, len(plan), image, len(image or b""), os.fsencode(checkpoint)))

    def close(self):
        if self._handle:
            self._library.mkrt_close_device(self._handle)
        self._handle = None


class Session(_Handle):
    """A model on a device: one sequence of its own, or steps of many requests over a cache of pages."""

    def __init__(self, library, handle):
        super().__init__(library, handle)
        self._under_way = collections.deque()

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
        return self._library.mkrt_position(self._open())

    def rewind(self, position=0):
        """Forgets what was fed at `position` and behind it."""
        self._check(self._library.mkrt_rewind(self._open(), position))

    def step(self, tokens, logits=False):
        """Feeds 1 to max_tokens tokens and returns the greedy successor of the last one. With logits, the result is a
        pair: the successor, and the logits of all rows as a numpy array [tokens, vocab] of float32."""
        ids = (c_int32 * len(tokens))(*map(int, tokens))
        rows = None
        if logits:
            import numpy
            rows = numpy.empty((len(ids), self.vocab), dtype=numpy.float32)
        following = c_int32()
        self._check(self._library.mkrt_step(self._open(), ids, len(ids), rows.ctypes.data if logits else None,
                                            byref(following)))
        return (following.value, rows) if logits else following.value

    def sample(self, tokens, limit=1, stop=(), seen=(), logprobs=None, biases=None, allowed=None, **sampling):
        """Feeds tokens, samples up to `limit` tokens that follow in one launch, and returns them. A token of `stop`
        ends the launch. All samples but the last are fed.

        sampling: fields of Sampling.
        seen: the ids that a repetition penalty applies to.
        logprobs: None, or a number n. The result is then a pair: the tokens, and a Logprob with the n likeliest for
        each.
        biases: {id: (before, after)}, added to logits before and after the penalty. -inf forbids the id.
        allowed: the only ids that may be sampled.
        """
        samples = self._samples(limit, stop, seen, logprobs, sampling, biases, allowed)
        self._check(self._library.mkrt_sample(self._open(), _ints(tokens), len(tokens), byref(samples)))
        ids = samples.ids[:samples.count]
        if logprobs is None:
            return ids
        return ids, _logprobs_list(samples.logprobs, samples.count, min(logprobs, self.vocab))

    def _id_set(self, ids):
        words = (c_uint32 * ((self.vocab + 31) // 32))()
        if hasattr(ids, "dtype"):
            if ids.dtype != "uint32" or ids.shape != (len(words),):
                raise Error(f"found an array of {ids.dtype} {ids.shape}, expected uint32 ({len(words)},)")
            ctypes.memmove(words, ids.tobytes(), ctypes.sizeof(words))
            return words
        for token in map(int, ids):
            if not 0 <= token < self.vocab:
                raise Error(f"found the id {token}, expected 0 to {self.vocab - 1}")
            words[token // 32] |= 1 << token % 32
        return words

    def _samples(self, limit=1, stop=(), seen=(), logprobs=None, sampling={}, biases=None, allowed=None):
        sampling = Sampling(**sampling)
        if logprobs is not None:
            sampling.logprobs = 1 + logprobs
        samples = _Samples(sampling=ctypes.pointer(sampling), limit=limit, stop_count=len(stop))
        if sampling.repetition_penalty != 1:
            samples.seen = self._id_set(seen)
        if allowed is not None:
            samples.allowed = self._id_set(allowed)
        if biases:
            samples.biases = (_Bias * len(biases))(*((token, *of) for token, of in sorted(biases.items())))
            samples.bias_count = len(biases)
        samples.stop_ids, samples.ids = _ints(stop), (c_int32 * max(1, limit))()
        samples.logprobs, samples.logprobs_size = (_Logprobs * max(1, limit))(), ctypes.sizeof(_Logprobs)
        return samples

    @property
    def max_requests(self):
        """The most requests of one step."""
        return self._library.mkrt_max_requests(self._open())

    @property
    def pages(self):
        """The number of pages of the cache, and of the positions of each."""
        return self._library.mkrt_pages(self._open()), self._library.mkrt_page_size(self._open())

    @property
    def caches(self):
        """The number of caches: keys and values of every layer, twice the layers."""
        return self._library.mkrt_caches(self._open())

    def make_cache(self, page_size, pages, form=NHD):
        """Makes another cache that the session owns, and forgets the old one."""
        self._check(self._library.mkrt_make_cache(self._open(), page_size, pages, form))

    def use_cache(self, page_size, pages, strides, base):
        """Takes the caller's cache where it lies.

        strides: (page, position, head) in bytes.
        base: the device address of each cache, layer by layer, keys before values (a torch tensor's data_ptr()).
        """
        self._check(self._library.mkrt_use_cache(self._open(), page_size, pages, *strides,
                                                 (c_uint64 * len(base))(*base), len(base)))

    def use_scales(self, scales):
        """Sets the scales of an e4m3 cache in place of the checkpoint's: a number for each head of each cache."""
        self._check(self._library.mkrt_use_scales(self._open(), (c_float * len(scales))(*scales), len(scales)))

    def step_batch(self, requests, logits=False):
        """Runs one step of requests and returns the greedy successor of each. With logits, the result is a pair: the
        successors, and the logits of all rows.

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
        """Opens an Engine over this session, which feeds it alone until it is closed.

        pages: the pages of a new cache of page_size positions each. 0 keeps the session's cache as it is.
        max_waiting: requests that may wait. 0 sets no bound.
        """
        stops = _ints(stop)
        options = _EngineOptions(preemption=recompute, prefix_cache=prefix_cache, steps_per_launch=steps_per_launch,
                                 max_rows_beside_decodes=max_rows_beside_decodes, max_waiting=max_waiting,
                                 page_size=page_size, pages=pages, stop_ids=stops, stop_count=len(stops))
        return Engine(self._library, self._library.mkrt_open_engine(self._open(), byref(options)))

    def set_stream(self, stream):
        """Sets the stream of all later steps: a CUstream by its number (a torch stream's cuda_stream), or 0 for the
        default one."""
        self._check(self._library.mkrt_set_stream(self._open(), stream))

    def set_timeout(self, milliseconds):
        """Sets the time after which a wait inside the kernel is a fault. 0 sets no limit."""
        self._check(self._library.mkrt_set_timeout(self._open(), milliseconds))

    def begin_step(self, requests, limit=1, stop=(), samples=None, **sampling):
        """Puts a step of requests, as step_batch takes them, on the stream and returns. Two steps may be under way,
        or one that samples more than one token.

        Each request samples up to `limit` tokens by fields of Sampling, or `samples` has a dict of sample()'s
        arguments for each. A token -1 - b stands for what request b of the step before has sampled.
        """
        samples = self._samples_of(requests, limit, stop, sampling, samples)
        self._check(self._library.mkrt_begin_step(self._open(), byref(_batch(requests)), samples))
        self._under_way.append(samples)

    def end_step(self, logprobs=False):
        """Waits for the oldest step that was begun, or was filled in and run, and returns the tokens that each
        request has sampled. With logprobs, the result has a pair for each request: its tokens, and the Logprobs that
        it asked for."""
        samples = self._under_way.popleft() if self._under_way else None
        self._check(self._library.mkrt_end_step(self._open(), None, samples))
        ids = [of.ids[:of.count] for of in samples]
        return list(zip(ids, map(self._logprobs_of, samples))) if logprobs else ids

    def _logprobs_of(self, samples):
        asked = samples.sampling.contents.logprobs
        return _logprobs_list(samples.logprobs, samples.count, min(asked - 1, self.vocab)) if asked else []

    def sample_batch(self, requests, samples):
        """Runs one launch of requests, as step_batch takes them, and returns what end_step returns with logprobs.
        `samples` has a dict of sample()'s arguments for each request."""
        made = self._samples_of(requests, 1, (), {}, samples)
        self._check(self._library.mkrt_sample_batch(self._open(), byref(_batch(requests)), made))
        return [(of.ids[:of.count], self._logprobs_of(of)) for of in made]

    def capture_step(self, limit=1, stops=0):
        """Puts a step into the graph while the stream is being captured. Its requests may sample up to `limit` tokens
        each, with at most `stops` stop ids.

        Each run of the graph is fill_step, the graph, and end_step.
        """
        self._check(self._library.mkrt_capture_step(self._open(), byref(self._samples(limit, [0] * stops))))

    def fill_step(self, requests, limit=1, stop=(), **sampling):
        """Sets the requests and samples of the graph's next run."""
        samples = self._samples_of(requests, limit, stop, sampling, None)
        self._check(self._library.mkrt_fill_step(self._open(), byref(_batch(requests)), samples))
        self._under_way.append(samples)

    @property
    def logits_address(self):
        """On the device, of the last step's: float32 [rows, vocab], until the next begins on the stream."""
        return self._library.mkrt_logits(self._open())

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
        A token of `stop` ends it and is not yielded. The kernel goes on by itself for up to steps_per_launch of them.

        logit_bias: {id: value added to its logit}.
        presence_penalty, frequency_penalty: taken off the logit of each new token, once and for each time.
        min_tokens: tokens before which none is of `stop`.
        allowed: the only ids that may be sampled.
        """
        tokens, chunk = list(tokens), chunk or self.max_tokens
        if not tokens:
            raise Error("no tokens to go on from")
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
            sampled = self.sample(feed, limit, tuple(stop), seen, position=first + made, biases=biases, allowed=allowed,
                                  **sampling)
            for token in sampled:
                if token in stop:
                    return
                yield token
            made, feed = made + len(sampled), sampled[-1:]
            seen.update(sampled)
            times.update(sampled)

    def close(self):
        if self._handle:
            self._library.mkrt_close_session(self._handle)
        self._handle = None


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
    the tokens that it would get alone. Session.engine() opens one."""

    def submit(self, prompt, max_new_tokens=16, stop=(), logprobs=None, logit_bias=None, allowed=None, min_tokens=0,
               presence_penalty=0, frequency_penalty=0, priority=0, stream=False, ignore_engine_stops=False,
               arrive_at_step=0, name=None, **sampling):
        """Hands in a request and returns its id: 0, 1, … A request that can never run has an outcome with its error
        at once.

        logprobs, logit_bias, allowed, min_tokens, penalties, sampling: those of Session.generate and Session.sample.
        priority: a smaller number runs earlier.
        stream: progress() has its tokens as they come.

        An Error with Status.FULL means that the request can be submitted again later.
        """
        sampling, prompt, stops = Sampling(**sampling), _ints(prompt), _ints(stop)
        if logprobs is not None:
            sampling.logprobs = 1 + logprobs
        biases, only = list((logit_bias or {}).items()), _ints(allowed or ())
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
        self._check(self._library.mkrt_cancel(self._open(), id))

    def advance(self):
        """Runs one launch for the requests that have arrived. An error ends all requests and every later one."""
        self._check(self._library.mkrt_advance(self._open()))

    def progress(self):
        """The new tokens of streamed requests since the last call: a list of Progress."""
        return list(iter(self._take_progress, None))

    def outcomes(self):
        """The requests that have finished since the last call: a list of Outcome."""
        return list(iter(self._take_outcome, None))

    def run(self):
        """Advances until no request is left, and yields their outcomes as they finish."""
        while True:
            yield from self.outcomes()
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
        if self._handle:
            self._library.mkrt_close_engine(self._handle)
        self._handle = None

    def _take_progress(self):
        taken = _Progress(logprobs_size=ctypes.sizeof(_Logprobs))
        self._check(self._library.mkrt_take_progress(self._open(), byref(taken)))
        if taken.count:
            return Progress(taken.request, taken.ids[:taken.count], self._logprobs(taken))

    def _take_outcome(self):
        taken = _Outcome(logprobs_size=ctypes.sizeof(_Logprobs))
        self._check(self._library.mkrt_take_outcome(self._open(), byref(taken)))
        if taken.reason:
            error = Error(taken.error.decode(), taken.status) if taken.reason == Reason.ERROR else None
            return Outcome(taken.request, taken.ids[:taken.count], self._logprobs(taken), Reason(taken.reason), error,
                           taken.cached_tokens)

    def _logprobs(self, taken):
        return _logprobs_list(taken.logprobs, taken.count, taken.top_count) if taken.logprobs else None


def version(library=None):
    return _load(library).mkrt_version().decode()
