#!/usr/bin/env python3
"""Writes tests/oracle/tokenizer/config_tokens.json: files beside a tokenizer.json, the ids that transformers then gives a text, and the
text of these ids without special tokens.

The program needs transformers (5.24.0), not torch, and its result is committed.
"""
import copy
import json
import pathlib
import tempfile

from transformers import AutoTokenizer

FOLDER = pathlib.Path(__file__).parent / "tokenizer"
TOKENIZER = "mistral_prepend.json"
TEXT = "a<|im_end|>b </s> c<x>"


def described(content, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, **flags}


END = {"518": described("<|im_end|>", special=True)}
STRIPPED = {"519": described("<x>", special=True), "2": described("</s>", lstrip=True, rstrip=True, special=True)}
# tokenizer_config.json, and special_tokens_map.json where there is one.
CASES = [({}, None), ({"eos_token": "</s>"}, None), ({"eos_token": described("</s>", rstrip=True, __type="AddedToken")}, None),
         ({"added_tokens_decoder": END}, None), ({"added_tokens_decoder": END | STRIPPED}, None),
         ({"added_tokens_decoder": {"518": {"content": "<x>"}}}, None), ({"pad_token": None, "unk_token": "<x>"}, None),
         ({"additional_special_tokens": ["<|im_end|>"], "eos_token": "</s>"}, None),
         ({"extra_special_tokens": ["<x>"], "additional_special_tokens": ["<|im_end|>"]}, None),
         ({"extra_special_tokens": {"x_token": "<x>"}, "additional_special_tokens": ["<|im_end|>"]}, None),
         ({"extra_special_tokens": {"z_token": "<x>", "a_token": "<|im_end|>"}}, None), ({"image_token": "<x>", "other": "<|im_end|>"}, None),
         ({"extra_special_tokens": [described("<x>", __type="AddedToken"), "<|im_end|>"]}, None),
         ({"added_tokens_decoder": {"2": described("</s>", special=False)}}, None),
         ({"added_tokens_decoder": {"518": described("<x>", special=False)}, "pad_token": "<x>"}, None),
         ({}, {"additional_special_tokens": ["<x>"]}), ({"extra_special_tokens": ["<|im_end|>"]}, {"extra_special_tokens": ["<x>"]}),
         ({}, {"x_token": "<x>"}), ({"eos_token": "<|im_end|>"}, {"eos_token": None}),
         ({"eos_token": "<|im_end|>"}, {"eos_token": described("</s>", lstrip=True)}),
         ({"eos_token": "<|im_end|>"}, {"bos_token": "<s>"}),
         ({"eos_token": "<|im_end|>", "added_tokens_decoder": {}}, {"eos_token": "</s>"}),
         ({"added_tokens_decoder": END, "split_special_tokens": False}, None),
         ({"added_tokens_decoder": END | {"519": described("<x>")}, "split_special_tokens": True}, None),
         ({"added_tokens_decoder": {"518": described("_end"), "519": described("<|im_end|>", special=True)},
           "split_special_tokens": True}, None)]


def encoded(added, config, tokens_map):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer = json.loads((FOLDER / TOKENIZER).read_text())
        if not added:
            tokenizer["added_tokens"] = [token for token in tokenizer["added_tokens"] if token["content"] != "</s>"]
        (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **config}))
        if tokens_map:
            (folder / "special_tokens_map.json").write_text(json.dumps(tokens_map))
        loaded = AutoTokenizer.from_pretrained(folder)
        ids = loaded(TEXT, add_special_tokens=False)["input_ids"]
        return {"ids": ids, "decoded": loaded.decode(ids, skip_special_tokens=True)}


rows = [{"added": added, "config": config, "map": tokens_map, **encoded(added, copy.deepcopy(config), tokens_map)}
        for added in (True, False) for config, tokens_map in CASES]
body = ",\n".join(json.dumps(row) for row in rows)
(FOLDER / "config_tokens.json").write_text(f'{{"tokenizer": "{TOKENIZER}", "text": {json.dumps(TEXT)}, "rows": [\n{body}\n]}}\n')
