"""This module writes a checkpoint of a published shape whose layers' products have codes: 8-bit floats by row
or by block, or 4-bit integers by groups of 128 columns. The file is sparse, because the compiler reads only names, types and shapes.
"""
import json
import struct

LAYERS = 2
BLOCK = GROUP = 128


def compressed(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": {"weights": weights}}}


QUANTIZATION = {
    "e4m3": compressed("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True),
    "e4m3_block": {"quant_method": "fp8", "weight_block_size": [BLOCK, BLOCK]},
    "int4": compressed("pack-quantized", num_bits=4, type="int", strategy="group", group_size=GROUP),
}


def coded_tensors(name, rows, cols, coding):
    """Yields name, type, bytes of an element, and shape of each tensor of a coded matrix."""
    if coding == "int4":
        yield name + "_packed", "I32", 4, [rows, cols // 8]
        yield name + "_scale", "BF16", 2, [rows, cols // GROUP]
        return
    yield name, "F8_E4M3", 1, [rows, cols]
    if coding == "e4m3":
        yield name + "_scale", "BF16", 2, [rows, 1]
    else:
        yield name + "_scale_inv", "F32", 4, [-(-rows // BLOCK), -(-cols // BLOCK)]


def plain_tensors(config):
    """Yields the name and shape of each tensor of Llama, or of Qwen3-MoE."""
    hidden, vocab, ffn = config["hidden_size"], config["vocab_size"], config["intermediate_size"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or hidden // heads
    yield from (("model.embed_tokens.weight", [vocab, hidden]), ("model.norm.weight", [hidden]))
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", [vocab, hidden]
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        yield from ((f"{at}{norm}_layernorm.weight", [hidden]) for norm in ("input", "post_attention"))
        yield from ((f"{at}self_attn.{name}_proj.weight", shape) for name, shape in (
            ("q", [heads * dim, hidden]), ("k", [kv_heads * dim, hidden]), ("v", [kv_heads * dim, hidden]), ("o", [hidden, heads * dim])))
        experts = config.get("num_experts", 0)
        if experts:
            ffn = config["moe_intermediate_size"]
            yield f"{at}mlp.gate.weight", [experts, hidden]
            yield from ((f"{at}self_attn.{name}_norm.weight", [dim]) for name in "qk")
        for block in [f"{at}mlp.experts.{e}." for e in range(experts)] or [f"{at}mlp."]:
            yield from ((f"{block}{name}_proj.weight", shape) for name, shape in (
                ("gate", [ffn, hidden]), ("up", [ffn, hidden]), ("down", [hidden, ffn])))


def write_coded(source, to, coding="e4m3"):
    """Writes a quantized checkpoint to the folder `to`. The shape is that of the folder `source`, with fewer
    layers. `coding` is a key of QUANTIZATION.
    """
    config = json.loads((source / "config.json").read_text())
    config.update(num_hidden_layers=LAYERS, quantization_config=QUANTIZATION[coding])
    header, end = {}, 0

    def add(name, dtype, shape, width):
        nonlocal end
        size = width
        for extent in shape:
            size *= extent
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size

    for name, shape in plain_tensors(config):
        if name.endswith("_proj.weight"):
            for coded, dtype, width, of_coded in coded_tensors(name, *shape, coding):
                add(coded, dtype, of_coded, width)
        else:
            add(name, "BF16", shape, 2)
    text = json.dumps(header).encode()
    to.mkdir(parents=True)
    (to / "config.json").write_text(json.dumps(config))
    with open(to / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + end)
