"""The loop behind Model.generate() and Model.stream(): libmkrt's engine, which batches continuously."""
from __future__ import annotations

from typing import Any, Iterator, Sequence

from . import mkrt
from ._session import Session
from .errors import Error, LimitError

_PAGE = 16  # positions
# Arguments of mkrt.Engine.submit() that callers may give.
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "logit_bias", "allowed", "min_tokens",
            "presence_penalty", "frequency_penalty")


def check_sampling(names: Sequence[str]) -> None:
    """Refuses unknown arguments.

    >>> check_sampling(["temprature"])
    Traceback (most recent call last):
    mkc.errors.LimitError: generate: error: found the argument 'temprature', expected one of temperature, top_k, top_p, min_p, \
repetition_penalty, seed, logit_bias, allowed, min_tokens, presence_penalty, frequency_penalty
    """
    for name in names:
        if name not in SAMPLING:
            raise LimitError(f"generate: error: found the argument {name!r}, expected one of {', '.join(SAMPLING)}")


def open_engine(session: Session, positions: Sequence[int], steps_per_launch: int, stop: set[int]) -> mkrt.Engine:
    """Opens an engine whose pages hold the requests that can run at once, by the positions that each needs."""
    needed = sorted((-(-count // _PAGE) for count in positions), reverse=True)[:session.max_requests]
    pages, size = session.pages
    fits = size == _PAGE and pages >= sum(needed)
    return session.engine(prefix_cache=True, steps_per_launch=steps_per_launch, pages=0 if fits else sum(needed), stop=sorted(stop))


def tokens(session: Session, prompts: Sequence[list[int]], limit: int, stop: set[int], steps_per_launch: int,
           sampling: dict[str, Any]) -> Iterator[tuple[int, list[int], bool]]:
    """Yields (index of the prompt, new ids, whether an end token followed), as launches end.

    Errors: NotFiniteError, where a prompt's next token has no finite greatest logit, with the prompt's tokens before it; Error, also
    where the session has a sequence of its own, whose cache the engine would overwrite.
    """
    if session.position > 0:
        raise Error(f"generate: error: the session has a sequence of {session.position} positions, expected none: session.rewind() ends it",
                    mkrt.Status.OUT_OF_ORDER)
    limits = [min(limit, session.context - len(ids) + 1) for ids in prompts]
    with open_engine(session, [len(ids) + n - 1 for ids, n in zip(prompts, limits)], steps_per_launch, stop) as engine:
        indices = {engine.submit(ids, n, stream=True, **sampling): at for at, (ids, n) in enumerate(zip(prompts, limits))}
        while True:
            for progress in engine.progress():
                new = [id for id in progress.tokens if id not in stop]
                yield indices[progress.id], new, len(new) < len(progress.tokens)
            for outcome in engine.outcomes():
                if outcome.error is not None:
                    raise outcome.error
            if engine.idle:
                return
            engine.advance()
