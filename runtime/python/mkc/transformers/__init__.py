"""mkc below models of the package transformers (5.x).

    import mkc.transformers

    mkc.transformers.accelerate(model)          # model.generate() runs on mkc from now on
    model.generate(**inputs, custom_generate=mkc.transformers.generate)  # or one call of an unchanged model

mkc computes the logits; transformers' own logits processors, stopping criteria and draws do the rest. Greedy tokens are those of
stock generation, except where its two largest logits are closer than the rounding of the weights' type.

Generation that mkc cannot run is stock generation. The logger "mkc.transformers" says the reason, once for each.
"""
from __future__ import annotations

import functools
from typing import Any, TypeVar

from ._loop import decode
from ._support import GENERATION_MODES, log_once, why_not, why_not_at_start
from ._weights import Backings, Unsupported

_backings = Backings()
_Model = TypeVar("_Model")


def generate(model: Any, input_ids: Any, logits_processor: Any, stopping_criteria: Any, generation_config: Any,
             synced_gpus: bool = False, streamer: Any = None, mkc_streamer: Any = None, **model_kwargs: Any) -> Any:
    """The decoding loop for model.generate(custom_generate=mkc.transformers.generate). Returns what stock generation returns.

    transformers gives no streamer to a custom loop. accelerate() does, by mkc_streamer.
    A call during another one of the same model, in a thread or in its own criteria, is stock generation.
    Errors: those of stock generation. Errors of mkc before the first token lead to stock generation; later ones are mkc.Error.
    """
    streamer = mkc_streamer or streamer
    reason = why_not(model, input_ids, generation_config, synced_gpus, model_kwargs)
    if reason is None:
        try:
            with _backings.claimed(model, generation_config.max_length) as backing:
                return decode(backing, input_ids, logits_processor, stopping_criteria, generation_config, streamer, model_kwargs)
        except Unsupported as e:
            reason = str(e)
    log_once(reason)
    mode = generation_config.get_generation_mode(None)
    stock = getattr(type(model), GENERATION_MODES[mode])
    return stock(model, input_ids, logits_processor=logits_processor, stopping_criteria=stopping_criteria,
                 generation_config=generation_config, synced_gpus=synced_gpus, streamer=streamer, **model_kwargs)


def accelerate(model: _Model, device: str | None = None, **limits: Any) -> _Model:
    """Lets model.generate() run on mkc, and returns the model. restore() undoes it.

    device: "cpu", "cuda" or "emulator"; None: that of the model's weights. limits: those of mkc.load(); without context=, a model
    is compiled for 4096 positions or its own limit.

    The compilation takes place in the first call of generate(). A change of the weights is seen before each call, by the
    parameters, their memory and their versions, and leads to another compilation. Writes through `.data` are not seen.
    A model whose modules or buffers are not those of its config is left to stock generation.
    """
    restore(model)
    _backings.set_limits(model, device, limits)
    stock = model.generate  # type: ignore[attr-defined]

    @functools.wraps(stock)
    def generate_on_mkc(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("custom_generate") is not None:
            return stock(*args, **kwargs)
        reason = why_not_at_start(kwargs)
        if reason is not None:
            log_once(reason)
            return stock(*args, **kwargs)
        return stock(*args, custom_generate=generate, mkc_streamer=kwargs.get("streamer"), **kwargs)

    model.generate = generate_on_mkc  # type: ignore[attr-defined]
    return model


def restore(model: _Model) -> _Model:
    """Gives a model its stock generate() back, and frees what mkc holds of it."""
    getattr(model, "__dict__", {}).pop("generate", None)
    _backings.drop(model)
    return model


__all__ = ["accelerate", "generate", "restore"]
