"""libmkrt from Python: load a cubin that mkc made, bind a checkpoint, run steps. runtime/mkrt.h says what each call does.

    with mkrt.Device(0) as device, device.open("model.cubin", "checkpoint") as session:
        for token in session.generate([0, 359, 336], 16):
            print(token)

Needs libmkrt.so beside this file, where the loader looks, or at MKRT_LIBRARY; numpy for logits. Failures are mkrt.Error.
"""
import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

_SIGNATURES = {
    "mkrt_version": (c_char_p,),
    "mkrt_error": (c_char_p,),
    "mkrt_open_cuda": (c_void_p, c_int),
    "mkrt_open_emulator": (c_void_p, c_void_p, c_uint64),
    "mkrt_device_name": (c_char_p, c_void_p),
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
    "mkrt_max_requests": (c_uint32, c_void_p),
    "mkrt_page_size": (c_uint32, c_void_p),
    "mkrt_pages": (c_uint32, c_void_p),
    "mkrt_caches": (c_uint32, c_void_p),
    "mkrt_make_cache": (c_int, c_void_p, c_uint32, c_uint32, c_int),
    "mkrt_use_cache": (c_int, c_void_p, c_uint32, c_uint32, c_uint64, c_uint64, c_uint64, POINTER(c_uint64), c_uint32),
    "mkrt_use_scales": (c_int, c_void_p, POINTER(c_float), c_uint32),
    "mkrt_step_batch": (c_int, c_void_p, c_void_p, c_void_p, POINTER(c_int32)),
}
NHD, HND, PACKED = range(3)  # forms of a page of the cache


class _Batch(ctypes.Structure):
    _fields_ = [(name, POINTER(c_int32)) for name in ("tokens", "row_begin", "kv_len", "page_begin", "page_index")]
    _fields_ += [("requests", c_uint32)]


def _ints(values):
    return (c_int32 * len(values))(*map(int, values))


class Error(Exception):
    """What was found and what was expected, in the library's words."""


def _load(path):
    beside = Path(__file__).resolve().parent / "libmkrt.so"
    path = path or os.environ.get("MKRT_LIBRARY") or (beside if beside.exists() else "libmkrt.so.0")
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise Error(f"no libmkrt: {e}") from None
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class _Handle:
    """Something that the library owns until it is closed; a with statement closes it."""

    def __init__(self, library, handle):
        if not handle:
            raise Error(library.mkrt_error().decode())
        self._library, self._handle = library, handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self):
        if not self._handle:
            raise Error(f"the {type(self).__name__.lower()} is closed")
        return self._handle


class Device(_Handle):
    """A GPU by its ordinal. Its sessions must be used by one thread at a time and closed before it."""

    def __init__(self, ordinal=0, library=None):
        library = _load(library)
        super().__init__(library, library.mkrt_open_cuda(ordinal))

    @classmethod
    def emulator(cls, kernel, seed=0, library=None):
        """The emulator, for a kernel compiled against this library in this process, by its address."""
        self = cls.__new__(cls)
        library = _load(library)
        _Handle.__init__(self, library, library.mkrt_open_emulator(kernel, seed))
        return self

    @property
    def name(self):
        return self._library.mkrt_device_name(self._open()).decode()

    def open(self, cubin, checkpoint):
        """A session of a cubin with the weights of the checkpoint that it was compiled for, a Hugging Face folder."""
        return Session(self._library, self._library.mkrt_open_session(self._open(), os.fsencode(cubin),
                                                                     os.fsencode(checkpoint)))

    def open_from_memory(self, manifest, plan, image, checkpoint):
        """The same from bytes; image: a cubin's, or None on the emulator."""
        return Session(self._library, self._library.mkrt_open_session_from_memory(
            self._open(), manifest, len(manifest), plan, len(plan), image, len(image or b""), os.fsencode(checkpoint)))

    def close(self):
        if self._handle:
            self._library.mkrt_close_device(self._handle)
        self._handle = None


