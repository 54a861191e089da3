"""Models: load() and what generates tokens."""
from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Iterator, Sequence, Union, overload

from . import _arrays, _compile, _generate
from ._session import Session
from ._tokenizer import TextStream, Tokenizer
from .errors import ClosedError, DeviceError, DtypeError, Error, LimitError, TokenizerError

Prompt = Union[str, Sequence[int], Any]  # text, ids, or an int32 array of ids

_STEPS_PER_LAUNCH = 16  # where nobody waits for single tokens


@dataclass
class Completion:
    """The text that a model wrote after a prompt."""
    ids: list[int] = field(default_factory=list)
    text: str | None = None  # None: the checkpoint has no tokenizer.json that mkc supports
    finish: str = "length"  # "stop": an end token or an id of `stop` came next; it is not in ids


@dataclass
class Token:
    """One new token of a stream."""
    request: int  # index of its prompt
    id: int | None  # None: no token, but the text that was left at the end
    text: str  # the characters that it completes; "" without a tokenizer


def _as_list(prompts: Any) -> tuple[list[Prompt], bool]:
    """Returns the prompts, and whether they were a list; one prompt is a text, an array, or a list of integers."""
    if isinstance(prompts, str) or _arrays.is_array(prompts):
        return [prompts], False
    if not isinstance(prompts, Sequence):
        raise DtypeError(f"prompts: error: found {type(prompts).__name__}, expected a text, ids, or a list of these")
    is_ids = not prompts or (hasattr(prompts[0], "__index__") and not _arrays.is_array(prompts[0]))
    return ([prompts], False) if is_ids else (list(prompts), True)


def load(path: str | os.PathLike[str], device: str = "auto", *, checkpoint: str | os.PathLike[str] | None = None,
         **limits: Any) -> Model:
    """Loads a model onto a device and returns it; a with statement closes it.

    path: a checkpoint's directory, its name in the local Hugging Face cache, a model.yaml, or an artefact of `mkc compile`.
    device: "auto" (a GPU where there is one, else the processor), "cpu", "cuda" or "emulator".
    checkpoint: the directory of the weights, for an artefact.
    limits: options of `mkc compile`, such as context=4096, max_tokens=64 (of a step), max_requests=16 (of a step), kv_dtype="f32".

    A model is compiled once. The code is kept in the cache that `mkc run` uses, and so are packed weights for the processor.

    Errors: CompileError, ArtefactError, CheckpointError, DeviceError, LimitError, VersionError.

    >>> with load("models/tiny-stories", device="cpu") as model:
    ...     print(model.generate("Once there was a girl", max_new_tokens=6).text)
     named Nora. She had a
    """
    if device not in _compile.DEVICES:
        raise DeviceError(f"load: error: found the device {device!r}, expected one of {', '.join(_compile.DEVICES)}")
    name = os.fspath(path)
    if _compile.device_of_artefact(name) or (os.path.isfile(name) and not name.endswith((".yaml", ".yml"))):
        directory = None if checkpoint is None else os.fspath(checkpoint)
        return Model(_compile.load_artefact(name, device, directory, limits))
    if checkpoint is not None:
        raise Error(f"{name}: error: has its own weights, found checkpoint={os.fspath(checkpoint)!r}")
    return Model(_compile.compile_and_load(name, device, limits))


