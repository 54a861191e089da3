"""The worker's memory of requests. vLLM's scheduler sends what changed; a step needs all of it."""
from dataclasses import dataclass, field


@dataclass(eq=False)
class Sample:
    """A token that a launch samples: request `index` of the launch. The host knows its id when the launch has ended."""
    launch: object
    index: int


@dataclass(eq=False)
class Request:
    id: str
    tokens: list       # the prompt and what was sampled: ids, or a Sample whose id is not known yet
    prompt: int        # tokens of the prompt
    computed: int      # tokens whose keys and values are in the cache
    blocks: list       # of the cache, in the order of the positions
    params: object     # vllm.SamplingParams
    seed: int
    known: dict = field(default_factory=dict)  # what samples.py keeps of the parameters

    @property
    def sampled(self):
        return len(self.tokens) - self.prompt


@dataclass(eq=False)
class Part:
    """The share of a step that one request has: rows of tokens[begin:end]."""
    request: Request
    begin: int
    end: int
    samples: bool      # a token follows; else the prompt goes on in a later step

    def pages(self, block_size):
        return self.request.blocks[:-(-self.end // block_size)]


class Requests:
    def __init__(self, random):
        self._by_id, self._random = {}, random

    def _add(self, new):
        tokens = new.prefill_token_ids if new.prefill_token_ids is not None else new.prompt_token_ids
        params = new.sampling_params
        seed = params.seed if params.seed is not None else self._random.getrandbits(64)
        blocks, = new.block_ids  # one kind of attention
        self._by_id[new.req_id] = Request(new.req_id, list(tokens), new.prompt_len, new.num_computed_tokens, list(blocks),
                                          params, seed % (1 << 64))

    def update(self, step):
        """Takes what a SchedulerOutput says. A preempted request comes back as a new one."""
        for id in (step.finished_req_ids or set()) | (step.preempted_req_ids or set()):
            self._by_id.pop(id, None)
        for new in step.scheduled_new_reqs:
            self._add(new)
        cached = step.scheduled_cached_reqs
        for id, computed, blocks in zip(cached.req_ids, cached.num_computed_tokens, cached.new_block_ids):
            request = self._by_id[id]
            request.computed = computed
            if blocks is not None:
                request.blocks += blocks[0]

    def parts(self, step):
        """Returns what each request of the step does, in the scheduler's order."""
        out = []
        for id, count in step.num_scheduled_tokens.items():
            request = self._by_id[id]
            end = request.computed + count
            if end > len(request.tokens):
                raise RuntimeError(f"mkc: request {id}: found {end} tokens scheduled, expected at most {len(request.tokens)}")
            out.append(Part(request, request.computed, end, end == len(request.tokens)))
        return out


def in_order(parts, block_size):
    """Returns parts of a step as lists, each a launch of its own, so that no launch reads a block that it writes for another
    request.

    A request may find in vLLM's prefix cache a block that another request of the same step fills. A launch of mkc brings
    keys and values of earlier positions ahead of its events, so the block must be there before the launch. Most steps are
    one launch."""
    writer = {}
    for part in parts:
        for block in part.pages(block_size)[part.begin // block_size:]:
            writer[block] = part
    level = {id(part): 0 for part in parts}
    changed = True
    while changed:
        changed = False
        for part in parts:
            reads = part.pages(block_size)[:part.begin // block_size]
            above = max((level[id(writer[b])] + 1 for b in reads if writer.get(b, part) is not part), default=0)
            if above > level[id(part)]:
                level[id(part)], changed = above, True
    launches = [[] for _ in range(max(level.values(), default=0) + 1)]
    for part in parts:
        launches[level[id(part)]].append(part)
    return launches
