#!/usr/bin/env python3
"""Writes tests/oracle/tokenizer/: small tokenizer.json files, and what the reference library makes of them.

Every tokenizer is trained on the text below, so that no foreign vocabulary is needed. Each has the
pre-tokenizer, normalizer, post-processor and decoder of the model family that it is named after.

    python3 tests/oracle/make_tokenizer_vectors.py        # needs: pip install tokenizers==0.23.3

NAME.json is a tokenizer. NAME.vectors.json is a list of {text, ids, ids_special, decoded, decoded_skip}.
pre_tokenizers.json holds {pre_tokenizer, text, pieces}, with pieces in the byte-level alphabet where it
applies. byte_decoding.json holds {ids, decoded} for broken UTF-8, in the ids of gpt2.json.
"""

import itertools
import json
import pathlib
import random
import unicodedata

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).parent / "tokenizer"

LLAMA3_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_PATTERN = LLAMA3_PATTERN.replace(r"\p{N}{1,3}", r"\p{N}")

CORPUS = [
    "The little fox had three red apples. She gave one apple to the hare, and then she had two.",
    "\"How many apples have you now?\" asked the hare. \"I've one, and you've two,\" said the fox.",
    "It's raining; they'll stay in the barn until the rain's over. We're sure he'd agree, I'm not.",
    "In 1984 there were 12345 boats in the harbour, 67 of them blue, 890 green and 2 not painted at all.",
    "for (int i = 0; i < count; ++i) {\n    total += values[i] * 0.25f;\n\tif (total > 100) break;\n}\n\n",
    "def add(a, b):\n    return a + b\n\n\nprint(add(1, 2))  # prints 3\n",
    "Der kleine Fuchs aß drei Äpfel über der Brücke. Où est l'été ? À la café, déjà vu, naïve façade.",
    "Маленькая лиса нашла три яблока и отдала одно зайцу. Сколько яблок осталось у лисы?",
    "小さな狐は赤いりんごを三つ持っていました。小狐狸有三个红苹果，给了兔子一个。",
    "كان لدى الثعلب الصغير ثلاث تفاحات حمراء. छोटी लोमड़ी के पास तीन लाल सेब थे।",
    "👩‍🌾 grows 🍎🍎🍎 and 👨‍👩‍👧 eat them 🙂🙂",
]

