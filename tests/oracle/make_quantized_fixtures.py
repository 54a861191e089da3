"""Makes tests/fixtures/quantized: checkpoints that quantizers wrote, and what transformers computes with their weights.

Each step needs a Python of its own, because the tools ask for different versions of transformers:

    base          transformers==5.23.0 torch==2.14.0
    llmcompressor llmcompressor==0.14.0.1 (compressed-tensors 0.19.0, transformers 5.17.0)
    auto-round    auto-round==0.16.1
    gptqmodel     gptqmodel==7.7.0
    autoawq       autoawq==0.2.9 transformers==4.51.3 "datasets<4"
    modelopt      "nvidia-modelopt[hf]==0.47.0"
    transformers  transformers==5.23.0 accelerate
    gpt-oss       transformers==5.23.0
    expected      transformers==5.23.0 torch==2.14.0

No step needs a GPU. The base models are not kept. Usage: make_quantized_fixtures.py STEP BASE [FOLDER]
"""
import inspect
import json
import os
import random
import shutil
import sys
from pathlib import Path

import numpy
import torch
from safetensors.torch import load_file, save_file

SIZES = dict(num_hidden_layers=1, vocab_size=48, max_position_embeddings=64, rms_norm_eps=1e-5, bos_token_id=None,
             eos_token_id=None, pad_token_id=None, tie_word_embeddings=False)
NEW_TOKENS = 12
E2M1 = numpy.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6])
AWQ_ORDER = [0, 4, 1, 5, 2, 6, 3, 7]  # place of element i of 8 in a word


# ---- base models


def make_base(base):
    from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast
    from tokenizers import Tokenizer, models
    llama = LlamaConfig(**SIZES, hidden_size=128, intermediate_size=192, num_attention_heads=2, num_key_value_heads=1, head_dim=32)
    whole = LlamaConfig(**SIZES, hidden_size=128, intermediate_size=128, num_attention_heads=2, num_key_value_heads=2, head_dim=64)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE(vocab={chr(33 + i): i for i in range(SIZES["vocab_size"])}, merges=[])),
        eos_token="!", pad_token="!")
    for seed, (name, config) in enumerate([("llama", llama), ("blocks", whole)], 1):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for parameter, weight in model.named_parameters():
            weight.data.normal_(std=1.5 / weight.shape[-1] ** 0.5 if weight.dim() > 1 else 0.1)
            if "norm" in parameter:
                weight.data.add_(1)
        model.to(torch.bfloat16).save_pretrained(base / name)
        tokenizer.save_pretrained(base / name)


def text_ids(count, length):
    chosen = random.Random(1)
    return [[chosen.randrange(SIZES["vocab_size"]) for _ in range(length)] for _ in range(count)]


def load_base(base, name="llama", **options):
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(base / name, dtype=torch.bfloat16, **options)


# ---- quantizers


def make_llmcompressor(base, folder):
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier

    def integers(**arguments):
        return dict(config_groups={"group_0": QuantizationScheme(
            targets=["Linear"], weights=QuantizationArgs(type="int", dynamic=False, observer="memoryless_minmax", **arguments))})

    recipes = {
        "ct_fp8_rows": dict(scheme="FP8_DYNAMIC"),
        "ct_fp8_blocks": dict(scheme="FP8_BLOCK"),
        "ct_w4_some": dict(scheme="W4A16", ignore=["lm_head", "re:.*(o|down)_proj"]),  # with columns that 128 does not divide
        "ct_w4_zeros": integers(num_bits=4, symmetric=False, strategy="group", group_size=32),
        "ct_w4_rows": integers(num_bits=4, symmetric=True, strategy="channel"),
        "ct_w8_rows": integers(num_bits=8, symmetric=True, strategy="channel"),
        "ct_w8_groups": integers(num_bits=8, symmetric=True, strategy="group", group_size=64),
        "ct_mxfp4": dict(scheme="MXFP4A16"),
        "ct_nvfp4": dict(scheme="NVFP4A16"),
    }
    for name, recipe in recipes.items():
        recipe = {"targets": "Linear", "ignore": ["lm_head"], **recipe}
        if "config_groups" in recipe:
            del recipe["targets"]
        model = load_base(base)
        oneshot(model=model, recipe=QuantizationModifier(**recipe))
        model.save_pretrained(folder / name, save_compressed=True)


