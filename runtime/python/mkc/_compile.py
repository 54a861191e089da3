"""The compiler and the cache of the command mkc make a device with a session from a checkpoint or an artefact."""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator

from . import _native, mkrt
from ._session import Session, named, open_session
from .errors import ArtefactError, CompileError, DeviceError, Error, LimitError

DEVICES = ("auto", "cpu", "cuda", "emulator")
# Options of `mkc compile` that load() passes on, with dashes in place of underscores.
LIMITS = ("context", "max_tokens", "max_requests", "workers", "kv_dtype", "mode", "scheduler", "machine", "family", "models_dir",
          "keep_activations", "batch_invariant")
NEGATABLE = ("batch_invariant",)  # limits that a model.yaml may set, too
_SUFFIXES = {".so": "cpu", ".cubin": "cuda"}


@dataclass
class Loaded:
    """A session on its device, with what the manifest says."""
    device: mkrt.Device
    session: Session
    checkpoint: str
    manifest: dict[str, Any]


def flags_of(limits: dict[str, Any]) -> list[str]:
    """Returns limits as options of the command.

    >>> flags_of({"max_tokens": 16, "keep_activations": True, "context": None, "batch_invariant": False})
    ['--max-tokens', '16', '--keep-activations', '--no-batch-invariant']
    >>> flags_of({"keep_activations": False})
    []
    """
    flags: list[str] = []
    for name, value in limits.items():
        if name not in LIMITS:
            raise LimitError(f"load: error: found the limit {name!r}, expected one of {', '.join(LIMITS)}")
        flag = name.replace("_", "-")
        if value is True:
            flags.append(f"--{flag}")
        elif value is False and name in NEGATABLE:
            flags.append(f"--no-{flag}")
        elif value is not None and value is not False:
            flags += [f"--{flag}", os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return flags


def device_of_artefact(path: str) -> str | None:
    return _SUFFIXES.get(Path(path).suffix)


def weights_folder() -> str | None:
    """Returns the folder of packed weights beside the command's cache, or None where MKC_CACHE is off."""
    cache = os.environ.get("MKC_CACHE")
    if cache == "off":
        return None
    return os.path.join(cache or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "mkc"), "weights")


def open_device(name: str) -> mkrt.Device:
    """Opens a device: "auto" is GPU 0 where there is one, else the processor. Errors: DeviceError."""
    library = _native.checked("libmkrt.so")
    if name in ("auto", "cuda"):
        try:
            return mkrt.Device(0, library)
        except Error as e:
            if name == "cuda":
                raise DeviceError(str(e)) from None
    return mkrt.Device.processor(library)


def load_artefact(path: str, name: str, checkpoint: str | None, limits: dict[str, Any]) -> Loaded:
    kind = device_of_artefact(path)
    if kind is None:
        raise ArtefactError(f"{path}: error: is a file, expected a checkpoint's directory, or an artefact named .so or .cubin")
    if name not in ("auto", kind):
        raise DeviceError(f"{path}: error: is for device {kind}, expected one for {name}")
    if checkpoint is None:
        raise ArtefactError(f"{path}: error: holds no weights, expected checkpoint= with their directory")
    if limits:
        raise LimitError(f"{path}: error: is compiled already, found the limits {', '.join(limits)}")
    try:
        manifest = json.loads(_native.command(["inspect", "--json", "--", path]))
    except CompileError as e:
        raise ArtefactError(str(e)) from None
    with _closed_on_error(open_device(kind)) as device:
        return _open(path, device, checkpoint, manifest)


@contextlib.contextmanager
def _closed_on_error(device: mkrt.Device) -> Iterator[mkrt.Device]:
    try:
        yield device
    except BaseException:
        device.close()
        raise


def _open(path: str, device: mkrt.Device, checkpoint: str, manifest: dict[str, Any]) -> Loaded:
    if device.name == "cpu":
        device.keep_weights(weights_folder())
    return Loaded(device, open_session(device, Path(path), checkpoint), checkpoint, manifest)


def compile_and_load(model: str, name: str, limits: dict[str, Any]) -> Loaded:
    """Compiles for a device, or finds the code in the cache, and opens a session. Errors: CompileError; those of sessions."""
    flags = flags_of({"batch_invariant": True, **limits})
    if name == "emulator":
        return _emulate([*flags, "--", model])
    with _closed_on_error(open_device(name)) as device, tempfile.TemporaryDirectory(prefix="mkc-") as folder:
        suffix, target = (".so", "x86-64") if device.name == "cpu" else (".cubin", "native")
        path = os.path.join(folder, "model" + suffix)
        summary = json.loads(_native.command(["compile", "--target", target, *flags, "-o", path, "--json", "--", model]))
        manifest = json.loads(_native.command(["inspect", "--json", "--", path]))
        return _open(path, device, summary["checkpoint"], manifest)


class _HostKernel:
    """A kernel of libmkc in this process; it is freed with this object."""

    def __init__(self, arguments: list[str]):
        words = (ctypes.c_char_p * len(arguments))(*map(os.fsencode, arguments))
        self._at = _native.compiler().mkc_compile_for_emulator(len(arguments), words)
        if not self._at:
            raise CompileError(_native.compiler_error())
        self.view = self._at.contents

    def __del__(self) -> None:
        if getattr(self, "_at", None):
            _native.compiler().mkc_free_kernel(self._at)


def _emulate(arguments: list[str]) -> Loaded:
    kernel = _HostKernel(arguments)
    view = kernel.view
    library = _native.checked("libmkc.so")
    device = mkrt.Device.emulator(view.entry or view.kernels[:view.kernel_count], view.pack, library=library)
    manifest, plan = ctypes.string_at(view.manifest, view.manifest_bytes), ctypes.string_at(view.plan, view.plan_bytes)
    checkpoint = os.fsdecode(view.checkpoint)
    with _closed_on_error(device):
        try:
            session = Session(device._library, device._library.mkrt_open_session_from_memory(
                device._open(), manifest, len(manifest), plan, len(plan), None, 0, os.fsencode(checkpoint)), device, kernel)
        except Error as e:
            raise named(e, device.name, checkpoint) from None
    return Loaded(device, session, checkpoint, json.loads(manifest))
