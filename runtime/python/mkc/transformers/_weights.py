"""A model in memory becomes a compiled model of mkc by a checkpoint that has its weights.

mkc reads weights from files. A model whose weights are those of the directory it was loaded from uses that directory.
Any other model is saved by save_pretrained() into the cache, in a folder named by a hash of config and weights.
"""
from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any, Iterator

import torch

from .. import _compile
from .._model import Model, load
from ..errors import Error
from . import _modules

_CONTEXT = 4096  # positions that a model is compiled for without context=


class Unsupported(Exception):
    """The reason why mkc does not run a model or a call."""


class Backings:
    """The compiled models below models of transformers. An entry ends with its model."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # of _claims
        self._claims: weakref.WeakKeyDictionary[Any, threading.Lock] = weakref.WeakKeyDictionary()
        self._entries: weakref.WeakKeyDictionary[Any, tuple[Fingerprint, Model | Unsupported]] = weakref.WeakKeyDictionary()
        self._limits: weakref.WeakKeyDictionary[Any, tuple[str | None, dict[str, Any]]] = weakref.WeakKeyDictionary()

    def set_limits(self, model: Any, device: str | None, limits: dict[str, Any]) -> None:
        _compile.flags_of(limits)  # refuses unknown names at once
        self._limits[model] = device, limits

    @contextlib.contextmanager
    def claimed(self, model: Any, length: int) -> Iterator[Model]:
        """Yields what of() returns, for one call alone. Errors: Unsupported, also while another call has it."""
        with self._lock:
            claim = self._claims.setdefault(model, threading.Lock())
        if not claim.acquire(blocking=False):  # waiting would never end in a call that this call's own criteria make
            raise Unsupported("another call of generate() for the model is under way")
        try:
            yield self.of(model, length)
        finally:
            claim.release()

    def of(self, model: Any, length: int) -> Model:
        """Returns the compiled model with the present weights. Errors: Unsupported, which is kept for these weights."""
        device, limits = self._limits.get(model, (None, {}))
        context = limits.get("context") or min(_CONTEXT, getattr(model.config, "max_position_embeddings", _CONTEXT))
        if length - 1 > context:
            raise Unsupported(f"{length} tokens are asked for, mkc is compiled for a context of {context}")
        state = Fingerprint(model)
        kept, result = self._entries.get(model, (None, None))
        if kept is None or result is None or not state.is_equal(kept):
            self._drop_entry(model)
            result = _compiled(model, device or next(model.parameters()).device.type, limits)
            self._entries[model] = state, result
        if isinstance(result, Unsupported):
            raise result
        return result

    def drop(self, model: Any) -> None:
        self._drop_entry(model)
        self._limits.pop(model, None)

    def _drop_entry(self, model: Any) -> None:
        _, result = self._entries.pop(model, (None, None))
        if isinstance(result, Model):
            result.close()


def _compiled(model: Any, device: str, limits: dict[str, Any]) -> Model | Unsupported:
    reason = _modules.why_other(model)
    if reason is not None:
        return Unsupported(reason)
    try:
        return load(checkpoint_of(model), device, **limits)
    except (Error, OSError) as e:
        return Unsupported(f"mkc: {e}")


class Fingerprint:
    """What changes with a model: each parameter and buffer, with its memory and its version; config and modules."""

    def __init__(self, model: Any):
        tensors = [*model.named_parameters(), *model.named_buffers()]
        self._facts = [(name, tensor.data_ptr(), tensor._version, tensor.dtype) for name, tensor in tensors]
        self._model = _config_facts(model.config), _modules.facts_of(model)
        # References tell a tensor from a later one at the same address.
        self._held = [weakref.ref(of) for _, tensor in tensors for of in (tensor, tensor.untyped_storage())]

    def is_equal(self, other: Fingerprint) -> bool:
        same = self._facts == other._facts and self._model == other._model
        return same and all(a() is b() for a, b in zip(self._held, other._held))


def checkpoint_of(model: Any) -> Path:
    """Returns a directory with config and weights of the model: its own where it is unchanged, else one in the cache."""
    own = own_folder(model)
    return own if own is not None and is_checkpoint_of(own, model) else saved(model)


def own_folder(model: Any) -> Path | None:
    """Returns the directory that a model was loaded from, also in the local Hugging Face cache, or None where it is gone."""
    from transformers.utils.hub import cached_file
    name = model.name_or_path
    if not name:
        return None
    try:
        config = cached_file(name, "config.json", local_files_only=True)
    except (OSError, ValueError):
        return None
    return Path(config).parent if config else None


def is_checkpoint_of(folder: Path, model: Any) -> bool:
    """Tells whether a directory's config.json and safetensors files say what the model holds, bit by bit."""
    from safetensors import safe_open
    from transformers.core_model_loading import revert_weight_conversion
    if not _equal_configs(type(model.config).from_pretrained(folder), model.config):
        return False
    state = revert_weight_conversion(model, dict(model.state_dict()))
    seen = set()
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():
                mine = state.get(name)
                if mine is None or mine.dtype != (stored := tensors.get_tensor(name)).dtype or not torch.equal(mine.cpu(), stored):
                    return False
                seen.add(name)
    tied = {state[name].data_ptr() for name in seen}
    return bool(seen) and all(name in seen or tensor.data_ptr() in tied for name, tensor in state.items())


def _equal_configs(a: Any, b: Any) -> bool:
    return type(a) is type(b) and _config_facts(a) == _config_facts(b)


def _config_facts(config: Any) -> dict[str, Any]:
    """Returns what a config says of the computation. Saving and loading change the other keys."""
    ignored = ("_name_or_path", "transformers_version", "architectures", "dtype", "_attn_implementation")
    return {name: value for name, value in config.to_dict().items() if name not in ignored}


def saved(model: Any) -> Path:
    """Returns the model's folder in the cache; it is written where it is not there yet."""
    cache = _compile.weights_folder()
    root = Path(cache).parent / "transformers" if cache else Path(tempfile.gettempdir()) / f"mkc-transformers-{os.getuid()}"
    folder = root / content_hash(model)
    if not folder.is_dir():
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        unfinished = tempfile.mkdtemp(prefix=".", dir=root)
        try:
            model.save_pretrained(unfinished)
            os.rename(unfinished, folder)
        except OSError:
            shutil.rmtree(unfinished, ignore_errors=True)
            if not folder.is_dir():  # else another process was first
                raise
    return folder


def content_hash(model: Any) -> str:
    """Returns the hash of config, generation config and weights."""
    digest = hashlib.blake2b(digest_size=16)
    for text in _texts(model):
        digest.update(text.encode())
    for name, tensor in sorted(model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        if flat.numel():
            digest.update(memoryview(flat.view(torch.uint8).numpy()))
    return digest.hexdigest()


def _texts(model: Any) -> Iterator[str]:
    yield json.dumps(model.config.to_dict(), sort_keys=True, default=str)
    if model.generation_config is not None:
        yield json.dumps(model.generation_config.to_dict(), sort_keys=True, default=str)
