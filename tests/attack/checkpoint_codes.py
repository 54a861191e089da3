"""Checkpoints that mkc quantize writes, and their weights as torch unpacks them from the definitions of the formats."""
import json

import torch
from safetensors.torch import load_file, save_file

FORMATS = ["fp8", "fp8-block", "int4-g128", "mxfp4"]
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)


def codes_of(packed, per_word):
    """Returns the codes of 4 bits of words, the lowest first."""
    return (packed.long()[:, :, None] >> (4 * torch.arange(per_word)) & 15).flatten(1)


def dequantized(tensors, name):
    """Returns the matrix `name`, or None where it is not quantized."""
    scales, packed = tensors.get(name + "_scale"), tensors.get(name + "_packed")
    if scales is None:
        return None
    if packed is None:
        values, rows = tensors[name].double(), tensors[name].shape[0]
        block = 1 if scales.shape[0] == rows else 128
        scales = scales.double().repeat_interleave(block, 0)[:rows]
        return values * (scales if scales.shape[1] == 1 and block == 1 else scales.repeat_interleave(128, 1)[:, :values.shape[1]])
    if packed.dtype == torch.int32:
        values, scales = codes_of(packed, 8).double() - 8, scales.double()
    else:
        values, scales = E2M1[codes_of(packed, 2)], 2.0 ** (scales.double() - 127)
    return values * scales.repeat_interleave(values.shape[1] // scales.shape[1], 1)


def unquantize(source, target):
    """Writes the checkpoint with the same weights in f32. Products of codes and scales are f32 numbers."""
    target.mkdir()
    config = json.loads((source / "config.json").read_text())
    config.pop("quantization_config")
    config.pop("dtype", None)
    (target / "config.json").write_text(json.dumps(config | {"torch_dtype": "float32"}))
    tensors = {key: value for path in source.glob("*.safetensors") for key, value in load_file(path).items()}
    names = {key.removesuffix("_packed").removesuffix("_scale").removesuffix("_shape") for key in tensors}
    weights = {name: found if (found := dequantized(tensors, name)) is not None else tensors[name] for name in names}
    save_file({name: weight.float().contiguous() for name, weight in weights.items()}, target / "model.safetensors", {"format": "pt"})
