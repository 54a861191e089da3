"""The CUDA driver by ctypes: load an image, launch its kernels, time them. Needs no toolkit and no other package.

Every failure is an Error that names the call and what the driver answered.
"""
import contextlib
import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

# Arguments as the driver's documentation declares them; handles are pointers, CUdeviceptr has 64 bits.
SIGNATURES = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetPCIBusId": (c_char_p, c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleUnload": (c_void_p,),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemsetD32_v2": (c_uint64, c_uint, c_size_t),
    "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuLaunchKernel": (c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p,
                       POINTER(c_void_p), POINTER(c_void_p)),
    "cuLaunchCooperativeKernel": (c_void_p, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_void_p,
                                  POINTER(c_void_p)),
    "cuStreamCreate": (POINTER(c_void_p), c_uint),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuGraphDestroy": (c_void_p,),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuEventDestroy_v2": (c_void_p,),
}
DEVICE_ATTRIBUTES = {"clock_khz": 13, "sms": 16, "compute_mode": 20, "l2_bytes": 38, "major": 75, "minor": 76, "shared_bytes_per_block": 97}
FUNCTION_ATTRIBUTES = {"max_threads": 0, "static_shared_bytes": 1, "local_bytes": 3, "registers": 4}
NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
OF_THIS_THREAD = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class Error(Exception):
    pass


