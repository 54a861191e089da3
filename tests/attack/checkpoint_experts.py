"""Finds the choices of experts, among those that rounding may make, by which a model in float64 gives rows of logits."""
import numpy
import torch

MAX_GAP = 0.1  # between the logits of two experts that rounding may swap, as a share of the logits' standard deviation
MAX_SWAPS = 3  # of a row


def distances(rows, exact):
    """Returns the greatest error of each row, as a share of its greatest logit. What is no number is far off."""
    return numpy.nan_to_num(numpy.abs(rows - exact).max(axis=1) / numpy.abs(exact).max(axis=1), nan=numpy.inf)


class NearChoices:
    """A model of transformers whose routers may be made to choose a near expert instead of another."""

    def __init__(self, model, ids):
        self.model, self.ids, self.swaps, self.near = model, ids, {}, {}  # (router, token) -> (slot of the choice, expert)
        routers = [module for module in model.modules() if type(module).__name__.endswith("TopKRouter")]
        for number, router in enumerate(routers):
            router.register_forward_hook(lambda _, __, out, number=number: self.choose(number, *out))

    def choose(self, router, logits, scores, chosen):
        chosen = chosen.clone()
        for (at, token), (slot, expert) in self.swaps.items():
            if at == router and token < len(chosen):
                chosen[token, slot] = expert
        self.near[router] = logits, chosen
        shares = torch.softmax(logits, -1).gather(-1, chosen)
        if torch.allclose(scores.sum(-1), torch.ones((), dtype=scores.dtype), atol=1e-4):
            shares = shares / shares.sum(-1, keepdim=True)
        return logits, shares, chosen

    def rows(self, count):
        with torch.no_grad():
            return self.model(torch.tensor([self.ids[:count]])).logits[0].numpy()

    def candidates(self, token):
        """Returns the swaps of a token whose two experts have logits that are near to each other."""
        found = []
        for router, (logits, chosen) in self.near.items():
            own, taken = logits[token], set(chosen[token].tolist())
            if (router, token) in self.swaps:
                continue
            for slot, expert in enumerate(chosen[token].tolist()):
                gaps = (own[expert] - own).abs() / own.std()
                found += [((router, token), (slot, other)) for other in range(len(own)) if other not in taken and gaps[other] < MAX_GAP]
        return found

    def improve(self, token, row):
        """Adds the swap after which the token's row is nearest to `row`. Returns whether there is one that helps."""
        def distance():
            return distances(row[None], self.rows(token + 1)[token:])[0]
        found = {None: distance()}
        for place, swap in self.candidates(token):
            self.swaps[place] = swap
            found[place, swap] = distance()
            del self.swaps[place]
        best = min(found, key=found.get)
        if best:
            self.swaps[best[0]] = best[1]
        return best is not None


def worst_of_near_choices(model, ids, rows, limit):
    """Returns the worst row's distance, where the experts of each token are those with which its row is nearest. `model` is in
    float64. A row beyond the limit gets up to MAX_SWAPS swaps, in the order of tokens."""
    choices = NearChoices(model.eval(), ids)
    while (far := distances(rows, choices.rows(len(ids))) > limit).any():
        token = int(far.argmax())
        made = sum(at == token for _, at in choices.swaps)
        if made == MAX_SWAPS or not choices.improve(token, rows[token]):
            break
    return float(distances(rows, choices.rows(len(ids))).max())
