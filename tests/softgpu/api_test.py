#!/usr/bin/env python3
"""Tests the software GPU's driver interface: contexts, streams, memory and settings.
Usage: api_test.py BUILD
"""
import ctypes
import itertools
import os
import subprocess
import sys
import threading
import traceback
import unittest
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path

LIBRARY = str(Path(sys.argv[1]).resolve() / "tests/softgpu/lib/libcuda.so.1")
BYTES = 4096
NON_BLOCKING, BLOCKING = 1, 0
INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT, NOT_READY, ILLEGAL_ADDRESS, UNKNOWN = 1, 3, 201, 600, 700, 999
TRIES = 40
# The kernel stores a word at its argument.
PTX = b""".version 8.7
.target sm_90a
.address_size 64
.visible .entry k(
.param .u64 p
)
{
.reg .b64 %d<2>; .reg .b32 %r<2>;
ld.param.b64 %d1, [p];
mov.u32 %r1, 7;
st.global.b32 [%d1], %r1;
ret;
}
"""


def open_driver():
    return ctypes.CDLL(LIBRARY)


class DriverTest(unittest.TestCase):
    def setUp(self):
        self.cuda = open_driver()
        self.context = c_void_p()
        self.good("cuInit", 0)
        self.good("cuDevicePrimaryCtxRetain", byref(self.context), 0)
        self.good("cuCtxSetCurrent", self.context)

    def good(self, name, *arguments):
        self.assertEqual(getattr(self.cuda, name)(*arguments), 0, name)

    def memory(self):
        address = c_uint64()
        self.good("cuMemAlloc_v2", byref(address), c_size_t(BYTES))
        return address

    def stream(self, flags):
        stream = c_void_p()
        self.good("cuStreamCreate", byref(stream), flags)
        return stream

    def pinned(self):
        memory = c_void_p()
        self.good("cuMemAllocHost_v2", byref(memory), c_size_t(BYTES))
        return memory, (ctypes.c_ubyte * BYTES).from_address(memory.value)

    def test_each_thread_has_a_context_of_its_own(self):
        address, found = c_uint64(), []
        thread = threading.Thread(target=lambda: found.append(self.cuda.cuMemAlloc_v2(byref(address), c_size_t(16))))
        thread.start()
        thread.join()
        self.assertEqual(found, [INVALID_CONTEXT])
        self.good("cuCtxSetCurrent", None)
        for name, arguments in (("cuMemAlloc_v2", (byref(address), c_size_t(16))), ("cuCtxSynchronize", ()),
                                ("cuStreamCreate", (byref(c_void_p()), 0)), ("cuStreamSynchronize", (None,)),
                                ("cuMemsetD8_v2", (address, 0, c_size_t(1)))):
            self.assertEqual(getattr(self.cuda, name)(*arguments), INVALID_CONTEXT, name)
        self.assertEqual(self.cuda.cuCtxSetCurrent(c_void_p(16)), INVALID_CONTEXT)

    def test_blocks_begin_at_odd_multiples_of_256_and_end_where_they_end(self):
        a, b, data = self.memory(), self.memory(), ctypes.create_string_buffer(2 * BYTES)
        for block in (a, b):
            self.assertEqual(block.value % 512, 256)
            self.assertEqual(self.cuda.cuMemcpyHtoD_v2(block, data, c_size_t(BYTES + 1)), INVALID_VALUE)
            self.assertEqual(self.cuda.cuMemcpyHtoD_v2(c_uint64(block.value + BYTES), data, c_size_t(1)), INVALID_VALUE)

    def fills_seen(self, flags, between=lambda: None):
        """How many fills of the default stream a copy in another stream sees."""
        device, stream, (host, seen), right = self.memory(), self.stream(flags), self.pinned(), 0
        for n in range(TRIES):
            self.good("cuMemsetD8_v2", device, n, c_size_t(BYTES))
            between()
            self.good("cuMemcpyDtoHAsync_v2", host, device, c_size_t(BYTES), stream)
            self.good("cuStreamSynchronize", stream)
            right += seen[BYTES - 1] == n
        return right

    def test_blocking_streams_wait_for_the_default_stream_and_others_do_not(self):
        self.assertEqual(self.fills_seen(BLOCKING), TRIES)
        self.assertLess(self.fills_seen(NON_BLOCKING), TRIES)
        self.assertEqual(self.fills_seen(NON_BLOCKING, lambda: self.good("cuStreamSynchronize", None)), TRIES)

    def copies_done(self, flags, wait):
        """How many copies of another stream are done once `wait` has returned."""
        device, stream, (host, seen), right = self.memory(), self.stream(flags), self.pinned(), 0
        for n in range(TRIES):
            self.good("cuMemsetD8_v2", device, n, c_size_t(BYTES))
            self.good("cuStreamSynchronize", None)
            self.good("cuMemcpyDtoHAsync_v2", host, device, c_size_t(BYTES), stream)
            wait(device)
            right += seen[BYTES - 1] == n
            self.good("cuStreamSynchronize", stream)
        return right

    def test_the_default_stream_waits_for_blocking_streams_alone(self):
        fill_and_wait = lambda device: (self.good("cuMemsetD8_v2", device, 255, c_size_t(1)),
                                        self.good("cuStreamSynchronize", None))
        self.assertEqual(self.copies_done(BLOCKING, fill_and_wait), TRIES)
        self.assertLess(self.copies_done(NON_BLOCKING, fill_and_wait), TRIES)
        self.assertEqual(self.copies_done(NON_BLOCKING, lambda _: self.good("cuCtxSynchronize")), TRIES)

    def test_an_event_that_a_program_asks_for_comes(self):
        event, stream = c_void_p(), self.stream(NON_BLOCKING)
        self.good("cuEventCreate", byref(event), 0)
        self.good("cuEventRecord", event, stream)
        answers = [self.cuda.cuEventQuery(event) for _ in range(1000)]
        self.assertEqual(answers[-1], 0)
        self.assertLessEqual(set(answers), {0, NOT_READY})


    def in_child(self, part):
        """Runs a part of a test in a process of its own, since an error stays with its process."""
        child = os.fork()
        if child == 0:
            try:
                part()
                os._exit(0)
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def event(self):
        event = c_void_p()
        self.good("cuEventCreate", byref(event), 0)
        return event

    def captured(self, stream, *call):
        """The executable graph that holds one call of a stream."""
        graph, executable = c_void_p(), c_void_p()
        self.good("cuStreamBeginCapture_v2", stream, 0)
        self.good(*call)
        self.good("cuStreamEndCapture", stream, byref(graph))
        self.good("cuGraphInstantiateWithFlags", byref(executable), graph, c_uint64(0))
        return executable

    def store_nowhere(self):
        """Launches a kernel that stores to an illegal address."""
        module, function, address = c_void_p(), c_void_p(), c_uint64(16)
        self.good("cuModuleLoadData", byref(module), PTX)
        self.good("cuModuleGetFunction", byref(function), module, b"k")
        arguments = (c_void_p * 1)(ctypes.cast(byref(address), c_void_p))
        self.good("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)

    def test_an_event_recorded_in_two_streams_is_done_when_both_are(self):
        streams = [self.stream(NON_BLOCKING) for _ in range(2)]
        for _ in range(TRIES):
            event = self.event()
            for stream in streams:
                self.good("cuEventRecord", event, stream)
            self.good("cuCtxSynchronize")
            self.good("cuEventQuery", event)

    def test_a_call_that_gives_an_earlier_error_does_nothing_later(self):
        def part():
            device, host = self.memory(), (ctypes.c_ubyte * BYTES)()
            self.store_nowhere()
            self.assertEqual(self.cuda.cuCtxSynchronize(), ILLEGAL_ADDRESS)
            self.assertEqual(self.cuda.cuMemcpyDtoH_v2(host, device, c_size_t(BYTES)), ILLEGAL_ADDRESS)
            self.assertEqual(self.cuda.cuCtxSynchronize(), ILLEGAL_ADDRESS)
            self.assertEqual(bytes(host), bytes(BYTES))
            event = self.event()
            self.assertEqual(self.cuda.cuEventRecord(event, None), ILLEGAL_ADDRESS)
            self.assertEqual(self.cuda.cuEventQuery(event), ILLEGAL_ADDRESS)
        self.in_child(part)

    def test_a_copy_that_could_not_be_waited_for_does_nothing_later(self):
        for copy in ("cuMemcpyDtoH_v2", "cuMemcpyDtoHAsync_v2"):
            device, host, stream, event = self.memory(), (ctypes.c_ubyte * BYTES)(), self.stream(NON_BLOCKING), self.event()
            graph = self.captured(stream, "cuEventRecord", event, stream)
            self.good("cuStreamWaitEvent", None, event, 0)
            more = (None,) if copy.endswith("Async_v2") else ()
            self.assertEqual(getattr(self.cuda, copy)(host, device, c_size_t(BYTES), *more), NOT_READY)
            self.good("cuGraphLaunch", graph, stream)
            self.good("cuCtxSynchronize")
            self.assertEqual(bytes(host), bytes(BYTES), copy)

    def order_of_copies(self, falling):
        """Returns which of two streams copied last, by try. With `falling` the later stream has the lower address."""
        target, sources = self.memory(), [self.memory(), self.memory()]
        for n, source in enumerate(sources):
            self.good("cuMemsetD8_v2", source, n, c_size_t(BYTES))
        self.good("cuCtxSynchronize")
        streams = [self.stream(NON_BLOCKING) for _ in range(8)]
        if falling:  # the next stream has the address of the one that is destroyed
            lowest = min(streams, key=lambda stream: stream.value)
            self.good("cuStreamDestroy_v2", lowest)
            streams.remove(lowest)
            streams.append(self.stream(NON_BLOCKING))
        pair = next(pair for pair in itertools.combinations(streams, 2) if (pair[0].value > pair[1].value) == falling)
        order, seen = [], ctypes.create_string_buffer(BYTES)
        for _ in range(TRIES):
            for source, stream in zip(sources, pair):
                self.good("cuMemcpyDtoDAsync_v2", target, source, c_size_t(BYTES), stream)
            self.good("cuCtxSynchronize")
            self.good("cuMemcpyDtoH_v2", seen, target, c_size_t(BYTES))
            order.append(seen[0])
        return b"".join(order)

    def test_streams_are_drawn_alike_wherever_they_lie(self):
        found = []
        for falling in (False, True):
            read, write = os.pipe()
            self.in_child(lambda: os.write(write, self.order_of_copies(falling)))
            found.append(os.read(read, TRIES))
            os.close(read), os.close(write)
        self.assertEqual(found[0], found[1])
        self.assertEqual(set(found[0]), {0, 1})

    def test_memory_without_maps_left_names_their_limit(self):
        if int(Path("/proc/sys/vm/max_map_count").read_text()) > 100000:
            self.skipTest("this system has more maps than a test should take")
        code = ("import ctypes; c = ctypes.CDLL(%r); a = ctypes.c_uint64(); context = ctypes.c_void_p(); c.cuInit(0);"
                "c.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); c.cuCtxSetCurrent(context)\n"
                "while not (error := c.cuMemAlloc_v2(ctypes.byref(a), ctypes.c_size_t(16))): pass\nprint(error)" % LIBRARY)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.stdout, "2\n")
        self.assertRegex(done.stderr, r"^softgpu: error: found no memory for 16 bytes beside \d+ allocations, "
                                      r"of which each takes two of the process's vm.max_map_count maps\n$")

    def test_a_graph_that_copies_freed_memory_is_an_illegal_address(self):
        def part(to_freed):
            freed, device, stream = self.memory(), self.memory(), self.stream(NON_BLOCKING)
            to, source = (freed, device) if to_freed else (device, freed)
            graph = self.captured(stream, "cuMemcpyDtoDAsync_v2", to, source, c_size_t(64), stream)
            self.good("cuMemFree_v2", freed)
            self.good("cuGraphLaunch", graph, stream)
            self.assertEqual(self.cuda.cuStreamSynchronize(stream), ILLEGAL_ADDRESS)
            self.assertEqual(self.cuda.cuMemFree_v2(device), ILLEGAL_ADDRESS)
        for to_freed in (True, False):
            self.in_child(lambda: part(to_freed))

    def test_memory_is_not_freed_before_its_work_is_done(self):
        device, stream, event = self.memory(), self.stream(NON_BLOCKING), self.event()
        graph = self.captured(stream, "cuEventRecord", event, stream)
        self.good("cuStreamWaitEvent", None, event, 0)
        self.good("cuMemsetD8_v2", device, 1, c_size_t(BYTES))
        self.assertEqual(self.cuda.cuMemFree_v2(device), NOT_READY)
        self.good("cuGraphLaunch", graph, stream)
        self.good("cuMemFree_v2", device)


