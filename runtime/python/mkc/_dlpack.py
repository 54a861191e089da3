"""Memory of a device as a DLPack tensor, by the header dlpack.h of version 0.8."""
from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p
from typing import Any

CPU, CUDA, PINNED = 1, 2, 3  # kinds of devices that the package meets
_FLOAT = 2
_NAME = b"dltensor"  # of a capsule that nobody has taken


class _Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
                ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
                ("byte_offset", c_uint64)]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", _Deleter)]
_handed_out: dict[int, Any] = {}  # what a tensor needs, by the address of its struct, until its consumer frees it

_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, [c_void_p, c_char_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = c_void_p, [c_void_p, c_char_p]


def _free_tensor(managed: Any) -> None:
    _handed_out.pop(ctypes.addressof(managed.contents), None)


def _free_capsule(capsule: int) -> None:
    if _is_valid(capsule, _NAME):  # a consumer renames the capsule and frees the tensor itself
        _handed_out.pop(_pointer(capsule, _NAME), None)


_delete = _Deleter(_free_tensor)
_drop = ctypes.PYFUNCTYPE(None, c_void_p)(_free_capsule)


class DeviceArray:
    """float32 [rows, columns] in a device's memory, which torch.from_dlpack() and numpy.from_dlpack() take without a copy.

    The memory is that of a session's logits: a later step overwrites it, and it must not be used after the session is closed.
    """

    def __init__(self, address: int, shape: tuple[int, int], device: tuple[int, int], owner: object):
        self.address, self.shape, self._device, self._owner = address, shape, device, owner

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: tuple[int, int] | None = None,
                   copy: bool | None = None) -> Any:
        """Returns a capsule. Steps on a CUDA stream are ordered only with later work of that stream.

        copy: True gives memory of its own, on processor and emulator. Errors: BufferError, another device; a copy of a GPU's memory.
        """
        if dl_device is not None and tuple(map(int, dl_device)) != self._device:
            raise BufferError(f"logits: error: are on the DLPack device {self._device}, found dl_device={dl_device!r}, expected the same")
        address, owner = self.address, self._owner
        if copy:
            if self._device[0] != CPU:
                raise BufferError(f"logits: error: are on the DLPack device {self._device}, found copy=True, expected one of the host")
            owner = (c_float * (self.shape[0] * self.shape[1]))()
            ctypes.memmove(owner, address, ctypes.sizeof(owner))
            address = ctypes.addressof(owner)
        managed = _Managed()
        shape = (c_int64 * 2)(*self.shape)
        managed.tensor = _Tensor(address, *self._device, 2, _FLOAT, 32, 1, shape, None, 0)
        managed.deleter = _delete
        _handed_out[ctypes.addressof(managed)] = managed, shape, owner
        return _new(ctypes.addressof(managed), _NAME, ctypes.cast(_drop, c_void_p))
