# Types of _engine.
import ctypes
import enum
from typing import Any, Iterator, Mapping, NamedTuple, Sequence

from ._library import Error, Logprob, _Handle

class Reason(enum.IntEnum):
    UNFINISHED = 0
    STOP = 1
    LENGTH = 2
    ERROR = 3
    CANCELLED = 4

class Progress(NamedTuple):
    id: int
    tokens: list[int]
    logprobs: list[Logprob] | None

class Outcome(NamedTuple):
    id: int
    tokens: list[int]
    logprobs: list[Logprob] | None
    reason: Reason
    error: Error | None
    cached_tokens: int

class Stats(NamedTuple):
    running: int
    waiting: int
    pages: int
    pages_used: int
    clock: int
    launches: int
    steps: int
    rows: int
    preemptions: int
    prefix_queries: int
    prefix_hits: int

class Engine(_Handle):
    def __init__(self, library: ctypes.CDLL, handle: Any, kept: Any = None) -> None: ...
    def __enter__(self) -> Engine: ...
    def close(self) -> None: ...
    def submit(self, prompt: Sequence[int], max_new_tokens: int = 16, stop: Sequence[int] | set[int] = (), logprobs: int | None = None,
               logit_bias: Mapping[int, float] | None = None, allowed: Sequence[int] | set[int] | None = None, min_tokens: int = 0,
               presence_penalty: float = 0, frequency_penalty: float = 0, priority: int = 0, stream: bool = False,
               ignore_engine_stops: bool = False, arrive_at_step: int = 0, name: str | None = None, **sampling: Any) -> int: ...
    def cancel(self, id: int) -> None: ...
    def advance(self) -> None: ...
    def progress(self) -> list[Progress]: ...
    def outcomes(self) -> list[Outcome]: ...
    def run(self) -> Iterator[Outcome]: ...
    @property
    def idle(self) -> bool: ...
    def stats(self) -> Stats: ...
