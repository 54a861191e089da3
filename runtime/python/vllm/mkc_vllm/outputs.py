"""Results of launches become what vLLM's scheduler takes."""
import numpy as np
from vllm.v1.outputs import AsyncModelRunnerOutput, LogprobsLists, ModelRunnerOutput


def _logprobs(parts, results):
    """Rows [token, likeliest tokens] for each request; zeros where it asked for none or less."""
    asked = [part.request.params.logprobs for part in parts if part.samples]
    top = max((number for number in asked if number is not None), default=None)
    if top is None:
        return None
    ids, values = np.zeros((len(parts), top + 1), np.int32), np.zeros((len(parts), top + 1), np.float32)
    ranks = np.zeros(len(parts), np.int32)
    for row, (tokens, logprobs) in enumerate(results):
        for token, of in zip(tokens, logprobs):
            likeliest = list(zip(*of.top)) or ((), ())
            ids[row, :len(of.top) + 1] = (token, *likeliest[0])
            values[row, :len(of.top) + 1] = (of.sampled, *likeliest[1])
            ranks[row] = of.rank
    return LogprobsLists(ids, values, ranks)


class Output(AsyncModelRunnerOutput):
    """A step's output. The scheduler may ask for it after it has begun the next step."""

    def __init__(self, parts, launches, runner):
        self._parts, self._launches, self._runner = parts, launches, runner

    def get_kv_connector_output(self):
        return None

    def get_output(self):
        of, corrupted = {}, {}
        for launch in self._launches:
            self._runner.finish(launch)
            of.update((id(part), result) for part, result in zip(launch.parts, launch.results))
            corrupted.update((part.request.id, 1) for part, (ids, _), finite in zip(launch.parts, launch.results, launch.finite)
                             if finite < len(ids))
        results = [of[id(part)] for part in self._parts]
        names = [part.request.id for part in self._parts]
        return ModelRunnerOutput(req_ids=names, req_id_to_index={name: i for i, name in enumerate(names)},
                                 sampled_token_ids=[ids for ids, _ in results], logprobs=_logprobs(self._parts, results),
                                 num_nans_in_logits=corrupted or None)
