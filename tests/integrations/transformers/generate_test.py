"""mkc.transformers against stock generation of the real package, on tiny random checkpoints of every family."""
import contextlib
import io
import os
import re
import shutil
import sys
import tempfile
import threading
import unittest
import unittest.mock
from pathlib import Path

ROOT = Path(os.environ["MKC_SOURCE"])
cache = tempfile.TemporaryDirectory()
os.environ["MKC_CACHE"] = cache.name
os.environ["HF_HUB_OFFLINE"] = "1"
HUB = Path(cache.name) / "hub"
os.environ["HF_HUB_CACHE"] = str(HUB)

import torch  # noqa: E402
from transformers import (AutoModelForCausalLM, DynamicCache, GPT2Config, GPT2LMHeadModel, LogitsProcessorList,  # noqa: E402
                          NoRepeatNGramLogitsProcessor, StoppingCriteriaList)
from transformers.generation.streamers import BaseStreamer  # noqa: E402

import mkc.transformers  # noqa: E402
from margin import compare  # noqa: E402
from mkc.transformers._weights import checkpoint_of  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures" / "models"
STORIES = ROOT / "models" / "tiny-stories"
LOG = "mkc.transformers"
NEW = 24
torch.manual_seed(7)


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype="auto").eval()


def prompts(model, lengths):
    """Left-padded prompts of random ids: input_ids and attention_mask."""
    width = max(lengths)
    ids = torch.randint(1, model.config.vocab_size, (len(lengths), width))
    mask = torch.tensor([[0] * (width - n) + [1] * n for n in lengths])
    return {"input_ids": ids * mask, "attention_mask": mask}


def greedy(model, inputs, **more):
    return model.generate(**inputs, do_sample=False, max_new_tokens=NEW, pad_token_id=0, **more)