TEXTS = [
    "", " ", "  ", "a", "\n", "\r\n", "\t", "Hello, world!", " Hello", "Hello ", "Hello   ", "   Hello",
    "The little fox had three red apples.", "the  fox   had\tapples\n", "It's they'll WE'RE I'VE he'D 'S 'ſ 'k",
    "'s't're've'm'll'd", "don't o'clock rock'n'roll ''' '", "1", "12", "123", "1234", "1234567890", "3.14159 1,000,000",
    "٣٤٥ १२३४ Ⅷ ½ ²³ 一二三", "\r\n\r\n\r\nline\r\n  indented\r\n\tboth\r\n", "a\n\n\nb\n \n\t\nc \n", "x \n y\n\n  ",
    "\u00a0nbsp\u00a0\u00a0x", "\u3000全角\u3000", "\u2003em\u2009thin\u200bzero\u2028line\u2029para\u0085nel\u180emvs\u1680ogham",
    "👩‍🌾👨‍👩‍👧‍👦🏳️‍🌈👍🏽🇫🇷🇩🇪1️⃣", "🙂", "🙂🙂 🙂", "e\u0301te\u0301 cafe\u0301 n\u0303", "q\u0307\u0323 q\u0323\u0307 a\u0316\u0301\u0316",
    "\u212b \u2126 \u00c5 A\u030a \u1e9b\u0323 ﬁ ① \uf900 \u0344 \u2adc", "한국어 \u1112\u1161\u11ab\u1100\u116e\u11a8", "\u0301leading mark",
    "小さな狐 小狐狸有三个红苹果，给了。", "Ünïcödé ÀÉÎ ẞß İı ǅ", "كان لدى الثعلب، السَّلَامُ عَلَيْكُمْ؟", "छोटी लोमड़ी के पास क्षत्रिय ज़", "ไทย ภาษา မြန်မာ ትግርኛ",
    "Маленькая лиса, у лисы?", "שָׁלוֹם", "for (int i = 0; i < n; ++i) {\n\treturn a[i]; // x\n}\n", "!!!??? ... --- ==> <|> |> <| <", "a_b-c+d=e/f\\g@h#i$j%k^l&m*n",
    "http://example.org/?q=a%20b&c=d#e", "\x00\x01\x1f\x7f\x80\x9f", "\ufeffbom \ufffd \ufffe \U0010ffff", "𝒜𝓫𝔠 𐍈 𠀀", "z" * 70, " " * 40 + "x", "\n" * 20, "ab" * 40, "é" * 30, "Ġ Ċ ĉ Ã ▁ ▁▁x",
    "<|endoftext|>", "<|endoftext|><|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", " <|endoftext|> ", "x\n<|endoftext|>\n\ny", "<|endoftext", "<|<|endoftext|>|>", "<|ENDOFTEXT|>",
    "<|start|>user\nHow many?<|end|>\n<|start|>bot\n", "<|start|><|start|><|end|>", "<think>\nhm\n</think>\n\nyes", "<think><think>", "<thin k> <thinking> <think>ing",
    "left <L> right", "left  \t<L> right", "<L><L> <L>", "<R> right", "<R>  \n right <R>", "<R> <L>", "a <B> b", "<B>  <B>", "\u3000<B>\u00a0x\u200b<B>",
    "word", "a word.", "words sword word_ word", "word1 \u0301word wordé 字word word字", "word\u200dx ⓐword", "word word", "caf\u00e9 cafe\u0301 xcafé", "NORM norm NORM", "two words here", "two  words", "ab abc abcd abcde",
]


def base_trainer(vocab_size, special):
    return trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )


def pattern_then_bytes(pattern):
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
        ]
    )


def plain(content, **flags):
    return AddedToken(content, normalized=flags.pop("normalized", False), **flags)


def llama3():
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.pre_tokenizer = pattern_then_bytes(LLAMA3_PATTERN)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, base_trainer(480, []))
    # The vocabulary gets whole words without their merges, which only ignore_merges finds.
    document = json.loads(tok.to_str())
    document["model"]["vocab"]["ĠharbourĠ"] = tok.get_vocab_size()
    document["model"]["vocab"]["zzzz"] = tok.get_vocab_size() + 1
    document["model"]["vocab"]["Ġzebra"] = tok.get_vocab_size() + 2
    tok = Tokenizer.from_str(json.dumps(document))
    tok.add_special_tokens(["<|begin_of_text|>", "<|endoftext|>", "<|start|>", "<|end|>"])
    tok.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single="<|begin_of_text|> $A",
                pair="<|begin_of_text|> $A <|begin_of_text|> $B:1",
                special_tokens=[("<|begin_of_text|>", tok.token_to_id("<|begin_of_text|>"))],
            ),
        ]
    )
    return tok


def qwen2():
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pattern_then_bytes(QWEN2_PATTERN)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, base_trainer(560, []))
    tok.add_special_tokens(["<|endoftext|>", "<|start|>", "<|end|>"])
    tok.add_tokens([plain("<think>"), plain("</think>")])
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def gpt2():
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, base_trainer(420, ["<|endoftext|>"]))
    tok.post_processor = processors.ByteLevel(trim_offsets=False)
    return tok


