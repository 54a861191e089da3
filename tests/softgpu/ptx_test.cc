// Each test runs a few lines of PTX, and compares what they compute or how they diverge.
#include <doctest/doctest.h>

#include "tests/softgpu/run_ptx.h"

namespace softgpu {
namespace {

// Returns what each lane has in %r0 after `body`.
std::vector<uint32_t> results(const std::string& body, Settings settings = {}) {
  Run run;
  run.settings = settings;
  run.body = body + "mul.wide.u32 %d0, %t, 4; add.s64 %d1, %out, %d0; st.global.b32 [%d1], %r0;";
  const Outcome outcome = run_ptx(run);
  CHECK(outcome.error == "");
  return outcome.out;
}

TEST_CASE("Integers: fields, permutations, shifts and high halves are those of the PTX ISA") {
  CHECK(results("mov.b32 %r1, 0x89abcdef; bfe.u32 %r0, %r1, 8, 12;")[0] == 0xbcd);
  CHECK(results("mov.b32 %r1, 0x89abcdef; bfe.s32 %r0, %r1, 28, 8;")[0] == 0xfffffff8);
  CHECK(results("mov.b32 %r1, 0x33221100; mov.b32 %r2, 0x77665544; prmt.b32 %r0, %r1, %r2, 0x7250;")[0] ==
        0x77225500);
  CHECK(results("mov.b32 %r1, 1; shl.b32 %r0, %r1, 32;")[0] == 0);
  CHECK(results("mov.b32 %r1, -8; shr.s32 %r0, %r1, 40;")[0] == 0xffffffff);
  CHECK(results("mov.b64 %d2, 0xffffffffffffffff; mul.hi.u64 %d3, %d2, %d2; cvt.u32.u64 %r0, %d3;")[0] ==
        0xfffffffe);
}

TEST_CASE("Floats: two halves of bf16 are rounded once, to even") {
  const std::string halves = "mov.b32 %r1, 0x4300430f; mov.b32 %r2, 0x3f803f80; mov.b32 %r3, 0xc308c308; ";
  CHECK(results(halves + "fma.rn.bf16x2 %r0, %r1, %r2, %r3;")[0] == 0xc10040e0);  // 128 - 136, 143 - 136
  CHECK(results(halves + "add.bf16x2 %r0, %r1, %r3;")[0] == 0xc10040e0);
  CHECK(results(halves + "sub.rn.bf16x2 %r0, %r1, %r3;")[0] == 0x4384438c);  // 264, and 279, which is a tie
  CHECK(results(halves + "mul.bf16x2 %r0, %r1, %r3;")[0] == 0xc688c698);     // -17408, and -19448
}

TEST_CASE("Floats: conversions round to even, saturate and order their halves") {
  CHECK(results("mov.b32 %r1, 0f3F808000; mov.b32 %r2, 0f3F818000; cvt.rn.bf16x2.f32 %r0, %r1, %r2;")[0] ==
        0x3f803f82);
  CHECK(results("mov.b32 %r1, 0f477FF000; cvt.rn.f16.f32 %h0, %r1; cvt.u32.u16 %r0, %h0;")[0] == 0x7c00);
  CHECK(results("mov.b32 %r1, 0f33000000; cvt.rn.f16.f32 %h0, %r1; cvt.u32.u16 %r0, %h0;")[0] == 0);
  CHECK(results("mov.b32 %r1, 0f33000001; cvt.rn.f16.f32 %h0, %r1; cvt.u32.u16 %r0, %h0;")[0] == 1);
  CHECK(results("mov.b32 %r1, 0f461C4000; mov.b32 %r2, 0fC0000000; cvt.rn.satfinite.e4m3x2.f32 %h0, %r1, %r2;"
                "cvt.u32.u16 %r0, %h0;")[0] == 0x7ec0);
  CHECK(results("mov.b32 %r1, 0fFFC00000; mov.b32 %r2, 0f40000000; max.f32 %r0, %r1, %r2;")[0] == 0x40000000);
  CHECK(
      results(
          "mov.b32 %r1, 0x3c00; cvt.u16.u32 %h0, %r1; mov.b32 %r2, 0f34000000; add.rn.f32.f16 %r0, %h0, %r2;")
          [0] == 0x3f800001);
  CHECK(results("mov.b32 %r1, 0x3f80; cvt.u16.u32 %h0, %r1; mov.b32 %r2, 0f34000000; fma.rn.f32.bf16 %r0, "
                "%h0, %h0, %r2;")[0] == 0x3f800001);
  CHECK(results("mov.b32 %r1, 0f7FC00000; cvt.rzi.u32.f32 %r0, %r1;")[0] == 0);
}

TEST_CASE("Diverged lanes go their own ways, in any order, and meet again at a .sync") {
  const std::string body =
      "mov.b32 %r0, 0; mov.b32 %r1, 0; and.b32 %r2, %t, 3;\n"
      "again: add.s32 %r0, %r0, 10; add.s32 %r1, %r1, 1; setp.le.u32 %p0, %r1, %r2; @%p0 bra again;\n"
      "shfl.sync.bfly.b32 %r0, %r0, 1, 31, -1;\n";
  for (const uint64_t seed : {1, 2, 3}) {
    Settings settings;
    settings.seed = seed, settings.any_split = 1;
    const std::vector<uint32_t> out = results(body, settings);
    for (uint32_t l = 0; l < 32; ++l) CHECK(out[l] == 10 * (((l ^ 1) & 3) + 1));
  }
}

TEST_CASE("The address of shared memory is the same in all lanes, in 32 bits and in 64") {
  const std::vector<uint32_t> narrow = results("mov.u32 %r0, smem;");
  const std::vector<uint32_t> wide = results("mov.u64 %d2, smem; cvt.u32.u64 %r0, %d2;");
  for (uint32_t l = 0; l < 32; ++l) {
    CHECK(narrow[l] == wide[0]);
    CHECK(wide[l] == wide[0]);
  }
  CHECK(wide[0] != 0);
}

TEST_CASE("A table of branches sends each lane to its label") {
  const std::vector<uint32_t> out = results(
      "and.b32 %r1, %t, 1; mov.b32 %r0, 7;\n"
      "targets: .branchtargets first, second;\n"
      "brx.idx %r1, targets;\n"
      "first: mov.b32 %r0, 1; bra.uni end;\n"
      "second: mov.b32 %r0, 2;\n"
      "end:\n");
  CHECK(out[4] == 1);
  CHECK(out[5] == 2);
}

TEST_CASE("mma multiplies fragments as the PTX ISA lays them out") {
  // A and B are all ones in bf16, so each sum is 16 more than C.
  const std::vector<uint32_t> out = results(
      "mov.b32 %r1, 0x3f803f80; mov.b32 %r2, 0f3F800000;\n"
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r3,%r4,%r5,%r0}, {%r1,%r1,%r1,%r1}, {%r1,%r1}, "
      "{%r2,%r2,%r2,%r2};\n");
  CHECK(out[0] == 0x41880000);  // 17 in f32
}

TEST_CASE("mma multiplies fragments of 8-bit floats as the PTX ISA lays them out") {
  // Elements of A are 1. Those of B are 1 in rows 0 to 15, and 2 in rows 16 to 31.
  const std::string mma = "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 ";
  const std::vector<uint32_t> all =
      results("mov.b32 %r1, 0x38383838; mov.b32 %r2, 0x40404040; mov.b32 %r3, 0f3F800000;\n" + mma +
              "{%r4,%r5,%r6,%r0}, {%r1,%r1,%r1,%r1}, {%r1,%r2}, {%r3,%r3,%r3,%r3};\n");
  CHECK(all[0] == 0x42440000);  // 49 in f32
  // A is 1 in columns 4t + 1 of rows 8 to 15 alone. Column g of B is 1, but 2 in rows 1, 5, 9 and 13.
  const std::string some = "mov.b32 %r1, 0x3800; mov.b32 %r2, 0x38384038; mov.b32 %r3, 0;\n" + mma;
  CHECK(results(some + "{%r4,%r5,%r0,%r6}, {%r3,%r1,%r3,%r3}, {%r2,%r3}, {%r3,%r3,%r3,%r3};\n")[5] ==
        0x41000000);  // 8 in f32
  CHECK(results(some + "{%r0,%r4,%r5,%r6}, {%r3,%r1,%r3,%r3}, {%r2,%r3}, {%r3,%r3,%r3,%r3};\n")[5] == 0);
}

TEST_CASE("One seed gives one run") {
  Run run;
  run.blocks = 4, run.threads = 128;
  run.body =
      "atom.relaxed.gpu.global.add.u32 %r1, [%out], 1; mul.wide.u32 %d0, %r1, 4; add.s64 %d1, %out, %d0;"
      "shl.b32 %r2, %c, 8; add.s32 %r2, %r2, %t; st.global.b32 [%d1+16], %r2;";
  const std::vector<uint32_t> once = run_ptx(run).out;
  CHECK(once == run_ptx(run).out);
  run.settings.seed = 2;
  CHECK(once != run_ptx(run).out);
}

TEST_CASE("What is unknown is an error with its line") {
  Run run;
  run.body = "mov.b32 %r0, 1;\nfrobnicate.b32 %r0, %r1;";
  CHECK(run_ptx(run).error == "line 13: frobnicate.b32 %r0, %r1: unknown instruction frobnicate.b32");
  run.body = "add.s32 %r0, %d0, 1;";
  CHECK(has(run_ptx(run).error, "a register of another size: %d0"));
}

TEST_CASE("Integers: the least number divided by -1, 16-bit products, and signs of narrow loads") {
  const std::string least = "mov.b32 %r1, 0x80000000; mov.b32 %r2, -1; ";
  CHECK(results(least + "div.s32 %r0, %r1, %r2;")[0] == 0x80000000);
  CHECK(results(least + "rem.s32 %r0, %r1, %r2;")[0] == 0);
  CHECK(results("mov.b32 %r1, 8; mov.b32 %r2, -1; div.s32 %r0, %r1, %r2;")[0] == 0xfffffff8);
  CHECK(
      results("mov.b64 %d2, 0x8000000000000000; mov.b64 %d3, -1; div.s64 %d4, %d2, %d3; shr.u64 %d5, %d4, 32;"
              "cvt.u32.u64 %r0, %d5;")[0] == 0x80000000);
  CHECK(results(
            "mov.b32 %r1, 65535; cvt.u16.u32 %h0, %r1; mul.lo.s16 %h1, %h0, %h0; cvt.u32.u16 %r0, %h1;")[0] ==
        1);
  const std::string narrow = "mov.b32 %r1, 0x8080; st.shared.b32 [smem], %r1; bar.warp.sync -1; ";
  CHECK(results(narrow + "ld.shared.s8 %r0, [smem];")[0] == 0xffffff80);
  CHECK(results(narrow + "ld.shared.u8 %r0, [smem];")[0] == 0x80);
  CHECK(results(narrow + "ld.shared.s16 %r0, [smem];")[0] == 0xffff8080);
  CHECK(results(narrow + "ld.shared.s8 %h0, [smem]; cvt.u32.u16 %r0, %h0;")[0] == 0xff80);
}

TEST_CASE("Floats: NaN becomes 0 in 32-bit integers and the top bit in 64-bit ones") {
  const std::string nan = "mov.b32 %r1, 0f7FC00000; ";
  for (const std::string sign : {"u", "s"}) {
    CHECK(results(nan + "cvt.rzi." + sign + "32.f32 %r0, %r1;")[0] == 0);
    CHECK(results(nan + "cvt.rzi." + sign +
                  "64.f32 %d2, %r1; shr.u64 %d3, %d2, 32; cvt.u32.u64 %r0, %d3;")[0] == 0x80000000);
    CHECK(results(nan + "cvt.rzi." + sign + "64.f32 %d2, %r1; cvt.u32.u64 %r0, %d2;")[0] == 0);
  }
}

TEST_CASE("Floats: a sum of bf16 beside a tie by less than doubles hold is rounded once") {
  // 1.0078125 * 1.5 is a tie of two bf16. The addend is 2^-100, or its negative.
  const std::string tie = "mov.b32 %r1, 0x3f813f81; mov.b32 %r2, 0x3fc03fc0; mov.b32 %r3, 0x0d808d80; ";
  CHECK(results(tie + "fma.rn.bf16x2 %r0, %r1, %r2, %r3;")[0] == 0x3fc23fc1);
  const std::string negative = "mov.b32 %r1, 0xbf81bf81; mov.b32 %r2, 0x3fc03fc0; mov.b32 %r3, 0x0d808d80; ";
  CHECK(results(negative + "fma.rn.bf16x2 %r0, %r1, %r2, %r3;")[0] == 0xbfc1bfc2);
}

}  // namespace
}  // namespace softgpu
