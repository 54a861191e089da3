"""These tests check the counts of tools/bench/loops. A loop's mix has its own instructions only, and the
control path is the one with the fewest instructions.
Usage: loops_test.py ROOT
"""
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv[1])
sys.path.insert(0, str(ROOT / "tools" / "bench"))
from control_path import register_limits
PROGRAM = ROOT / "tools" / "bench" / "loops"
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


# The machine code has a ring's loop with a wait that a copy passes once, and a segment that polls, loads,
# multiplies, adds and notifies. A sum of squares, and a row that is not there, are optional.
SASS = """
.L_x_0:
        /*0000*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R34+URZ+0x80], R31 ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
        /*0020*/                   LDS R4, [R5+0x10] ;
        /*0030*/                   UBLKCP.S.G [UR12], [UR8], UR6, desc[UR4] ;
        /*0040*/               @P1 BRA `(.L_x_0) ;
        /*0050*/                   BRX R14 -0x1f00 (*"BRANCH_TARGETS .L_x_1,.L_x_2"*) ;
.L_x_1:
        /*0060*/                   LDG.E.64 R8, desc[UR10][R6.64] ;
.L_x_3:
        /*0070*/                   LDG.E.STRONG.GPU R10, desc[UR10][R8.64] ;
        /*0080*/                   CCTL.IVALL ;
        /*0090*/              @!P0 BRA `(.L_x_3) ;
        /*00a0*/                   BAR.SYNC.DEFER_BLOCKING 0x1, 0x100 ;
        /*00b0*/                   LDG.E.64 R12, desc[UR10][R6.64] ;
        /*00c0*/               @P3 BRA `(.L_x_4) ;
        /*00d0*/                   LDG.E R20, desc[UR10][R6.64] ;
.L_x_4:
        /*00e0*/                   LDS.128 R8, [R5+0x20] ;
        /*00f0*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0100*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0110*/               @P2 BRA `(.L_x_4) ;
        /*0120*/                   STS [R5], R4 ;
        /*0130*/                   BAR.SYNC.DEFER_BLOCKING 0x1, 0x100 ;
        /*0140*/               @P4 BRA `(.L_x_5) ;
        /*0150*/                   LDS R4, [R5+0x10] ;
        /*0160*/                   FADD R4, R4, R20 ;
        /*0170*/                   STG.E desc[UR10][R6.64], R4 ;
.L_x_5:
        /*0180*/                   SHFL.BFLY PT, R31, R4, 0x8, 0x1f ;
        /*0190*/                   STG.E desc[UR10][R6.64+0x10], R31 ;
        /*01a0*/                   BAR.SYNC.DEFER_BLOCKING 0x1, 0x100 ;
        /*01b0*/                   MEMBAR.ALL.GPU ;
        /*01c0*/                   REDG.E.ADD.STRONG.GPU desc[UR10][R6.64], R21 ;
.L_x_2:
        /*01d0*/                   EXIT ;
"""


# A loop's body takes one of two ways to its end: one has two matrix instructions, the other has one and is shorter.
MATRIX = """
.L_x_0:
        /*0000*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R34+URZ+0x80], R31 ;
        /*0010*/              @!P0 BRA `(.L_x_0) ;
.L_x_1:
        /*0020*/                   LDS R4, [R5+0x10] ;
        /*0030*/               @P1 BRA `(.L_x_2) ;
        /*0040*/                   F2FP.BF16.F32.PACK_AB R8, R9, R10 ;
        /*0050*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0060*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0070*/                   BRA `(.L_x_3) ;
.L_x_2:
        /*0080*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
.L_x_3:
        /*0090*/               @P2 BRA `(.L_x_1) ;
        /*00a0*/                   EXIT ;
"""

