#!/usr/bin/env python3
"""Measures what the GPU gives at best: its reading rate, continuous and in cold bursts, the cost of a signal, and the
tick of its clock. Prints one JSON object a line, as it has them.
"""
import argparse
import json
import struct
from ctypes import c_uint, c_uint64
from pathlib import Path

from driver import Device
from kit import spread

THREADS = 512
PIECES = [(4, 16384), (8, 16384), (12, 16384), (6, 32768)]  # stages and bytes of bulk copies in flight per block
BLOCKS_PER_SM = [1, 2, 4]
BURST_MEGABYTES = [2, 4, 8, 16, 32, 64, 128, 256]
ROUNDS = 1000
TICKS = 256
CLOCK_POLLS = 1 << 16
FEW_BYTES = 2 << 20  # of the buffer, with --few


def shared_bytes(stages, piece):
    """Returns the shared memory of a block that reads by copies: a barrier for each stage."""
    return stages * (piece + 8)


class Reader:
    """Kernels that read one large buffer of data without a pattern."""

    def __init__(self, gpu, image, limit=1 << 32):
        self.gpu, self.facts = gpu, gpu.about()
        self.sms = self.facts["sms"]
        self.bytes = min(limit, self.facts["memory_bytes"] // 4) >> 20 << 20
        self.module = gpu.load(image)
        self.data = gpu.allocate(self.bytes)
        self.sink = gpu.allocate(4)
        self.times = gpu.allocate(16 * self.sms * max(BLOCKS_PER_SM))
        self.loads = gpu.function(self.module, "read_by_loads")
        self.copies = gpu.function(self.module, "read_by_copies", max(shared_bytes(*shape) for shape in PIECES))
        gpu.launch(gpu.function(self.module, "fill"), 4 * self.sms, THREADS,
                   (c_uint64(self.data), c_uint64(self.bytes // 16)))
        gpu.synchronize()

    def by_loads(self, blocks_per_sm, offset, size):
        arguments = (c_uint64(self.data + offset), c_uint64(size // 16), c_uint64(self.sink), c_uint64(self.times))
        return self.sms * blocks_per_sm, lambda: self.gpu.launch(self.loads, self.sms * blocks_per_sm, THREADS, arguments)

    def by_copies(self, stages, piece, offset, size):
        arguments = (c_uint64(self.data + offset), c_uint64(size // piece), c_uint(piece), c_uint(stages),
                     c_uint64(self.sink), c_uint64(self.times))
        return self.sms, lambda: self.gpu.launch(self.copies, self.sms, 32, arguments, shared_bytes(stages, piece))

    def timed(self, blocks, start):
        """Microseconds by the driver's events, and from the first block's begin to the last one's end."""
        self.gpu.fill(self.sink, 0, 4)
        by_events = self.gpu.microseconds(start)
        times = struct.unpack(f"<{2 * blocks}Q", self.gpu.read(self.times, 16 * blocks))
        return by_events, (max(times[1::2]) - min(times[::2])) / 1e3

    def finished(self):
        return self.gpu.read(self.sink, 4) != b"\1\0\0\0"


def continuous(reader, repeats=7):
    """The reading rate over the whole buffer, by wide loads and by bulk copies, several shapes each."""
    shapes = [("loads", f"{n} blocks of {THREADS} threads", reader.by_loads(n, 0, reader.bytes)) for n in BLOCKS_PER_SM]
    shapes += [("copies", f"{s} copies of {p} bytes", reader.by_copies(s, p, 0, reader.bytes)) for s, p in PIECES]
    for how, shape, (blocks, start) in shapes:
        reader.timed(blocks, start)
        us = spread([reader.timed(blocks, start)[0] for _ in range(repeats)])
        if not reader.finished():
            raise RuntimeError(f"{how}, {shape}: a copy did not end")
        yield {"what": "continuous", "by": how, "per_sm": shape, "bytes": reader.bytes, "us": us,
               "bytes_per_us": reader.bytes / us["median"]}


def bursts(reader, repeats=11, megabytes=BURST_MEGABYTES):
    """The reading rate of a burst that finds nothing in the caches: kernel and launch, and inside the kernel."""
    half = reader.bytes // 2
    flush = reader.by_loads(2, half, half)
    for size in (count << 20 for count in megabytes):
        if size > half:
            return
        for how in ("loads", "copies"):
            by_events, inside = [], []
            for i in range(repeats):
                offset = i * size % (half // size * size)
                burst = reader.by_loads(2, offset, size) if how == "loads" else reader.by_copies(8, 16384, offset, size)
                flush[1]()
                outer, inner = reader.timed(*burst)
                by_events.append(outer)
                inside.append(inner)
            us = spread(inside)
            yield {"what": "burst", "by": how, "bytes": size, "us": us, "us_with_launch": spread(by_events),
                   "bytes_per_us": size / us["median"]}


def signals(gpu, image, repeats=15, rounds=ROUNDS, launches=100):
    """Nanoseconds of a signal between two workers, of a barrier of all, and of a launch."""
    module, sms = gpu.load(image), gpu.about()["sms"]
    cells, out = gpu.allocate(256), gpu.allocate(16)
    for what, blocks, per_round in (("hop", 2, 2), ("barrier", sms, 1)):
        kernel, samples = gpu.function(module, what), []
        for _ in range(repeats):
            gpu.fill(cells, 0, 256)
            gpu.launch(kernel, blocks, 32, (c_uint64(cells), c_uint(rounds), c_uint64(out)), cooperative=True)
            gpu.synchronize()
            spent, all_came = struct.unpack("<2Q", gpu.read(out, 16))
            if not all_came:
                raise RuntimeError(f"{what}: a signal did not come")
            samples.append(spent / ((rounds - 1) * per_round))
        yield {"what": what, "ns": spread(samples)}
    empty = gpu.function(module, "empty")
    many = [gpu.microseconds(lambda: [gpu.launch(empty, sms, 32, ()) for _ in range(launches)]) for _ in range(repeats)]
    yield {"what": "launch, one after another", "ns": spread([1e3 * us / launches for us in many])}


def clock(gpu, image):
    """Nanoseconds between two values of the clock that kernels read: times inside a kernel are no finer."""
    out = gpu.allocate(8 * TICKS)
    gpu.launch(gpu.function(gpu.load(image), "ticks"), 1, 1, (c_uint64(out), c_uint(TICKS)))
    gpu.synchronize()
    values = struct.unpack(f"<{TICKS}Q", gpu.read(out, 8 * TICKS))
    if 0 in values:
        raise RuntimeError("the clock stands still")
    yield {"what": "clock tick", "ns": spread([b - a for a, b in zip(values, values[1:])])}


def clock_rate(gpu, image):
    """The clock of a multiprocessor, and the largest that the driver tells of. The GPU should have been busy before."""
    out = gpu.allocate(16)
    gpu.launch(gpu.function(gpu.load(image), "cycles"), 1, 1, (c_uint64(out), c_uint(CLOCK_POLLS)))
    gpu.synchronize()
    cycles, ns = struct.unpack("<2Q", gpu.read(out, 16))
    yield {"what": "clock", "mhz": 1e3 * cycles / ns if ns else 0, "of": gpu.about()["clock_khz"] / 1e3}


def measurements(gpu, image, few=False):
    """All of them; few: on a small buffer, with few repeats."""
    reader = Reader(gpu, image, FEW_BYTES) if few else Reader(gpu, image)
    yield from continuous(reader, **({"repeats": 1} if few else {}))
    yield from clock_rate(gpu, image)
    yield from clock(gpu, image)
    yield from signals(gpu, image, **({"repeats": 2, "rounds": 10, "launches": 3} if few else {}))
    yield from bursts(reader, **({"repeats": 1, "megabytes": [1]} if few else {}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("image", type=Path, help="the kernels, as a cubin or as PTX that the driver assembles")
    parser.add_argument("--rate", action="store_true", help="the reading rate and the clock alone")
    parser.add_argument("--few", action="store_true", help="few repeats on little data, for a rehearsal")
    a = parser.parse_args()
    with Device() as gpu:
        print(json.dumps({"device": gpu.about()}), flush=True)
        for row in measurements(gpu, a.image.read_bytes(), a.few):
            if a.rate and row["what"] not in ("continuous", "clock"):
                break
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
