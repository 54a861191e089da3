"""mkc from Python: compile a model's step into one kernel, and run it (docs/integrations.md).

    import mkc

    with mkc.load("models/tiny-stories") as model:
        print(model.generate("Once there was a girl", max_new_tokens=16).text)

mkc.transformers puts mkc below models of the package transformers. mkc.mkrt is the C interface of libmkrt as it is.
"""
from . import mkrt
from ._model import Completion, Model, Token, load
from ._session import Session
from ._tokenizer import TextStream, Tokenizer
from ._version import VERSION as __version__
from .errors import (ArtefactError, CheckpointError, ClosedError, CompileError, DeviceError, DtypeError, Error, LayoutError,
                     LimitError, NotFiniteError, ShapeError, TokenizerError, VersionError)

__all__ = ["ArtefactError", "CheckpointError", "ClosedError", "CompileError", "Completion", "DeviceError", "DtypeError", "Error",
           "LayoutError", "LimitError", "Model", "NotFiniteError", "Session", "ShapeError", "TextStream", "Token", "Tokenizer",
           "TokenizerError", "VersionError", "__version__", "load", "mkrt"]