# Two kinds of warps behind setmaxnreg. The first calls a routine, and its matrices cover R24 to R55.
LIMITED = """
        /*0000*/              @!P0 BRA `(.L_x_1) ;
        /*0010*/                   USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xc8 ;
        /*0020*/                   HGMMA.64x64x16.F32.BF16 R24, R16, gdesc[UR8], R24 ;
        /*0030*/                   CALL.REL.NOINC `($__internal_0_$__cuda_div) ;
        /*0040*/                   EXIT ;
.L_x_1:
        /*0050*/                   USETMAXREG.DEALLOC.CTAPOOL 0x18 ;
        /*0060*/                   LDS.128 R12, [R22] ;
        /*0070*/                   STS [R14], R23 ;
        /*0080*/                   EXIT ;
$__internal_0_$__cuda_div:
        /*0090*/                   IMAD.WIDE.U32 R60, R2, R4, R6 ;
        /*00a0*/                   RET.REL.NODEC R4 `(mk_kernel) ;
"""


def way(instructions, global_loads, shared_loads, barriers, copies):
    found = {"instructions": instructions, "global_loads": global_loads, "shared_loads": shared_loads, "barriers": barriers,
             "copies": copies}
    return {"ways": 1, "shortest": found, "middle": found}


def printed(flag, text):
    """Returns what the program prints for a file with this text, one value a line."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([sys.executable, PROGRAM, flag, file.name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


class LoopsTest(unittest.TestCase):
    def test_inner_loops_that_multiply_are_counted(self):
        self.assertEqual(printed("--ptx", PTX),
                         [{"matrix": 1, "fma": 0, "shared": 1, "global": 1, "other": 2, "loops": 1},
                          {"matrix": 0, "fma": 8, "shared": 0, "global": 0, "other": 1, "loops": 2}])

    def test_the_control_path_is_that_of_least_instructions(self):
        self.assertEqual(printed("--sass", SASS), [{"instructions": 30, "bulk_to_bulk": way(5, 0, 1, 0, 1), "rows_to_rows": {"ways": 0},
                                                    "dispatch_to_poll": way(3, 2, 0, 0, 0), "poll_to_loads": way(3, 1, 0, 1, 0),
                                                    "loads_to_product": way(3, 0, 1, 0, 0), "product_to_sums": way(3, 0, 0, 1, 0),
                                                    "epilogue": way(6, 0, 1, 0, 0), "epilogue_to_notify": way(3, 0, 0, 1, 0)}])

    def test_a_loop_is_counted_along_its_way_of_most_matrix_instructions(self):
        self.assertEqual(printed("--matrix", MATRIX), [{"matrix": 2, "instructions": 7, "slots": 8, "global": 0, "shared": 1, "ring": False}])

    def test_registers_behind_setmaxnreg_are_those_that_code_reaches(self):
        self.assertEqual(register_limits(LIMITED), [(200, 61), (24, 23)])
        self.assertEqual(register_limits(LIMITED.replace("R60", "R40")), [(200, 55), (24, 23)])

    def test_the_simulator_has_the_newest_counts(self):
        """Compares control_path.h with the newest result. Each count is the longest of the models' middle
        ways. Polls, and what comes behind them, have figures of their own.
        """
        newest = max(ROOT.glob("tools/bench/results/loops-*.json"))
        models = json.loads(newest.read_text())["models"].values()
        header = (ROOT / "scheduler/machine/control_path.h").read_text()
        for name, kind, elsewhere in (("kNextBulkCopy", "bulk_to_bulk", {}), ("kNextRowCopies", "rows_to_rows", {}),
                                      ("kDispatch", "dispatch_to_poll", {"global_loads": 1}),
                                      ("kProductStart", "poll_to_loads", {"global_loads": 1, "barriers": 1}),
                                      ("kFirstProduct", "loads_to_product", {"global_loads": 1}),
                                      ("kProductSums", "product_to_sums", {}), ("kEpilogue", "epilogue", {}),
                                      ("kProductNotify", "epilogue_to_notify", {})):
            longest = max((m["control_path"][kind]["middle"] for m in models), key=lambda way: way["instructions"])
            counted = {key: n - elsewhere.get(key, 0) for key, n in longest.items() if key != "copies"}
            fields = re.search(name + r"\{(.*?)\};", header)[1]
            said = {key: int(n) for key, n in re.findall(r"\.(\w+) = (\d+)", fields)}
            self.assertEqual(said, {key: n for key, n in counted.items() if n > 0}, f"{name}, {newest.name}")


unittest.main(argv=sys.argv[:1])
