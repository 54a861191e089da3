"""The figures of docs/serving.md, of the newest result of tools/bench/serve."""

NAMES = {"whole_tokens_s": "tokens/s, whole answers", "tokens_s": "tokens/s, streams", "first_token_ms": "first token, ms",
         "between_ms": "between tokens, ms", "between_p99_ms": "p99, ms"}


def figure(spread):
    digits = 0 if spread["median"] >= 100 else 1 if spread["median"] >= 10 else 2
    return f"{spread['median']:,.{digits}f} ({spread['least']:,.{digits}f} to {spread['greatest']:,.{digits}f})"


def rows(head, lines):
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in [head, ["---"] * len(head), *lines])


def clients(result):
    return rows(["clients", "server", *NAMES.values()],
                [[count, name, *(figure(found[key]) for key in NAMES)]
                 for count, by_name in result["clients"].items() for name, found in by_name.items()])


def steps(result):
    titles = {"whole": "whole answers", "streams": "streams"}
    return rows(["64 clients", "requests a step", "first thread, µs a step", "engine's thread, µs a step", "all threads, µs a step"],
                [[titles[kind], *(figure(found[key]) for key in ("requests_a_step", "first_us", "engine_us", "all_us"))]
                 for kind, found in result["steps"].items()])


def beside_prompts(result):
    keys = ("alone_ms", "alone_p99_ms", "median_ms", "p99_ms", "max_ms", "first_token_ms")
    return rows(["rows of prompts in a step", "alone: median, ms", "alone: p99, ms", "beside prompts: median, ms", "p99, ms", "longest, ms",
                 "a prompt's first token, ms"],
                [[bound if int(bound) else "no bound", *(figure(found[key]) for key in keys)]
                 for bound, found in result["beside_prompts"].items()])


def serving_tables(result):
    """Returns the text of each block of figures, by its name."""
    peer = f"llama-server {result['llama-server'].removeprefix('version: ')}" if "llama-server" in result else "without llama-server"
    where = (f"{result['processor']}, steps of each server on --threads {result['threads']}; commit {result['commit']}, {result['date']};\n"
             f"{peer}. Medians of {result['runs']} runs, least and greatest.\n\n")
    return {"clients": where + clients(result), "steps": steps(result), "beside prompts": beside_prompts(result)}