class Session(_Handle):
    """A model on a device: one sequence of its own, or steps of many requests over a cache of pages."""

    @property
    def vocab(self):
        return self._library.mkrt_vocab(self._open())

    @property
    def max_tokens(self):
        """Of one step."""
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
        if self._library.mkrt_rewind(self._open(), position) != 0:
            raise Error(self._library.mkrt_error().decode())

    def step(self, tokens, logits=False):
        """Feeds 1 to max_tokens tokens; the greedy successor of the last. With logits: that and all rows, a numpy array
        [tokens, vocab] of float32."""
        ids = (c_int32 * len(tokens))(*map(int, tokens))
        rows = None
        if logits:
            import numpy
            rows = numpy.empty((len(ids), self.vocab), dtype=numpy.float32)
        following = c_int32()
        if self._library.mkrt_step(self._open(), ids, len(ids), rows.ctypes.data if logits else None,
                                   byref(following)) != 0:
            raise Error(self._library.mkrt_error().decode())
        return (following.value, rows) if logits else following.value

    @property
    def max_requests(self):
        """Of one step."""
        return self._library.mkrt_max_requests(self._open())

    @property
    def pages(self):
        """Of the cache, and the positions of each."""
        return self._library.mkrt_pages(self._open()), self._library.mkrt_page_size(self._open())

    @property
    def caches(self):
        """Keys and values of every layer: twice the layers."""
        return self._library.mkrt_caches(self._open())

    def make_cache(self, page_size, pages, form=NHD):
        """Another cache of its own; what was in the old one is forgotten."""
        self._check(self._library.mkrt_make_cache(self._open(), page_size, pages, form))

    def use_cache(self, page_size, pages, strides, base):
        """The caller's cache where it lies: strides (page, position, head) in bytes, base: the device address of each
        cache, layer by layer, keys before values (a torch tensor's data_ptr())."""
        self._check(self._library.mkrt_use_cache(self._open(), page_size, pages, *strides,
                                                 (c_uint64 * len(base))(*base), len(base)))

    def use_scales(self, scales):
        """Of an e4m3 cache: a number for each head of each cache, in place of the checkpoint's."""
        self._check(self._library.mkrt_use_scales(self._open(), (c_float * len(scales))(*scales), len(scales)))

    def step_batch(self, requests, logits=False):
        """One step of requests (tokens, kv_len, pages): the next tokens of each, the positions in its cache with them, and
        its pages in the order of its positions. The greedy successor of each; with logits: that and the rows of all."""
        tokens, lengths, pages = zip(*requests) if requests else ((), (), ())
        begin = lambda lists: _ints([sum(map(len, lists[:i])) for i in range(len(lists) + 1)])
        lists = {"tokens": _ints([t for of in tokens for t in of]), "row_begin": begin(tokens), "kv_len": _ints(lengths),
                 "page_begin": begin(pages), "page_index": _ints([p for of in pages for p in of])}
        batch = _Batch(**{name: ctypes.cast(values, POINTER(c_int32)) for name, values in lists.items()},
                       requests=len(requests))
        rows, following = None, (c_int32 * max(1, len(requests)))()
        if logits:
            import numpy
            rows = numpy.empty((len(lists["tokens"]), self.vocab), dtype=numpy.float32)
        self._check(self._library.mkrt_step_batch(self._open(), byref(batch), rows.ctypes.data if logits else None,
                                                  following))
        following = list(following)[:len(requests)]
        return (following, rows) if logits else following

    def _check(self, failed):
        if failed:
            raise Error(self._library.mkrt_error().decode())

    def generate(self, tokens, count, stop=(), chunk=None):
        """Feeds tokens, `chunk` a step, and yields up to `count` greedy ones; ends before one of `stop`."""
        tokens, chunk = list(tokens), chunk or self.max_tokens
        if not tokens:
            raise Error("no tokens to go on from")
        for begin in range(0, len(tokens), chunk):
            token = self.step(tokens[begin:begin + chunk])
        for left in range(count, 0, -1):
            if token in stop:
                return
            yield token
            if left > 1:
                token = self.step([token])

    def close(self):
        if self._handle:
            self._library.mkrt_close_session(self._handle)
        self._handle = None


def version(library=None):
    return _load(library).mkrt_version().decode()
