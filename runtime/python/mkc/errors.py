"""Exceptions of the package. Each message says what was found and what was expected.

>>> issubclass(DtypeError, TypeError) and issubclass(DtypeError, Error)
True
"""
from .mkrt import DtypeError, Error, NotFiniteError

Error.__module__ = DtypeError.__module__ = NotFiniteError.__module__ = __name__  # where callers import them from


class ShapeError(Error, ValueError):
    """An array has another shape."""


class LayoutError(Error, ValueError):
    """An array is not contiguous, or may not be written."""


class DeviceError(Error, ValueError):
    """A device is missing, or an array or artefact belongs to another one."""


class ClosedError(Error):
    """A device, session or model is closed."""


class VersionError(Error):
    """A library has another version than the package."""


class ArtefactError(Error):
    """An artefact is missing, damaged, or made by another version of mkc."""


class CheckpointError(Error):
    """A checkpoint is missing, damaged, or not the one of an artefact."""


class CompileError(Error):
    """mkc cannot compile a model; the message is the command's."""


class TokenizerError(Error):
    """A checkpoint has no tokenizer.json, or one that mkc does not support."""


class LimitError(Error, ValueError):
    """A prompt, a batch or a setting is outside the model's limits."""


__all__ = ["ArtefactError", "CheckpointError", "ClosedError", "CompileError", "DeviceError", "DtypeError", "Error", "LayoutError",
           "LimitError", "NotFiniteError", "ShapeError", "TokenizerError", "VersionError"]
