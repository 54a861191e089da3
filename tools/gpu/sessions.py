#!/usr/bin/env python3
"""Checks libmkrt's sessions by its Python interface. Prints one JSON object a line.

Every size of a step has the logits of single tokens. Requests of a ragged batch have those that each has alone.
Sessions beside each other, also on streams of their own, give the tokens of single steps. So do several steps in one
launch, and a graph.

Usage: sessions.py CUBIN CHECKPOINT ID,ID,… [CHECK,…] [--few]; beside NAME.cubin lies NAME-broken.cubin of
break_plan.py.
--few: some sizes, mixes and tokens, for a rehearsal.
"""
import contextlib
import json
import sys
from random import Random

import driver
import mkrt

WORST = 2e-2  # of a row's logits: bf16 in another order of sums
INTERLEAVED = 24  # tokens
FEW = 5


def error(row, wanted):
    """The relative error of a row, or infinity where it is NaN, which max() may drop."""
    found = float(((row - wanted) ** 2).sum() ** 0.5 / (wanted ** 2).sum() ** 0.5)
    return found if found == found else float("inf")


def every_step_size(session, ids, few=False):
    """One prompt by steps of 1, 2, … tokens; the rows of single tokens are what the others must have."""
    alone, equal, worst = [], 0, 0.0
    sizes = range(1, min(session.max_tokens, len(ids)) + 1)
    if few:
        sizes = [1, *(size for size in (5, 33) if size < len(ids) and size in sizes), sizes[-1]]
    for size in sizes:
        session.rewind()
        rows = []
        for begin in range(0, len(ids), size):
            rows.extend(session.step(ids[begin:begin + size], logits=True)[1])
        alone = alone or rows
        equal += all((a == b).all() for a, b in zip(rows, alone))
        found = max(error(a, b) for a, b in zip(rows, alone))
        if not found <= WORST:
            sys.exit(f"sessions: error: steps of {size} tokens: relative error {found:.2e} of a row, expected at most "
                     f"{WORST}")
        worst = max(worst, found)
    print(json.dumps({"check": "step sizes", "sizes": len(sizes), "with_equal_bits": equal, "worst_row": worst}),
          flush=True)


def two_sessions(opened, ids, count=INTERLEAVED):
    """Steps of two sessions in turn, on one device; `opened` opens one."""
    prompts = ids, ids[::-1]
    with opened() as a, opened() as b:
        alone = []
        for session, prompt in zip((a, b), prompts):
            alone.append(list(session.generate(prompt, count)))
            session.rewind()
        pairs = zip(*(session.generate(prompt, count) for session, prompt in zip((a, b), prompts)))
        mixed = [list(tokens) for tokens in zip(*pairs)]
    expect(mixed, alone, "in turn")
    print(json.dumps({"check": "two sessions", "tokens": count}), flush=True)


def expect(found, wanted, what):
    if found != wanted:
        sys.exit(f"sessions: error: {what} {found}, alone {wanted}")


