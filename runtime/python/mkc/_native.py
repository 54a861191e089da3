"""The libraries and the compiler: in the folder that MKC_NATIVE names, inside the package, or where CMake installed them."""
from __future__ import annotations

import ctypes
import functools
import os
import subprocess
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Sequence

from . import mkrt
from ._version import VERSION
from .errors import CompileError, Error, VersionError
from .mkrt._library import installed_folders

BUG = 70  # exit code of the command for a bug of mkc


class Kernel(ctypes.Structure):
    """mkc_kernel of tools/c_api/mkc.h."""
    _fields_ = [("size", c_size_t), ("entry", c_void_p), ("kernels", POINTER(c_void_p)), ("pack", c_void_p), ("manifest", c_void_p),
                ("plan", c_void_p), ("manifest_bytes", c_size_t), ("plan_bytes", c_size_t), ("kernel_count", c_uint32),
                ("checkpoint", c_char_p)]


_SIGNATURES = {
    "mkc_error": (c_char_p,),
    "mkc_compile_for_emulator": (POINTER(Kernel), c_int, POINTER(c_char_p)),
    "mkc_free_kernel": (None, POINTER(Kernel)),
    "mkc_open_tokenizer": (c_void_p, c_char_p),
    "mkc_close_tokenizer": (None, c_void_p),
    "mkc_encode": (c_int, c_void_p, c_char_p, c_size_t, c_int, POINTER(c_int32), c_size_t, POINTER(c_size_t)),
    "mkc_begin_text_after": (c_void_p, c_void_p, POINTER(c_int32), c_size_t, c_int),
    "mkc_begin_whole_text": (c_void_p, c_void_p, c_int),
    "mkc_end_text": (None, c_void_p),
    "mkc_add_ids": (c_void_p, c_void_p, POINTER(c_int32), c_size_t, POINTER(c_size_t)),
}


def path_of(name: str) -> Path:
    """Returns the path of a native file. Errors: the file is missing."""
    package = Path(__file__).resolve().parent
    named = os.environ.get("MKC_NATIVE")
    folders = [Path(named), Path(named).parent / "bin"] if named else [package, *installed_folders()]
    found = [folder / name for folder in folders if (folder / name).is_file()]
    if not found:
        whole = "libmkc.so is there once its target mkc_shared is built and installed" if name == "libmkc.so" else "a wheel has it"
        raise Error(f"{folders[0] / name}: error: is missing, also in {', '.join(map(str, folders[1:])) or 'no other folder'}; "
                    f"{whole}; MKC_NATIVE names the folder of a build")
    return found[0]


@functools.cache
def checked(name: str) -> Path:
    """Returns the path of a library with mkrt.h's functions. Errors: the library has another version than the package."""
    path = path_of(name)
    found = mkrt.version(path)
    if found != VERSION:
        raise VersionError(f"{path}: error: has version {found}, expected {VERSION}, that of the package mkc")
    return path


@functools.cache
def compiler() -> ctypes.CDLL:
    """Returns libmkc, which stays loaded."""
    library = ctypes.CDLL(str(checked("libmkc.so")))
    for name, (result, *arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def compiler_error() -> str:
    """Returns the message of libmkc's last failure in this thread."""
    message: bytes = compiler().mkc_error()
    return message.decode(errors="replace")


def command(arguments: Sequence[str]) -> str:
    """Runs the command mkc and returns its output. Errors: those of the command, with its message."""
    done = subprocess.run([path_of("mkc"), *arguments], capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        said = done.stderr.strip() or f"mkc ended with {done.returncode}"
        raise CompileError(f"a bug of mkc: {said}" if done.returncode == BUG else said)
    return done.stdout
