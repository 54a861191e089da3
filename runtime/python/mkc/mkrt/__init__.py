"""libmkrt from Python: load an artefact that mkc made, bind a checkpoint, run steps or serve requests. runtime/c_api/mkrt.h
says what calls do.

    with mkrt.Device(0) as device, device.open("model.cubin", "checkpoint") as session:
        for token in session.generate([0, 359, 336], 16):
            print(token)

An artefact is a cubin for a GPU, or a shared object for a processor, which mkrt.Device.processor() opens.
Needs libmkrt.so in this folder or beside it, where CMake installed it or the loader looks, or at MKRT_LIBRARY; numpy for logits. Failures are mkrt.Error.
"""
import os
from ctypes import c_int32, c_uint64, c_void_p

from ._engine import Engine, Outcome, Progress, Reason, Stats
from ._library import HND, NHD, PACKED, DtypeError, Error, Logprob, NotFiniteError, Sampling, Status, _fits, _Handle, _load
from ._session import Session


class Device(_Handle):
    """A GPU by its ordinal; processor() and emulator() open others. One thread at a time may use a device's sessions."""

    def __init__(self, ordinal=0, library=None):
        library = _load(library)
        super().__init__(library, library.mkrt_open_cuda(_fits("ordinal", ordinal, c_int32)))

    @classmethod
    def processor(cls, library=None):
        """Opens the processor of this machine, for shared objects of mkc compile --target x86-64. Each worker is a
        thread."""
        self = cls.__new__(cls)
        library = _load(library)
        _Handle.__init__(self, library, library.mkrt_open_processor())
        return self

    @classmethod
    def emulator(cls, kernel, pack, seed=0, library=None):
        """Opens the emulator, for kernels that were compiled against this library in this process.

        kernel: the kernel's address, or a list of addresses by kind for kernels of grids (None where a kind has
        none).
        pack: the address of the kernel that packs weights.
        """
        self = cls.__new__(cls)
        library = _load(library)
        if isinstance(kernel, int):
            handle = library.mkrt_open_emulator(kernel, pack, _fits("seed", seed, c_uint64))
        else:
            handle = library.mkrt_open_emulator_kernels((c_void_p * len(kernel))(*kernel), len(kernel), pack, _fits("seed", seed, c_uint64))
        _Handle.__init__(self, library, handle)
        return self

    @property
    def name(self):
        return self._library.mkrt_device_name(self._open()).decode()

    def accept_unsealed(self, accept=True):
        """Lets sessions be opened of artefacts whose seal is broken, or whose schedule was not proved."""
        self._check(self._library.mkrt_accept_unsealed(self._open(), accept))

    def keep_weights(self, folder):
        """Keeps packed weights of sessions opened from now on in files of a folder, for later sessions; None: nowhere."""
        self._check(self._library.mkrt_keep_weights(self._open(), None if folder is None else os.fsencode(folder)))

    def open(self, artefact, checkpoint):
        """Opens a session of an artefact's file. The checkpoint, a Hugging Face folder, is the one that it was
        compiled for."""
        return Session(self._library, self._library.mkrt_open_session(self._open(), os.fsencode(artefact),
                                                                     os.fsencode(checkpoint)))

    def open_from_memory(self, manifest, plan, image, checkpoint):
        """Opens a session as open() does, of an artefact in memory. image: the bytes of the cubin or shared object,
        or None on the emulator."""
        return Session(self._library, self._library.mkrt_open_session_from_memory(
            self._open(), manifest, len(manifest), plan, len(plan), image, len(image or b""), os.fsencode(checkpoint)))

    def close(self):
        if self._handle:
            self._library.mkrt_close_device(self._handle)
        self._handle = None


def version(library=None):
    return _load(library).mkrt_version().decode()