class SettingsTest(unittest.TestCase):
    def first_calls(self, **variables):
        """The answers of cuMemAlloc before cuInit and of cuInit, and what is printed."""
        code = ("import ctypes; c = ctypes.CDLL(%r); a = ctypes.c_uint64();"
                "print(c.cuMemAlloc_v2(ctypes.byref(a), ctypes.c_size_t(1)), c.cuInit(0))" % LIBRARY)
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **variables}, capture_output=True,
                              text=True, timeout=60)
        return done.stdout.split(), done.stderr

    def test_calls_before_cuInit_fail(self):
        self.assertEqual(self.first_calls(), ([str(NOT_INITIALIZED), "0"], ""))

    def test_variables_that_are_misspelt_are_errors_of_cuInit(self):
        for name, value, said in (("SOFTGPU_SEED", "l7", "SOFTGPU_SEED is l7, expected a number"),
                                  ("SOFTGPU_SMS", "-4", "SOFTGPU_SMS is -4, expected a number"),
                                  ("SOFTGPU_SEED", "18446744073709551616", "SOFTGPU_SEED is 18446744073709551616, expected a number"),
                                  ("SOFTGPU_SMS", "4294967297", "SOFTGPU_SMS is 4294967297, expected a number"),
                                  ("SOFTGPU_SMS", "0", "SOFTGPU_SMS is 0, expected 1 or more"),
                                  ("SOFTGPU_SAYS", "cuinit=1", "SOFTGPU_SAYS names cuinit, expected one of cuInit, "),
                                  ("SOFTGPU_SAYS", "cuInit", "SOFTGPU_SAYS gives cuInit the value '', expected a number"),
                                  ("SOFTGPU_SAYS", "free=1,cuInit=8O3", "SOFTGPU_SAYS gives cuInit the value '8O3', "),
                                  ("SOFTGPU_PTX", "/no/such.ptx", "SOFTGPU_PTX is /no/such.ptx, expected a file with PTX"),
                                  ("SOFTGPU_BREAK", "wgma", "SOFTGPU_BREAK is wgma, expected acquire, release, or"),
                                  ("SOFTGPU_RACE", "1", "SOFTGPU_RACE is no variable of the software GPU")):
            answers, error = self.first_calls(**{name: value})
            self.assertEqual(answers, [str(NOT_INITIALIZED), str(UNKNOWN)], name)
            self.assertTrue(error.startswith("softgpu: error: " + said), error)
        self.assertEqual(self.first_calls(SOFTGPU_BREAK="wgmma", SOFTGPU_SEED="0x10", SOFTGPU_SAYS="free=1,driver=12080")[1], "")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
