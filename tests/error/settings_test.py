"""These tests check that settings work, or are refused where they stand.
Usage: settings_test.py MKC ROOT
"""
import json
import sys
import unittest

from command import FIXTURE, ROOT, TINY, Command

LLAMA = ROOT / "tests" / "fixtures" / "models" / "llama"


class SettingsTest(Command):
    def refuses_file(self, expected, text, *options):
        (self.dir / "model.yaml").write_text(text)
        self.refuses(expected, "compile", "model.yaml", "--emit", "schedule", *options)

    def test_workers_are_those_of_the_machine(self):
        compile_ = ("compile", FIXTURE, "--emit", "schedule")
        for found in (0, -1, 133, 4294967297, 10000000):
            self.refuses(f"--workers: error: found {found}, expected 1 to 132, the workers of machine h100\n", *compile_,
                         "--workers", found)
        self.refuses("--workers: error: found 1025, expected 1 to 1024, the workers of machine emulator\n", *compile_,
                     "--target", "emulator", "--workers", 1025)
        self.refuses(f"mkc: error: --workers: found {2**63}, expected {-2**63} to {2**63 - 1}\n", *compile_, "--workers",
                     2**63)
        self.refuses("mkc: error: --workers: found 3x, expected ", *compile_, "--workers", "3x")
        self.refuses("--workers: error: found 0, expected 1 to 132, ", "explain", FIXTURE, "--workers", 0)
        text = f"checkpoint: {FIXTURE}\nschedule: {{workers: 200}}\n"
        self.refuses_file("model.yaml:2:21: error: workers is 200, expected 1 to 132, the workers of machine h100\n"
                          "schedule: {workers: 200}\n                    ^\n", text)
        # The flag overrides the file, and is what is at fault then.
        self.refuses_file("--workers: error: found 0, ", text, "--workers", 0)
        code, out, err = self.mkc("compile", "model.yaml", "--emit", "schedule", "--workers", 132)
        self.assertEqual(code, 0, err)
        self.assertIn(b' workers 132\n', out)

    def test_limits_are_refused_by_their_flag_or_at_their_line(self):
        for flag, key, found, expected in (
                ("--max-tokens", "tokens", 0, "1 to 256"), ("--max-tokens", "tokens", 257, "1 to 256"),
                ("--max-tokens", "tokens", 2**62, "1 to 256"), ("--max-requests", "requests", -3, "1 to 64"),
                ("--max-requests", "requests", 65, "1 to 64"), ("--context", "context", 0, "1 to 128, the model's maximum"),
                ("--context", "context", 2**62, "1 to 128, the model's maximum")):
            self.refuses(f"{flag}: error: found {found}, expected {expected}\n", "compile", FIXTURE, flag, found)
            self.refuses_file(f"model.yaml:2:{len(key) + 12}: error: {key} is {found}, expected {expected}\n",
                              f"checkpoint: {FIXTURE}\nlimits: {{{key}: {found}}}\n")

    def test_requests_beyond_the_tokens_of_a_step_are_refused(self):
        expected = "expected 1 to 4, the tokens of a step (--max-tokens)\n"
        for command in (("compile",), ("explain",), ("simulate",), ("run", "--prompt-ids", 1), ("serve",)):
            self.refuses(f"--max-requests: error: found 5, {expected}", *command, FIXTURE, "--max-tokens", 4, "--max-requests", 5)
        text = f"checkpoint: {FIXTURE}\nlimits: {{requests: 5, tokens: 4}}\n"
        self.refuses_file(f"model.yaml:2:20: error: requests is 5, {expected}", text)
        self.refuses("--max-requests: error: found 64, expected 1 to 16", "simulate", FIXTURE, "--max-tokens", 16, "--max-requests", 64)
        # Requests that nobody asked for follow the tokens.
        code, out, err = self.mkc("compile", FIXTURE, "--emit", "manifest", "--max-tokens", 4)
        self.assertEqual(code, 0, err)
        self.assertIn({"name": "B", "lo": 1, "hi": 4}, [{k: s[k] for k in ("name", "lo", "hi")} for s in json.loads(out)["symbols"]])

    def test_tokens_beyond_all_requests_of_a_step_are_refused(self):
        few = ("--max-requests", 2, "--context", 3)
        expected = "expected 1 to 6, --max-requests 2 times --context 3\n"
        for command in (("compile",), ("run", "--prompt-ids", 1), ("serve",)):
            self.refuses(f"--max-tokens: error: found 7, {expected}", *command, FIXTURE, "--max-tokens", 7, *few)
        text = f"checkpoint: {FIXTURE}\nlimits: {{tokens: 7, requests: 2, context: 3}}\n"
        self.refuses_file(f"model.yaml:2:18: error: tokens is 7, {expected}", text)
        for given, expected in ((("--context", 3), "48, the default of --max-requests, 16, times --context 3\n"),
                                (("--max-requests", 1), "128, --max-requests 1 times the default of --context, 128\n")):
            self.refuses(f"--max-tokens: error: found 200, expected 1 to {expected}", "compile", FIXTURE, "--max-tokens", 200, *given)
        # Tokens that nobody asked for follow the requests.
        self.assertEqual((self.tokens(FIXTURE, *few), self.tokens(FIXTURE, "--max-tokens", 6, *few)), (6, 6))

    def symbol(self, name, *arguments):
        """Returns the upper bound of a symbol that a model is compiled for."""
        code, out, err = self.mkc("compile", *arguments, "--emit", "manifest")
        self.assertEqual(code, 0, err)
        return next(s["hi"] for s in json.loads(out)["symbols"] if s["name"] == name)

    def tokens(self, *arguments):
        """Returns the tokens of a step that a model is compiled for."""
        return self.symbol("T", *arguments)

    def test_tokens_of_a_model_file_follow_narrower_flags(self):
        write = lambda limits: (self.dir / "model.yaml").write_text(f"checkpoint: {FIXTURE}\nlimits: {{{limits}}}\n")
        write("tokens: 64, requests: 8, context: 32")
        for flags, tokens in (((), 64), (("--context", 3), 24), (("--max-requests", 1), 32), (("--max-requests", 2, "--context", 3), 6)):
            self.assertEqual(self.tokens("model.yaml", *flags), tokens, flags)
        # A flag of tokens is at fault itself.
        self.refuses("--max-tokens: error: found 30, expected 1 to 24, --max-requests 8 times --context 3\n", "compile", "model.yaml",
                     "--max-tokens", 30, "--context", 3)
        write("tokens: 64, context: 3")
        self.refuses("model.yaml:2:18: error: tokens is 64, expected 1 to 48, the default of --max-requests, 16, times --context 3\n",
                     "compile", "model.yaml")

    def test_requests_of_a_model_file_follow_a_narrower_flag(self):
        write = lambda limits: (self.dir / "model.yaml").write_text(f"checkpoint: {FIXTURE}\nlimits: {{{limits}}}\n")
        for limits in ("requests: 8, context: 32", "tokens: 64, requests: 8, context: 32"):
            write(limits)
            for flags, bounds in (((), (64, 8)), (("--max-tokens", 8), (8, 8)), (("--max-tokens", 4), (4, 4)),
                                  (("--max-tokens", 4, "--context", 1), (4, 4))):
                self.assertEqual((self.tokens("model.yaml", *flags), self.symbol("B", "model.yaml", *flags)), bounds, (limits, flags))
        # A flag of requests is at fault itself, and so is a file that contradicts itself.
        expected = "expected 1 to 4, the tokens of a step (--max-tokens)\n"
        self.refuses(f"--max-requests: error: found 5, {expected}", "compile", "model.yaml", "--max-tokens", 4, "--max-requests", 5)
        write("requests: 8, tokens: 4")
        self.refuses(f"model.yaml:2:20: error: requests is 8, {expected}", "compile", "model.yaml", "--context", 3)

    def test_the_context_of_a_simulated_step_is_no_limit_of_its_tokens(self):
        for command in (("simulate",), ("explain",), ("report", "-o", "page.html")):
            code, _, err = self.mkc(*command, FIXTURE, "--max-tokens", 7, "--max-requests", 2, "--context", 3)
            self.assertEqual(code, 0, err)
        self.refuses("--tokens: error: found 7, expected 2 to 6\n", "simulate", FIXTURE, "--max-tokens", 7, "--max-requests", 2,
                     "--context", 3, "--batch", 2, "--tokens", 7)

    def test_a_model_for_endless_contexts_is_compiled_for_those_that_fit(self):
        folder = self.checkpoint(config=lambda c: c.update(max_position_embeddings=2**62))
        self.refuses("--context: error: found 16777217, expected 1 to 16777216\n", "compile", folder, "--context",
                     2**24 + 1)
        code, _, err = self.mkc("compile", folder, "--emit", "schedule", "-o", "s.mkir", "--context", 2**24)
        self.assertEqual(code, 0, err)

    def test_flags_of_run_name_what_they_expect(self):
        run = ("run", FIXTURE, "--prompt-ids", 1)
        for flag, found, expected in (
                ("--max-new-tokens", 0, "1 to 1073741824"), ("--max-new-tokens", 2**32, "1 to 1073741824"),
                ("--steps-per-launch", 4097, "1 to 4096"), ("--emulator-threads", 257, "1 to 256"),
                ("--timeout-ms", 2**62, "0 to 1000000000"), ("--timeout-ms", -1, "0 to 1000000000"),
                ("--seed", -1, "0 to 18446744073709551615"), ("--top-k", -3, "0 to 4294967295"),
                ("--evaluations", 0, "1 to 1000000000")):
            more = ("-O3",) if flag == "--evaluations" else ()
            self.refuses(f"mkc: error: {flag}: found {found}, expected {expected}\n", *run, f"{flag}={found}", *more)
        for found in (0, 2**31, -1):
            self.refuses(f"mkc: error: --pages: found {found}, expected 1 to 1073741824\n", "run", FIXTURE, "--batch-file",
                         "f", f"--pages={found}")
        self.refuses("--page-size: error: found 17, expected 16, 32 or 64\n", "run", FIXTURE, "--batch-file", "f",
                     "--page-size", 17)
        self.refuses("mkc: error: --temperature: found warm, expected a number\n", *run, "--temperature", "warm")
        self.refuses("mkc: error: --temperature: found 1e-400, too small for f32, expected 0 or at least 1e-45\n", *run, "--temperature", "1e-400")
        self.refuses("MKC_API_KEY: error: found an empty value, expected a key\n", "serve", FIXTURE, MKC_API_KEY="")
        for found in ("3=0", "3=-1", "3=nan", "3=inf", "3=1e99", "2", "3=1s"):
            self.refuses(f"mkc: error: -O: found {found}, expected 3 or 3=SECONDS, at most 86400\n", *run, f"-O{found}")

    def test_flags_of_compilation_are_refused_for_compiled_models(self):
        (self.dir / "m.so").touch()
        for flag in ("--workers 3", "--max-tokens 7", "--max-requests 3", "--context 64", "--kv-dtype e4m3", "--scheduler static",
                     "--activations fp8", "--machine h100", "--family f", "--models-dir d", "--target sm_90a", "--mode kernels",
                     "--batch-invariant", "--without wgmma", "--threads 2", "--assembler a", "--ignore-measured", "-O 3"):
            self.refuses(f"{flag.split()[0]}: error: m.so is compiled already\n", "run", "m.so", "--checkpoint", FIXTURE, "--prompt-ids", 1,
                         *flag.split())
        for flag in ("--emulator-threads", "--emulator-seed"):
            self.refuses(f"{flag}: error: is for the emulator\n", "run", FIXTURE, "--prompt-ids", 1, "--device", "cpu", flag, 3)
        for flag in ("--assembler", "--without"):
            self.refuses(f"{flag}: error: is for GPUs, found target x86-64-v", "compile", FIXTURE, "--target", "x86-64-v3", flag, "wgmma")
        for command in (("compile",), ("run", "--device", "cpu", "--prompt-ids", 1)):
            self.refuses("-O3: error: is for GPUs, found target x86-64-v", *command, FIXTURE, "--target", "x86-64-v3", "-O3")
        self.refuses("--assembler: error: is for a GPU\n", "run", FIXTURE, "--prompt-ids", 1, "--device", "cpu", "--assembler", "a")
        self.refuses("--without: error: is for GPUs, found target x86-64-", "run", FIXTURE, "--prompt-ids", 1, "--device", "cpu",
                     "--without", "wgmma")

    def test_flags_without_effect_are_refused(self):
        run = ("run", FIXTURE, "--prompt-ids", 1)
        self.refuses("--no-special-tokens: error: is for text, --prompt-ids gets no tokens around it\n", *run, "--no-special-tokens")
        for command in (run, ("chat", FIXTURE), ("serve", FIXTURE)):
            self.refuses(f"--unsafe-artefact: error: is for compiled models, {FIXTURE} is none\n", *command, "--unsafe-artefact")
        for machine in ("h100", str(ROOT / "scheduler" / "machine" / "h100.json")):
            for command in (("compile",), ("simulate",), ("explain",)):
                self.refuses(f"--ignore-measured: error: --machine {machine} takes the place of what was measured here, expected one of the "
                             "two\n", *command, FIXTURE, "--machine", machine, "--ignore-measured")
        self.refuses("--ignore-measured: error: nothing measured goes into the machine of sm_80, expected --machine native\n", "compile", FIXTURE,
                     "--target", "sm_80", "--ignore-measured", "-o", "m.cubin")

    def test_a_seed_changes_nothing_of_greedy_tokens(self):
        run = ("run", TINY, "--device", "cpu", "--prompt-ids", "1,2,3", "--max-new-tokens", 8, "--json")
        alone, seeded = (self.mkc(*run, *more) for more in ((), ("--temperature", 0, "--seed", 7)))
        self.assertEqual((alone[0], alone[1]), (0, seeded[1]), seeded[2])
        self.assertIn(b"changes nothing at temperature 0", b" ".join(self.mkc("run", "--help")[1].split()))

    def test_targets_are_those_of_the_device(self):
        run = ("run", FIXTURE, "--prompt-ids", 1)
        self.refuses("--target: error: found sm_90a, expected one of a processor: x86-64-v3, x86-64-avx512, x86-64-v4, x86-64-amx\n",
                     *run, "--device", "cpu", "--target", "sm_90a")
        self.refuses("--target: error: found sm_90a, expected emulator, the target of the device\n", *run, "--device",
                     "emulator", "--target", "sm_90a")

    def test_grids_of_one_kind_may_be_placed_in_two_ways(self):
        """Layers share the code of what runs inline, whichever way the tasks before it are placed."""
        def logits(model, name):
            code, _, err = self.mkc("run", model, "--prompt-ids", "1,2,3", "--max-new-tokens", 4, "--device", "emulator",
                                    "--logits-out", name)
            self.assertEqual(code, 0, err)
            return (self.dir / name).read_bytes()
        whole = logits(LLAMA, "whole.npy")
        for schedule in ('{placement: {"l0.attend": queue}}', '{scheduler: static, placement: {"l0.attend": queue}}',
                         '{scheduler: static, split: {"l0.q": 2, "l*.k": 4}}'):
            (self.dir / "model.yaml").write_text(f"checkpoint: {LLAMA}\nschedule: {schedule}\n")
            self.assertEqual(logits("model.yaml", "placed.npy"), whole, schedule)
            code, out, err = self.mkc("compile", "model.yaml", "--emit", "ptx")
            self.assertEqual((code, b".entry mk_kernel" in out), (0, True), err)

    def test_help_names_every_target(self):
        known = self.mkc("compile", FIXTURE, "--target", "sm_1")[2].split("known targets: ")[1].strip().split(", ")
        known.remove("emulator")
        help_ = " ".join(self.mkc("compile", "--help")[1].decode().split())
        targets = help_.split("--target TARGET ")[1].split(" -")[0]
        self.assertEqual([name for name in known if name not in targets.replace(",", " ").replace(";", " ").split()], [])
        self.assertGreater(len(known), 9)

    def test_8_bit_activations_are_refused_where_nothing_can_multiply_them(self):
        compile_ = ("compile", FIXTURE, "--emit", "schedule", "--max-tokens", 64, "--activations")
        for target, machine in (("sm_80", "a100"), ("sm_86", "rtx3090"), ("sm_100a", "b200"), ("x86-64-v3", "x86-64-v3")):
            self.refuses(f"--activations: error: activations are fp8, but machine {machine} of target {target} has no matrix "
                         "instructions of 8-bit floats, expected one of sm_89, sm_90a, sm_120, sm_121\n", *compile_, "fp8",
                         "--target", target)
        on_ada = (*compile_, "fp8", "--target", "sm_89")
        self.refuses("--activations: error: activations are fp8, but no product has weights of E4M3\n", *on_ada)
        self.refuses("--activations: error: activations are fp8, but batch_invariant asks for the same bits in steps of "
                     "fewer tokens\n", *on_ada, "--batch-invariant")
        self.refuses("mkc: error: --activations: ", *compile_, "int8")
        text = f"checkpoint: {FIXTURE}\ntarget: sm_80\nschedule: {{activations: fp8}}\n"
        self.refuses_file("model.yaml:3:25: error: activations are fp8, but machine a100 of target sm_80 has no matrix "
                          "instructions of 8-bit floats, expected one of sm_89, sm_90a, sm_120, sm_121\nschedule: {activations: fp8}\n", text)
        self.refuses_file('model.yaml:2:25: error: activations is "fp16", expected bf16, fp8, auto',
                          f"checkpoint: {FIXTURE}\nschedule: {{activations: fp16}}\n")

    def test_8_bit_activations_are_chosen_for_checkpoints_that_are_made_for_them(self):
        shape = ROOT / "tools" / "bench" / "configs" / "qwen3-8b"
        model = self.dir / "fp8"
        model.mkdir()

        def attributes(scheme, *options, target="sm_89", machine="l4", tokens=256, found=b"fp8_from = 33"):
            """Returns how many products of the schedule have 8-bit activations."""
            config = json.loads((shape / "config.json").read_text())
            config.update(num_hidden_layers=4, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128],
                                                                     **scheme})
            (model / "config.json").write_text(json.dumps(config))
            code, out, err = self.mkc("compile", model, "--emit", "schedule", "--target", target, "--machine", machine,
                                      "--max-tokens", tokens, *options)
            self.assertEqual(code, 0, err)
            return out.count(found)

        dynamic = {"activation_scheme": "dynamic"}
        self.assertGreater(attributes(dynamic), 0)
        self.assertEqual(attributes({}), 0)
        self.assertGreater(attributes({}, "--activations", "fp8"), 0)
        self.assertEqual(attributes(dynamic, "--activations", "bf16"), 0)
        self.assertEqual(attributes(dynamic, "--batch-invariant"), 0)
        hopper = {"target": "sm_90a", "machine": "h100"}
        self.assertEqual(attributes(dynamic, **hopper), 0)
        codes = {**hopper, "found": b"read codes "}
        self.assertGreater(attributes(dynamic, **codes), 0)
        self.assertEqual(attributes({}, **codes), 0)
        self.assertEqual(attributes({}, "--activations", "fp8", **codes), 4 * 6)  # q, k, v, o, gate and up, down of 4 layers
        self.assertEqual(attributes({}, "--activations", "fp8", **{**hopper, "found": b": quantize "}), 4 * 4)
        self.assertEqual(attributes(dynamic, "--batch-invariant", **codes), 0)
        self.assertGreater(attributes(dynamic, tokens=64, **codes), 0)  # fewer tokens than warpgroups start at without codes
        self.assertEqual(attributes(dynamic, tokens=32, **codes), 0)
        self.refuses("--activations: error: activations are fp8, but steps have at most 32 tokens, expected 33 or more\n",
                     "compile", model, "--emit", "schedule", "--target", "sm_90a", "--max-tokens", 32, "--activations", "fp8")
        code, out, err = self.mkc("explain", model, "--target", "sm_90a", "--max-tokens", 256, "--activations", "fp8")
        self.assertEqual((code, b"activations fp8 from 33 tokens on" in b" ".join(out.split())), (0, True), err)
        code, out, err = self.mkc("explain", model, "--target", "sm_89", "--machine", "rtx4090", "--max-tokens", 256,
                                  "--activations", "fp8")
        self.assertEqual((code, b"activations fp8 from 33 tokens on" in b" ".join(out.split())), (0, True), err)
        code, out, err = self.mkc("compile", model, "--emit", "yaml", "--target", "sm_89",
                                  "--activations", "fp8", "--max-tokens", 256)
        self.assertEqual((code, b"activations: fp8" in out), (0, True), err)

    def test_placements_and_splits_are_refused_at_their_line(self):
        for rule, fault in (
                ('placement: {"l0.append": inline}', "2:24: error: %l0.append cannot be placed by inline: it is no combine "
                 "or split_k_reduce that only attend or split_k_partial tasks complete"),
                ('placement: {"l0.attend": table}', "2:24: error: %l0.attend cannot be placed by table: the number of its "
                 "tasks is known at run time"),
                ('placement: {"l9.q": table}', "2:24: error: no grid is named 'l9.q', did you mean 'l0.q'?"),
                ('split: {"l0.q": 3}', "2:20: error: %l0.q cannot be split into 3 parts: parts are 2, 4 or 8, which share "
                 "out 8 K slices"),
                ('split: {"l0.q": 0}', "2:28: error: the parts of l0.q are 0, expected an int of at least 1"),
                ('split: {"l0.q": 9223372036854775807}', "2:20: error: %l0.q cannot be split into 9223372036854775807 "),
                ('ring: 9223372036854775807', "2:18: error: ring is 9223372036854775807, expected "),
                ('wgmma_from: 0', "2:24: error: wgmma_from is 0, expected 33 to 65")):
            self.refuses_file(f"model.yaml:{fault}", f"checkpoint: {LLAMA}\nschedule: {{{rule}}}\n")


unittest.main(argv=sys.argv[:1], verbosity=1)
