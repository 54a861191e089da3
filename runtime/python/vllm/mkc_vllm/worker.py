"""vLLM's worker: the engine calls it to start and for each step. mkc does forward and sampling in one launch."""
import logging
import random

import mkc
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.kv_cache_layout import KVCacheLayout
from vllm.v1.outputs import EMPTY_MODEL_RUNNER_OUTPUT
from vllm.v1.worker.utils import allocate_kv_cache
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

from . import checkpoint_of, device
from .launches import Launches
from .outputs import Output
from .requests import Requests
from .settings import Unsupported

_log = logging.getLogger("vllm.mkc")
_DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}  # by an element of the manifest
_CACHE_BYTES = 1 << 30  # of a processor's cache, where no setting says


class Worker(WorkerBase):
    """Calls come in the order of the methods. One thread calls them."""

    def init_device(self):
        self.mkc_device = device()
        self.device = torch.device("cuda", self.local_rank) if self.mkc_device == "cuda" else torch.device("cpu")
        if self.device.type == "cuda":  # not run on a GPU
            torch.accelerator.set_device_index(self.device)

    def load_model(self, *, load_dummy_weights=False):
        if load_dummy_weights:
            raise Unsupported("mkc: load_format: found dummy, expected a checkpoint")
        scheduler, model = self.scheduler_config, self.model_config
        self.mkc = mkc.load(checkpoint_of(model), self.mkc_device, context=model.max_model_len,
                            max_tokens=scheduler.max_num_batched_tokens, max_requests=scheduler.max_num_seqs)
        self.session = self.mkc.session
        self._cache = self.mkc.manifest["caches"][0]
        if _DTYPES[self._cache["element"]] != model.dtype:
            raise Unsupported(f"mkc: dtype: found {model.dtype}, expected {_DTYPES[self._cache['element']]}, that of the checkpoint")
        if self.device.type == "cuda":
            self.session.set_stream(torch.cuda.current_stream(self.device).cuda_stream)
        _log.warning("mkc serves %s on %s", model.model, self.mkc.device)

    def get_kv_cache_spec(self):
        spec = FullAttentionSpec(block_size=self.cache_config.block_size, num_kv_heads=self._cache["heads"],
                                 head_size=self._cache["head_dim"], dtype=self.model_config.dtype)
        return {f"model.layers.{layer}.self_attn.attn": spec for layer in range(self.session.caches // 2)}

    def get_supported_kv_cache_layouts(self):
        return [layout.name for layout in (KVCacheLayout.LBNHC, KVCacheLayout.LBHNC, KVCacheLayout.BLNHC,
                                           KVCacheLayout.BLHNC)]

    def determine_available_memory(self):
        given = self.cache_config.kv_cache_memory_bytes
        if given or self.device.type != "cuda":
            return given or _CACHE_BYTES
        free, total = torch.cuda.mem_get_info(self.device)  # with mkc's weights and workspace in place; not run on a GPU
        return int(free - total * (1 - self.cache_config.gpu_memory_utilization))

    def update_max_model_len(self, max_model_len):
        self.model_config.max_model_len = max_model_len

    def initialize_from_config(self, kv_cache_config):
        group, = kv_cache_config.kv_cache_groups
        self._caches = self._allocate(kv_cache_config)
        views = [self._caches[name] for name in group.layer_names]
        spec, item = group.kv_cache_spec, views[0].element_size()
        blocks, heads, positions, _ = (step * item for step in views[0].stride())
        base = [self._address(view) + half * spec.head_size * item for view in views for half in (0, 1)]
        self.session.use_cache(spec.block_size, kv_cache_config.num_blocks, (blocks, positions, heads), base)
        self.requests = Requests(random.Random(self.model_config.seed))
        self.launches = Launches(self.session, spec.block_size)
        self._parts = None

    def _allocate(self, kv_cache_config):
        """Views [block, head, position, key and value] by layer's name, of one shape and stride."""
        return allocate_kv_cache(kv_cache_config, self.device, KVCacheLayout[kv_cache_config.kv_cache_layout])

    @staticmethod
    def _address(view):
        return view.data_ptr()

    def compile_or_warm_up_model(self):
        return CompilationTimes(language_model=0.0, encoder=0.0)

    def get_supported_tasks(self):
        return ("generate",)

    def execute_model(self, scheduler_output):
        """Takes a step. Its launch begins in sample_tokens, because a grammar's mask comes there."""
        self.requests.update(scheduler_output)
        self._copy_blocks(scheduler_output.kv_cache_block_copies or ())
        if scheduler_output.total_num_scheduled_tokens == 0:
            return EMPTY_MODEL_RUNNER_OUTPUT
        self._parts = self.requests.parts(scheduler_output)
        return None

    def sample_tokens(self, grammar_output):
        parts, self._parts = self._parts, None
        masks = {} if grammar_output is None else dict(zip(grammar_output.structured_output_request_ids,
                                                           grammar_output.grammar_bitmask))
        output = Output(parts, self.launches.begin(parts, masks), self.launches)
        return output if self.scheduler_config.async_scheduling else output.get_output()

    def _copy_blocks(self, copies):
        for copy in copies:  # in the order of the launches: on their stream, or at once on the processor
            for cache in self._caches.values():
                cache[copy.dst_block_id] = cache[copy.src_block_id]

    def take_draft_token_ids(self):
        return None

    def execute_dummy_batch(self):
        pass

    def reset_encoder_cache(self):
        pass

    def profile(self, is_start=True, profile_prefix=None):
        raise Unsupported("mkc: profile: found a call, expected none: mkc run --trace records a step")

    def sleep(self, level=1):
        raise Unsupported("mkc: sleep: found a call, expected none: mkc has no sleep mode")

    def wake_up(self, tags=None):
        raise Unsupported("mkc: wake_up: found a call, expected none: mkc has no sleep mode")

    def list_loras(self):
        return set()

    def shutdown(self):
        if hasattr(self, "mkc"):
            self.mkc.close()