def smollm2():
    """Returns a tokenizer that cuts each digit off before GPT-2's pattern applies."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)]
    )
    tok.decoder = decoders.ByteLevel()
    tok.train_from_iterator(CORPUS, base_trainer(420, ["<|endoftext|>"]))
    return tok


def added():
    """Returns a tokenizer whose added tokens have every flag. Further parts are a normalizer, the prefix
    space and a two-sided template.
    """
    tok = Tokenizer(models.BPE())
    tok.normalizer = normalizers.Sequence([normalizers.NFC()])
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tok.decoder = decoders.Sequence([decoders.ByteLevel()])
    tok.train_from_iterator(CORPUS, base_trainer(400, ["<|endoftext|>"]))
    tok.add_special_tokens([plain("<L>", lstrip=True), plain("<R>", rstrip=True), plain("<B>", lstrip=True, rstrip=True)])
    tok.add_tokens(
        [
            plain("word", single_word=True),
            AddedToken("cafe\u0301", normalized=True),
            AddedToken("NORM", normalized=True, lstrip=True),
            plain("two words"),
            plain("ab"),
            plain("abcd"),
            plain("é"),
            plain("小狐"),
            AddedToken("\n\n", normalized=True, special=True),
        ]
    )
    end = ("<|endoftext|>", tok.token_to_id("<|endoftext|>"))
    tok.post_processor = processors.TemplateProcessing(
        single="<|endoftext|> $A <L>:1 <|endoftext|>", special_tokens=[end, ("<L>", tok.token_to_id("<L>"))]
    )
    return tok


def sentencepiece(metaspace):
    """Returns a tokenizer of the older Mistral form. There is no byte-level alphabet, and unknown characters
    fall back to byte tokens.
    """
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(CORPUS[:6], trainers.BpeTrainer(vocab_size=260, show_progress=False))
    document = json.loads(trained.to_str())
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256) if byte != 0xF1]
    tokens += sorted(document["model"]["vocab"], key=document["model"]["vocab"].get)
    document["model"].update(
        vocab={token: i for i, token in enumerate(tokens)}, byte_fallback=True, fuse_unk=metaspace, unk_token="<unk>"
    )
    tok = Tokenizer.from_str(json.dumps(document))
    if metaspace:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        tok.pre_tokenizer = None
        tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.add_special_tokens(["<unk>", "<s>", "</s>"])
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tok.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return tok


def vectors(tok):
    result = []
    for text in TEXTS + ["\U00040000", "a\U00040000\U00040001b"]:
        ids = tok.encode(text, add_special_tokens=False).ids
        ids_special = tok.encode(text, add_special_tokens=True).ids
        result.append(
            {
                "text": text,
                "ids": ids,
                "ids_special": ids_special,
                "decoded": tok.decode(ids_special, skip_special_tokens=False),
                "decoded_skip": tok.decode(ids_special, skip_special_tokens=True),
            }
        )
    return result


def pre_tokenizer_cases():
    patterns = [Regex(r"\d+"), Regex(r"x*"), Regex(r"(?<=a)b|\s"), Regex(r"^\p{Lu}|[.!]$"), "ab", ".", Regex(LLAMA3_PATTERN)]
    behaviors = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]
    steps = [
        pre_tokenizers.Split(pattern, behavior, invert)
        for pattern, behavior, invert in itertools.product(patterns, behaviors, [False, True])
    ]
    steps += [pre_tokenizers.ByteLevel(add_prefix_space=p, use_regex=r) for p in (False, True) for r in (False, True)]
    steps += [
        pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "merged_with_next"), pre_tokenizers.ByteLevel(add_prefix_space=True)]),
        pre_tokenizers.Sequence([]),
    ]
    steps += [pre_tokenizers.Digits(individual_digits=each) for each in (False, True)]
    steps += [pre_tokenizers.Punctuation(behavior) for behavior in behaviors]
    steps += [
        pre_tokenizers.Whitespace(),
        pre_tokenizers.WhitespaceSplit(),
        pre_tokenizers.BertPreTokenizer(),
        pre_tokenizers.CharDelimiterSplit("b"),
        pre_tokenizers.Sequence([pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(True)]),
    ]
    steps += [
        pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
        for scheme in ("always", "never", "first")
        for split in (False, True)
    ]
    texts = ["12ab34 .abab..5", "xxaxbb  ab\nAb.\n1!", " é 字 ab ", "x"]
    texts += ["a²³Ⅷ½٣४ 7,8_9$+<=>^`|~", "«q»—…。\u00a0x\u200bn\u0301 _a-b"]
    cases = []
    for step in steps:
        tok = Tokenizer(models.BPE())
        tok.pre_tokenizer = step
        spec = json.loads(tok.to_str())["pre_tokenizer"]
        cases += [{"pre_tokenizer": spec, "text": t, "pieces": [p for p, _ in step.pre_tokenize_str(t)]} for t in texts]
    # The package's punctuation is that of an older Unicode. Joiners belong to words.
    marks = [chr(c) for c in range(1, 0x110000) if unicodedata.category(chr(c)).startswith("P") or chr(c) in "$+<=>^`|~\u166d\U000111c9"]
    more = [(pre_tokenizers.Punctuation("isolated"), "a".join(marks)), (pre_tokenizers.BertPreTokenizer(), "a".join(marks)),
            (pre_tokenizers.Whitespace(), "a\u200cb \u200d.\u200d.\u200b\u200c,")]
    for step, text in more:
        tok.pre_tokenizer = step
        spec = json.loads(tok.to_str())["pre_tokenizer"]
        cases.append({"pre_tokenizer": spec, "text": text, "pieces": [p for p, _ in step.pre_tokenize_str(text)]})
    # Characters that scripts share, such as U+3002 and U+30FC, belong to none of them.
    shared = "我说：「好。」、カー・ひらー〆々 αβ\u0342γ e\u0363x مرحبا، ـ 〇"
    scripts = [r"\p{Han}+", r"[\p{Han}\p{Katakana}]+", r"[^\p{Han}]+", r"\P{Hiragana}+", r"\p{^Katakana}+", r"\P{^Arabic}+", r"\p{greek}+",
               r"[\p{Latin}]+", r"\p{Common}+", r"\p{Inherited}+"]
    for pattern in scripts:
        step = pre_tokenizers.Split(Regex(pattern), "isolated", False)
        spec = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        cases.append({"pre_tokenizer": spec, "text": shared, "pieces": [p for p, _ in step.pre_tokenize_str(shared)]})
    return cases


def byte_decoding_cases(tok):
    rng = random.Random(7)
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [byte for byte in range(256) if byte not in printable]
    ids_of_bytes = [
        tok.token_to_id(chr(byte) if byte in printable else chr(256 + others.index(byte))) for byte in range(256)
    ]
    interesting = [0x20, 0x61, 0x80, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xE4, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF]
    sequences = [list(pair) for pair in itertools.product(interesting, repeat=2)]
    sequences += [[rng.choice(interesting) for _ in range(rng.randint(3, 9))] for _ in range(120)]
    return [
        {"ids": ids, "decoded": tok.decode(ids, skip_special_tokens=False)}
        for ids in ([ids_of_bytes[byte] for byte in sequence] for sequence in sequences)
    ]


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("},{", "},\n{") + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    tokenizers = {
        "llama3": llama3(),
        "qwen2": qwen2(),
        "gpt2": gpt2(),
        "smollm2": smollm2(),
        "added": added(),
        "mistral_prepend": sentencepiece(metaspace=False),
        "mistral_metaspace": sentencepiece(metaspace=True),
    }
    for name, tok in tokenizers.items():
        document = json.loads(tok.to_str())
        if name == "gpt2":  # gpt2 has the older spelling of merges
            document["model"]["merges"] = [" ".join(pair) for pair in document["model"]["merges"]]
        reloaded = Tokenizer.from_str(json.dumps(document))
        write(f"{name}.json", document)
        write(f"{name}.vectors.json", vectors(reloaded))
    write("pre_tokenizers.json", pre_tokenizer_cases())
    write("byte_decoding.json", byte_decoding_cases(tokenizers["gpt2"]))


if __name__ == "__main__":
    main()