class Model:
    """A model on a device. One thread at a time may use it."""

    def __init__(self, loaded: _compile.Loaded):
        self._loaded: _compile.Loaded | None = loaded
        self._tokenizer: Tokenizer | None = None

    def _open(self) -> _compile.Loaded:
        if self._loaded is None:
            raise ClosedError("the model is closed, expected an open one")
        return self._loaded

    @property
    def session(self) -> Session:
        """The session below: steps of single tokens and of batches, logits, caches."""
        return self._open().session

    @property
    def device(self) -> str:
        """"cpu", "emulator", or the GPU's name."""
        return str(self._open().device.name)

    @property
    def checkpoint(self) -> str:
        """The directory of the weights."""
        return self._open().checkpoint

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest of the artefact, as `mkc inspect --json` prints it."""
        return self._open().manifest

    @property
    def vocab(self) -> int:
        return int(self.session.vocab)

    @property
    def context(self) -> int:
        """Positions of a request."""
        return int(self.session.context)

    @property
    def end_ids(self) -> list[int]:
        """The ids that end a text, of generation_config.json, config.json or the tokenizer."""
        return list(self.manifest.get("eos_ids", []))

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer. Errors: TokenizerError."""
        if self._tokenizer is None:
            self._tokenizer = Tokenizer(self.checkpoint)
        return self._tokenizer

    def encode(self, prompt: Prompt, special: bool = True) -> list[int]:
        """Returns a prompt's ids: those of a text by the tokenizer, others after a check. Errors: DtypeError, ShapeError."""
        if isinstance(prompt, str):
            return self.tokenizer.encode(prompt, special)
        return [int(id) for id in _arrays.ids_of("prompt", prompt)]

    @overload
    def generate(self, prompts: str, max_new_tokens: int = 64, *, stop: Sequence[int] = (), special: bool = True,
                 **sampling: Any) -> Completion: ...
    @overload
    def generate(self, prompts: Any, max_new_tokens: int = 64, *, stop: Sequence[int] = (), special: bool = True,
                 **sampling: Any) -> Any: ...

    def generate(self, prompts: Any, max_new_tokens: int = 64, *, stop: Sequence[int] = (), special: bool = True,
                 **sampling: Any) -> Any:
        """Generates after one prompt and returns its Completion, or after several ones at once and returns a list.

        prompts: a text, ids, or an int32 array of ids; or a list of such. max_new_tokens: at most, fewer where the context ends.
        stop: ids that end a text beside the model's own. special: texts get the tokens that begin a text.
        sampling: temperature (0: greedy, the default), top_k, top_p, min_p, repetition_penalty, seed, logit_bias {id: value}, allowed
        (ids), min_tokens, presence_penalty, frequency_penalty (docs/sampling.md).
        Errors: DtypeError, ShapeError, LimitError, ClosedError; NotFiniteError with the tokens of the prompt that has one without finite
        logits; Error of the library, or of a session with a sequence of its own.

        >>> with load("models/tiny-stories", device="cpu") as model:
        ...     girl, boy = model.generate(["Once there was a girl", "Once there was a boy"], max_new_tokens=3)
        ...     print(girl.text, "|", boy.text, "|", model.generate([5, 17, 3], 2).ids)
         named Nora. |  named Noah. | [618, 577]
        """
        several, inputs = self._inputs(prompts, special)
        done = [Completion() for _ in inputs]
        for at, ids, ended in self._tokens(inputs, max_new_tokens, stop, _STEPS_PER_LAUNCH, sampling):
            done[at].ids += ids
            if ended:
                done[at].finish = "stop"
        for completion, text in zip(done, self._texts(inputs)):
            completion.text = None if text is None else text.add(*completion.ids) + text.finish()
        return done if several else done[0]

    def stream(self, prompts: Any, max_new_tokens: int = 64, *, stop: Sequence[int] = (), special: bool = True,
               **sampling: Any) -> Iterator[Token]:
        """Yields the tokens of one or several prompts as they come. The arguments are those of generate().

        The model is busy until the iterator is finished or closed.

        >>> with load("models/tiny-stories", device="cpu") as model:
        ...     print([token.text for token in model.stream("Once there was a girl", 3)])
        [' named', ' Nora', '.']
        """
        _, inputs = self._inputs(prompts, special)
        texts = self._texts(inputs)
        for at, ids, _ in self._tokens(inputs, max_new_tokens, stop, 1, sampling):
            text = texts[at]
            for id in ids:
                yield Token(at, id, "" if text is None else text.add(id))
        for at, text in enumerate(texts):
            rest = text.finish() if text is not None else ""
            if rest:
                yield Token(at, None, rest)

    def _inputs(self, prompts: Any, special: bool) -> tuple[bool, list[list[int]]]:
        """Returns whether the prompts were a list, and the ids of each."""
        inputs, several = _as_list(prompts)
        return several, [self.encode(prompt, special) for prompt in inputs]

    def _texts(self, prompts: list[list[int]]) -> list[TextStream | None]:
        try:
            return [TextStream(self.tokenizer, prompt=ids) for ids in prompts]
        except TokenizerError:
            return [None] * len(prompts)

    def _tokens(self, prompts: list[list[int]], limit: int, stop: Sequence[int], steps_per_launch: int,
                sampling: dict[str, Any]) -> Iterator[tuple[int, list[int], bool]]:
        _generate.check_sampling(list(sampling))
        if limit < 0:
            raise LimitError(f"max_new_tokens: error: found {limit}, expected 0 or more")
        stop_ids = _arrays.ids_of("stop", stop)
        if sampling.get("allowed") is not None:
            sampling = {**sampling, "allowed": _arrays.ids_of("allowed", sampling["allowed"])}
        for at, ids in enumerate(prompts):
            if not 1 <= len(ids) <= self.context:
                raise LimitError(f"prompt {at}: error: has {len(ids)} ids, expected 1 to {self.context}")
        if limit > 0 and prompts:
            ends = {*self.end_ids, *(int(id) for id in stop_ids)}
            yield from _generate.tokens(self.session, prompts, limit, ends, steps_per_launch, sampling)

    def close(self) -> None:
        """Frees the session and the device. A closed model may be closed again."""
        if self._loaded is not None:
            self._loaded.session.close()
            self._loaded.device.close()
        self._loaded = None

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
