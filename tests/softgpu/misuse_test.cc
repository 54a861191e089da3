// Code that a GPU refuses, or leaves undefined, ends the run with the line and the reason.
#include <doctest/doctest.h>

#include "tests/softgpu/run_ptx.h"

namespace softgpu {
namespace {

std::string error_of(const std::string& body, uint32_t threads = 32, uint32_t registers = 0) {
  Run run;
  run.body = body;
  run.threads = threads;
  run.registers_per_thread = registers;
  return run_ptx(run).error;
}

const char* const kBarrier =
    "mov.b64 %d9, smem; setp.ne.b32 %p9, %t, 0; @%p9 bra made; mbarrier.init.shared.b64 [%d9], 1;"
    "fence.mbarrier_init.release.cluster; made: bar.warp.sync -1;\n";

TEST_CASE("Addresses: alignment and bounds of every space") {
  CHECK(has(error_of("ld.global.b32 %r0, [%out+2];"), "misaligned address"));
  CHECK(has(error_of("ld.global.v4.b32 {%r0,%r1,%r2,%r3}, [%out+8];"), "misaligned address"));
  CHECK(has(error_of("ld.global.b32 %r0, [%out+4096];"), "illegal address"));
  CHECK(has(error_of("ld.shared.b32 %r0, [smem+4096];"), "outside of shared memory"));
  CHECK(has(error_of("mov.b32 %r0, 1; st.shared.b64 [smem+4], %d0;"), "nobody wrote"));
  CHECK(has(error_of("mov.b64 %d0, 1; st.shared.b64 [smem+4], %d0;"), "misaligned shared address"));
}

TEST_CASE("Registers: what nobody wrote may be moved, not used") {
  CHECK(has(error_of("add.s32 %r0, %r1, 1;"), "nobody wrote"));
  CHECK(error_of("mov.b32 %r0, %r1;") == "");
  CHECK(has(error_of("mov.b32 %r0, %r1; add.s32 %r2, %r0, 1;"), "nobody wrote"));
  CHECK(has(error_of("setp.lt.u32 %p0, %t, 16; @%p0 mov.b32 %r0, 1; add.s32 %r2, %r0, 1;"),
            "lanes 0xffff0000"));
  // LLVM masks half of a vector out of a register that no instruction writes. A register that some path
  // writes must not be read that way.
  CHECK(error_of("and.b64 %d1, %d0, -4294967296; or.b64 %d2, %d1, 5;") == "");
  CHECK(has(error_of("setp.lt.u32 %p0, %t, 16; @%p0 mov.b64 %d0, 1; and.b64 %d1, %d0, -4294967296;"),
            "lanes 0xffff0000"));
}

TEST_CASE("Lanes: instructions for the whole warp need all of it") {
  CHECK(has(error_of("setp.lt.u32 %p0, %t, 16; @%p0 bra other; bar.sync 0, 32; bra.uni end;"
                     "other: bar.sync 1, 32; end:"),
            "lanes are apart"));
  CHECK(has(error_of("shfl.sync.bfly.b32 %r0, %t, 1, 31, 0xffff;"), "member mask"));
}

TEST_CASE("Barriers: numbers and counts") {
  CHECK(has(error_of("bar.sync 16, 32;"), "barrier 16 of 16"));
  CHECK(has(error_of("bar.sync 0, 48;"), "a barrier of 48 threads"));
  CHECK(has(
      error_of(
          "setp.lt.u32 %p0, %t, 32; @%p0 bra other; bar.sync 1, 96; bra.uni end; other: bar.sync 1, 64; end:",
          96),
      "expects"));
  CHECK(has(error_of("setp.lt.u32 %p0, %t, 32; @%p0 bra end; bar.sync 1, 64; end:", 64), "deadlock"));
}

TEST_CASE("mbarriers: initialisation, counts and plain accesses") {
  CHECK(has(error_of("mov.b64 %d0, smem; mbarrier.arrive.shared.b64 %d1, [%d0];"), "no mbarrier"));
  CHECK(has(error_of(std::string(kBarrier) + "mbarrier.init.shared.b64 [%d9], 1;"),
            "plain access to an mbarrier"));
  CHECK(has(error_of(std::string(kBarrier) + "ld.shared.b32 %r0, [%d9];"), "plain access to an mbarrier"));
  CHECK(has(error_of(std::string(kBarrier) + "mov.b32 %r1, 5; mbarrier.arrive.shared.b64 %d1, [%d9], %r1;"),
            "5 arrivals at an mbarrier that expects 1"));
  CHECK(has(error_of(std::string(kBarrier) +
                     "mov.b32 %r1, 2; mbarrier.try_wait.parity.shared.b64 %p0, [%d9], %r1;"),
            "a parity of 2"));
}

// Returns PTX in which one lane copies `bytes` from %out + `from` to shared memory + `to`, and all lanes
// wait.
std::string copy(uint32_t bytes, uint32_t from, uint32_t to) {
  return std::string(kBarrier) + "@%p9 bra done; mov.b32 %r1, " + std::to_string(bytes) +
         "; mbarrier.arrive.expect_tx.shared.b64 %d1, [%d9], %r1;"
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%d9+" +
         std::to_string(to) + "], [%out+" + std::to_string(from) +
         "], %r1, [%d9];"
         "done: mbarrier.try_wait.parity.shared.b64 %p0, [%d9], 0; @!%p0 bra done;\n";
}

TEST_CASE("Bulk copies: alignment, sizes, places, and time to complete") {
  CHECK(error_of(copy(64, 0, 1024)) == "");
  CHECK(has(error_of(copy(24, 0, 1024)), "expected multiples of 16"));
  CHECK(has(error_of(copy(64, 8, 1024)), "expected multiples of 16"));
  CHECK(has(error_of(copy(64, 4080, 1024)), "illegal address"));
  CHECK(has(error_of(copy(64, 0, 4080)), "outside of shared memory"));
  CHECK(has(error_of(copy(64, 0, 0)), "the destination holds an mbarrier"));
  std::string unseen = copy(64, 0, 1024);
  unseen.erase(unseen.find("fence.mbarrier_init"), 36);
  CHECK(has(error_of(unseen), "no fence.mbarrier_init"));
  const std::string whole = copy(4096 - 1024, 0, 1024);
  CHECK(has(error_of(whole.substr(0, whole.find("done:")) + "done:"), "under way at exit"));
}

TEST_CASE("setmaxnreg: counts, direction and the CTA's pool") {
  CHECK(has(error_of("setmaxnreg.dec.sync.aligned.u32 100;", 128, 168), "expected a multiple of 8"));
  CHECK(has(error_of("setmaxnreg.dec.sync.aligned.u32 200;", 128, 168), "from 168 to 200"));
  const std::string trade =
      "setp.lt.u32 %p0, %t, 128; @%p0 bra more; setmaxnreg.dec.sync.aligned.u32 104; bra.uni end;"
      "more: setmaxnreg.inc.sync.aligned.u32 232; end:";
  CHECK(error_of(trade, 256, 168) == "");
  const std::string greedy =
      "setp.lt.u32 %p0, %t, 128; @!%p0 bra end; setmaxnreg.inc.sync.aligned.u32 232; end:";
  CHECK(has(error_of(greedy, 256, 168), "deadlock"));
}

TEST_CASE("Division by zero is no number") {
  CHECK(has(error_of("mov.b32 %r1, 0; div.u32 %r0, %t, %r1;"), "division by zero"));
}

TEST_CASE("Every word of an access is held against mbarriers") {
  const std::string second =
      "mov.b64 %d9, smem; setp.ne.b32 %p9, %t, 0; @%p9 bra made;"
      "mbarrier.init.shared.b64 [%d9+8], 1; made: bar.warp.sync -1;\n";
  CHECK(
      has(error_of(second + "@!%p9 st.shared.v4.b32 [%d9], {%t,%t,%t,%t};"), "plain access to an mbarrier"));
  CHECK(has(error_of(second + "ld.shared.v2.b64 {%d2,%d3}, [%d9];"), "plain access to an mbarrier"));
  CHECK(error_of(second + "ld.shared.v2.b64 {%d2,%d3}, [%d9+16];") == "");
}

TEST_CASE("No allocation follows another directly, and none is aligned to more than 256 bytes") {
  DeviceMemory memory;
  for (const uint64_t bytes : {1, 256, 4096 - 256, 4096, 5000}) {
    const uint64_t block = memory.allocate(bytes), next = memory.allocate(bytes);
    CHECK(block % 512 == 256);
    CHECK(memory.find(block, bytes) != nullptr);
    CHECK(memory.find(block, bytes + 1) == nullptr);
    CHECK(memory.find(block + bytes, 1) == nullptr);
    CHECK(memory.release(block));
    CHECK(memory.find(next, bytes) != nullptr);
  }
}

TEST_CASE("Forms that PTX has not are unknown") {
  CHECK(has(error_of("red.acquire.gpu.global.add.u32 [%out], 1;"), "unknown instruction red.acquire"));
  CHECK(has(error_of("red.acq_rel.gpu.global.add.u32 [%out], 1;"), "unknown instruction red.acq_rel"));
  CHECK(error_of("red.release.gpu.global.add.u32 [%out], 1;") == "");
}

// Returns PTX in which a warpgroup multiplies zeros twice into the same sums. `between` comes before the
// second product.
std::string two_products(const std::string& between) {
  std::string zeros, sums;
  for (int n = 100; n < 132; ++n) {
    zeros += "mov.b32 %r" + std::to_string(n) + ", 0; ";
    sums += (sums.empty() ? "{%r" : ",%r") + std::to_string(n);
  }
  const std::string product = "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 " + sums +
                              "}, {%r1,%r1,%r1,%r1}, %d8, %p0, 1, 1, 0; wgmma.commit_group.sync.aligned; "
                              "wgmma.wait_group.sync.aligned 0; ";
  return zeros +
         "mov.b32 %r1, 0; mov.b64 %d9, smem; shr.u64 %d8, %d9, 4; or.b64 %d8, %d8, 0x4000004000010000; "
         "setp.ne.b32 %p0, %t, 99999; wgmma.fence.sync.aligned; " +
         product + between + product;
}

TEST_CASE("wgmma: registers that were read or written need a fence before the next product") {
  const auto error = [](const std::string& between) {
    Run run;
    run.body = two_products(between);
    run.threads = 128, run.shared_bytes = 16384;
    return run_ptx(run).error;
  };
  CHECK(error("") == "");
  CHECK(has(error("add.s32 %r3, %r100, 1;"), "operand 0 was accessed since the last wgmma.fence"));
  CHECK(has(error("mov.b32 %r101, 0;"), "operand 1 was accessed since the last wgmma.fence"));
  CHECK(error("add.s32 %r3, %r100, 1; wgmma.fence.sync.aligned;") == "");
}

}  // namespace
}  // namespace softgpu
