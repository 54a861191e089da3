"""This module reads and writes safetensors files in Python alone, and has the numbers of codes and the scales of mkc quantize."""
import json
import math
import struct

E2M1 = [0, .5, 1, 1.5, 2, 3, 4, 6]
CLIPS = [1 - i / 64 for i in range(33)]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    magnitude = math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)
    return -magnitude if code & 0x80 else magnitude


def bf16(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


def to_bf16(x):
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return bf16(bits + 0x7fff + (bits >> 16 & 1) >> 16)


def read_tensors(path):
    """Returns name -> (dtype, shape, bytes)."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    cut = {name: tuple(8 + size + x for x in entry["data_offsets"]) for name, entry in header.items()}
    return {name: (entry["dtype"], entry["shape"], data[slice(*cut[name])]) for name, entry in header.items()}


def floats(tensor):
    dtype, _, data = tensor
    if dtype == "BF16":
        return [bf16(bits) for bits, in struct.iter_unpack("<H", data)]
    return [x for x, in struct.iter_unpack({"F32": "<f", "F16": "<e"}[dtype], data)]


def write_tensors(path, tensors):
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at := at + len(data)]}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def squared_error(weights, scale, numbers):
    return sum(min((w - n * scale) ** 2 for n in numbers) for w in weights)


def candidates(form, weights):
    greatest = max(map(abs, weights))
    if form == "mxfp4":
        exponent = math.frexp(greatest)[1] - 1 - 2
        return [2.0 ** e for e in (exponent - 1, exponent, exponent + 1)]
    return [to_bf16(greatest / {"int4-g128": 7}.get(form, 448) * clip) for clip in CLIPS]
