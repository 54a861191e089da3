"""Sessions with arrays: mkrt.Session, with checks of what is passed and with logits by DLPack."""
from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any, Literal, overload

from . import _arrays, _dlpack, mkrt
from .errors import ArtefactError, CheckpointError, ClosedError, DeviceError, Error


class Session(mkrt.Session):
    """A compiled model with its weights on a device. The methods of mkrt.Session are here, too."""

    def __init__(self, library: Any, handle: Any, device: mkrt.Device, kernel: Any = None):
        super().__init__(library, handle, device, kernel)
        self.device = device
        self._rows = 0  # of the last step's logits on the device

    def _open(self) -> Any:
        if not self._handle:
            raise ClosedError("the session is closed, expected an open one", mkrt.Status.BAD_HANDLE)
        return self._handle

    @overload
    def step(self, tokens: _arrays.Ids, logits: Literal[False] = False) -> int: ...
    @overload
    def step(self, tokens: _arrays.Ids, logits: Literal[True]) -> tuple[int, Any]: ...
    @overload
    def step(self, tokens: _arrays.Ids, logits: bool = False) -> Any: ...
    @overload
    def step(self, tokens: _arrays.Ids, logits: bool = False, *, out: Any) -> tuple[int, Any]: ...

    def step(self, tokens: _arrays.Ids, logits: bool = False, *, out: Any = None) -> Any:
        """Feeds 1 to max_tokens tokens and returns the greedy successor of the last one.

        tokens: integers, or a contiguous int32 array in the host's memory, which is read without a copy.
        logits: also returns a NumPy array [tokens, vocab] of float32.
        out: a contiguous float32 array [tokens, vocab] in the host's memory that receives the logits; it is returned, too.
        Errors: DtypeError, ShapeError, LayoutError, DeviceError of an array; ClosedError; Error of the library; NotFiniteError
        after the tokens were fed, unless logits are asked for. `finite` tells then.
        """
        ids = _arrays.ids_of("tokens", tokens)
        if out is not None:
            rows = _arrays.logits_in("out", out, len(ids), self.vocab)
        elif logits:
            import numpy
            rows = out = numpy.empty((len(ids), self.vocab), dtype=numpy.float32)
        else:
            return self._greedy(ids)
        following = self._greedy_with_logits(ids, rows.ctypes.data)
        self._rows = len(ids)
        return following, out

    def _has_ended(self, requests: int) -> None:
        super()._has_ended(requests)
        self._rows = requests  # where logits were not asked for

    def step_batch(self, requests: Any, logits: bool = False) -> Any:
        result = super().step_batch(requests, logits)
        if logits:
            self._rows = sum(len(tokens) for tokens, _, _ in requests)
        return result

    def fill_step(self, requests: Any, *arguments: Any, **more: Any) -> None:
        super().fill_step(requests, *arguments, **more)
        self._rows = len(requests)

    def engine(self, *arguments: Any, **more: Any) -> mkrt.Engine:
        engine = super().engine(*arguments, **more)
        self._rows = 0  # of the engine's steps, which nobody counts
        return engine

    def begin_step(self, requests: Any, *arguments: Any, **more: Any) -> None:
        super().begin_step(requests, *arguments, **more)
        self._rows = len(requests)

    @property
    def logits(self) -> _dlpack.DeviceArray:
        """The last step's logits where they lie on the device, float32 [rows, vocab].

        The rows are those of all tokens after a step that was asked for logits, and else each request's last one.
        torch.from_dlpack() and, on processor and emulator, numpy.from_dlpack() take them without a copy. The next step
        overwrites them. Errors: no step was run since the session was opened, or since an engine was.
        """
        address = self.logits_address
        if not self._rows or not address:
            raise Error("logits: error: found no step, expected one before", mkrt.Status.OUT_OF_ORDER)
        kind = _dlpack.CPU if self.device.name in ("cpu", "emulator") else _dlpack.CUDA
        return _dlpack.DeviceArray(address, (self._rows, self.vocab), (kind, 0), self)


def open_session(device: mkrt.Device, artefact: Path, checkpoint: str) -> Session:
    """Opens a session of an artefact's file. Errors: ArtefactError, CheckpointError, DeviceError."""
    try:
        return Session(device._library, device._library.mkrt_open_session(device._open(), os.fsencode(artefact),
                                                                          os.fsencode(checkpoint)), device)
    except Error as e:
        raise named(e, device.name, checkpoint) from None


def named(error: Error, device: str, checkpoint: str) -> Error:
    """Returns the exception whose type says which part is at fault: the device, the checkpoint, or else the artefact."""
    text, status = str(error), error.status
    if status == mkrt.Status.NO_DEVICE or text.startswith(f"{device}: error: "):
        return DeviceError(text, status)
    if text.startswith(checkpoint.rstrip("/")) or "config.json" in text or "tensor" in text:
        return CheckpointError(text, status)
    return ArtefactError(text, status) if status == mkrt.Status.BAD_FILE else error
