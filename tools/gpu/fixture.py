"""Copies a test model for a bundle, whose expected.json says how far a row of logits may be from the expected one.

Usage: fixture.py SOURCE FOLDER [--f16] [--tolerance ERROR]
--f16: tensors of bf16 become f16. Others stay.
--tolerance: of a row, where neither the fixture nor its type of weights decides it.
"""
import argparse
import json
import shutil
import struct
from pathlib import Path

F32 = 1e-4  # weights, activations and cache of f32: sums in another order


def halves(raw):
    """Returns a file of safetensors with its tensors of bf16 as f16."""
    (length,) = struct.unpack_from("<Q", raw)
    header, data = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
    for name, tensor in header.items():
        if name == "__metadata__" or tensor["dtype"] != "BF16":
            continue
        tensor["dtype"] = "F16"
        begin, end = tensor["data_offsets"]
        words = struct.unpack(f"<{(end - begin) // 2}H", data[begin:end])
        values = struct.unpack(f"<{len(words)}f", b"".join(struct.pack("<HH", 0, word) for word in words))
        data[begin:end] = struct.pack(f"<{len(values)}e", *values)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def tolerance(config, expected):
    """Returns the error that a fixture allows a row, or None."""
    if "bf16_distance" in expected:  # of transformers in bf16
        return 2 * expected["bf16_distance"]
    return F32 if "float32" in (config.get("torch_dtype"), config.get("dtype")) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--f16", action="store_true")
    parser.add_argument("--tolerance", type=float)
    a = parser.parse_args()
    shutil.copytree(a.source, a.folder, dirs_exist_ok=True)
    config, expected = (json.loads((a.source / name).read_text()) for name in ("config.json", "expected.json"))
    allowed = a.tolerance or tolerance(config, expected)
    if allowed:
        (a.folder / "expected.json").write_text(json.dumps({**expected, "tolerance": allowed}))
    if a.f16:
        dtype = "dtype" if "dtype" in config else "torch_dtype"
        (a.folder / "config.json").write_text(json.dumps({**config, dtype: "float16"}))
        weights = a.folder / "model.safetensors"
        weights.write_bytes(halves(weights.read_bytes()))


if __name__ == "__main__":
    main()
