"""Compares answers of a server with what a request must get."""
import json
import sys
from pathlib import Path

from good import CHAT

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "unit" / "serve"))
from client import events_of, joined, whole  # noqa: E402


def logprobs_of(choice, chat):
    """Returns each token's log-probability and all that stand beside it, in the form of solo.logprob_of()."""
    for token in choice["logprobs"]:
        value = token["logprob"] if chat else token[1]
        top = [t["logprob"] for t in token["top_logprobs"]] if chat else (token[2] or {}).values()
        yield value, sorted({value, *top} - {None})


def found_in(choices, usage, chat):
    return {"choices": [{**choice, "logprobs": list(logprobs_of(choice, chat))} for choice in choices],
            "usage": (usage["prompt_tokens"], usage["completion_tokens"])}


def difference(request, stream, body, expected):
    """Returns how the body of a whole answer differs from the expected one, or None."""
    chat = request.path == CHAT
    choices, usage = joined(events_of(body.decode()), chat) if stream else whole(json.loads(body), chat)
    found = found_in(choices, usage, chat)
    if usage["total_tokens"] != usage["prompt_tokens"] + usage["completion_tokens"]:
        return f"the usage does not add up: {usage}"
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    if not 0 <= cached < usage["prompt_tokens"]:
        return f"{cached} cached tokens of {usage['prompt_tokens']}"
    if request.scored and cached:
        return f"{cached} cached tokens of a prompt with log-probabilities"
    return None if found == expected else f"found {found}, expected {expected}"


def prefix_difference(request, body, expected):
    """Returns how the events that a client got before it left differ from the beginning of the expected texts, or None."""
    texts = {}
    for event in body.decode().split("\n\n")[:-1]:
        data = event.removeprefix("data: ")
        for part in json.loads(data)["choices"] if data != "[DONE]" else ():
            text = part["delta"].get("content", "") if request.path == CHAT else part["text"]
            texts[part["index"]] = texts.get(part["index"], "") + text
    for index, text in texts.items():
        if not expected["choices"][index]["text"].startswith(text):
            return f"choice {index} begins with {text!r}, expected {expected['choices'][index]['text']!r}"
    return None


def refusal_difference(status, body, expected_status):
    """Returns what is wrong with the answer to a wrong request, or None."""
    if status != expected_status:
        return f"found status {status}, expected {expected_status}: {body[:300]!r}"
    error = json.loads(body).get("error", {})
    if set(error) != {"message", "type", "param", "code"} or not error["message"] or not error["type"]:
        return f"found the error {body[:300]!r}"
    return None
