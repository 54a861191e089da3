"""What each request must get: its choices run alone by mkc run, one at a time and without a prefix cache. Text, stop strings and
counts are derived here from the token ids, by the tokenizer's file alone."""
import codecs
import json
import subprocess

LIMIT_S = 600  # of a run of all choices of a round


def byte_alphabet():
    """The characters that byte-level BPE writes bytes as, of OpenAI's GPT-2 encoder."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {**{chr(b): b for b in plain}, **{chr(256 + i): b for i, b in enumerate(others)}}


class Vocabulary:
    """The bytes of each token. Special tokens have none, because answers skip them."""

    def __init__(self, model):
        file = json.loads((model / "tokenizer.json").read_text())
        alphabet = byte_alphabet()
        self.special = {token["id"] for token in file["added_tokens"]}
        self.bytes = {id_: b"" if id_ in self.special else bytes(alphabet[c] for c in token)
                      for token, id_ in file["model"]["vocab"].items()}
        self.bytes.update((id_, b"") for id_ in self.special)

    def text(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode(errors="replace")


class Mkc:
    """Calls of mkc run on a model."""

    def __init__(self, mkc, model, env):
        self.command, self.env = [mkc, "run", model, "--device", "cpu", "--threads", "1"], env

    def run(self, *options, text=None):
        done = subprocess.run([*map(str, self.command), *map(str, options)], input=text, capture_output=True, text=True,
                              env=self.env, timeout=LIMIT_S, check=False)
        if done.returncode != 0:
            raise SystemExit(f"serve_load: error: mkc run exits with {done.returncode}: {done.stderr[-400:]}")
        return done.stdout

    def ids_of(self, text):
        """Returns the prompt's ids, with the token that begins a text."""
        return json.loads(self.run("--prompt", text, "--max-new-tokens", 1, "--json"))["prompt_ids"]

    def alone(self, lines, folder):
        """Returns the answer of each line of a batch file, run alone."""
        file = folder / "solo.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        answers = self.run("--batch-file", file, "--max-requests", 1, "--no-prefix-cache").splitlines()
        return [json.loads(answer) for answer in answers]


def first_stop(text, begin, stops):
    """Returns where the stop string lies that is complete first, of those that end behind `begin`. The longest counts of several
    that end at the same place."""
    found = [(at + len(stop), at, stop) for stop in stops if (at := text.find(stop, max(0, begin - len(stop) + 1))) >= 0]
    return min(found) if found else None


class Scores:
    """The log-probabilities of prompts' tokens. Many prompts have the same beginnings, and each is run once."""

    def __init__(self):
        self.known = {}

    @staticmethod
    def key(line):
        return (*line["prompt_ids"], *line["allowed_token_ids"], line["logprobs"])

    def add(self, requests, alone, folder):
        lines = {self.key(line): line for request in requests for line in request.scoring_lines()}
        lines = {key: line for key, line in lines.items() if key not in self.known}
        answers = alone.alone(lines.values(), folder) if lines else []
        self.known.update({key: logprob_of(answer["logprobs"][0]) for key, answer in zip(lines, answers, strict=True)})

    def of(self, request, prompt):
        """Returns what stands beside the prompt's tokens in the form of logprob_of(). The first has nothing."""
        number = request.body["logprobs"]
        return [(None, []), *(self.known[(*prompt[:i + 1], number)] for i in range(1, len(prompt)))]


def choice_of(answer, body, vocabulary, echo):
    """Returns a choice as the server must answer it, and its number of tokens."""
    if body["max_tokens"] == 0:  # the one token that mkc run makes is none of the answer
        return {"text": echo, "finish_reason": "length", "stop_reason": None, "logprobs": []}, 0
    ids, keep = answer["new_ids"], body.get("include_stop_str_in_output", False)
    own_stop = next((k for k, i in enumerate(ids) if i in body.get("stop_token_ids", [])), None)
    ended_by = "stop" if own_stop is not None else answer["finish_reason"]
    if own_stop is not None:
        ids = ids[:own_stop + 1]
    shown = ids[:-1] if ended_by == "stop" and not keep else ids
    decoder, text, taken, match = codecs.getincrementaldecoder("utf-8")("replace"), "", len(ids), None
    for k, token in enumerate(shown):
        begin, text = len(text), text + decoder.decode(vocabulary.bytes[token])
        match = first_stop(text, begin, body.get("stop", [])) if k >= body.get("min_tokens", 0) else None
        if match:
            taken = k + 1
            break
    if match:
        text = text[:match[0] if keep else match[1]]
    else:
        text += decoder.decode(b"", True)
    stop_reason = match[2] if match else ids[-1] if own_stop is not None else None
    return {"text": echo + text, "finish_reason": "stop" if match else ended_by, "stop_reason": stop_reason,
            "logprobs": [logprob_of(s) for s in answer.get("logprobs", [])[:taken]]}, taken


def logprob_of(sample):
    return sample["logprob"], sorted({sample["logprob"], *(top["logprob"] for top in sample["top"])})


def expected_answer(request, answers, vocabulary, scores):
    """Returns the choices and the usage of a request."""
    choices = [choice_of(a, request.body, vocabulary, request.echoes[i // request.n]) for i, a in enumerate(answers)]
    for i, (choice, _) in enumerate(choices):
        if request.scored:
            choice["logprobs"] = scores.of(request, request.prompts[i // request.n]) + choice["logprobs"]
    return {"choices": [choice for choice, _ in choices],
            "usage": (sum(map(len, request.prompts)), sum(taken for _, taken in choices))}
