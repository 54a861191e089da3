"""The processor as a platform of vLLM."""
import os

import torch
import vllm
from vllm.platforms.interface import Platform, PlatformEnum

from . import settings


class ProcessorPlatform(Platform):
    """x86-64 with AVX2 or AVX-512. None of vLLM's own kernels is used."""
    _enum = PlatformEnum.OOT
    device_name = "mkc-cpu"
    device_type = "cpu"
    dispatch_key = "CPU"
    dist_backend = "gloo"
    device_control_env_var = "MKC_VISIBLE_DEVICES"

    @property
    def supported_dtypes(self):
        return [torch.bfloat16, torch.float16, torch.float32]

    @classmethod
    def get_device_name(cls, device_id=0):
        return cls.device_name

    @classmethod
    def get_device_total_memory(cls, device_id=0):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    @classmethod
    def is_pin_memory_available(cls):
        return False

    @classmethod
    def inference_mode(cls):
        return torch.no_grad()

    @classmethod
    def import_kernels(cls):
        pass

    @classmethod
    def import_ir_kernels(cls):
        pass

    @classmethod
    def set_device(cls, device):
        pass

    @classmethod
    def manual_seed_all(cls, seed):
        pass

    @classmethod
    def check_if_supports_dtype(cls, dtype):
        pass

    @classmethod
    def support_hybrid_kv_cache(cls):
        return True

    @classmethod
    def pre_register_and_update(cls, parser=None):
        settings.ask_for_second_runner()

    @classmethod
    def check_and_update_config(cls, vllm_config):
        settings.check_version(vllm.__version__)
        if vllm_config.model_config is None:
            return
        settings.check(vllm_config)
        settings.adapt(vllm_config)

    @classmethod
    def validate_request(cls, processed_inputs, params):
        settings.check_request(params)
