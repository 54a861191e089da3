"""Says which calls of generate() mkc leaves to stock generation, and why."""
from __future__ import annotations

import logging
from typing import Any

import torch
from transformers.generation.utils import GENERATION_MODES_MAPPING

GENERATION_MODES: Any = GENERATION_MODES_MAPPING
_logger = logging.getLogger("mkc.transformers")
_said: set[str] = set()
_CACHES = ("cache", "past_key_values")  # the argument's name since transformers 5.24, and the name before
# Arguments of a forward pass that mkc knows, or that change only how stock generation computes.
_KNOWN = {"attention_mask", "position_ids", *_CACHES, "use_cache", "logits_to_keep", "cache_position", "token_type_ids"}


def log_once(reason: str) -> None:
    if reason not in _said:
        _said.add(reason)
        _logger.warning("stock generation: %s", reason)


def why_not_at_start(arguments: dict[str, Any]) -> str | None:
    """Returns the reason for stock generation that only the arguments of generate() show, or None."""
    config = arguments.get("generation_config")
    for name in ("assistant_model", "prompt_lookup_num_tokens", "stop_strings", "synced_gpus"):
        if arguments.get(name) or getattr(config, name, None):
            return f"{name} is given"
    if arguments.get("cache_implementation") == "paged":
        return "the paged cache has a loop of its own"
    return None


def why_not(model: Any, input_ids: Any, config: Any, synced_gpus: bool, kwargs: dict[str, Any]) -> str | None:
    """Returns the reason for stock generation, or None where mkc can decode."""
    return _of_model(model) or _of_config(config, synced_gpus) or _of_inputs(input_ids, kwargs)


def _of_model(model: Any) -> str | None:
    kind = type(model)
    if not kind.__module__.startswith("transformers."):
        return f"{kind.__module__}.{kind.__name__} is no class of transformers"
    if model.config.is_encoder_decoder:
        return f"{kind.__name__} has an encoder"
    if model.training:
        return "the model is in training mode; model.eval() ends it"
    if getattr(model, "hf_quantizer", None) is not None:
        return "the weights are quantised in memory"
    if getattr(model, "peft_config", None) or getattr(model, "_hf_peft_config_loaded", False):
        return "the model has adapters"
    if any(map(_has_hooks, model.modules())):
        return "the model has forward hooks"
    kinds = {p.device.type for p in model.parameters()}
    return None if kinds in ({"cpu"}, {"cuda"}) else f"the weights are on {', '.join(sorted(kinds))}, expected cpu or cuda"


def _has_hooks(module: Any) -> bool:
    """Tells whether a module has hooks that may change what it computes. transformers' own record outputs, and stay there."""
    hooks = [*module._forward_hooks.values(), *module._forward_pre_hooks.values()]
    return hasattr(module, "_hf_hook") or any(not getattr(hook, "__module__", "").startswith("transformers.") for hook in hooks)


def _of_config(config: Any, synced_gpus: bool) -> str | None:
    if config.num_beams > 1:
        return f"num_beams is {config.num_beams}, expected 1"
    if GENERATION_MODES[config.get_generation_mode(None)] != "_sample":
        return f"the mode is {config.get_generation_mode(None).value}, expected greedy search or sampling"
    if config.return_dict_in_generate and (config.output_attentions or config.output_hidden_states):
        return "attentions or hidden states are asked for"
    if config.cache_implementation == "quantized":
        return "the quantised cache is asked for"
    return "synced_gpus is given" if synced_gpus else None


def _of_inputs(input_ids: Any, kwargs: dict[str, Any]) -> str | None:
    unknown = {name for name, value in kwargs.items() if value is not None} - _KNOWN
    if unknown:
        return f"the inputs {', '.join(sorted(unknown))} are not known"
    for name in _CACHES:
        cache = kwargs.get(name)
        if cache is not None and (getattr(cache, "_is_user_defined", False) or cache.get_seq_length() > 0):
            return f"{name} is given"
    if input_ids.shape[1] == 0:
        return "the prompt is empty"
    mask, positions = kwargs.get("attention_mask"), kwargs.get("position_ids")
    if mask is None:
        expected = torch.arange(input_ids.shape[1], device=input_ids.device)[None].expand(input_ids.shape)
    elif mask.shape != input_ids.shape or not bool(((mask == 0) | (mask == 1)).all() and (mask.diff(dim=-1) >= 0).all()):
        return "attention_mask has more than padding on the left"
    elif not bool(mask[:, -1].all()):
        return "attention_mask hides a whole prompt"
    else:
        expected = (mask.long().cumsum(-1) - 1).clamp(min=0)
    if positions is not None and not torch.equal(positions.expand(input_ids.shape).to(expected.device), expected):
        return "position_ids are not those of the prompt"
    return None
