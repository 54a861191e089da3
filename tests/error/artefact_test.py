"""These tests check what mkc says of cubins that were changed after it made them.
Usage: artefact_test.py MKC ROOT
"""
import json
import subprocess
import sys
import unittest
from pathlib import Path

from command import FIXTURE, Command

MANIFEST = b'{"abi":'


class ArtefactTest(Command):
    def setUp(self):
        super().setUp()
        ptxas = self.dir / "ptxas"
        ptxas.write_text((Path(__file__).parent / "fake_ptxas.py").read_text())
        ptxas.chmod(0o755)
        self.environment = {"MKC_CACHE": "off", "MKC_ASSEMBLER": str(ptxas)}
        self.cubin = self.dir / "out.cubin"
        self.assertEqual(self.mkc("compile", FIXTURE, "-o", self.cubin, **self.environment)[0], 0)
        self.whole = self.cubin.read_bytes()

    def inspect(self, data, *options):
        self.cubin.write_bytes(data)
        code, out, err = self.mkc("inspect", self.cubin, *options)
        return code, out.decode() if isinstance(out, bytes) else out, err.replace(f"{self.dir}/", "")

    def manifest(self):
        at = self.whole.index(MANIFEST)
        text = self.whole[at:].decode(errors="replace")
        return at, json.loads(text[:json.JSONDecoder().raw_decode(text)[1]])

    def test_a_cubin_says_what_was_proved_of_it(self):
        code, out, err = self.inspect(self.whole)
        self.assertEqual((code, err), (0, ""))
        self.assertRegex(out, r"\n  proved +by mkc \S+\n    by form +\d+ statements\n")
        self.assertRegex(out, r"\n  seal +[0-9a-f]{32}\n  code +[0-9a-f]{32}\n")

    def test_a_cubin_says_the_format_and_bytes_of_its_weights(self):
        code, out, err = self.inspect(self.whole)
        lines = out[out.index("weight  "):].splitlines()
        weights = [line.split() for line in lines[1:-1]]
        self.assertIn("bf16", {weight[2] for weight in weights})
        manifest = self.manifest()[1]["weights"]
        self.assertEqual(sum(int(weight[1]) for weight in weights), len(manifest))
        self.assertEqual(sum(int(weight[-1]) for weight in weights), sum(weight["bytes"] for weight in manifest))
        self.assertEqual(int(lines[-1].split()[-1]), sum(weight["bytes"] for weight in manifest))

    def test_a_changed_byte_is_refused_unless_asked_for(self):
        at, manifest = self.manifest()
        plan = self.whole.index(b"pmk2")
        code_at = self.whole.index(b".entry mk_kernel")
        for place, error in ((plan + 8, r"seal: error: manifest and plan have the hash [0-9a-f]{32}, expected [0-9a-f]{32}"),
                             (code_at, r"seal: error: the code has the hash [0-9a-f]{32}, expected [0-9a-f]{32}"),
                             (self.whole.index(manifest["config_hash"].encode(), at),
                              r"seal: error: manifest and plan have the hash [0-9a-f]{32}, expected [0-9a-f]{32}")):
            changed = bytearray(self.whole)
            changed[place] ^= 1
            code, out, err = self.inspect(changed)
            self.assertEqual((code, out), (1, ""))
            self.assertRegex(err, rf"^out\.cubin: error: {error}\n$")
        self.assertEqual(self.inspect(changed, "--unsafe-artefact")[0], 0)
        changed = bytearray(self.whole)
        changed[plan + 8] ^= 1  # the number of workers
        code, out, err = self.inspect(changed, "--unsafe-artefact")
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^out\.cubin: error: plan: error: of \d+ grids and \d+ workers, expected \d+ and \d+\n$")

    def test_padding_behind_a_manifest_is_part_of_it(self):
        at = self.whole.index(MANIFEST)
        end = self.whole.index(b"  ", at)
        code, _, err = self.inspect(self.whole[:end + 1] + b"\t" + self.whole[end + 2:])
        self.assertEqual((code, err), (1, "out.cubin: error: manifest: error: is not as mkc writes it\n"))

    def test_ptx_that_is_assembled_by_hand_is_not_sealed(self):
        ptx = self.dir / "out.ptx"
        self.assertEqual(self.mkc("compile", FIXTURE, "--emit", "ptx", "-o", ptx)[0], 0)
        subprocess.run([sys.executable, self.dir / "ptxas", "-v", "-O3", "--gpu-name=sm_90a", ptx, "-o", self.cubin], check=True,
                       timeout=60)
        code, _, err = self.inspect(self.cubin.read_bytes())
        self.assertEqual(code, 1)
        self.assertRegex(err, r"^out\.cubin: error: seal: error: the code has the hash \w+, expected \w+\n$")
        self.assertEqual(self.inspect(self.cubin.read_bytes(), "--unsafe-artefact")[0], 0)


unittest.main(argv=sys.argv[:1], verbosity=1)
