"""An NVIDIA GPU as a platform of vLLM. Not run on a GPU."""
import logging
import os

import vllm
from vllm.platforms.cuda import CudaPlatform as VllmPlatform

from . import settings

_log = logging.getLogger("vllm.mkc")


class CudaPlatform(VllmPlatform):
    """vLLM's platform with mkc's worker where mkc can serve. vLLM's own worker serves everything else, unless MKC_VLLM is
    "cuda": the reason is then an error."""
    served = False  # by mkc

    @classmethod
    def pre_register_and_update(cls, parser=None):
        super().pre_register_and_update(parser)
        if os.environ.get("MKC_VLLM") == "cuda":
            settings.ask_for_second_runner()

    @classmethod
    def check_and_update_config(cls, vllm_config):
        if vllm_config.model_config is not None:
            cls.served = cls._take(vllm_config)
        super().check_and_update_config(vllm_config)

    @classmethod
    def _take(cls, config):
        try:
            settings.check_version(vllm.__version__)
            settings.check(config)
            settings.adapt(config)
            return True
        except settings.Unsupported as reason:
            if os.environ.get("MKC_VLLM") == "cuda":
                raise
            _log.warning("%s; vLLM's own worker serves the model", reason)
            return False

    @classmethod
    def validate_request(cls, processed_inputs, params):
        super().validate_request(processed_inputs, params)
        if cls.served:
            settings.check_request(params)
