"""Prints as JSON what vLLM's own classes make of settings with mkc as the platform. Usage: contract.py CASES, a JSON list
of arguments of EngineArgs.

A GPU is not there: functions that ask for its properties are replaced.
"""
import json
import sys

from server import TINY
from vllm.engine.arg_utils import EngineArgs
from vllm.platforms import current_platform, interface

kind = type(current_platform)
if current_platform.is_cuda():
    kind.get_device_capability = classmethod(lambda cls, device_id=0: interface.DeviceCapability(9, 0))
    kind.get_device_name = classmethod(lambda cls, device_id=0: "a GPU that is not there")
    kind.get_device_total_memory = classmethod(lambda cls, device_id=0: 80 << 30)
    kind.device_count = classmethod(lambda cls: 2)


def made(arguments):
    """Returns the worker's class and sizes of a step, or the reason of a refusal."""
    try:
        config = EngineArgs(**{"model": str(TINY), "max_model_len": 512, **arguments}).create_engine_config()
    except Exception as reason:  # vLLM wraps it by pydantic
        return str(reason)
    scheduler = config.scheduler_config
    return [config.parallel_config.worker_cls, scheduler.max_num_batched_tokens, scheduler.max_num_seqs, config.use_v2_model_runner]


bases = [f"{base.__module__}.{base.__qualname__}" for base in kind.__mro__]
print("RESULT" + json.dumps({"bases": bases, "made": [made(case) for case in json.loads(sys.argv[1])]}))