def make_auto_round(base, folder):
    from auto_round import AutoRound
    from transformers import AutoTokenizer
    settings = {
        "ar_gptq_w4": (dict(bits=4, group_size=64, sym=True), "auto_gptq"),
        "ar_gptq_w8": (dict(bits=8, group_size=32, sym=True), "auto_gptq"),
        "ar_gptq_zeros": (dict(bits=4, group_size=32, sym=False), "auto_gptq"),
        "ar_awq": (dict(bits=4, group_size=64, sym=False), "auto_awq"),
        "ar_round": (dict(bits=4, group_size=64, sym=True), "auto_round"),
        "ar_round_zeros": (dict(bits=4, group_size=64, sym=False), "auto_round"),
        "ar_round_fp8": (dict(scheme="FP8_BLOCK"), "auto_round"),
    }
    for name, (options, form) in settings.items():
        model = load_base(base)
        quantizer = AutoRound(model, AutoTokenizer.from_pretrained(base / "llama"), iters=0, disable_opt_rtn=True,
                              device_map="cpu", **options)
        quantizer.quantize_and_save(str(folder / name), format=form)
        for inner in [path for path in (folder / name).iterdir() if path.is_dir()]:  # a folder named by the settings
            for file in inner.iterdir():
                shutil.move(file, folder / name / file.name)
            inner.rmdir()


def make_gptqmodel(base, folder):
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
    from gptqmodel import BACKEND, GPTQModel, QuantizeConfig
    from gptqmodel.quantization import FORMAT
    settings = {
        "gptq": dict(bits=4, group_size=64, desc_act=False, sym=True, format=FORMAT.GPTQ),
        "gptq_v2": dict(bits=4, group_size=64, desc_act=False, sym=False, format=FORMAT.GPTQ_V2),
        "gptq_w8": dict(bits=8, group_size=32, desc_act=False, sym=True, format=FORMAT.GPTQ),
        "gptq_desc_act": dict(bits=4, group_size=64, desc_act=True, act_group_aware=False, sym=True, format=FORMAT.GPTQ),
    }
    texts = [{"input_ids": ids, "attention_mask": [1] * len(ids)} for ids in text_ids(32, 48)]
    for name, options in settings.items():
        model = GPTQModel.load(str(base / "llama"), QuantizeConfig(**options), device="cpu")
        model.quantize(texts, batch_size=1)
        model.save(str(folder / name))
        config = json.loads((folder / name / "config.json").read_text())
        config["quantization_config"].pop("meta", None)  # paths of this machine
        (folder / name / "config.json").write_text(json.dumps(config, indent=2) + "\n")
        loaded = GPTQModel.load(str(folder / name), device="cpu", backend=BACKEND.TORCH)
        tensors, weights = load_file(folder / name / "model.safetensors"), dequantized(folder / name)
        for module, layer in loaded.model.named_modules():
            if f"{module}.qweight" in tensors:
                expected = weights[f"{module}.weight"]
                found = layer.dequantize_weight().T.to(torch.float64).numpy()
                assert abs(found - expected).max() <= 2 ** -7 * abs(expected).max(), (name, module)  # scales in bf16


