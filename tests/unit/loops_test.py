"""tools/bench/loops: the mix of a loop is that of its own instructions. Usage: loops_test.py ROOT"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = Path(sys.argv[1]) / "tools" / "bench" / "loops"
PTX = """
.visible .entry mk_kernel()
{
$L__BB0_1:
\tfma.rn.f32 \t%f1, %f2, %f3, %f1;  // of the outer loop
$L__BB0_2:
\tld.shared.v4.b32 \t{%r1, %r2, %r3, %r4}, [%r5];
\tld.global.v2.b32 \t{%r6, %r7}, [%rd1];
\t@%p1 bra \t$L__BB0_3;
\tmma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 \t{%f1}, {%r1}, {%r6}, {%f1};
$L__BB0_3:
\t@!%p2 bra \t$L__BB0_2;
\tbra.uni \t$L__BB0_1;
$L__BB0_4:
\tadd.s32 \t%r1, %r1, 1;  // multiplies nothing
\t@%p1 bra \t$L__BB0_4;
$L__BB0_5:
{FMA}
\t@%p1 bra \t$L__BB0_5;
$L__BB0_6:
{FMA}
\t@%p1 bra \t$L__BB0_6;
}
""".replace("{FMA}", "\n".join(["\tfma.rn.f32 \t%f1, %f2, %f3, %f1;"] * 8))


class LoopsTest(unittest.TestCase):
    def test_inner_loops_that_multiply_are_counted(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ptx") as file:
            file.write(PTX)
            file.flush()
            done = subprocess.run([sys.executable, PROGRAM, "--ptx", file.name], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([json.loads(line) for line in done.stdout.splitlines()],
                         [{"matrix": 1, "fma": 0, "shared": 1, "global": 1, "other": 2, "loops": 1},
                          {"matrix": 0, "fma": 8, "shared": 0, "global": 0, "other": 1, "loops": 2}])


unittest.main(argv=sys.argv[:1])
