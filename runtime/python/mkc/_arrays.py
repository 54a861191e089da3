"""Arrays of callers: NumPy arrays and what has __dlpack__, such as torch tensors, without a copy."""
from __future__ import annotations

import ctypes
from typing import Any, Sequence, Union

from . import _dlpack
from .errors import DeviceError, DtypeError, LayoutError, ShapeError
from .mkrt._library import _ints

Ids = Union[Sequence[int], Any]  # a list of ints, or an int32 array


def _on_host(name: str, array: Any) -> Any:
    """Returns a NumPy array of the same memory. Errors: memory of another device; elements that NumPy does not have."""
    import numpy
    if isinstance(array, numpy.ndarray):
        return array
    try:
        kind, number = array.__dlpack_device__()
    except ValueError as e:  # a device that DLPack has no number for
        raise DeviceError(f"{name}: error: found an array that DLPack does not know: {e}") from None
    if kind not in (_dlpack.CPU, _dlpack.PINNED):
        raise DeviceError(f"{name}: error: found an array on {'cuda' if kind == _dlpack.CUDA else f'device type {kind}'}:{number}, "
                          "expected one in the host's memory")
    try:
        return numpy.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError) as e:
        raise DtypeError(f"{name}: error: found {getattr(array, 'dtype', type(array).__name__)} which NumPy cannot see: {e}") from None


def _check(name: str, array: Any, dtype: str, shape: tuple[int | None, ...]) -> Any:
    array = _on_host(name, array)
    if array.dtype.name != dtype:
        raise DtypeError(f"{name}: error: found {array.dtype.name}, expected {dtype}")
    if not array.dtype.isnative:
        raise DtypeError(f"{name}: error: found {dtype} with the byte order of {array.dtype.str}, expected that of this machine")
    if len(array.shape) != len(shape) or any(want not in (None, have) for want, have in zip(shape, array.shape)):
        wanted = ", ".join("any" if n is None else str(n) for n in shape)
        raise ShapeError(f"{name}: error: found the shape [{', '.join(map(str, array.shape))}], expected [{wanted}]")
    if not array.flags.c_contiguous:
        raise LayoutError(f"{name}: error: found strides {array.strides} bytes, expected a contiguous array")
    return array


def is_array(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and hasattr(value, "shape")


def ids_of(name: str, ids: Ids) -> Any:
    """Returns ids as a ctypes array of int32: that of an array's memory, without a copy, or a new one with integers.

    >>> list(ids_of("ids", [1, 2]))
    [1, 2]
    >>> ids_of("ids", 1.5)
    Traceback (most recent call last):
    mkc.errors.DtypeError: ids: error: found float, expected a list of integers or an int32 array
    """
    if is_array(ids):
        array = _check(name, ids, "int32", (None,))
        pointer = array.ctypes.data_as(ctypes.POINTER(ctypes.c_int32 * len(array)))  # holds the array
        return pointer.contents
    return _ints(name, ids)


def logits_in(name: str, out: Any, rows: int, vocab: int) -> Any:
    """Returns a float32 array that logits may be written to."""
    array = _check(name, out, "float32", (rows, vocab))
    if not array.flags.writeable:
        raise LayoutError(f"{name}: error: found a read-only array, expected one that can be written")
    return array
