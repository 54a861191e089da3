"""The library: its functions, structs and errors, as runtime/c_api/mkrt.h has them."""
import collections
import contextlib
import ctypes
import enum
import operator
import os
import threading
import weakref
from ctypes import POINTER, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
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
    "mkrt_finite": (c_int, c_void_p, POINTER(c_uint32), c_uint32),
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


_RANGES = {c_int32: (-1 << 31, (1 << 31) - 1), c_uint32: (0, (1 << 32) - 1), c_uint64: (0, (1 << 64) - 1)}


def _fits(name, value, kind=c_uint32):
    """Returns the value of an integer argument. ctypes would cut one that is out of range."""
    low, high = _RANGES[kind]
    if not low <= value <= high:
        raise Error(f"{name}: error: found {value}, expected {low} to {high}", Status.BAD_ARGUMENT)
    return value


class _Sized(ctypes.Structure):
    """A struct that begins with its size, by which the library knows its version."""

    def __init__(self, **fields):
        kinds = dict(self._fields_[1:])
        for name, value in fields.items():
            if name not in kinds:
                raise Error(f"found the field {name!r}, expected one of {', '.join(kinds)}", Status.BAD_ARGUMENT)
            if kinds[name] in _RANGES and hasattr(value, "__index__"):
                _fits(name, value, kinds[name])
        super().__init__(size=ctypes.sizeof(self), **fields)


class Sampling(_Sized):
    """How tokens are sampled (docs/sampling.md); greedily, unless a field is given."""
    _fields_ = [("size", c_uint32), ("repetition_penalty", c_float), ("temperature", c_float), ("top_k", c_uint32),
                ("top_p", c_float), ("min_p", c_float), ("seed", c_uint64), ("logprobs", c_uint32), ("position", c_uint32)]

    def __init__(self, **fields):
        super().__init__(**{"repetition_penalty": 1, "top_p": 1, **fields})


def _sampling_of(fields, logprobs):
    """Returns a Sampling with the given number of likeliest tokens, or None, beside other fields."""
    if logprobs is None:
        return Sampling(**fields)
    if not 0 <= logprobs <= _TOP:
        raise Error(f"logprobs: error: found {logprobs}, expected 0 to {_TOP}", Status.BAD_ARGUMENT)
    return Sampling(**fields, logprobs=1 + logprobs)


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
                ("stop_count", c_uint32), ("bias_count", c_uint32), ("count", c_uint32), ("finite", c_uint32), ("reserved", c_uint32)]


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


def _indices(name, values):
    """Returns a list of integers, none of which is cut from another number. Errors: DtypeError, an entry that is no integer."""
    has_entries = hasattr(values, "__iter__") or hasattr(values, "__getitem__")
    if not has_entries or isinstance(values, (str, bytes)):
        raise DtypeError(f"{name}: error: found {type(values).__name__}, expected a list of integers or an int32 array")
    try:
        values = list(values)
    except TypeError:  # an array without dimensions
        raise DtypeError(f"{name}: error: found {values!r}, expected a list of integers or an int32 array") from None
    for at, value in enumerate(values) if not set(map(type, values)) <= {int} else ():
        if isinstance(value, bool) or not hasattr(value, "__index__") or getattr(value, "ndim", 0) > 0:
            raise DtypeError(f"{name}: error: entry {at} is {value!r}, expected an integer")
    return list(map(operator.index, values))


def _ints(name, values):
    """Returns integers as a ctypes array of int32. Errors: DtypeError, an entry that is no integer of 32 bits."""
    numbers = _indices(name, values)
    low, high = _RANGES[c_int32]
    if numbers and not low <= min(numbers) <= max(numbers) <= high:
        [at, *_] = (at for at, number in enumerate(numbers) if not low <= number <= high)
        raise DtypeError(f"{name}: error: entry {at} is {numbers[at]!r}, expected an integer of 32 bits")
    return (c_int32 * len(numbers))(*numbers)


