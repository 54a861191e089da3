"""Kernels that python_kernels.cc compiles in this process, for tests of Python's interface."""
import ctypes
import functools


class Kernel(ctypes.Structure):
    _fields_ = [("entry", ctypes.c_void_p), ("kernels", ctypes.POINTER(ctypes.c_void_p)),
                ("kernel_count", ctypes.c_uint32), ("pack", ctypes.c_void_p), ("manifest", ctypes.c_void_p),
                ("manifest_bytes", ctypes.c_size_t), ("plan", ctypes.c_void_p), ("plan_bytes", ctypes.c_size_t),
                ("image", ctypes.c_void_p), ("image_bytes", ctypes.c_size_t)]


@functools.cache
def compiled(library, checkpoint, processor, mode, keep):
    """A kernel of the checkpoint for the processor or the emulator. `library` is python_kernels.cc with the C interface."""
    kernel = Kernel()
    build = ctypes.CDLL(str(library)).compiled_kernel
    build.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.POINTER(Kernel)]
    assert build(str(checkpoint).encode(), processor, mode, keep, ctypes.byref(kernel)) == 0
    return kernel


def artefact(kernel):
    """Manifest, plan and image."""
    return (ctypes.string_at(kernel.manifest, kernel.manifest_bytes), ctypes.string_at(kernel.plan, kernel.plan_bytes),
            ctypes.string_at(kernel.image, kernel.image_bytes) if kernel.image else None)
