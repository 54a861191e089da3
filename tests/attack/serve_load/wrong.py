"""Random requests that must be refused, each with its status. A status of None is a request that never ends: its connection
closes with an error of the client or without an answer."""
import json

from good import CHAT, COMPLETIONS

MAX_BODY_BYTES = 1 << 20  # of the server under attack


def wire(path, data, headers=(), method="POST", kind="application/json", length=None):
    """Returns the bytes of a request."""
    head = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
    if kind is not None:
        head.append(f"Content-Type: {kind}")
    if "Transfer-Encoding: chunked" not in headers:
        head.append(f"Content-Length: {len(data) if length is None else length}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + data


def in_chunks(data, rng):
    """Returns a body in chunks of random sizes."""
    parts = []
    while data:
        size = rng.randrange(1, 200)
        parts.append(b"%x\r\n%s\r\n" % (len(data[:size]), data[:size]))
        data = data[size:]
    return b"".join(parts) + b"0\r\n\r\n"


BODY = {"prompt": "Once", "max_tokens": 3, "seed": 1}
GOOD = json.dumps(BODY).encode()
RANGES = [{"n": 0}, {"n": 129}, {"top_p": 2}, {"temperature": -1}, {"logprobs": 21}, {"stop": ["a"] * 5}]
NUMBERS = [b"1e400", b"9" * 400, b"-1", b"1.5", b"18446744073709551616"]
DEPTHS = [70, 3000, 100000]


def body(**fields):
    return json.dumps({**BODY, **fields}).encode()


# Name -> a body of this kind, for either route.
BODIES = {
    "cut short": lambda r: GOOD[:r.randrange(1, len(GOOD) - 1)],
    "not UTF-8": lambda r: GOOD.replace(b"Once", b"On\xff\xfe" + bytes([r.randrange(128, 192)])),
    "deep": lambda r: b'{"prompt": ' + b"[" * r.choice(DEPTHS),
    "deep and closed": lambda r: b'{"prompt": ' + b"[" * (depth := r.choice(DEPTHS)) + b"]" * depth + b"}",
    "huge number": lambda r: b'{"prompt": "x", "max_tokens": %s}' % r.choice(NUMBERS),
    "huge seed": lambda r: b'{"prompt": "x", "seed": %d}' % 2**r.randrange(65, 2000),
    "key twice": lambda r: b'{"prompt": "x", "max_tokens": 3, "prompt": "y"}',
    "unknown field": lambda r: body(max_new_tokens=3),
    "field of another kind": lambda r: body(**{r.choice(["n", "stop", "logit_bias", "stream", "top_p"]): {"a": [None]}}),
    "value out of range": lambda r: body(**r.choice(RANGES)),
    "id beyond the vocabulary": lambda r: body(prompt=[0, r.choice([-1, 640, 2**31, 2**70])]),
    "prompt too long": lambda r: body(prompt=[5] * r.choice([513, 5000, 100000])),
    "no prompt": lambda r: b'{"max_tokens": 3}',
    "no JSON": lambda r: bytes(r.randrange(256) for _ in range(r.randrange(1, 400))),
    "empty": lambda r: b"",
}
CHUNKED = ["Transfer-Encoding: chunked"]
# Name -> a whole request of this kind, and the status of its answer.
REQUESTS = {
    "another model": lambda r: (wire(COMPLETIONS, body(model="none")), 404),
    "too large": lambda r: (wire(COMPLETIONS, b'{"prompt": "' + b"x" * MAX_BODY_BYTES + b'"}'), 413),
    "content type": lambda r: (wire(COMPLETIONS, GOOD, kind=r.choice([None, "text/plain", "application/jsonx"])), 415),
    "method": lambda r: (wire(COMPLETIONS, GOOD, method=r.choice(["GET", "PUT", "DELETE"])), 405),
    "route": lambda r: (wire("/v1/" + "x" * r.randrange(1, 2000), GOOD), 404),
    "headers too large": lambda r: (wire(COMPLETIONS, GOOD, ["X: " + "y" * 40000]), 431),
    "length beyond the limit": lambda r: (wire(COMPLETIONS, b"", length=r.choice([MAX_BODY_BYTES + 1, 2**62])), 413),
    "length that is none": lambda r: (wire(COMPLETIONS, GOOD, length=r.choice(["-1", "x", "9" * 30])), 400),
    "two lengths": lambda r: (wire(COMPLETIONS, GOOD, [f"Content-Length: {len(GOOD) - 5}"]), 400),
    "length and chunks": lambda r: (wire(COMPLETIONS, in_chunks(GOOD, r), [*CHUNKED, "Content-Length: 50"]), 400),
    "length too small": lambda r: (wire(COMPLETIONS, GOOD, length=r.randrange(1, len(GOOD) - 1)), 400),
    "length too large": lambda r: (wire(COMPLETIONS, GOOD, length=len(GOOD) + r.randrange(1, 99)), None),
    "chunks cut short": lambda r: (wire(COMPLETIONS, in_chunks(GOOD, r)[:-r.randrange(6, len(GOOD))], CHUNKED), None),
    "chunk of no size": lambda r: (wire(COMPLETIONS, b"zz\r\n" + GOOD, CHUNKED), 400),
    "chunk of the wrong size": lambda r: (wire(COMPLETIONS, b"2\r\nabcdef\r\n0\r\n\r\n", CHUNKED), 400),
    "no HTTP": lambda r: (b"\x16\x03\x01 hello\r\n\r\n", 400),
}


def wrong_request(rng):
    """Returns the name of a random kind, a request of it, and its status."""
    name = rng.choice([*BODIES, *REQUESTS])
    if name in BODIES:
        return name, wire(rng.choice([COMPLETIONS, CHAT]), BODIES[name](rng)), 400
    return name, *REQUESTS[name](rng)