def several_steps(session, ids, count=INTERLEAVED):
    """Launches in which the kernel goes on by itself, of one request and of several."""
    session.rewind()
    alone = list(session.generate(ids, count))
    for steps in (2, 7, count):
        session.rewind()
        expect(list(session.generate(ids, count, steps_per_launch=steps)), alone, f"{steps} steps a launch give")
    session.rewind()
    prompts = [ids[:n] for n in range(1, min(session.max_requests, len(ids), 6) + 1)]
    size = session.pages[1]
    each = -(-(len(ids) + count) // size)
    session.make_cache(size, each * len(prompts))
    pages = [list(range(n * each, (n + 1) * each)) for n in range(len(prompts))]
    sampled = {}
    for steps in (1, count):
        made, feed = [[] for _ in prompts], prompts
        while len(made[0]) < count:
            session.begin_step([(tokens, len(prompt) + len(had), of) for tokens, prompt, had, of
                                in zip(feed, prompts, made, pages)], limit=steps)
            feed = []
            for had, tokens in zip(made, session.end_step()):
                had.extend(tokens)
                feed.append(tokens[-1:])
        sampled[steps] = made
    expect(sampled[count], sampled[1], f"{count} steps a launch of {len(prompts)} requests give")
    print(json.dumps({"check": "several steps", "tokens": count, "requests": len(prompts)}), flush=True)


def begun(session, prompt, count, run=None):
    """Yields the greedy tokens that follow a prompt, step by step, while each step is under way. run: a graph's run,
    to use after the prompt's step."""
    pages = list(range(-(-(len(prompt) + count) // session.pages[1])))
    feed, made = prompt, []
    while len(made) < count:
        request = (feed, len(prompt) + len(made), pages)
        if made and run:
            session.fill_step([request])
            run()
        else:
            session.begin_step([request])
        yield
        ((token,),) = session.end_step()
        made.append(token)
        feed = [token]
    return made


def together(runs):
    """Returns what each of these runs has made, by steps in turn."""
    made, left = {}, dict(enumerate(runs))
    while left:
        for n, run in list(left.items()):
            try:
                next(run)
            except StopIteration as ended:
                made[n] = ended.value
                del left[n]
    return [made[n] for n in sorted(made)]


def two_streams(opened, ids, streams, count=INTERLEAVED):
    """Steps of two sessions under way at once."""
    prompts = ids, ids[::-1]
    with opened() as a, opened() as b:
        alone = []
        for session, prompt, stream in zip((a, b), prompts, streams):
            alone.append(list(session.generate(prompt, count)))
            session.set_stream(stream)
        found = together([begun(session, prompt, count) for session, prompt in zip((a, b), prompts)])
    expect(found, alone, "on two streams")
    print(json.dumps({"check": "two streams", "tokens": count}), flush=True)


def by_graph(session, ids, gpu, stream, count=INTERLEAVED):
    """Steps that a graph runs, captured once."""
    alone = list(session.generate(ids, count))
    session.set_stream(stream)
    with gpu.graph(stream, session.capture_step) as run:
        for prompt in (ids, ids[:-1], ids):
            found = together([begun(session, prompt, count, run)])[0]
    expect(found, alone, "by a graph")
    session.set_stream(0)
    print(json.dumps({"check": "graph", "tokens": count}), flush=True)


def after_a_fault(opened, broken, ids, count=INTERLEAVED):
    """A session whose plan loses notifications ends with a fault, and the one beside it goes on; `broken` opens the first."""
    with opened() as session:
        alone = list(session.generate(ids, count))
        with broken() as faulty:
            faulty.set_timeout(500)
            try:
                faulty.step(ids[:1])
                sys.exit("sessions: error: a plan that loses notifications ran to its end")
            except mkrt.Error as e:
                message = str(e)
        if not all(word in message for word in ("worker", "waited for event", "seen", "expected")):
            sys.exit(f"sessions: error: the fault says: {message}")
        session.rewind()
        expect(list(session.generate(ids, count)), alone, "after a fault")
    print(json.dumps({"check": "fault", "message": message}), flush=True)


def ragged(session, ids, seed=1, few=False):
    """Random mixes of requests in pages dealt out at random, of every page size and form: each request has the logits that
    it has alone."""
    random = Random(seed)
    session.rewind()
    prompts = [ids[i:] + ids[:i] for i in range(0, len(ids), max(1, len(ids) // min(8, session.max_requests)))]
    prompts = [prompt[:random.randint(1, len(prompt))] for prompt in (prompts[:3] if few else prompts)]
    alone = []
    for prompt in prompts:
        session.rewind()
        alone.append([session.step([token], logits=True)[1][0] for token in prompt])
    worst, steps = 0.0, 0
    forms = [(size, form) for size in (16, 32, 64) for form in (mkrt.NHD, mkrt.HND, mkrt.PACKED)]
    for page_size, form in forms[::4] if few else forms:
        for number, rows in enumerate(mixed(session, prompts, page_size, form, random)):
            found = max(error(a, b) for a, b in zip(rows, alone[number]))
            if len(rows) != len(prompts[number]) or not found <= WORST:
                sys.exit(f"sessions: error: request {number} of {len(prompts)} in pages of {page_size}, form {form}: "
                         f"relative error {found:.2e} of a row, expected at most {WORST}")
            worst, steps = max(worst, found), steps + len(rows)
    print(json.dumps({"check": "ragged batches", "requests": len(prompts), "rows": steps, "worst_row": worst}), flush=True)


def mixed(session, prompts, page_size, form, random):
    """The logits of each prompt's rows, fed in steps of some of the prompts, by chunks of random sizes."""
    pages = [-(-len(prompt) // page_size) for prompt in prompts]
    session.make_cache(page_size, sum(pages) + 2, form)
    free = random.sample(range(sum(pages) + 2), sum(pages))
    owned = [[free.pop() for _ in range(count)] for count in pages]
    fed, rows = [0] * len(prompts), [[] for _ in prompts]
    while fed != list(map(len, prompts)):
        waiting = [n for n, prompt in enumerate(prompts) if fed[n] < len(prompt)]
        chosen = random.sample(waiting, random.randint(1, min(len(waiting), session.max_requests)))
        requests, room = [], session.max_tokens
        for left, n in enumerate(reversed(chosen)):
            count = random.randint(1, min(len(prompts[n]) - fed[n], max(1, room - (len(chosen) - left - 1))))
            requests.append((prompts[n][fed[n]:fed[n] + count], fed[n] + count, owned[n]))
            fed[n], room = fed[n] + count, room - count
        got, begin = session.step_batch(requests, logits=True)[1], 0
        for n, (tokens, _, _) in zip(reversed(chosen), requests):
            rows[n].extend(got[begin:begin + len(tokens)])
            begin += len(tokens)
    return rows


def main():
    arguments = [a for a in sys.argv[1:] if a != "--few"]
    few = len(arguments) < len(sys.argv) - 1
    if len(arguments) not in (3, 4):
        sys.exit("usage: sessions.py CUBIN CHECKPOINT ID,ID,… [CHECK,…] [--few]")
    cubin, checkpoint, ids = arguments[0], arguments[1], [int(n) for n in arguments[2].split(",")]
    count = FEW if few else INTERLEAVED
    with driver.Device() as gpu, mkrt.Device() as device, gpu.stream() as first, gpu.stream() as second:
        def opened():
            return device.open(cubin, checkpoint)

        def one(check, *arguments):
            with opened() as session:
                check(session, ids, *arguments)

        @contextlib.contextmanager
        def broken():
            with mkrt.Device() as other:
                other.accept_unsealed()
                with other.open(f"{cubin[:-len('.cubin')]}-broken.cubin", checkpoint) as session:
                    yield session

        checks = {"sizes": lambda: one(every_step_size, few), "ragged": lambda: one(ragged, 1, few),
                  "turns": lambda: two_sessions(opened, ids, count), "launches": lambda: one(several_steps, count),
                  "streams": lambda: two_streams(opened, ids, (first, second), count),
                  "graph": lambda: one(by_graph, gpu, first, count),
                  "fault": lambda: after_a_fault(opened, broken, ids, count)}
        for name in arguments[3].split(",") if arguments[3:] else checks:
            checks[name]()


if __name__ == "__main__":
    main()