def make_autoawq(base, folder):
    from awq import AutoAWQForCausalLM
    from transformers import AutoTokenizer
    old = base / "llama-before-5"  # the config as transformers 4 spells it
    shutil.copytree(base / "llama", old, dirs_exist_ok=True)
    config = json.loads((old / "config.json").read_text())
    config["torch_dtype"], config["rope_theta"] = config.pop("dtype"), config.pop("rope_parameters")["rope_theta"]
    (old / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((old / "tokenizer_config.json").read_text()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    (old / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    model = AutoAWQForCausalLM.from_pretrained(str(old), device_map="cpu", safetensors=True, torch_dtype=torch.float16)
    texts = ["".join(chr(33 + i) for i in ids) for ids in text_ids(64, 32)]
    model.quantize(AutoTokenizer.from_pretrained(old), calib_data=texts, max_calib_seq_len=32, max_calib_samples=32, apply_clip=False,
                   quant_config={"zero_point": True, "q_group_size": 64, "w_bit": 4, "version": "GEMM"})
    model.save_quantized(str(folder / "awq"))


def make_modelopt(base, folder):
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint
    for name, config in [("modelopt_nvfp4", mtq.NVFP4_DEFAULT_CFG), ("modelopt_fp8", mtq.FP8_DEFAULT_CFG)]:
        model = load_base(base)
        mtq.quantize(model, config, lambda m: m(torch.tensor(text_ids(4, 32))))
        with torch.inference_mode():
            export_hf_checkpoint(model, export_dir=folder / name)


def make_transformers(base, folder):
    """Rounds by transformers' operation for the method fp8, and writes the file here: its quantizer asks for a GPU."""
    from transformers import FineGrainedFP8Config
    from transformers.integrations.finegrained_fp8 import Fp8Quantize

    for name, options in [("fp8_blocks", {}), ("fp8_ue8m0", {"scale_fmt": "ue8m0"})]:
        class Quantizer:
            quantization_config = FineGrainedFP8Config(**options)
            pre_quantized = False

        model, out = load_base(base, "blocks"), folder / name  # the operation leaves matrices with partial blocks as they are
        model.save_pretrained(out)
        tensors = load_file(out / "model.safetensors")
        for weight in [weight for weight in tensors if weight.endswith("_proj.weight")]:
            tensors.update(Fp8Quantize(Quantizer()).convert({weight: tensors.pop(weight)}, model=model, full_layer_name=weight))
        save_file({weight: tensor.contiguous() for weight, tensor in tensors.items()}, out / "model.safetensors", {"format": "pt"})
        config = json.loads((out / "config.json").read_text())
        config["quantization_config"] = Quantizer.quantization_config.to_dict() | {"quant_method": "fp8"}
        (out / "config.json").write_text(json.dumps(config, indent=2, default=str) + "\n")


def make_gpt_oss(base, folder):
    """Rounds experts to MXFP4 here, because transformers' quantizer asks for kernels of a GPU, and writes them as gpt-oss has them."""
    from transformers import AutoModelForCausalLM, GptOssConfig
    yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=16, truncate=False)
    config = GptOssConfig(**SIZES | dict(num_hidden_layers=2), hidden_size=64, intermediate_size=96, num_attention_heads=4,
                          num_key_value_heads=2, head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=8,
                          rope_parameters=yarn)
    torch.manual_seed(3)
    model, out = AutoModelForCausalLM.from_config(config, dtype=torch.float32), folder / "gpt_oss_mxfp4"
    for name, weight in model.named_parameters():
        std = 3 if name.endswith("gate_up_proj_bias") else 1.5 if name.endswith("sinks") else 0.1
        weight.data.normal_(std=1.5 / weight.shape[-1] ** 0.5 if weight.dim() > 1 and not name.endswith("bias") else std)
        if "norm" in name:
            weight.data.add_(1)
    model.to(torch.bfloat16).save_pretrained(out)
    tensors = load_file(out / "model.safetensors")
    for name in [name for name in tensors if name.endswith("_proj") and ".experts." in name]:
        rows = float64(tensors.pop(name)).swapaxes(1, 2)
        groups = rows.reshape(*rows.shape[:2], -1, 32)
        scales = numpy.floor(numpy.log2(abs(groups).max(-1))) - 2
        codes = abs(groups[..., None] / 2.0 ** scales[..., None, None] - E2M1).argmin(-1).astype(numpy.uint8)
        tensors[name + "_blocks"] = torch.from_numpy(codes[..., ::2] | codes[..., 1::2] << 4)
        tensors[name + "_scales"] = torch.from_numpy((scales + 127).astype(numpy.uint8))
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, out / "model.safetensors", {"format": "pt"})
    config = json.loads((out / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
        "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n")


# ---- weights from the definitions of the formats, in float64


def numbers(words, bits, axis):
    """Splits int32 words into numbers of `bits` along an axis, the lowest first."""
    words = numpy.moveaxis(words.numpy().view(numpy.uint32), axis, -1)
    parts = words[..., None] >> numpy.arange(0, 32, bits, dtype=numpy.uint32) & (2 ** bits - 1)
    return numpy.moveaxis(parts.reshape(*words.shape[:-1], -1), -1, axis).astype(numpy.int64)


def float64(tensor):
    return tensor.to(torch.float64).numpy()


def spread(scales, shape, block=None):
    """Repeats scales so that there is one for each weight. Blocks are 128 x 128, or what the shapes say."""
    if scales.size == 1:
        return numpy.full(shape, scales.reshape(()))
    rows, cols = block or (shape[0] // scales.shape[0], shape[1] // scales.shape[1])
    return scales.repeat(rows, 0).repeat(cols, 1)[:shape[0], :shape[1]]


def of_floats8(t, name):
    scales = float64(t.get(name + "_scale_inv", t.get(name + "_scale")))
    scales = scales.reshape(-1, 1) if scales.ndim == 1 and scales.size > 1 else scales
    weights = float64(t[name])
    rows = scales.size == 1 or (scales.shape[1] == 1 and scales.shape[0] == weights.shape[0])
    return weights * spread(scales, weights.shape, None if rows else (128, 128))


def of_floats4(t, name, codes):
    codes = t[codes].numpy()
    weights = E2M1[numpy.stack([codes & 15, codes >> 4], -1).reshape(codes.shape[0], -1)]
    scales = t[name + "_scale"]
    factor = 1 / t[name + "_global_scale"].item() if name + "_global_scale" in t else t.get(name + "_scale_2", torch.ones(())).item()
    scales = 2.0 ** (scales.numpy().astype(float) - 127) if scales.dtype == torch.uint8 else float64(scales)
    return weights * spread(scales, weights.shape) * factor


def of_blocks(t, name):
    codes = t[name + "_blocks"].numpy()
    weights = E2M1[numpy.stack([codes & 15, codes >> 4], -1).reshape(*codes.shape[:3], 32)]
    weights = weights * 2.0 ** (t[name + "_scales"].numpy().astype(float) - 127)[..., None]
    return weights.reshape(*codes.shape[:2], -1).swapaxes(1, 2)


def of_packed(t, name, bits):
    rows, cols = t[name + "_shape"].tolist()
    codes = numbers(t[name + "_packed"], bits, 1)[:, :cols]
    zeros = numpy.full((rows, 1), 2 ** (bits - 1))
    if name + "_zero_point" in t:
        zeros = numbers(t[name + "_zero_point"], bits, 0)[:rows]
    return (codes - spread(zeros, codes.shape)) * spread(float64(t[name + "_scale"]), codes.shape)


def of_columns(t, module, config):
    bits, awq = config["bits"], config["quant_method"] == "awq" or "awq" in config.get("packing_format", "")
    codes = numbers(t[module + "qweight"], bits, 1 if awq else 0)
    zeros = numbers(t[module + "qzeros"], bits, 1)
    if awq:
        order = (numpy.arange(codes.shape[1]) // 8 * 8) + numpy.tile(AWQ_ORDER, codes.shape[1] // 8)
        codes, zeros = codes[:, order], zeros[:, order]
    elif config.get("checkpoint_format") != "gptq_v2":
        zeros = zeros + 1
    groups = numpy.arange(codes.shape[0]) // (codes.shape[0] // zeros.shape[0])
    if module + "g_idx" in t:
        groups = t[module + "g_idx"].numpy()
    return ((codes - zeros[groups]) * float64(t[module + "scales"])[groups]).T


def dequantized(folder):
    """Returns the weights of a checkpoint as matrices of float64."""
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    t = load_file(folder / "model.safetensors")
    bits = config.get("bits") or next(iter(config.get("config_groups", {"": {}}).values())).get("weights", {}).get("num_bits")
    weights = {}
    for name, tensor in t.items():
        module = name[:name.rfind(".") + 1]
        if tensor.dtype == torch.float8_e4m3fn and name.endswith(".weight"):
            weights[name] = of_floats8(t, name)
        elif tensor.dtype == torch.uint8 and name.endswith(".weight"):
            weights[name] = of_floats4(t, name, name)
        elif tensor.dtype == torch.uint8 and name.endswith(".weight_packed"):
            weights[module + "weight"] = of_floats4(t, module + "weight", name)
        elif name.endswith("_blocks"):
            weights[name[:-len("_blocks")]] = of_blocks(t, name[:-len("_blocks")])
        elif name.endswith(".weight_packed"):
            weights[module + "weight"] = of_packed(t, module + "weight", bits)
        elif name.endswith(".qweight"):
            weights[module + "weight"] = of_columns(t, module, config)
        elif name.endswith((".weight", "bias", "sinks")):
            weights[name] = float64(tensor)
    return weights


# ---- what transformers computes


def check_against_tools(folder, weights):
    """Compares weights with those that transformers and compressed-tensors unpack."""
    from transformers import AutoModelForCausalLM, CompressedTensorsConfig, FineGrainedFP8Config, Mxfp4Config
    method = json.loads((folder / "config.json").read_text())["quantization_config"]["quant_method"]
    configs = {"compressed-tensors": CompressedTensorsConfig, "fp8": FineGrainedFP8Config, "mxfp4": Mxfp4Config}
    if method not in configs:
        return "numpy alone"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, quantization_config=configs[method](dequantize=True))
    worst = 0
    for name, weight in model.named_parameters():
        error = abs(weight.to(torch.float64).detach().numpy() - weights[name]).max() / abs(weights[name]).max()
        assert error < 2 ** -8, (folder, name, error)  # some unpack to bf16; NaN is refused, too
        worst = max(worst, error)
    return f"transformers' weights within {worst:.1e}"


def tokens_and_logits(model, prompt, ids=None):
    ids = list(ids or prompt)
    with torch.no_grad():
        while len(ids) < len(prompt) + NEW_TOKENS:
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
        return ids, model(torch.tensor([ids[:-1]])).logits[0].to(torch.float64)


def write_expected(folder):
    from transformers import AutoConfig, AutoModelForCausalLM
    weights = dequantized(folder)
    checked = check_against_tools(folder, weights)
    config = AutoConfig.from_pretrained(folder)
    del config.quantization_config
    state = {name: torch.from_numpy(weight) for name, weight in weights.items()}
    prompt, runs = text_ids(1, 7)[0], []
    ids = None
    for dtype in (torch.float64, torch.bfloat16):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, experts_implementation="eager").eval()
        # The frequencies of RoPE are made anew, because from_config() rounds them to the dtype.
        model.load_state_dict({name: tensor.to(dtype) for name, tensor in state.items()}, strict=True)
        ids, logits = tokens_and_logits(model, prompt, ids)
        runs.append(logits)
    distances = (runs[1] - runs[0]).norm(dim=-1) / runs[0].norm(dim=-1)
    expected = {"prompt_ids": prompt, "new_ids": ids[len(prompt):], "bf16_distance": float(f"{distances.max().item():.3g}"),
                "logits": [[float(f"{v:.9g}") for v in row] for row in runs[0].tolist()]}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(f"{folder.name}: {checked}; bf16 within {distances.max():.2e}")


def make_expected(base, folder):
    for path in sorted(folder.iterdir()):
        for file in path.iterdir():
            if file.name not in ("config.json", "model.safetensors", "hf_quant_config.json"):
                file.unlink()
        write_expected(path)


def main():
    step, base = sys.argv[1], Path(sys.argv[2])
    folder = Path(sys.argv[3] if len(sys.argv) > 3 else Path(__file__).parent.parent / "fixtures" / "quantized")
    make = globals()["make_" + step.replace("-", "_")]
    make(base, *[folder] * (len(inspect.signature(make).parameters) - 1))


main()
