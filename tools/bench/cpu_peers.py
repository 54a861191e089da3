#!/usr/bin/env python3
"""The peers of tools/bench/cpu, which answer the requests of cpu_step.cc on standard input.

Usage: cpu_peers.py versions
       cpu_peers.py gguf CHECKPOINT OUT bf16|q8_0|q4_0 writes the checkpoint's weights as llama.cpp reads them
       cpu_peers.py llama GGUF THREADS                 llama.cpp
       cpu_peers.py llama-plain GGUF THREADS           llama.cpp without its layouts for some processors, such as AMX's
       cpu_peers.py eager|compile CHECKPOINT THREADS   transformers on PyTorch, with a static cache
"""
import importlib.metadata
import json
import math
import os
import struct
import sys
import time
from pathlib import Path

NAMES = {  # of a checkpoint's tensors in a layer -> of GGUF's
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate": "ffn_gate_inp"}
EXPERT_NAMES = {"gate_proj": "ffn_gate_exps", "up_proj": "ffn_up_exps", "down_proj": "ffn_down_exps"}
ARCHITECTURES = {"qwen3": "qwen3", "llama": "llama", "qwen3_moe": "qwen3moe"}


def write_gguf(checkpoint, out, kind):
    import gguf
    import numpy
    config = json.loads((checkpoint / "config.json").read_text())
    file = checkpoint / "model.safetensors"
    with open(file, "rb") as opened:
        size = struct.unpack("<Q", opened.read(8))[0]
        header = json.loads(opened.read(size))
    data = numpy.memmap(file, numpy.uint16, "r", 8 + size)
    types = gguf.GGMLQuantizationType

    def bf16(name):
        begin, end = header[name]["data_offsets"]
        return data[begin // 2:end // 2].reshape(header[name]["shape"])

    def f32(words):
        return (words.astype(numpy.uint32) << 16).view(numpy.float32)

    partial = out.with_suffix(".partial")
    writer = gguf.GGUFWriter(partial, ARCHITECTURES[config["model_type"]])
    heads, head_dim = config["num_attention_heads"], config.get("head_dim")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config["num_key_value_heads"])
    head_dim = head_dim or config["hidden_size"] // heads
    writer.add_key_length(head_dim)
    writer.add_value_length(head_dim)
    writer.add_rope_dimension_count(head_dim)
    writer.add_rope_freq_base(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    add_vocabulary(writer, checkpoint / "tokenizer.json")
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])

    def add(name, words):
        if words.ndim == 1 or "ffn_gate_inp" in name:
            writer.add_tensor(name, f32(words))
        elif kind == "bf16":
            writer.add_tensor(name, words.view(numpy.uint8), raw_dtype=types.BF16)
        else:
            writer.add_tensor(name, gguf.quants.quantize(f32(words), types[kind.upper()]), raw_dtype=types[kind.upper()])

    if (config.get("rope_parameters") or {}).get("rope_type") == "llama3":
        writer.add_tensor("rope_freqs.weight", numpy.array([*rope_factors(config["rope_parameters"], head_dim)], numpy.float32))
    add("token_embd.weight", bf16("model.embed_tokens.weight"))
    add("output_norm.weight", bf16("model.norm.weight"))
    if "lm_head.weight" in header:
        add("output.weight", bf16("lm_head.weight"))
    for i in range(config["num_hidden_layers"]):
        for ours, theirs in NAMES.items():
            name = f"model.layers.{i}.{ours}.weight"
            if name not in header:
                continue
            words = bf16(name)
            if config["model_type"] == "llama" and theirs in ("attn_q", "attn_k"):  # pairs of a rotation side by side
                halves = words.reshape(words.shape[0] // head_dim, 2, head_dim // 2, words.shape[1])
                words = numpy.ascontiguousarray(halves.swapaxes(1, 2)).reshape(words.shape)
            add(f"blk.{i}.{theirs}.weight", words)
        for ours, theirs in EXPERT_NAMES.items() if "num_experts" in config else ():
            experts = [bf16(f"model.layers.{i}.mlp.experts.{e}.{ours}.weight") for e in range(config["num_experts"])]
            add(f"blk.{i}.{theirs}.weight", numpy.stack(experts))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    partial.rename(out)


def add_vocabulary(writer, file):
    """Adds the vocabulary of a byte-level BPE, or says that the checkpoint has none."""
    if not file.exists():
        writer.add_tokenizer_model("no_vocab")
        return
    import gguf
    tokenizer = json.loads(file.read_text())
    special = {token["id"]: token["content"] for token in tokenizer["added_tokens"]}
    names = {**{id_: token for token, id_ in tokenizer["model"]["vocab"].items()}, **special}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list([names[i] for i in range(len(names))])
    writer.add_token_types([gguf.TokenType.CONTROL if i in special else gguf.TokenType.NORMAL for i in range(len(names))])
    writer.add_token_merges([" ".join(merge) for merge in tokenizer["model"]["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)


def rope_factors(rope, head_dim):
    """Returns the divisors of each pair's frequency for rope_type llama3 (modeling_rope_utils.py of transformers)."""
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    for i in range(0, head_dim, 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        smooth = (rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]) / (
            rope["high_freq_factor"] - rope["low_freq_factor"])
        yield (1 if wavelength < high else rope["factor"] if wavelength > low else
               1 / ((1 - smooth) / rope["factor"] + smooth))


class Llama:
    """llama.cpp by its C interface. Sequences have caches of their own, of 16-bit floats."""

    def __init__(self, path, threads, plain):
        import llama_cpp
        import numpy
        self.api, self.numpy, self.threads = llama_cpp, numpy, threads
        self.random = numpy.random.default_rng(1)
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, None)
        llama_cpp.llama_backend_init()
        options = llama_cpp.llama_model_default_params()
        options.n_gpu_layers = 0
        options.use_extra_bufts = not plain
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise RuntimeError(f"llama.cpp does not load {path}")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.context = None

    def begin(self, batch, positions):
        api = self.api
        self.batch, self.positions = batch, positions
        options = api.llama_context_default_params()
        options.n_ctx = batch * ((positions + 255) // 256 * 256)
        options.n_seq_max = batch
        options.n_batch = options.n_ubatch = 512
        options.n_threads = options.n_threads_batch = self.threads
        options.kv_unified = False
        self.context = api.llama_init_from_model(self.model, options)
        if not self.context:
            raise RuntimeError(f"llama.cpp makes no context of {batch} sequences of {positions} positions")
        self.memory = api.llama_get_memory(self.context)
        self.rows = api.llama_batch_init(512, 0, 1)
        self.filled = False

    def end(self):
        self.api.llama_batch_free(self.rows)
        self.api.llama_free(self.context)

    def feed(self, rows):
        """Runs rows of (position, sequence, whether logits are asked for), with random tokens, and takes the likeliest
        tokens."""
        tokens = self.random.integers(0, self.vocab, len(rows)).tolist()
        begin = time.perf_counter()
        batch = self.rows
        batch.n_tokens = len(rows)
        for i, (position, sequence, logits) in enumerate(rows):
            batch.token[i], batch.pos[i], batch.n_seq_id[i] = tokens[i], position, 1
            batch.seq_id[i][0], batch.logits[i] = sequence, logits
        if self.api.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode failed")
        for i, (_, _, logits) in enumerate(rows):
            if logits:
                at = self.api.llama_get_logits_ith(self.context, i)
                self.numpy.ctypeslib.as_array(at, shape=(self.vocab,)).argmax()
        return 1e3 * (time.perf_counter() - begin)

    def fill(self):
        """Fills the caches up to the last position with the keys and values of a short prompt, over and over."""
        np, api, short = self.numpy, self.api, 64
        self.feed([(i, 0, i == short - 1) for i in range(short)])
        size = api.llama_state_seq_get_size(self.context, 0)
        state = (api.ctypes.c_uint8 * size)()
        api.llama_state_seq_get_data(self.context, state, size, 0)
        state, at = memoryview(state).cast("B"), 0

        def word(form):
            nonlocal at
            at += struct.calcsize(form)
            return struct.unpack_from(form, state, at - struct.calcsize(form))[0]

        count = self.positions - 1
        out = [bytes(state[:8])]  # magic and sequence
        at = 8
        streams, cells = word("<I"), word("<I")
        at += 12 * cells  # position, number of sequences, sequence
        transposed, layers = word("<I"), word("<I")
        if streams != self.batch or cells != short or transposed:
            raise RuntimeError("llama.cpp keeps its state in another form than expected")
        out.append(struct.pack("<II", streams, count))
        cell_words = np.zeros((count, 3), np.int32)
        cell_words[:, 0], cell_words[:, 1] = np.arange(count), 1
        out += [cell_words.tobytes(), struct.pack("<II", 0, layers)]
        for _ in range(2 * layers):
            kind, row = word("<i"), word("<Q")
            rows = np.frombuffer(state, np.uint8, cells * row, at).reshape(cells, row)
            at += cells * row
            out += [struct.pack("<iQ", kind, row), np.resize(rows, (count, row)).tobytes()]
        out.append(bytes(state[at:]))  # counts of the other streams: 0
        if len(state) - at != 4 * (streams - 1):
            raise RuntimeError("llama.cpp keeps its state in another form than expected")
        long = b"".join(out)
        buffer = (api.ctypes.c_uint8 * len(long)).from_buffer_copy(long)
        for sequence in range(self.batch):
            api.llama_memory_seq_rm(self.memory, sequence, -1, -1)
            if api.llama_state_seq_set_data(self.context, buffer, len(long), sequence) != len(long):
                raise RuntimeError("llama.cpp does not take the state")

    def decode(self, steps):
        if not self.filled:
            self.fill()
            self.filled = True
        times = []
        for _ in range(steps):
            times.append(self.feed([(self.positions - 1, b, 1) for b in range(self.batch)]))
            for b in range(self.batch):
                self.api.llama_memory_seq_rm(self.memory, b, self.positions - 1, -1)
        return times

    def prefill(self, tokens):
        self.api.llama_memory_clear(self.memory, False)
        rows = [(i, 0, i == tokens - 1) for i in range(tokens)]
        return [sum(self.feed(rows[at:at + 512]) for at in range(0, tokens, 512))]


class Torch:
    """transformers, eager or with its whole forward pass compiled, and a static cache of just the context."""

    def __init__(self, path, threads, compiled):
        import torch
        import transformers
        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        self.torch, self.transformers = torch, transformers
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
        self.compiled = compiled

    def begin(self, batch, positions):
        torch, config = self.torch, self.model.config
        self.batch, self.positions = batch, positions
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self.cache = self.transformers.StaticCache(config=config, max_cache_len=positions)
        self.cache.early_initialization(batch, config.num_key_value_heads, head_dim, torch.bfloat16, "cpu")
        for layer in self.cache.layers:
            for part in (layer.keys, layer.values):
                part.copy_(torch.randn(positions, head_dim) / 64)
        self.forward = self.model.forward
        if self.compiled:
            torch._dynamo.reset()
            self.forward = torch.compile(self.model.forward, dynamic=False)

    def end(self):
        self.cache = self.forward = None

    def feed(self, batch, tokens, at):
        torch = self.torch
        ids = torch.randint(self.model.config.vocab_size, (batch, tokens))
        for layer in self.cache.layers:
            layer.cumulative_length.fill_(at)
        begin = time.perf_counter()
        with torch.inference_mode():
            logits = self.forward(input_ids=ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1).logits
            logits[:, -1].argmax(-1).tolist()
        return 1e3 * (time.perf_counter() - begin)

    def decode(self, steps):
        return [self.feed(self.batch, 1, self.positions - 1) for _ in range(steps)]

    def prefill(self, tokens):
        return [self.feed(1, tokens, 0)]


def serve(kind, path, threads):
    begin = time.perf_counter()
    plain = kind == "llama-plain"
    system = Llama(path, threads, plain) if plain or kind == "llama" else Torch(path, threads, kind == "compile")
    say({"load_s": time.perf_counter() - begin, "threads": threads})
    for line in sys.stdin:
        verb, *numbers = line.split()
        done = getattr(system, verb)(*map(int, numbers))
        say({} if done is None else {"ms": done})


def say(answer):
    os.write(answers, (json.dumps(answer) + "\n").encode())


def versions():
    found = {}
    for name in ("llama-cpp-python", "torch", "transformers", "gguf", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    say(found)


if __name__ == "__main__":
    answers = os.dup(1)  # whatever libraries print goes to standard error
    os.dup2(2, 1)
    match sys.argv[1:]:
        case ["versions"]:
            versions()
        case ["gguf", checkpoint, out, ("bf16" | "q8_0" | "q4_0") as kind]:
            write_gguf(Path(checkpoint), Path(out), kind)
        case [("llama" | "llama-plain" | "eager" | "compile") as kind, path, threads]:
            serve(kind, path, int(threads))
        case _:
            raise SystemExit(__doc__)
