"""The rule by which two greedy continuations are equal: they may part where the two largest logits of stock generation are
closer than the rounding of the weights' type lets tell."""
import torch

ROUNDINGS = 8  # of the largest logit


def margin(logits, dtype):
    return ROUNDINGS * torch.finfo(dtype).eps * logits.abs().max().item()


def compare(model, prompt, stock, ours):
    """Compares new ids after one prompt. Returns how many are equal before the sequences part; AssertionError: they part where the
    margin does not allow it."""
    for at, (a, b) in enumerate(zip(stock, ours)):
        if a == b:
            continue
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *stock[:at]]])).logits[0, -1].float()
        gap = (logits[a] - logits[b]).item()
        allowed = margin(logits, model.dtype)
        assert abs(gap) < allowed, f"token {at} is {b}, stock generation has {a}: logits are {gap:.4f} apart, {allowed:.4f} allowed"
        return at
    assert len(stock) == len(ours), f"{len(ours)} tokens, stock generation has {len(stock)}"
    return len(stock)
