"""Launches of mkc under vLLM's scheduler: begun in order, up to two under way, ended when their tokens are asked for."""
import collections
import logging

from .requests import Sample, in_order
from .samples import needs_history, samples_of

_log = logging.getLogger("vllm.mkc")
UNDER_WAY = 2  # launches of a session that may be under way


class Launch:
    def __init__(self, parts):
        self.parts = parts
        self.results = None  # by part: (ids, log-probabilities); None until the launch has ended
        self.finite = None  # by part: tokens before the first one without a finite greatest logit; likewise


class Launches:
    """Runs steps on a session, whose cache has blocks of `block_size` positions."""

    def __init__(self, session, block_size):
        self._session, self._block_size = session, block_size
        self._vocab = session.vocab
        self._under_way = collections.deque()

    def begin(self, parts, masks):
        """Begins a step and returns its launches. masks: {request's id: a grammar's words}."""
        return [self._begin(of, masks) for of in in_order(parts, self._block_size)]

    def finish(self, launch):
        """Ends launches in their order, until this one has ended."""
        while launch.results is None:
            self._end_oldest()

    def finish_all(self):
        while self._under_way:
            self._end_oldest()

    def _begin(self, parts, masks):
        while len(self._under_way) == UNDER_WAY:
            self._end_oldest()
        if any(part.samples and needs_history(part.request.params) for part in parts):
            self.finish_all()
        tokens = [[self._input(token) for token in part.request.tokens[part.begin:part.end]] for part in parts]
        requests = [(ids, part.end, part.pages(self._block_size)) for ids, part in zip(tokens, parts)]
        samples = [samples_of(part, masks.get(part.request.id), self._vocab) for part in parts]
        self._session.begin_step(requests, samples=samples)
        launch = Launch(parts)
        self._under_way.append(launch)
        for index, part in enumerate(parts):
            if part.samples:
                part.request.tokens.append(Sample(launch, index))
        return launch

    def _input(self, token):
        """A token as mkrt takes it. The newest launch's samples are read on the device, before the host knows them."""
        if not isinstance(token, Sample):
            return token
        if token.launch is self._under_way[-1]:
            return -1 - token.index
        self.finish(token.launch)
        return token.launch.results[token.index][0][0]

    def _end_oldest(self):
        launch = self._under_way.popleft()
        launch.results = self._session.end_step(logprobs=True)
        launch.finite = self._session.finite
        for index, (part, (ids, _)) in enumerate(zip(launch.parts, launch.results)):
            if part.samples:
                self._settle(part.request.tokens, launch, index, ids[0])
                if launch.finite[index] < len(ids):
                    self._warn(part.request)

    @staticmethod
    def _warn(request):
        """Says once that a request has got a token from logits that are not finite."""
        if request.known.setdefault("finite", True):
            _log.warning("mkc: request %s: found no finite greatest logit for a new token, expected one: a weight is not finite, "
                         "or a number is beyond its type", request.id)
        request.known["finite"] = False

    @staticmethod
    def _settle(tokens, launch, index, id):
        """Puts a sampled id in the place of its Sample, which is one of the last tokens of its request."""
        for at in range(len(tokens) - 1, -1, -1):
            if isinstance(tokens[at], Sample) and tokens[at].launch is launch and tokens[at].index == index:
                tokens[at] = id
                return
