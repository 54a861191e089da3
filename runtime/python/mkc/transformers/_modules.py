"""Tells whether the modules of a model in memory compute what its config says: mkc compiles the config."""
from __future__ import annotations

import copy
from typing import Any

import torch

# Attributes that do not change what a module computes in evaluation.
_IGNORED = {"training", "gradient_checkpointing", "name_or_path"}
_SCALARS = (bool, int, float, str, type(None))


def facts_of(model: Any) -> list[tuple[Any, ...]]:
    """Returns what the modules below the model are: name, class, plain attributes, and whether forward() is replaced."""
    return [(name, type(module), "forward" in module.__dict__, _attributes(module)) for name, module in model.named_modules() if name]


def why_other(model: Any) -> str | None:
    """Returns the reason why the modules are not those of a new model of the config, or None."""
    try:
        with torch.device("meta"):
            fresh = type(model)(copy.deepcopy(model.config))
        expected = {name: facts for name, *facts in facts_of(fresh)}
        found = {name: facts for name, *facts in facts_of(model)}
        for name, facts in found.items():
            if expected.pop(name, None) != facts:
                return f"the module {name} is not that of the config"
        if expected:
            return f"the module {next(iter(expected))} is missing"
        return _why_other_buffers(model)
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as e:
        return f"no model can be made of the config: {e}"


def _attributes(module: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items()
            if not name.startswith("_") and name not in _IGNORED and isinstance(value, _SCALARS)}


def _why_other_buffers(model: Any) -> str | None:
    """Looks at buffers that no checkpoint holds, such as the frequencies of rotations."""
    for name, module in model.named_modules():
        kept = sorted(module._non_persistent_buffers_set)
        if not kept:
            continue
        fresh = type(module)(copy.deepcopy(model.config))
        for buffer in kept:
            mine, expected = getattr(module, buffer), getattr(fresh, buffer)
            if mine.shape != expected.shape or not torch.equal(mine.cpu(), expected.to(mine.dtype).cpu()):
                return f"the buffer {name}.{buffer} is not that of the config"
    return None
