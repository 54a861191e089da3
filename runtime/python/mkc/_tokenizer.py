"""The tokenizer of the command mkc, from libmkc: the same ids for the same text, without another package."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Iterable

from ._arrays import ids_of
from ._native import compiler, compiler_error
from .errors import Error, TokenizerError


class Tokenizer:
    """A checkpoint's tokenizer.json. Errors: TokenizerError."""

    def __init__(self, directory: str | os.PathLike[str]):
        if not os.path.exists(os.path.join(directory, "tokenizer.json")):  # ids alone need no libmkc
            raise TokenizerError(f"{os.fspath(directory)}: error: has no tokenizer.json, expected one for text")
        self._handle = compiler().mkc_open_tokenizer(os.fsencode(directory))
        if not self._handle:
            raise TokenizerError(compiler_error())

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Returns the ids of a text. special: with the tokens that begin or end a text."""
        data, room = text.encode(errors="surrogatepass"), len(text) + 16  # mkc refuses surrogates
        while True:
            ids, count = (ctypes.c_int32 * room)(), ctypes.c_size_t()
            if compiler().mkc_encode(self._handle, data, len(data), special, ids, room, ctypes.byref(count)):
                raise Error(compiler_error())
            if count.value <= room:
                return list(ids[:count.value])
            room = count.value

    def decode(self, ids: Iterable[int], special: bool = False) -> str:
        """Returns the text of ids. special: with special tokens. An id without a token is "<id>". Errors: DtypeError.

        A run of byte tokens <0x..> with an invalid byte becomes U+FFFD for each of its bytes.
        """
        text = _Text(self, compiler().mkc_begin_whole_text(self._handle, special))
        return text.add(*ids) + text.finish()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            compiler().mkc_close_tokenizer(self._handle)


class _Text:
    """An mkc_text of libmkc."""

    def __init__(self, tokenizer: Tokenizer, handle: Any):
        self._tokenizer, self._handle = tokenizer, handle  # the tokenizer outlives the handle
        if not self._handle:
            raise Error(compiler_error())

    def add(self, *ids: int) -> str:
        return self._put(ids) if ids else ""

    def finish(self) -> str:
        """Returns the text that is left, and begins anew, without a prompt."""
        return self._put(())

    def _put(self, ids: Any) -> str:
        size = ctypes.c_size_t()
        text = compiler().mkc_add_ids(self._handle, ids_of("ids", ids), len(ids), ctypes.byref(size))
        if text is None:
            raise Error(compiler_error())
        return ctypes.string_at(text, size.value).decode()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            compiler().mkc_end_text(self._handle)


class TextStream(_Text):
    """Text of ids that come one by one: add() returns the characters that are complete.

    special: with special tokens. prompt: ids whose text the stream goes on with and leaves out. A character that the prompt begins
    belongs to the stream, and a first space does where the prompt has text. Errors: DtypeError.

    The text is that of Tokenizer.decode(), but for a run of byte tokens <0x..> with an invalid byte. The stream has put out the
    characters before that byte, and decode() replaces these, too.
    """

    def __init__(self, tokenizer: Tokenizer, special: bool = False, prompt: Iterable[int] = ()):
        ids = ids_of("prompt", prompt)
        super().__init__(tokenizer, compiler().mkc_begin_text_after(tokenizer._handle, ids, len(ids), special))
