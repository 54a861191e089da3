"""These tests check that mkc follows a checkpoint's settings for generation: end tokens, sampling and text.
Usage: defaults_test.py MKC ROOT
"""
import json
import shutil
import sys
import unittest

from command import TINY, Command

RUN = ("--device", "cpu", "--max-new-tokens", 12)


class DefaultsTest(Command):
    def model(self, generation=None, tokenizer_config=None, tokenizer=None, **config):
        folder = self.dir / f"tiny{len(list(self.dir.iterdir()))}"
        shutil.copytree(TINY, folder)
        (folder / "generation_config.json").unlink()
        document = {**json.loads((TINY / "config.json").read_text()), **config}
        (folder / "config.json").write_text(json.dumps(document, indent=1))
        for name, content in (("generation_config", generation), ("tokenizer_config", tokenizer_config)):
            if content is not None:
                (folder / f"{name}.json").write_text(content if isinstance(content, str) else json.dumps(content, indent=1))
        if tokenizer:
            document = json.loads((TINY / "tokenizer.json").read_text())
            tokenizer(document)
            (folder / "tokenizer.json").write_text(json.dumps(document))
        return folder

    def ids(self, folder, *options):
        code, out, err = self.mkc("run", folder, "--prompt", "Once upon a time", "--json", *RUN, *options)
        self.assertEqual(code, 0, err)
        return json.loads(out)["new_ids"]

    def ends(self, folder):
        code, out, err = self.mkc("compile", folder, "--emit", "manifest")
        self.assertEqual(code, 0, err)
        return json.loads(out)["eos_ids"]

    def test_end_tokens_of_all_files(self):
        self.assertEqual(self.ends(self.model(eos_token_id=1)), [1])
        self.assertEqual(self.ends(self.model({"eos_token_id": [7, 5]}, eos_token_id=[1, 7])), [7, 5, 1])
        self.assertEqual(self.ends(self.model({"eos_token_id": None}, eos_token_id=1)), [1])
        turn = {"eos_token": {"content": "<|im_end|>"}, "added_tokens_decoder": {
            "4": {"content": "<|im_start|>"}, "9": {"content": "<|im_end|>", "special": True}}}
        self.assertEqual(self.ends(self.model({"eos_token_id": 2}, turn, eos_token_id=1)), [2, 1, 9])
        self.assertEqual(self.ends(self.model(None, {**turn, "eos_token": "<|im_start|>"}, eos_token_id=1)), [1, 4])

    def test_the_tokenizer_has_ids_that_its_config_leaves_out(self):
        """transformers 5 writes no added_tokens_decoder."""
        def ends(tokenizer, config, tokens_map=None):
            folder = self.model(None, config, eos_token_id=1)
            (self.dir / folder / "tokenizer.json").write_text(tokenizer if isinstance(tokenizer, str) else json.dumps(tokenizer))
            if tokens_map is not None:
                (self.dir / folder / "special_tokens_map.json").write_text(json.dumps(tokens_map))
            return self.ends(folder)
        tokenizer = {"added_tokens": [{"id": 3, "content": "<|im_start|>"}, {"id": 9, "content": "<|im_end|>"}],
                     "model": {"vocab": {"a": 7, "<|im_end|>": 8, "</s>": 4}}}
        self.assertEqual(ends(tokenizer, {"eos_token": "<|im_end|>"}), [1, 9])
        self.assertEqual(ends(tokenizer, {"eos_token": "</s>", "added_tokens_decoder": {}}), [1, 4])
        self.assertEqual(ends(tokenizer, {"eos_token": "</s>"}, {"eos_token": {"content": "<|im_end|>"}}), [1, 9])
        self.assertEqual(ends(tokenizer, {"eos_token": "</s>", "added_tokens_decoder": {}}, {"eos_token": "<|im_end|>"}), [1, 4])
        self.assertEqual(ends(tokenizer, {"eos_token": "none"}), [1])
        self.assertEqual(ends(tokenizer, {"eos_token": "</s>"}, {"eos_token": None}), [1])
        self.assertEqual(ends(tokenizer, {"eos_token": "</s>", "added_tokens_decoder": {"600": {"content": "</s>"}}}), [1, 4])
        self.assertEqual(ends(tokenizer, {"eos_token": "new", "added_tokens_decoder": {"600": {"content": "new"}}}), [1, 600])
        for broken in ("", "{", "[" * 100000, '{"added_tokens": 3, "model": []}', '{"added_tokens": [{"content": "</s>", "id": 1e99}]}'):
            self.assertEqual(ends(broken, {"eos_token": "</s>"}), [1])

    def test_generation_stops_at_each_of_them(self):
        free = self.ids(self.model(eos_token_id=[]))
        self.assertEqual(len(free), 12)
        stop = free[5]
        expected = free[:free.index(stop) + 1]
        for folder in (self.model({"eos_token_id": [639, stop]}, eos_token_id=1),
                       self.model(None, {"eos_token": "<x>", "added_tokens_decoder": {str(stop): {"content": "<x>"}}},
                                  eos_token_id=1)):
            self.assertEqual(self.ids(folder), expected)
            (self.dir / "f.jsonl").write_text(json.dumps({"prompt": "Once upon a time"}) + "\n")
            code, out, err = self.mkc("run", folder, "--batch-file", "f.jsonl", *RUN)
            self.assertEqual((code, json.loads(out)["new_ids"], json.loads(out)["finish_reason"]), (0, expected, "stop"), err)

    def test_default_sampling(self):
        flags = ("--temperature", 0.9, "--top-k", 30, "--top-p", 0.95, "--repetition-penalty", 1.25)
        plain = self.model(eos_token_id=[])
        greedy, by_flags = self.ids(plain), self.ids(plain, *flags)
        self.assertNotEqual(greedy, by_flags)
        file = {"do_sample": True, "temperature": 0.9, "top_k": 30, "top_p": 0.95, "repetition_penalty": 1.25}
        folder = self.model(file, eos_token_id=[])
        self.assertEqual(self.ids(folder), by_flags)
        self.assertEqual(self.ids(folder, "--seed", 5), self.ids(plain, *flags, "--seed", 5))
        # Each flag goes before the file's value.
        self.assertEqual(self.ids(folder, "--top-p", 0.5),
                         self.ids(plain, *(0.5 if flag == 0.95 else flag for flag in flags)))
        self.assertEqual(self.ids(folder, "--temperature", 0, "--repetition-penalty", 1), greedy)
        # Lines of a batch file that give no parameters get the defaults, too.
        (self.dir / "f.jsonl").write_text('{"prompt": "Once upon a time"}\n{"prompt": "Once upon a time", "temperature": 0, '
                                          '"repetition_penalty": 1}\n')
        code, out, err = self.mkc("run", folder, "--batch-file", "f.jsonl", *RUN)
        self.assertEqual([json.loads(line)["new_ids"] for line in out.splitlines()], [by_flags, greedy], err)
        # Tokens are greedy without do_sample, whatever else is given. The penalty holds in both cases.
        self.assertEqual(self.ids(self.model({**file, "do_sample": False, "repetition_penalty": 1}, eos_token_id=[])), greedy)
        self.assertEqual(self.ids(self.model({"repetition_penalty": 1.25}, eos_token_id=[])),
                         self.ids(plain, "--repetition-penalty", 1.25))
        # transformers takes temperature 1 and the 50 likeliest tokens if do_sample stands alone.
        sampled = self.ids(self.model({"do_sample": True}, eos_token_id=[]))
        self.assertEqual(sampled, self.ids(plain, "--temperature", 1, "--top-k", 50))

    def test_settings_that_are_not_read_are_named(self):
        greedy = {"no_repeat_ngram_size": 3, "bad_words_ids": [[5]], "num_beams": 1, "suppress_tokens": [], "typical_p": 0.5,
                  "min_length": None, "use_cache": True}
        for settings, keys in ((greedy, "bad_words_ids, no_repeat_ngram_size"),
                               ({"do_sample": True, "typical_p": 0.5}, "typical_p"), ({"num_beams": 1}, ""),
                               ({"stop_strings": ".", "token_healing": True, "watermarking_config": {"bias": 2.0}},
                                "stop_strings, token_healing, watermarking_config"),
                               ({"stop_strings": [], "token_healing": False, "watermarking_config": None}, "")):
            folder = self.model(settings)
            code, _, err = self.mkc("run", folder, "--prompt", "Once upon a time", "--json", *RUN)
            self.assertEqual(code, 0, err)
            said = (f"{folder.name}/generation_config.json: warning: not read are {keys}: tokens may differ from those of "
                    "transformers\n")
            self.assertEqual(err.count("warning"), 1 if keys else 0, err)
            self.assertIn(said if keys else "", err)

    def test_settings_of_config_json_count_without_a_generation_config(self):
        settings = {"do_sample": True, "temperature": 0.9, "top_k": 30, "repetition_penalty": 1.25, "no_repeat_ngram_size": 3}
        flags = ("--temperature", 0.9, "--top-k", 30, "--repetition-penalty", 1.25)
        plain, folder = self.model(eos_token_id=[]), self.model(eos_token_id=[], **settings)
        self.assertEqual(self.ids(folder), self.ids(plain, *flags))
        self.assertEqual(self.mkc("run", folder, "--prompt", "x", "--json", *RUN)[2].splitlines()[0],
                         f"{folder.name}/config.json: warning: not read are no_repeat_ngram_size: tokens may differ from those of "
                         "transformers")
        self.assertEqual(self.ids(self.model({}, eos_token_id=[], **settings)), self.ids(plain))

    def test_faulty_defaults_are_refused_at_their_place(self):
        for text, fault in (
                ('{"eos_token_id": [1, "x"]}', '1:2: error: eos_token_id has "x", expected token ids'),
                ('{"eos_token_id": -1}', "1:2: error: eos_token_id has -1, expected token ids"),
                ('{"do_sample": 1}', "1:2: error: do_sample is 1, expected a bool"),
                ('{"do_sample": true, "temperature": -0.5}', "1:21: error: temperature is -0.5, expected 0 to 1000000"),
                ('{"do_sample": true, "top_p": 0}', "1:21: error: top_p is 0, expected more than 0, at most 1"),
                ('{"repetition_penalty": "much"}', '1:2: error: repetition_penalty is "much", expected 0.001 to 1000'),
                ("{", "1:2: error: ")):
            name = self.model(text).name
            self.refuses(f"{name}/generation_config.json:{fault}", "run", name, "--prompt-ids", 1)

    def test_tokens_that_the_tokenizer_does_not_have_print_the_same_everywhere(self):
        """Vocabularies of weights are padded beyond that of the tokenizer."""
        free = self.ids(self.model(eos_token_id=[]))
        gone = max(free)

        def shorten(document):
            vocab = document["model"]["vocab"]
            document["model"]["vocab"] = {token: id for token, id in vocab.items() if id < gone}
            document["model"]["merges"] = [m for m in document["model"]["merges"] if all(
                t in document["model"]["vocab"] for t in
                ((m.split(" ") if isinstance(m, str) else m) + ["".join(m.split(" ") if isinstance(m, str) else m)]))]
            document["added_tokens"] = [t for t in document["added_tokens"] if t["id"] < gone]
        folder = self.model(tokenizer=shorten, eos_token_id=[])
        prompt = ",".join(map(str, json.loads(self.mkc("run", TINY, "--prompt", "Once upon a time", "--json", *RUN)[1])[
            "prompt_ids"]))
        code, out, err = self.mkc("run", folder, "--prompt-ids", prompt, "--json", *RUN)
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["new_ids"], free)
        text = json.loads(out)["text"]
        self.assertIn(f"<{gone}>", text)
        code, out, err = self.mkc("run", folder, "--prompt-ids", prompt, *RUN)
        self.assertEqual((code, out.decode()), (0, text + "\n"), err)
        (self.dir / "f.jsonl").write_text(f'{{"prompt_ids": [{prompt}]}}\n')
        code, out, err = self.mkc("run", folder, "--batch-file", "f.jsonl", *RUN)
        answer = json.loads(out)
        self.assertEqual((code, answer["text"], "error" in answer), (0, text, False), err)


unittest.main(argv=sys.argv[:1], verbosity=1)
