"""vLLM's settings are checked when vLLM starts. Settings that mkc does not support are refused with the reason."""
import logging
import math
import os
from pathlib import Path

VERSION = "0.33"     # of vLLM, whose classes this package implements
MAX_ROWS = 256       # of a step of mkc
MAX_REQUESTS = 64    # of a step of mkc
PAGE_SIZES = (16, 32, 64)
WORKER = "mkc_vllm.worker.Worker"
CACHE_TYPES = ("auto", "bfloat16", "float16")
MAX_TEMPERATURE = 1e6
MAX_BIAS = 1e30      # but for minus infinity, which forbids an id

_log = logging.getLogger("vllm.mkc")


class Unsupported(ValueError):
    """A setting that mkc cannot serve, with what was found and what is expected."""


def check_version(found):
    if found.split(".")[:2] != VERSION.split("."):
        raise Unsupported(f"vllm: found version {found}, expected {VERSION}.x, which mkc_vllm was made for")


def ask_for_second_runner():
    """Asks vLLM for the scheduler's messages in the form of its second model runner. vLLM would want Triton for them."""
    os.environ.setdefault("VLLM_USE_V2_MODEL_RUNNER", "1")


def _expect(name, found, expected):
    if found not in expected:
        raise Unsupported(f"mkc: {name}: found {found}, expected {' or '.join(map(str, expected))}")


def _check_parallel(parallel):
    for name in ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size", "prefill_context_parallel_size",
                 "decode_context_parallel_size"):
        _expect(name, getattr(parallel, name), (1,))
    _expect("distributed_executor_backend", parallel.distributed_executor_backend, (None, "uni"))


def _check_absent(config, names):
    for name in names:
        if getattr(config, name, None):
            raise Unsupported(f"mkc: {name}: found a setting, expected none: mkc has no such feature in vLLM")


def _check_model(model):
    _expect("runner", model.runner_type, ("generate",))
    _expect("logprobs_mode", model.logprobs_mode, ("raw_logprobs",))
    if model.is_encoder_decoder or model.is_multimodal_model:
        raise Unsupported("mkc: model: found one with an encoder or more than text, expected a decoder of text")
    _check_absent(model, ("enable_prompt_embeds", "enable_sleep_mode", "logits_processors", "enable_return_routed_experts"))


def _check_cache(cache):
    _expect("block_size", cache.block_size, PAGE_SIZES)
    _expect("kv_cache_dtype", cache.cache_dtype, CACHE_TYPES)


def _check_architecture(model):
    from mkc import _native, errors
    if not Path(model.model).is_dir():
        return  # a name of the hub, which is fetched later
    try:
        _native.command(["compile", model.model, "--emit=ops", "-o", "-"])
    except errors.Error as reason:
        raise Unsupported(f"mkc cannot serve {model.model}: {reason}") from None


def check(config):
    """Raises Unsupported for the first setting of a VllmConfig that mkc cannot serve."""
    _check_parallel(config.parallel_config)
    _expect("use_v2_model_runner", config.use_v2_model_runner, (True,))
    _check_absent(config, ("lora_config", "speculative_config", "kv_transfer_config", "ec_transfer_config",
                           "diffusion_config", "watermark_config"))
    _check_model(config.model_config)
    _check_cache(config.cache_config)
    _check_architecture(config.model_config)


def _lower(scheduler, name, most, why="a step of mkc has at most %d"):
    found = getattr(scheduler, name)
    if found > most:
        _log.warning(f"mkc: %s: found %d, {why}, which are used", name, found, most)
        setattr(scheduler, name, most)


def adapt(config):
    """Sets what mkc needs in a VllmConfig that check() has passed: its worker, sizes of a step, no compilation by torch."""
    from vllm.config import CompilationMode, CUDAGraphMode
    scheduler, compilation = config.scheduler_config, config.compilation_config
    _lower(scheduler, "max_num_batched_tokens", MAX_ROWS)
    _lower(scheduler, "max_num_seqs", MAX_REQUESTS)
    _lower(scheduler, "max_num_batched_tokens", scheduler.max_num_seqs * config.model_config.max_model_len,
           "a step has at most max_num_seqs times max_model_len, %d")
    if not scheduler.enable_chunked_prefill and config.model_config.max_model_len > scheduler.max_num_batched_tokens:
        raise Unsupported(f"mkc: enable_chunked_prefill: found False for prompts of up to "
                          f"{config.model_config.max_model_len} tokens, expected True above {MAX_ROWS}")
    config.parallel_config.worker_cls = WORKER
    config.parallel_config.distributed_executor_backend = "uni"
    compilation.mode = CompilationMode.NONE
    compilation.cudagraph_mode = CUDAGraphMode.NONE
    compilation.cudagraph_capture_sizes = []


def check_request(params):
    """Refuses what mkc cannot do for one request. vLLM answers such a request with status 400."""
    from vllm.exceptions import VLLMValidationError

    def refuse(field, expected):
        raise VLLMValidationError(f"mkc: {field}: found {getattr(params, field)}, expected {expected}", parameter=field)

    for field in ("prompt_logprobs", "prompt_logprob_token_ids", "logprob_token_ids", "thinking_token_budget",
                  "trace_decode_token_ids"):
        if getattr(params, field, None) is not None:
            refuse(field, "none: mkc has no such feature in vLLM")
    if getattr(params, "logprobs", None) is not None and not 0 <= params.logprobs <= 20:
        refuse("logprobs", "0 to 20")
    if not 0.001 <= getattr(params, "repetition_penalty", 1) <= 1000:
        refuse("repetition_penalty", "0.001 to 1000")
    if not getattr(params, "temperature", 0) <= MAX_TEMPERATURE:
        refuse("temperature", f"at most {MAX_TEMPERATURE:.0f}")
    if not all(abs(bias) <= MAX_BIAS or bias == -math.inf for bias in (getattr(params, "logit_bias", None) or {}).values()):
        refuse("logit_bias", f"values of -{MAX_BIAS:g} to {MAX_BIAS:g}, or -inf")