class Device:
    """A GPU and its primary context, for the thread that opens it. Memory that it allocated is freed at the end."""

    def __init__(self, ordinal=0, library="libcuda.so.1"):
        try:
            self.library = ctypes.CDLL(library)
        except OSError as e:
            raise Error(f"no driver: {e}") from None
        for name, arguments in SIGNATURES.items():
            try:
                function = getattr(self.library, name)
            except AttributeError:
                raise Error(f"the driver has no {name}: it is too old") from None
            function.argtypes, function.restype = arguments, c_int
        self.blocks, self.events = set(), ()
        self.call("cuInit", 0)
        self.device = self.got(c_int(), "cuDeviceGet", ordinal)
        self.context = self.got(c_void_p(), "cuDevicePrimaryCtxRetain", self.device)
        self.call("cuCtxSetCurrent", self.context)
        self.events = tuple(self.got(c_void_p(), "cuEventCreate", 0) for _ in range(2))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for event in self.events:
            self.library.cuEventDestroy_v2(event)
        for address in self.blocks:
            self.library.cuMemFree_v2(address)
        self.library.cuDevicePrimaryCtxRelease_v2(self.device)

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            said = c_char_p()
            self.library.cuGetErrorName(code, byref(said))
            raise Error(f"{name} gave {said.value.decode() if said.value else code}")

    def got(self, out, name, *arguments):
        """The value that a call writes through its first argument."""
        self.call(name, byref(out), *arguments)
        return out.value

    def about(self):
        """Name, driver version, sizes, and memory that is free now."""
        name, bus_id = ctypes.create_string_buffer(256), ctypes.create_string_buffer(32)
        self.call("cuDeviceGetName", name, 256, self.device)
        self.call("cuDeviceGetPCIBusId", bus_id, 32, self.device)
        free, memory = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(memory))
        facts = {key: self.got(c_int(), "cuDeviceGetAttribute", number, self.device)
                 for key, number in DEVICE_ATTRIBUTES.items()}
        return {"name": name.value.decode(), "bus_id": bus_id.value.decode(), "free_bytes": free.value, "driver_api": self.got(c_int(), "cuDriverGetVersion"),
                "memory_bytes": self.got(c_size_t(), "cuDeviceTotalMem_v2", self.device), **facts}

    def allocate(self, size):
        address = self.got(c_uint64(), "cuMemAlloc_v2", size)
        self.blocks.add(address)
        return address

    def free(self, address):
        self.blocks.discard(address)
        self.call("cuMemFree_v2", address)

    def fill(self, address, word, size):
        self.call("cuMemsetD32_v2", address, word, size // 4)

    def read(self, address, size):
        data = (c_ubyte * size)()
        self.call("cuMemcpyDtoH_v2", data, address, size)
        return bytes(data)

    def load(self, image):
        """A module of a cubin or of PTX text, as bytes."""
        return self.got(c_void_p(), "cuModuleLoadData", bytes(image) + b"\0")

    def unload(self, module):
        self.call("cuModuleUnload", module)

    def function(self, module, name, dynamic_shared=0):
        function = self.got(c_void_p(), "cuModuleGetFunction", module, name.encode())
        if dynamic_shared:
            self.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, dynamic_shared)
        return function

    def function_facts(self, function, threads, dynamic_shared):
        """Registers, local and shared memory as loaded, and how many blocks a multiprocessor holds."""
        facts = {key: self.got(c_int(), "cuFuncGetAttribute", number, function)
                 for key, number in FUNCTION_ATTRIBUTES.items()}
        facts["blocks_per_sm"] = self.got(c_int(), "cuOccupancyMaxActiveBlocksPerMultiprocessor", function, threads,
                                          dynamic_shared)
        return facts

    def launch(self, function, blocks, threads, arguments, shared=0, cooperative=False):
        """Starts a kernel. arguments: ctypes values, of the types that the kernel declares."""
        pointers = (c_void_p * len(arguments))(*[ctypes.cast(byref(a), c_void_p) for a in arguments])
        shape = (blocks, 1, 1, threads, 1, 1, shared, None, pointers)
        if cooperative:  # all blocks resident at once, or an error
            self.call("cuLaunchCooperativeKernel", function, *shape)
        else:
            self.call("cuLaunchKernel", function, *shape, None)

    @contextlib.contextmanager
    def stream(self):
        stream = self.got(c_void_p(), "cuStreamCreate", NON_BLOCKING)
        try:
            yield stream
        finally:
            self.call("cuStreamDestroy_v2", stream)

    @contextlib.contextmanager
    def graph(self, stream, put):
        """Yields a function that puts all of what `put` puts on the stream there again."""
        graph, executable = c_void_p(), c_void_p()
        self.call("cuStreamBeginCapture_v2", stream, OF_THIS_THREAD)
        try:
            put()
        finally:
            self.call("cuStreamEndCapture", stream, byref(graph))
        self.call("cuGraphInstantiateWithFlags", byref(executable), graph, 0)
        try:
            yield lambda: self.call("cuGraphLaunch", executable, stream)
        finally:
            self.call("cuGraphExecDestroy", executable)
            self.call("cuGraphDestroy", graph)

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def microseconds(self, start):
        """Runs `start`, which launches; the time on the device until it all has ended."""
        begin, end = self.events
        self.call("cuEventRecord", begin, None)
        start()
        self.call("cuEventRecord", end, None)
        self.call("cuEventSynchronize", end)
        return 1e3 * self.got(c_float(), "cuEventElapsedTime", begin, end)


def main():
    """For each cubin of mkc: what the driver says of its kernels at most, and whether all workers can be resident where
    they must be. Without cubins: about the device."""
    import json
    import sys

    from kit import kernels, manifest
    with Device() as gpu:
        about = gpu.about()
        sms = about["sms"]
        if not sys.argv[1:]:
            print(json.dumps(about))
        for path in sys.argv[1:]:
            says = manifest(path)
            row = {"cubin": path, "workers": says["workers"], "threads": says["threads"],
                   "shared_bytes": says["shared_bytes"]}
            try:
                with open(path, "rb") as file:
                    module = gpu.load(file.read())
                facts = [gpu.function_facts(gpu.function(module, name, says["shared_bytes"]), says["threads"],
                                            says["shared_bytes"]) for name in kernels(path)]
                row.update({key: max(f[key] for f in facts) for key in facts[0]})
                row["kernels"] = len(facts)
                row["blocks_per_sm"] = min(f["blocks_per_sm"] for f in facts)
                row["resident"] = row["blocks_per_sm"] * sms
                gpu.unload(module)
            except Error as e:
                row["why"] = str(e)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
