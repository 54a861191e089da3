"""These tests break checkpoints that quantizers wrote, and check what mkc says of them.
Usage: quantized_test.py MKC ROOT
"""
import json
import math
import re
import shutil
import struct
import sys
import unittest

from command import ROOT, Command

FIXTURES = ROOT / "tests" / "fixtures" / "quantized"
Q = "model.layers.0.self_attn.q_proj"
GATE = "model.layers.0.mlp.gate_proj"
RUN = ("--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1, "--keep-weights", "no")


class QuantizedTest(Command):
    def broken(self, name, edit, config=None):
        """Returns a copy of a fixture with edited tensors: name -> [dtype, shape, bytes]."""
        folder = self.dir / "model"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        document = json.loads((FIXTURES / name / "config.json").read_text())
        if config:
            config(document["quantization_config"])
        (folder / "config.json").write_text(json.dumps(document))
        data = (FIXTURES / name / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        tensors, body = json.loads(data[8:8 + size]), data[8 + size:]
        tensors.pop("__metadata__", None)
        tensors = {n: [t["dtype"], t["shape"], bytearray(body[slice(*t["data_offsets"])])] for n, t in tensors.items()}
        edit(tensors)
        header, at = {}, 0
        for n, (dtype, shape, part) in tensors.items():
            header[n] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at := at + len(part)]}
        text = json.dumps(header).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))
        return folder

    def says(self, message, name, edit, config=None):
        model = self.broken(name, edit, config)
        self.refuses(f"model{message}", "run", model, "--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1, "--keep-weights", "no")

    def tensor_says(self, tensor, message, name, edit):
        with self.subTest(f"{name}: {tensor} {message}"):
            self.says(f'/model.safetensors: error: tensor "{tensor}" {message}', name, edit)

    def test_groups_of_columns_in_another_order_or_out_of_range_are_refused(self):
        for column, group in ((0, 1), (5, 99), (127, -1), (64, 0)):
            def edit(t):
                struct.pack_into("<i", t[Q + ".g_idx"][2], 4 * column, group)
            self.tensor_says(Q + ".g_idx", f"puts column {column} into group {group}, expected {column // 64}: groups of columns in "
                             "another order (desc_act) are not supported\n", "gptq", edit)

        def shorten(t):
            t[Q + ".g_idx"][1:] = [[64], t[Q + ".g_idx"][2][:256]]
        self.tensor_says(Q + ".g_idx", "is I32 [64], expected I32 [128], the group of each column\n", "gptq", shorten)

    def test_columns_in_another_order_have_groups(self):
        def drop(t):
            for name in [name for name in t if name.endswith(".g_idx")]:
                t.pop(name)
        self.says(f'/model.safetensors: error: missing tensor "{Q}.g_idx" beside "{Q}.qweight", expected one because desc_act is true\n', "gptq",
                  drop, lambda c: c.update(desc_act=True))
        run = ("--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1, "--keep-weights", "no")
        for edit, desc_act in ((drop, False), (lambda t: None, True)):
            code, _, err = self.mkc("run", self.broken("gptq", edit, lambda c: c.update(desc_act=desc_act)), *run)
            self.assertEqual(code, 0, err)

    def test_codes_that_are_no_numbers_are_named(self):
        def edit(t):
            t[Q + ".weight"][2][5] = 0x7f
            t[Q + ".weight"][2][9] = 0xff
        code, _, err = self.mkc("run", self.broken("ct_fp8_rows", edit), "--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1,
                                "--keep-weights", "no")
        self.assertEqual(code, 0, err)
        self.assertIn(f'warning: tensor "{Q}.weight" holds 2 values that are not a number, the first at element 5\n', err)
        lost = "found no finite greatest logit for a new token, expected one: a weight is not finite, or a number is beyond its type"
        self.assertIn(f"cpu: warning: {lost}\n", err)
        (self.dir / "batch.jsonl").write_text('{"prompt_ids": [1], "max_new_tokens": 2}\n')
        code, out, err = self.mkc("run", self.dir / "model", "--device", "cpu", "--batch-file", self.dir / "batch.jsonl", "--keep-weights", "no")
        self.assertEqual(code, 0, err)
        self.assertEqual(json.loads(out)["error"], f"logits: error: {lost}")
        self.assertEqual(json.loads(out)["new_ids"], [])

    def test_scales_that_are_no_numbers_are_refused(self):
        for name, tensor, nan in (("ct_fp8_rows", Q + ".weight_scale", b"\xc0\x7f"), ("ct_fp8_blocks", Q + ".weight_scale", b"\x80\x7f"),
                                  ("ct_w4_rows", Q + ".weight_scale", b"\x80\xff"), ("gptq", Q + ".scales", b"\x00\x7c"),
                                  ("ct_mxfp4", Q + ".weight_scale", b"\xff"), ("modelopt_nvfp4", Q + ".weight_scale", b"\x7f"),
                                  ("fp8_ue8m0", Q + ".weight_scale_inv", b"\xff")):
            def edit(t):
                t[tensor][2][:len(nan)] = nan
            value = {b"\x80\x7f": "inf", b"\x80\xff": "-inf", b"\x00\x7c": "inf"}.get(nan, "nan")
            self.tensor_says(tensor, f"has the scale {value} of row 0, expected a finite number\n", name, edit)

    def test_factors_of_all_scales_are_finite_and_not_zero(self):
        for name, tensor in (("ct_nvfp4", Q + ".weight_global_scale"), ("modelopt_nvfp4", Q + ".weight_scale_2")):
            for value, said in ((0, "0"), (float("inf"), "inf"), (float("nan"), "nan")):
                def edit(t):
                    t[tensor][2][:] = struct.pack("<f", value)
                self.tensor_says(tensor, f"is {said}, expected a finite number but 0\n", name, edit)

    def test_scales_of_another_shape_or_none_are_refused(self):
        def empty(t):
            for tensor in (Q + ".weight_scale", Q + ".scales"):
                if tensor in t:
                    t[tensor][1:] = [[t[tensor][1][0], 0] if tensor.endswith("weight_scale") else [0, t[tensor][1][1]], b""]
        for name, tensor, found, expected in (
                ("ct_fp8_rows", Q + ".weight_scale", "BF16 [64, 0]", "BF16, F16, F32 or F8_E8M0 [64, 1], [1] or [1, 1], a scale for each "
                 "row, for all, or for each block of 128 x 128"),
                ("ct_w4_rows", Q + ".weight_scale", "BF16 [64, 0]", "BF16, F16 or F32 [64, n], a scale for each group of columns"),
                ("gptq", Q + ".scales", "F16 [0, 64]", "BF16, F16 or F32 [n, 64], a scale for each group of columns"),
                ("ct_mxfp4", Q + ".weight_scale", "U8 [64, 0]", "U8 [64, 4], a scale for each group of 32 columns"),
                ("ct_nvfp4", Q + ".weight_scale", "F8_E4M3 [64, 0]", "F8_E4M3 [64, 8], a scale for each group of 16 columns")):
            self.tensor_says(tensor, f"is {found}, expected {expected}\n", name, empty)
        for name, tensor, beside in (("ct_fp8_rows", Q + ".weight_scale", "beside"), ("ct_mxfp4", Q + ".weight_scale", "beside")):
            with self.subTest(name):
                self.says(f'/model.safetensors: error: missing tensor "{tensor}" {beside} "', name, lambda t: t.pop(tensor))
        self.says(f'/model.safetensors: error: missing tensor "{Q}.scales", the scales of "{Q}.qweight"\n', "gptq",
                  lambda t: t.pop(Q + ".scales"))

    def test_stacked_experts_of_another_shape_or_without_scales_are_refused(self):
        gate_up = "model.layers.1.mlp.experts.gate_up_proj"

        def reshape(tensor, shape, dtype="U8"):
            def edit(t):
                size = 2 if dtype == "BF16" else 1
                t[tensor] = [dtype, shape, bytes(size * math.prod(shape))]
            return edit
        for tensor, shape, expected in (
                (gate_up + "_blocks", [4, 192, 1, 16], "U8 [4, 192, 2, 16], two codes in a byte"),
                (gate_up + "_blocks", [4, 96, 2, 16], "U8 [4, 192, 2, 16], two codes in a byte"),
                (gate_up + "_blocks", [4, 192, 32], "U8 [4, 192, 2, 16], two codes in a byte"),
                (gate_up + "_scales", [4, 192, 1], "U8 [4, 192, 2], a scale for each group of 32 columns"),
                (gate_up + "_scales", [3, 192, 2], "U8 [4, 192, 2], a scale for each group of 32 columns")):
            found = f"U8 [{', '.join(map(str, shape))}]"
            self.tensor_says(tensor, f"is {found}, expected {expected}\n", "gpt_oss_mxfp4", reshape(tensor, shape))
        for experts in (3, 5):
            def edit(t):
                reshape(gate_up + "_blocks", [experts, 192, 2, 16])(t)
                reshape(gate_up + "_scales", [experts, 192, 2])(t)
            self.tensor_says(gate_up + "_blocks", f"has shape [{experts}, 192, 2, 16], expected 4 experts\n", "gpt_oss_mxfp4", edit)
        self.tensor_says(gate_up + "_bias", "has shape [4, 96], expected [4, 192]\n", "gpt_oss_mxfp4",
                         reshape(gate_up + "_bias", [4, 96], "BF16"))
        self.says(f'/model.safetensors: error: missing tensor "{gate_up}_scales" beside "{gate_up}_blocks", expected U8 [4, 192, 2], a '
                  'scale for each group of 32 columns\n', "gpt_oss_mxfp4", lambda t: t.pop(gate_up + "_scales"))
        self.says(f': error: missing tensor "{gate_up}" [4, 64, 192], needed by ', "gpt_oss_mxfp4",
                  lambda t: t.pop(gate_up + "_blocks"))

        def no_number(t):
            t[gate_up + "_scales"][2][0] = 255
        self.tensor_says(gate_up + "_scales", "has the scale nan of row 0, expected a finite number\n", "gpt_oss_mxfp4", no_number)

    def test_zero_points_of_symmetric_weights_are_in_the_middle(self):
        def edit(t):
            t[Q + ".qzeros"][2][0] = 0x76
        self.tensor_says(Q + ".qzeros", "has the zero point 7 of row 0, expected 8 because the config says that weights are symmetric\n",
                         "gptq", edit)

    def test_zero_points_of_0_are_the_same_in_both_forms_of_gptq(self):
        """GPTQModel takes 0x11111111 from each word of the older form. A zero point of 0 then borrows from the next."""
        def run(form):
            def edit(t):
                for name in (name for name in t if name.endswith(".qzeros")):
                    words = struct.unpack(f"<{len(t[name][2]) // 4}I", t[name][2])
                    words = [word & 0xffff0ff0 for word in words]
                    words = [word - 0x11111111 & 0xffffffff for word in words] if form == "gptq" else words
                    t[name][2][:] = struct.pack(f"<{len(words)}I", *words)
            model = self.broken("gptq_v2", edit, lambda c: c.update(checkpoint_format=form, format=form, sym=False))
            code, out, err = self.mkc("run", model, "--device", "cpu", "--prompt-ids", "3,1,4", "--max-new-tokens", 2, "--keep-weights", "no",
                                      "--json", "--logprobs", 1)
            self.assertEqual(code, 0, err)
            return json.loads(out)["logprobs"]
        self.assertEqual(run("gptq"), run("gptq_v2"))

    def test_either_key_says_how_gptq_stores_zero_points(self):
        def run(keep):
            model = self.broken("gptq_v2", lambda t: None, lambda c: [c.pop(key) for key in ("checkpoint_format", "format") if key not in keep])
            code, out, err = self.mkc("run", model, "--device", "cpu", "--prompt-ids", "3,1,4", "--max-new-tokens", 2, "--keep-weights", "no",
                                      "--json", "--logprobs", 1)
            self.assertEqual(code, 0, err)
            return json.loads(out)["logprobs"]
        both = run(("checkpoint_format", "format"))
        self.assertEqual(run(("checkpoint_format",)), both)
        self.assertEqual(run(("format",)), both)
        self.assertNotEqual(run(()), both)

    def test_zero_points_are_there_where_the_config_says_so_and_else_nowhere(self):
        zeros = Q + ".weight_zero_point"

        def weights(**keys):
            return lambda c: c["config_groups"]["group_0"]["weights"].update(keys)
        for config in (weights(symmetric=True), lambda c: c["config_groups"]["group_0"]["weights"].pop("symmetric")):
            model = self.broken("ct_w4_zeros", lambda t: None, config)
            code, _, err = self.mkc("run", model, "--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1, "--keep-weights", "no")
            self.assertEqual(code, 1)
            self.assertRegex(err, r'^model/model.safetensors: error: tensor ".*weight_zero_point" has the zero point \d+ of row \d+, expected '
                                  r"8 because the config says that weights are symmetric\n$")
        missing = f'/model.safetensors: error: missing tensor "{zeros}" beside "{Q}.weight_packed", expected one because the config says that weights '
        self.says(missing + "are not symmetric\n", "ct_w4_zeros", lambda t: t.pop(zeros))
        self.says(missing + "are not symmetric\n", "ct_w4_rows", lambda t: None, weights(symmetric=False))

    def test_groups_with_and_without_zero_points_hold_for_their_own_modules(self):
        def groups(*targets):
            """Gives the modules of each list of targets a group of their own. The first group has zero points."""
            def edit(c):
                weights = c["config_groups"]["group_0"]["weights"]
                c["config_groups"] = {f"group_{i}": {"targets": of, "weights": {**weights, "symmetric": i > 0}} for i, of in enumerate(targets)}
            return edit

        def drop_zeros_of_mlp(t):
            for name in [name for name in t if ".mlp." in name and name.endswith("zero_point")]:
                t.pop(name)
        missing = (f'/model.safetensors: error: missing tensor "{Q}.weight_zero_point" beside "{Q}.weight_packed", expected one because the '
                   "config says that weights are not symmetric\n")
        attention, mlp = ["re:.*self_attn.*"], ["re:.*mlp.*"]
        # A group that names modules goes before one of the class Linear, wherever it stands.
        for targets in ((attention, mlp), (attention, ["Linear"]), (["Linear"], mlp)):
            with self.subTest(targets):
                run = ("--device", "cpu", "--prompt-ids", 1, "--max-new-tokens", 1, "--keep-weights", "no")
                code, _, err = self.mkc("run", self.broken("ct_w4_zeros", drop_zeros_of_mlp, groups(*targets)), *run)
                self.assertEqual(code, 0, err)
                code, _, err = self.mkc("run", self.broken("ct_w4_zeros", lambda t: None, groups(*targets)), *run)
                self.assertEqual(code, 1)
                self.assertRegex(err, r'error: tensor ".*mlp.*weight_zero_point" has the zero point \d+ of row \d+, expected 8 because the '
                                      r"config says that weights are symmetric\n$")
                self.says(missing, "ct_w4_zeros", lambda t: t.pop(Q + ".weight_zero_point"), groups(*targets))
        # A name is that of a module alone, and not of what modules lie in, nor of their ends.
        for name in ("model.layers.0.mlp", "up_proj"):
            with self.subTest(name):
                code, _, err = self.mkc("run", self.broken("ct_w4_zeros", lambda t: None, groups(["Linear"], [name])), *run)
                self.assertEqual(code, 0, err)
        # So are names of ignore: the modules in layers.0.mlp are not left out, and their own group has no zero points.
        def edit(c):
            groups(["Linear"], mlp)(c)
            c["ignore"] = ["model.layers.0.mlp"]
        code, _, err = self.mkc("run", self.broken("ct_w4_zeros", lambda t: None, edit), *run)
        self.assertEqual(code, 1)
        self.assertRegex(err, r'error: tensor "model\.layers\.0\.mlp\..*weight_zero_point" has the zero point')

    def config_says(self, message, name, config):
        """Checks that the config of a fixture is refused at one of its keys."""
        with self.subTest(f"{name}: {message}"):
            code, _, err = self.mkc("run", self.broken(name, lambda t: None, config), *RUN)
            self.assertEqual(code, 1, err)
            self.assertRegex(err, r"^model/config\.json:1:[0-9]+: error: " + re.escape(message) + "\n")

    def test_what_the_config_asks_for_is_what_the_tensors_have(self):
        def group(**keys):
            return lambda c: c["config_groups"]["group_0"]["weights"].update(keys)
        weights, ints4 = "quantization_config.config_groups.group_0.weights", "integers of 4 bits"
        first = f'but tensor "{Q}'
        for name, config, says in (
                ("gptq", lambda c: c.update(bits=8), f'quantization_config.bits is 8, {first}.qweight" has {ints4}'),
                ("awq", lambda c: c.update(group_size=32), f'quantization_config.group_size is 32, {first}.scales" has a scale for each group of 64 columns'),
                ("gptq", lambda c: c.update(group_size=-1), f'quantization_config.group_size is -1, {first}.scales" has a scale for each group of 64 columns'),
                ("ar_round", lambda c: c.update(bits=8), f'quantization_config.bits is 8, {first}.qweight" has {ints4}'),
                ("ar_round", lambda c: c.update(group_size=32, extra_config={}),
                 f'quantization_config.group_size is 32, {first}.scales" has a scale for each group of 64 columns'),
                ("ct_w4_rows", group(num_bits=8), f'{weights}.num_bits is 8, {first}.weight_packed" has {ints4}'),
                ("ct_w8_groups", group(group_size=32), f'{weights}.group_size is 32, {first}.weight_scale" has a scale for each group of 64 columns'),
                ("ct_w8_groups", group(strategy="channel"),
                 f'{weights}.strategy is "channel", {first}.weight_scale" has a scale for each group of 64 columns'),
                ("ct_w4_rows", group(strategy="group", group_size=32), f'{weights}.group_size is 32, {first}.weight_scale" has a scale for each row'),
                ("ct_fp8_rows", group(strategy="tensor"), f'{weights}.strategy is "tensor", {first}.weight_scale" has a scale for each row'),
                ("ct_fp8_rows", group(strategy="block"), f'{weights}.strategy is "block", {first}.weight_scale" has a scale for each row'),
                ("modelopt_fp8", lambda c: c.update(weight_block_size=[128, 128], quant_method="fp8"),
                 'quantization_config.weight_block_size is [128, 128], but tensor "model.layers.0.mlp.gate_proj.weight_scale" has one scale'),
                ("fp8_blocks", lambda c: c.update(quant_method="gptq", bits=4), f'quantization_config.quant_method is "gptq", {first}.weight" has 8-bit floats'),
                ("modelopt_nvfp4", lambda c: c.update(quant_algo="FP8"), f'quantization_config.quant_algo is "FP8", {first}.weight" has NVFP4'),
                ("ct_w4_rows", lambda c: c.update(ignore=["re:.*"]),
                 f'quantization_config.ignore has "re:.*" for module "{Q}", {first}.weight_packed" has {ints4}'),
                ("ct_w4_rows", lambda c: c["config_groups"]["group_0"].update(targets=["re:nothing", "proj"]),
                 f'no target of quantization_config.config_groups names a quantized module, {first}.weight_packed" has codes')):
            self.config_says(says, name, config)
        for key, config in (("ignore", lambda c: c.update(ignore=["re:("])),
                            ("config_groups.group_0.targets", lambda c: c["config_groups"]["group_0"].update(targets=["Linear", "re:("]))):
            self.config_says(f'quantization_config.{key} has "re:(", expected a regular expression: bad pattern ^(?:(): missing closing parenthesis at byte 6', "ct_w4_rows", config)

    def test_hf_quant_config_asks_for_what_the_tensors_have(self):
        model = self.broken("modelopt_nvfp4", lambda t: None)
        document = json.loads((model / "config.json").read_text())
        document.pop("quantization_config")
        (model / "config.json").write_text(json.dumps(document))
        for algorithm, error in (("NVFP4", ""), ("FP8", f'error: quantization.quant_algo is "FP8", but tensor "{Q}.weight" has NVFP4\n')):
            (model / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": algorithm}}))
            code, _, err = self.mkc("run", model, *RUN)
            self.assertEqual(code, 1 if error else 0, err)
            self.assertIn(error, err)

    def test_groups_that_all_name_linear_are_told_apart_by_tensors(self):
        def two(c, bits):
            group = c["config_groups"]["group_0"]
            c["config_groups"]["group_1"] = {**group, "weights": {**group["weights"], "num_bits": bits}}
            group["weights"]["num_bits"] = 12 - bits
        for bits in (4, 8):
            code, _, err = self.mkc("run", self.broken("ct_w4_rows", lambda t: None, lambda c, bits=bits: two(c, bits)), *RUN)
            self.assertEqual(code, 0, err)

    def test_keys_that_quantizers_write_beside_other_tensors_are_not_held_against_them(self):
        for name, config in (
                ("gptq", lambda c: c.update(sym=False)),
                ("gptq", lambda c: c.update(bits=8, group_size=32, dynamic={"+:.*q_proj": {"bits": 4}})),
                ("ar_round", lambda c: c.update(bits=8, extra_config={"model.layers.0.mlp.up_proj": {"bits": 4}})),
                ("awq", lambda c: c.update(modules_to_not_convert=["self_attn"])),
                ("gptq", lambda c: [c.pop("group_size")]),
                ("fp8_blocks", lambda c: [c.pop("weight_block_size")]),
                ("ct_w4_rows", lambda c: c["config_groups"]["group_0"].update(targets=["LinearBase"])),
                ("ct_w4_rows", lambda c: c["config_groups"]["group_0"].update(targets=["re:.*q_proj"])),
                ("ct_w4_rows", lambda c: c.update(ignore=["language_model.lm_head", "re:.*vision.*"]))):
            with self.subTest(name):
                code, _, err = self.mkc("run", self.broken(name, lambda t: None, config), *RUN)
                self.assertEqual(code, 0, err)

    def test_floats_of_another_kind_are_refused(self):
        def edit(t):
            t[Q + ".weight"][0] = "F8_E5M2"
        self.tensor_says(Q + ".weight", 'is F8_E5M2, expected bf16 as "model.embed_tokens.weight"\n', "ct_fp8_rows", edit)

    def test_gate_and_up_of_different_formats_are_two_products(self):
        def edit(t):
            t[GATE + ".weight"] = ["BF16", [192, 128], bytes(2 * 192 * 128)]
            t.pop(GATE + ".weight_scale")
        code, out, err = self.mkc("explain", self.broken("ct_fp8_rows", edit))
        self.assertEqual(code, 0, err)
        self.assertRegex(out.decode(), r"(?m)^l0\.gate +1 ")

    def test_unknown_methods_bits_and_formats_name_those_that_are_known(self):
        for name, config, said in (
                ("gptq", {"quant_method": "hqq"}, 'quant_method is "hqq", expected "compressed-tensors" or "fp8" or "gptq" or "awq" or '
                 '"auto-round" or "mxfp4" or "modelopt"\n'),
                ("gptq", {"bits": 3}, "bits is 3, expected 4 or 8\n"),
                ("fp8_blocks", {"fmt": "e5m2"}, 'fmt is "e5m2", expected "e4m3" or null\n'),
                ("ct_mxfp4", {"format": "mxfp8-quantized"}, 'format is "mxfp8-quantized", expected "float-quantized" or "pack-quantized" or '
                 '"nvfp4-pack-quantized" or "mxfp4-pack-quantized" or "mixed-precision"\n')):
            with self.subTest(said):
                model = self.broken(name, lambda t: None, lambda c: c.update(config))
                code, _, err = self.mkc("compile", model, "--emit", "ops", "-o", "a.mkir")
                self.assertEqual(code, 1)
                self.assertIn(f"error: quantization_config.{said}", err)


unittest.main(argv=sys.argv[:1], verbosity=1)