def _batch(requests):
    """Requests (tokens, kv_len, pages) as the library takes them."""
    tokens, lengths, pages = zip(*requests) if requests else ((), (), ())
    lists = {"tokens": [t for of in tokens for t in of], "row_begin": _begins(tokens), "kv_len": lengths,
             "page_begin": _begins(pages), "page_index": [p for of in pages for p in of]}
    lists = {name: _ints(name, values) for name, values in lists.items()}
    return _Batch(**{name: ctypes.cast(values, POINTER(c_int32)) for name, values in lists.items()},
                  requests=len(requests))


def _begins(lists):
    return [sum(map(len, lists[:i])) for i in range(len(lists) + 1)]


class Status(enum.IntEnum):
    """The status of a call (mkrt_status)."""
    OK, BAD_ARGUMENT, BAD_HANDLE, BAD_FILE, OUT_OF_ORDER, BUSY, FULL, NO_MEMORY, NO_DEVICE, TIMEOUT, FAULT, BUG, NOT_FINITE = range(13)

    @classmethod
    def _missing_(cls, value):
        """Returns a member for a status of a later version of the library."""
        if not isinstance(value, int):
            return None
        status = int.__new__(cls, value)
        status._name_, status._value_ = f"UNKNOWN_{value}", value
        return status


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


class DtypeError(Error, TypeError):
    """An array or a list has elements of another type."""


class NotFiniteError(Error):
    """A token was sampled from logits without a finite greatest one. `tokens` has the ones before it that its call sampled, or its
    request of an engine. `logprobs` has their log-probabilities, where they were asked for."""

    def __init__(self, message="step: error: found no finite greatest logit for a new token, expected one: "
                               "a weight is not finite, or a number is beyond its type", *, tokens=(), logprobs=()):
        super().__init__(message, Status.NOT_FINITE)
        self.tokens, self.logprobs = list(tokens), list(logprobs)


def installed_folders():
    """Returns the folders of libraries and programs where CMake installed the package, and none elsewhere."""
    try:
        from . import _installed
    except ImportError:
        return []
    folder = Path(__file__).resolve().parent
    return [(folder / at).resolve() for at in (_installed.LIBRARIES, _installed.PROGRAMS)]


def _load(path):
    folder = Path(__file__).resolve().parent
    found = [at for at in (folder / "libmkrt.so", folder.parent / "libmkrt.so",
                           *(at / "libmkrt.so.0" for at in installed_folders())) if at.exists()]
    path = path or os.environ.get("MKRT_LIBRARY") or (found or ["libmkrt.so.0"])[0]
    try:
        library = ctypes.CDLL(str(path))
    except OSError as e:
        raise Error(f"no libmkrt: {e}", Status.BAD_FILE) from None
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


_handles = weakref.WeakSet()  # all _Handles


def _give_locks():
    """Gives each handle a new lock in a forked process, which lacks the thread that may hold the old one."""
    for handle in _handles:
        handle._calls = threading.RLock()


os.register_at_fork(after_in_child=_give_locks)


class _Handle:
    """Something that the library owns until it is closed; a with statement closes it."""

    def __init__(self, library, handle):
        if not handle:
            raise Error.last(library)
        self._library, self._handle, self._calls = library, handle, threading.RLock()
        _handles.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _open(self):
        if not self._handle:
            raise Error(f"the {type(self).__name__.lower()} is closed", Status.BAD_HANDLE)
        return self._handle

    @contextlib.contextmanager
    def _alone(self, wait=False):
        """Keeps other threads away from a call and what Python does with its result. Errors: Status.BUSY, unless it waits."""
        calls = self._calls
        if not calls.acquire(blocking=wait):
            raise Error(f"mkrt: error: {type(self).__name__.lower()}: another thread is in a call for its device", Status.BUSY)
        try:
            yield
        finally:
            calls.release()

    def _check(self, failed):
        if failed:
            raise Error.last(self._library)