class GenerateTest(unittest.TestCase):
    def on_mkc(self, call):
        with self.assertNoLogs(LOG):
            return call()

    def falls_back(self, reason, call):
        mkc.transformers._support._said.clear()
        with self.assertLogs(LOG) as logs:
            result = call()
        self.assertEqual(len(logs.output), 1)
        self.assertRegex(logs.output[0], reason)
        with self.assertNoLogs(LOG):
            call()  # a reason is said once
        return result

    def test_every_family_has_the_tokens_of_stock_generation(self):
        families = {path.stem for path in (ROOT / "models").glob("*.yaml")}
        seen, equal, of = set(), {}, {}
        for folder in [*sorted(FIXTURES.iterdir()), STORIES]:
            with self.subTest(folder.name):
                model = load(folder)
                if hasattr(model.config, "num_experts_per_tok"):
                    model.float()  # bf16 decides differently between experts that are equally good
                seen.add(model.config.model_type)
                dtype = model.dtype
                inputs = prompts(model, (19, 1, 7, 12))
                stock = greedy(model, inputs)
                ours = self.on_mkc(lambda: greedy(model, inputs, custom_generate=mkc.transformers.generate))
                width = inputs["input_ids"].shape[1]
                self.assertTrue(torch.equal(ours[:, :width], inputs["input_ids"]))
                for row, mask in enumerate(inputs["attention_mask"]):
                    prompt = inputs["input_ids"][row][mask == 1].tolist()
                    same = compare(model, prompt, stock[row, width:].tolist(), ours[row, width:].tolist())
                    equal[dtype] = equal.get(dtype, 0) + same
                    of[dtype] = of.get(dtype, 0) + stock.shape[1] - width
                mkc.transformers.restore(model)
        for dtype, least in ((torch.float32, 0.99), (torch.bfloat16, 0.6)):
            print(f"{dtype}: {equal[dtype]} of {of[dtype]} tokens are equal before the margin lets sequences part")
            self.assertGreater(equal[dtype], least * of[dtype])
        self.assertEqual(families - seen, set())

    def test_the_margin_finds_other_weights(self):
        model, other = load(FIXTURES / "llama_f32"), load(FIXTURES / "llama_f32")
        with torch.no_grad():
            other.model.layers[1].mlp.up_proj.weight[0] += 0.5
        inputs = prompts(model, (19,))
        stock, ours = greedy(model, inputs), greedy(other, inputs, custom_generate=mkc.transformers.generate)
        with self.assertRaisesRegex(AssertionError, "stock generation has"):
            compare(model, inputs["input_ids"][0].tolist(), stock[0, 19:].tolist(), ours[0, 19:].tolist())

    def test_accelerate_and_restore(self):
        model = load(FIXTURES / "qwen3")
        inputs = prompts(model, (5,))
        stock = greedy(model, inputs)
        accelerated = mkc.transformers.accelerate(model, context=64, max_tokens=8)
        self.assertIs(accelerated, model)
        ours = self.on_mkc(lambda: greedy(model, inputs))
        compare(model, inputs["input_ids"][0].tolist(), stock[0, 5:].tolist(), ours[0, 5:].tolist())
        mkc_model = mkc.transformers._backings.of(model, 8)
        self.assertEqual((mkc_model.context, mkc_model.session.max_tokens), (64, 8))
        with self.assertRaisesRegex(mkc.LimitError, "found the limit 'contxt', expected one of context, "):
            mkc.transformers.accelerate(model, contxt=64)
        mkc.transformers.restore(model)
        self.assertNotIn("generate", vars(model))
        with self.assertRaises(mkc.ClosedError):
            mkc_model.session

    def test_draws_processors_scores_and_criteria_are_those_of_stock_generation(self):
        model = load(FIXTURES / "llama_f32")
        inputs = prompts(model, (9, 4))
        cases = {
            "sampling": dict(do_sample=True, temperature=0.7, top_p=0.9, top_k=20, repetition_penalty=1.2, num_return_sequences=3),
            "processors": dict(do_sample=False, logits_processor=LogitsProcessorList([NoRepeatNGramLogitsProcessor(1)])),
            "biases": dict(do_sample=False, sequence_bias={(3,): 4.0}, min_new_tokens=5, eos_token_id=[3, 4]),
            "criteria": dict(do_sample=False, stopping_criteria=StoppingCriteriaList([lambda ids, scores: torch.tensor([ids.shape[1] > 13] * len(ids))])),
            "ends": dict(do_sample=False, eos_token_id=list(range(0, 80, 3)), pad_token_id=1),
        }
        for name, case in cases.items():
            results = []
            for loop in ({}, {"custom_generate": mkc.transformers.generate}):
                torch.manual_seed(3)
                results.append(self.on_mkc(lambda: model.generate(**inputs, max_new_tokens=12, return_dict_in_generate=True, output_scores=True,
                                                                  output_logits=True, **{"pad_token_id": 0, **case}, **loop)))
            stock, ours = results
            with self.subTest(name):
                self.assertEqual(ours.sequences.tolist(), stock.sequences.tolist())
                self.assertEqual((len(ours.scores), len(ours.logits)), (len(stock.scores), len(stock.logits)))
                for a, b in zip([*ours.scores, *ours.logits], [*stock.scores, *stock.logits]):
                    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)

    def test_a_streamer_gets_what_stock_generation_gives_it(self):
        class Kept(BaseStreamer):
            def __init__(self):
                self.values = []

            def put(self, value):
                self.values.append(value.flatten().tolist())

            def end(self):
                self.values.append("end")

        model = load(FIXTURES / "llama_f32")
        inputs = prompts(model, (6,))
        stock, ours = Kept(), Kept()
        greedy(model, inputs, streamer=stock)
        mkc.transformers.accelerate(model)
        self.on_mkc(lambda: greedy(model, inputs, streamer=ours))
        self.assertEqual(ours.values, stock.values)

    def test_what_is_not_supported_goes_to_stock_generation_with_the_reason(self):
        model = load(FIXTURES / "qwen2")
        inputs = prompts(model, (6, 3))
        short = dict(max_new_tokens=4, pad_token_id=0)
        stock = model.generate(**inputs, num_beams=3, **short)
        mkc.transformers.accelerate(model)
        ours = self.falls_back("num_beams is 3, expected 1", lambda: model.generate(**inputs, num_beams=3, **short))
        self.assertEqual(ours.tolist(), stock.tolist())
        embeds = model.get_input_embeddings()(inputs["input_ids"])
        mask = inputs["attention_mask"]
        for reason, call in {
            "the inputs inputs_embeds are not known": lambda: model.generate(inputs_embeds=embeds, attention_mask=mask, **short),
            "attention_mask has more than padding": lambda: model.generate(inputs["input_ids"], attention_mask=mask.flip(-1), **short),
            "attentions or hidden states": lambda: model.generate(**inputs, return_dict_in_generate=True, output_hidden_states=True, **short),
            "prompt_lookup_num_tokens is given": lambda: model.generate(inputs["input_ids"][:1], prompt_lookup_num_tokens=2, **short),
            "128, ?|a context of 128": lambda: model.generate(**inputs, max_length=400, eos_token_id=list(range(96)), pad_token_id=0),
        }.items():
            self.falls_back(reason, call)
        handle = model.model.layers[0].register_forward_hook(lambda *_: None)
        self.falls_back("forward hooks", lambda: model.generate(**inputs, **short))
        handle.remove()
        model.train()
        self.falls_back("training mode", lambda: model.generate(**inputs, **short))

    def test_a_call_during_another_one_is_stock_generation(self):
        model = load(FIXTURES / "llama_f32")
        inputs, others = prompts(model, (6,)), prompts(model, (11,))
        stock, of_others = greedy(model, inputs), greedy(model, others)
        mkc.transformers.accelerate(model, context=64)
        nested = []

        def of_a_criterion(ids, scores):
            if ids.shape[1] == 15:
                nested.append(greedy(model, others))
                thread = threading.Thread(target=lambda: nested.append(greedy(model, others)))
                thread.start()
                thread.join()
            return torch.zeros(len(ids), dtype=torch.bool)

        def call():
            return greedy(model, inputs, stopping_criteria=StoppingCriteriaList([of_a_criterion]))

        ours = self.falls_back(r"another call of generate\(\) for the model is under way", call)
        self.assertEqual((ours.tolist(), len(nested)), (stock.tolist(), 4))
        for of in nested:
            self.assertEqual(of.tolist(), of_others.tolist())
        self.assertEqual(self.on_mkc(lambda: greedy(model, others)).tolist(), of_others.tolist())

    def test_an_error_of_mkc_before_the_first_token_leads_to_stock_generation(self):
        model = load(FIXTURES / "llama_f32")
        inputs = prompts(model, (6,))
        stock = greedy(model, inputs)
        mkc.transformers.accelerate(model, context=64)
        ours = []
        for name in ("_loop.Requests", "_loop.Requests.feed"):
            with unittest.mock.patch(f"mkc.transformers.{name}", side_effect=mkc.Error("no memory")):
                ours.append(self.falls_back("mkc: no memory", lambda: greedy(model, inputs)))
        self.assertEqual([of.tolist() for of in ours], [stock.tolist()] * 2)
        step = mkc.transformers._backings.of(model, 8).session.step_batch
        with unittest.mock.patch.object(mkc.Session, "step_batch", side_effect=[step([([1], 1, [0])], logits=False), mkc.Error("a fault")]):
            with self.assertRaisesRegex(mkc.Error, "^a fault$"):
                greedy(model, inputs)

    def test_an_empty_cache_is_no_reason_for_stock_generation_under_either_name(self):
        ids, filled = torch.tensor([[5, 6, 7]]), DynamicCache()
        filled.update(torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3, 8), 0)
        for name in ("cache", "past_key_values"):
            self.assertIsNone(mkc.transformers._support._of_inputs(ids, {name: DynamicCache()}))
            self.assertEqual(mkc.transformers._support._of_inputs(ids, {name: filled}), f"{name} is given")

    def test_a_family_that_mkc_does_not_know_goes_to_stock_generation(self):
        torch.manual_seed(1)
        model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=2, vocab_size=50, n_positions=32, bos_token_id=None, eos_token_id=None)).eval()
        inputs = torch.tensor([[5, 6, 7]])
        stock = model.generate(inputs, max_new_tokens=5, pad_token_id=0, do_sample=False)
        ours = self.falls_back("mkc: .*GPT2LMHeadModel", lambda: model.generate(inputs, max_new_tokens=5, pad_token_id=0, do_sample=False,
                                                                     custom_generate=mkc.transformers.generate))
        self.assertEqual(ours.tolist(), stock.tolist())

    def test_weights_in_memory_are_those_that_run(self):
        model = load(FIXTURES / "llama_f32")
        self.assertEqual(checkpoint_of(model), FIXTURES / "llama_f32")
        mkc.transformers.accelerate(model)
        inputs = prompts(model, (8,))
        before = greedy(model, inputs)
        with torch.no_grad():
            model.model.layers[0].self_attn.v_proj.weight.mul_(-3)
        saved = checkpoint_of(model)
        self.assertEqual(saved.parent, Path(cache.name) / "transformers")
        self.assertEqual(checkpoint_of(model), saved)
        ours = self.on_mkc(lambda: greedy(model, inputs))
        self.assertNotEqual(ours.tolist(), before.tolist())
        mkc.transformers.restore(model)
        compare(model, inputs["input_ids"][0].tolist(), greedy(model, inputs)[0, 8:].tolist(), ours[0, 8:].tolist())

    def test_models_that_compute_something_else_than_their_config_go_to_stock_generation(self):
        def scale(attention):
            attention.scaling *= 0.5

        for name, change, reason in (
                ("llama_f32", lambda m: m.model.rotary_emb.inv_freq.mul_(0.25), "the buffer model.rotary_emb.inv_freq is not that of the config"),
                ("llama_f32", lambda m: scale(m.model.layers[0].self_attn), "the module model.layers.0.self_attn is not that of the config"),
                ("llama_f32", lambda m: setattr(m.model.layers[1].mlp, "act_fn", torch.nn.GELU()),
                 "the module model.layers.1.mlp.act_fn is not that of the config"),
                ("llama_f32", lambda m: setattr(m.lm_head, "forward", lambda x: x @ m.lm_head.weight.T * -1),
                 "the module lm_head is not that of the config"),
                ("qwen3_moe_f32", lambda m: setattr(m.model.layers[1].mlp.gate, "top_k", 1),
                 "the module model.layers.1.mlp.gate is not that of the config")):
            with self.subTest(reason):
                model = mkc.transformers.accelerate(load(FIXTURES / name), context=64)
                inputs = prompts(model, (8,))
                self.on_mkc(lambda: greedy(model, inputs))
                change(model)
                ours = self.falls_back(reason, lambda: greedy(model, inputs))
                self.assertEqual(ours.tolist(), greedy(mkc.transformers.restore(model), inputs).tolist())

    def test_a_change_of_the_config_is_seen(self):
        model = mkc.transformers.accelerate(load(FIXTURES / "mistral_window_f32"), context=64)
        inputs = prompts(model, (24,))
        before = self.on_mkc(lambda: greedy(model, inputs))
        model.config.sliding_window = 2  # transformers reads it in each step
        ours = greedy(model, inputs)
        self.assertNotEqual(ours.tolist(), before.tolist())
        self.assertEqual(ours.tolist(), greedy(mkc.transformers.restore(model), inputs).tolist())

    def test_a_new_parameter_in_the_memory_of_an_old_one_is_seen(self):
        model = load(FIXTURES / "llama_f32")
        shape = model.lm_head.weight.shape
        memory = bytearray(model.lm_head.weight.nbytes)  # of one parameter after the other, as a reused allocation is
        mkc.transformers.accelerate(model, context=64)
        inputs, addresses, tokens = prompts(model, (8,)), set(), []
        for _ in range(2):
            memory[:] = torch.randn(shape).numpy().tobytes()
            model.lm_head.weight = torch.nn.Parameter(torch.frombuffer(memory, dtype=torch.float32).view(shape))
            addresses.add((model.lm_head.weight.data_ptr(), model.lm_head.weight._version))
            tokens.append(self.on_mkc(lambda: greedy(model, inputs)).tolist())
            self.assertEqual(tokens[-1], type(model).generate(model, **inputs, do_sample=False, max_new_tokens=NEW, pad_token_id=0).tolist())
        self.assertEqual(len(addresses), 1)
        self.assertNotEqual(tokens[0], tokens[1])

    def test_new_memory_of_a_parameter_is_seen(self):
        model = load(FIXTURES / "llama_f32")
        kept = mkc.transformers._weights.Fingerprint(model)
        self.assertTrue(mkc.transformers._weights.Fingerprint(model).is_equal(kept))
        weight = model.lm_head.weight
        memory, at = torch.frombuffer(bytearray(weight.nbytes), dtype=torch.float32), weight.data_ptr()
        ours = []
        for _ in range(2):  # the second time, it is another storage at the same address
            weight.data = torch.frombuffer(memory.numpy(), dtype=torch.float32).view(weight.shape)
            ours.append(mkc.transformers._weights.Fingerprint(model))
        self.assertNotEqual(weight.data_ptr(), at)
        self.assertEqual(ours[0]._facts, ours[1]._facts)
        self.assertFalse(ours[1].is_equal(ours[0]))

    def test_the_example_of_the_page_runs(self):
        page = (ROOT / "docs" / "integrations.md").read_text()
        [example] = re.findall(r"<!-- example: transformers -->\n```python\n(.*?)```", page, re.S)
        before = os.getcwd()
        os.chdir(ROOT)
        try:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(example, {})
        finally:
            os.chdir(before)
        self.assertEqual(said.getvalue(), "True\n")

    def test_local_directories_of_stacked_experts_are_recognised(self):
        for name in ("mixtral", "qwen3_moe", "qwen3_moe_f32"):
            with self.subTest(name):
                self.assertEqual(checkpoint_of(load(FIXTURES / name)), FIXTURES / name)

    def test_a_model_of_the_local_hub_cache_uses_its_snapshot(self):
        snapshot = HUB / "models--org--tiny" / "snapshots" / "0123abcd"
        shutil.copytree(FIXTURES / "qwen2", snapshot)
        (HUB / "models--org--tiny" / "refs").mkdir()
        (HUB / "models--org--tiny" / "refs" / "main").write_text("0123abcd")
        self.assertEqual(checkpoint_of(load("org/tiny")), snapshot)
        shutil.rmtree(snapshot)


unittest.main()
