"""Requests that take their steps together, each with pages of its own in a session's cache."""
from __future__ import annotations

from typing import Any, Iterator, Mapping, Sequence

from ._session import Session
from .errors import LimitError, NotFiniteError

_PAGE = 16  # positions


class Requests:
    """Some requests of a session. Their pages hold `lengths` positions. Errors: LimitError, a length beyond the context."""

    def __init__(self, session: Session, lengths: Sequence[int]):
        for request, length in enumerate(lengths):
            if length > session.context:
                raise LimitError(f"request {request}: error: needs {length} positions, the model was compiled for {session.context}")
        counts = [-(-length // _PAGE) for length in lengths]
        if session.pages[0] < sum(counts) or session.pages[1] != _PAGE:
            session.make_cache(_PAGE, max(1, sum(counts)))
        self._session = session
        self._pages = [list(range(sum(counts[:i]), sum(counts[:i + 1]))) for i in range(len(counts))]
        self.positions = [0] * len(counts)

    def feed(self, tokens: Mapping[int, Sequence[int]], logits: bool = False) -> dict[int, Any]:
        """Feeds tokens by request. Returns by request its greedy successor, or with logits its last row, float32 [vocab].

        Errors: NotFiniteError, where logits are not asked for, and a successor has no finite greatest logit.
        """
        results: dict[int, Any] = {}
        for parts in self._steps({request: list(ids) for request, ids in tokens.items()}):
            ends = [request for request, _, is_last in parts if is_last]
            batch = [(ids, self.positions[request], self._pages[request]) for request, ids, _ in parts]
            step = self._session.step_batch(batch, logits=logits and bool(ends))
            row, finite = -1, self._session.finite
            for at, (request, ids, is_last) in enumerate(parts):
                row += len(ids)
                if is_last:
                    if not logits and finite[at] == 0:
                        raise NotFiniteError()
                    results[request] = step[1][row] if logits else step[at]
        return results

    def _steps(self, waiting: dict[int, list[int]]) -> Iterator[list[tuple[int, list[int], bool]]]:
        """Yields (request, tokens, whether they are its last) for each step, and moves the positions behind them."""
        while waiting:
            room, parts = self._session.max_tokens, []
            for request in list(waiting)[:self._session.max_requests]:
                ids = waiting[request]
                part, rest = ids[:room], ids[room:]
                if not part:
                    break
                room -= len(part)
                self.positions[request] += len(part)
                parts.append((request, part, not rest))
                if rest:
                    waiting[request] = rest
                else:
                    del waiting[request]
            yield parts
