# Types of _library.
import ctypes
import enum
from pathlib import Path
from typing import Any, NamedTuple, Sequence

NHD: int
HND: int
PACKED: int

def installed_folders() -> list[Path]: ...

class _Sized(ctypes.Structure):
    def __init__(self, **fields: Any) -> None: ...

class Sampling(_Sized):
    def __init__(self, **fields: Any) -> None: ...

class Logprob(NamedTuple):
    sampled: float
    top: list[tuple[int, float]]
    rank: int

class Status(enum.IntEnum):
    OK = 0
    BAD_ARGUMENT = 1
    BAD_HANDLE = 2
    BAD_FILE = 3
    OUT_OF_ORDER = 4
    BUSY = 5
    FULL = 6
    NO_MEMORY = 7
    NO_DEVICE = 8
    TIMEOUT = 9
    FAULT = 10
    BUG = 11
    NOT_FINITE = 12

class Error(Exception):
    status: Status
    def __init__(self, message: str, status: int = ...) -> None: ...
    @classmethod
    def last(cls, library: ctypes.CDLL) -> Error: ...

class DtypeError(Error, TypeError): ...

class NotFiniteError(Error):
    tokens: list[int]
    logprobs: list[Logprob]
    def __init__(self, message: str = ..., *, tokens: Sequence[int] = (), logprobs: Sequence[Logprob] = ()) -> None: ...

def _ints(name: str, values: Any) -> Any: ...

class _Handle:
    _library: ctypes.CDLL
    _handle: Any
    def __init__(self, library: ctypes.CDLL, handle: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *_: Any) -> None: ...
    def _open(self) -> Any: ...
    def _check(self, failed: int) -> None: ...
