"""The decoding loop: logits from mkc, processors, draws and criteria of transformers."""
from __future__ import annotations

from typing import Any

import torch
from transformers.generation.utils import GenerateDecoderOnlyOutput

from .._model import Model
from .._requests import Requests
from ..errors import Error
from ._weights import Unsupported


def decode(backing: Model, input_ids: Any, processors: Any, criteria: Any, config: Any, streamer: Any, kwargs: dict[str, Any]) -> Any:
    """Returns the ids [batch, length] after each prompt, or a GenerateDecoderOnlyOutput, as stock generation does.

    Errors: Unsupported before the first token; Error of the library behind it.
    """
    rows = Rows(backing, input_ids, kwargs.get("attention_mask"), config.max_length)
    wants_scores = bool(config.return_dict_in_generate and config.output_scores)
    wants_logits = bool(config.return_dict_in_generate and config.output_logits)
    needs_logits = bool(len(processors) or config.do_sample or wants_scores or wants_logits)
    scores: tuple[Any, ...] | None = () if wants_scores else None
    logits: tuple[Any, ...] | None = () if wants_logits else None
    ends = any(hasattr(criterion, "eos_token_id") for criterion in criteria)
    unfinished = torch.ones(input_ids.shape[0], dtype=torch.long, device=input_ids.device)
    while bool(unfinished.any()):
        if needs_logits:
            raw = rows.logits()
            processed = processors(input_ids, raw)
            scores = None if scores is None else (*scores, processed)
            logits = None if logits is None else (*logits, raw)
            following = draw(processed, config.do_sample)
        else:
            following = rows.greedy(unfinished)
        if ends:
            following = following * unfinished + config._pad_token_tensor.to(following.device) * (1 - unfinished)
        input_ids = torch.cat([input_ids, following[:, None]], dim=-1)
        rows.append(following)
        if streamer is not None:
            streamer.put(following.cpu())
        unfinished = unfinished & ~criteria(input_ids, scores)
    if streamer is not None:
        streamer.end()
    if config.return_dict_in_generate:
        return GenerateDecoderOnlyOutput(sequences=input_ids, scores=scores, logits=logits)
    return input_ids


def draw(scores: Any, samples: bool) -> Any:
    """Returns one id of each row [batch]: a draw of torch's generator, or the largest."""
    if not samples:
        return scores.argmax(dim=-1)
    return torch.multinomial(torch.nn.functional.softmax(scores, dim=-1), num_samples=1).squeeze(1)


class Rows:
    """The sequences of one call. A step feeds the ids that a sequence has and mkc has not seen."""

    def __init__(self, backing: Model, input_ids: Any, mask: Any, max_length: int):
        self._device = input_ids.device
        pads = [0] * len(input_ids) if mask is None else (mask == 0).sum(dim=-1).tolist()
        self._waiting = [row[pad:] for row, pad in zip(input_ids.tolist(), pads)]
        self._has_fed = False
        try:
            self._requests = Requests(backing.session, [max(1, max_length - 1 - pad) for pad in pads])
        except Error as e:
            raise Unsupported(f"mkc: {e}") from e

    def append(self, following: Any) -> None:
        for waiting, id in zip(self._waiting, following.tolist()):
            waiting.append(id)

    def _take(self, rows: list[int]) -> dict[int, list[int]]:
        taken = {row: self._waiting[row] for row in rows}
        for row in rows:
            self._waiting[row] = []
        return taken

    def _feed(self, rows: list[int], logits: bool = False) -> dict[int, Any]:
        try:
            fed = self._requests.feed(self._take(rows), logits)
        except Error as e:
            if self._has_fed:
                raise
            raise Unsupported(f"mkc: {e}") from e
        self._has_fed = True
        return fed

    def logits(self) -> Any:
        """Returns the logits of all sequences, float32 [batch, vocab]."""
        fed = self._feed(list(range(len(self._waiting))), logits=True)
        return torch.stack([torch.from_numpy(fed[row].copy()) for row in range(len(self._waiting))]).to(self._device)

    def greedy(self, unfinished: Any) -> Any:
        """Returns the largest id of the unfinished sequences, and 0 for the others: [batch]."""
        fed = self._feed(unfinished.nonzero().flatten().tolist())
        return torch.tensor([fed.get(row, 0) for row in range(len(self._waiting))], dtype=torch.long, device=self._device)
