"""The loop behind Model.generate() and Model.stream()."""
from __future__ import annotations

from typing import Any, Iterator, Sequence

from . import _model
from ._requests import Requests
from ._session import Session


def tokens(session: Session, prompts: Sequence[list[int]], limit: int, stop: set[int], sampling: dict[str, Any],
           done: "list[_model.Completion]") -> "Iterator[_model.Token]":
    """Yields tokens without text, step by step and in a step by request; sets `finish` of what ends at a stop id."""
    lengths = [min(len(ids) + limit - 1, session.context) for ids in prompts]
    requests = Requests(session, lengths)
    feed: dict[int, Sequence[int]] = dict(enumerate(prompts)) if limit > 0 else {}
    position = 0
    while feed:
        sampled = requests.sample(feed, {**sampling, "position": position})
        position += 1
        feed = {}
        for request, id in sorted(sampled.items()):
            if id in stop:
                done[request].finish = "stop"
                continue
            yield _model.Token(request, id, "")
            if requests.positions[request] < lengths[request]:
                feed[request] = [id]
