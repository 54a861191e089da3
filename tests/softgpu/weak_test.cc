// A missing release or acquire gives old values, without any search for races.
#include <doctest/doctest.h>

#include "tests/softgpu/run_ptx.h"

namespace softgpu {
namespace {

// CTA 0 writes 32 words in two rounds and counts each round. CTA 1 waits for both rounds and leaves the words
// that it sees after them.
struct Handover {
  std::string tell = "fence.release.gpu;", count = "red.relaxed.gpu.global.add.u32 [%out], 1;";
  std::string hear = "ld.acquire.gpu.global.b32 %r1, [%out];", then = "";

  std::string body() const {
    const std::string write = "st.global.b32 [%d1+256], %r0; bar.sync 0, 64; @%p0 bra skip#; " + tell +
                              count + "skip#: bar.sync 0, 64; ";
    const std::string await = "wait#: " + hear + "setp.lt.u32 %p3, %r1, #; @%p3 bra wait#; " + then +
                              "ld.global.b32 %r2, [%d1+256]; ";
    return "and.b32 %r5, %t, 31; mul.wide.u32 %d0, %r5, 4; add.s64 %d1, %out, %d0; setp.ne.b32 %p0, %t, 0;"
           "setp.lt.u32 %p4, %t, 32; setp.ne.b32 %p1, %c, 0; @%p1 bra reader; mov.b32 %r0, 1; @!%p4 bra "
           "second;\n" +
           numbered(write, "1") + "mov.b32 %r0, 2;" + numbered(write, "2") +
           "bra.uni end;\nsecond: bar.sync 0, 64; bar.sync 0, 64; bar.sync 0, 64; bar.sync 0, 64; bra.uni "
           "end;\n"
           "reader: @!%p4 bra end;" +
           numbered(await, "1") + numbered(await, "2") + "st.global.b32 [%d1+512], %r2; end:";
  }
  static std::string numbered(std::string text, const std::string& n) {
    for (size_t at; (at = text.find('#')) != std::string::npos;) text.replace(at, 1, n);
    return text;
  }
};

// Returns for how many of forty seeds the reader saw an old value.
uint32_t wrong_runs(const Handover& handover) {
  uint32_t wrong = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Run run;
    run.body = handover.body();
    run.blocks = 2, run.threads = 64;
    run.settings.seed = seed;
    const Outcome outcome = run_ptx(run);
    REQUIRE(outcome.error == "");
    bool right = true;
    for (uint32_t l = 0; l < 32; ++l) right &= outcome.out[128 + l] == 2;
    wrong += !right;
  }
  return wrong;
}

TEST_CASE("With a release and an acquire readers see what was handed over") {
  CHECK(wrong_runs({}) == 0);
  CHECK(wrong_runs({"", "red.release.gpu.global.add.u32 [%out], 1;"}) == 0);
  CHECK(wrong_runs({"", "atom.acq_rel.gpu.global.add.u32 %r9, [%out], 1;"}) == 0);
  Handover fenced;
  fenced.hear = "ld.relaxed.gpu.global.b32 %r1, [%out];", fenced.then = "fence.acq_rel.gpu;";
  CHECK(wrong_runs(fenced) == 0);
}

TEST_CASE("Without a release, or with one for the CTA alone, readers see old values") {
  Handover none;
  none.tell = "";
  CHECK(wrong_runs(none) >= 10);
  Handover narrow;
  narrow.tell = "fence.release.cta;";
  CHECK(wrong_runs(narrow) >= 10);
}

TEST_CASE("Without an acquire, or with one for the CTA alone, readers see old values") {
  Handover none;
  none.hear = "ld.relaxed.gpu.global.b32 %r1, [%out];";
  CHECK(wrong_runs(none) >= 10);
  Handover narrow;
  narrow.hear = "ld.acquire.cta.global.b32 %r1, [%out];";
  CHECK(wrong_runs(narrow) >= 10);
}

TEST_CASE("A release tells only what its lane knows of") {
  uint32_t wrong = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    Run run;
    // Warp 1 writes, warp 0 releases, and nothing orders them.
    run.body =
        "and.b32 %r5, %t, 31; mul.wide.u32 %d0, %r5, 4; add.s64 %d1, %out, %d0; setp.ne.b32 %p1, %c, 0;"
        "setp.lt.u32 %p4, %t, 32; setp.ne.b32 %p0, %t, 0; mov.b32 %r0, 1; @%p1 bra reader;"
        "@%p4 bra tell; st.global.b32 [%d1+256], %r0; st.shared.b32 [smem], %r0; bra.uni end;"
        "tell: ld.shared.b32 %r3, [smem]; setp.ne.b32 %p5, %r3, 1; @%p5 bra tell; @%p0 bra end;"
        "fence.release.gpu; red.relaxed.gpu.global.add.u32 [%out], 1; bra.uni end;"
        "reader: @!%p4 bra end; wait: ld.acquire.gpu.global.b32 %r1, [%out]; setp.eq.b32 %p3, %r1, 0;"
        "@%p3 bra wait; ld.global.b32 %r2, [%d1+256]; st.global.b32 [%d1+512], %r2; end:";
    run.blocks = 2, run.threads = 64;
    run.settings.seed = seed;
    const Outcome outcome = run_ptx(run);
    REQUIRE(outcome.error == "");
    for (uint32_t l = 0; l < 32; ++l)
      if (outcome.out[128 + l] != 1) {
        ++wrong;
        break;
      }
  }
  CHECK(wrong >= 10);
}

TEST_CASE("A CTA sees its own stores, and a relaxed load never goes back in time") {
  Run run;
  run.blocks = 4, run.threads = 32;
  run.body =
      "mul.wide.u32 %d0, %c, 4; add.s64 %d1, %out, %d0; mov.b32 %r0, 0; mov.b32 %r4, 0; mov.b32 %r5, 0;\n"
      "setp.ne.b32 %p0, %t, 0; @%p0 bra end;\n"
      "again: add.s32 %r0, %r0, 1; st.global.b32 [%d1+64], %r0; ld.global.b32 %r1, [%d1+64];"
      "setp.ne.b32 %p1, %r1, %r0; @%p1 bra bad; red.relaxed.gpu.global.add.u32 [%out], 1;"
      "ld.relaxed.gpu.global.b32 %r2, [%out]; setp.lt.u32 %p2, %r2, %r4; @%p2 bra bad; mov.b32 %r4, %r2;"
      "setp.lt.u32 %p3, %r0, 200; @%p3 bra again; bra.uni end;\n"
      "bad: mov.b32 %r6, 1; st.global.b32 [%out+2048], %r6; end:";
  for (run.settings.seed = 1; run.settings.seed <= 20; ++run.settings.seed) {
    const Outcome outcome = run_ptx(run);
    CHECK(outcome.error == "");
    CHECK(outcome.out[0] == 800);
    CHECK(outcome.out[512] == 0);
  }
}

// Returns how many loads by `load` of a word that another CTA stores over and over give old values.
uint64_t old_loads(const std::string& load) {
  uint64_t old = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Run run;
    run.body =
        "setp.ne.b32 %p0, %t, 0; @%p0 bra end; mov.b32 %r1, 0; setp.ne.b32 %p1, %c, 0; @%p1 bra reader;"
        "writer: add.s32 %r1, %r1, 1; st.release.gpu.global.b32 [%out+64], %r1;"
        "setp.lt.u32 %p2, %r1, 200; @%p2 bra writer; bra.uni end; reader: " +
        load + " %r2, [%out+64]; add.s32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 200; @%p2 bra reader; end:";
    run.blocks = 2;
    run.settings.seed = seed;
    const Outcome outcome = run_ptx(run);
    CHECK(outcome.error == "");
    old += outcome.statistics.stale_loads;
  }
  return old;
}

TEST_CASE("Loads of scope .cta may show what another CTA stored long ago") {
  CHECK(old_loads("ld.relaxed.cta.global.b32") >= 10);
  CHECK(old_loads("ld.acquire.cta.global.b32") >= 10);
  CHECK(old_loads("ld.relaxed.gpu.global.b32") >= 10);
  CHECK(old_loads("ld.acquire.gpu.global.b32") == 0);
}

// Warp 2 writes and tells warps 0 and 1 by a word of shared memory, without order. These meet by `meet`, and
// warp 0 releases. Returns for how many seeds a reader in another CTA sees old values.
uint32_t wrong_behind(const std::string& meet) {
  uint32_t wrong = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Run run;
    run.body =
        "and.b32 %r5, %t, 31; mul.wide.u32 %d0, %r5, 4; add.s64 %d1, %out, %d0; setp.ne.b32 %p1, %c, 0;"
        "setp.lt.u32 %p4, %t, 32; setp.lt.u32 %p6, %t, 64; setp.ne.b32 %p0, %t, 0; mov.b32 %r0, 1;"
        "mov.b64 %d9, smem; @%p0 bra made; mbarrier.init.shared.b64 [%d9+8], 64; made: bar.sync 0, 96;"
        "@%p1 bra reader; @%p6 bra tell; st.global.b32 [%d1+256], %r0; st.shared.b32 [smem], %r0; WRITER "
        "bra.uni "
        "end;"
        "tell: ld.shared.b32 %r3, [smem]; setp.ne.b32 %p5, %r3, 1; @%p5 bra tell; MEET @!%p4 bra end;"
        "@%p0 bra end; fence.release.gpu; red.relaxed.gpu.global.add.u32 [%out], 1; bra.uni end;"
        "reader: @!%p4 bra end; wait: ld.acquire.gpu.global.b32 %r1, [%out]; setp.eq.b32 %p3, %r1, 0;"
        "@%p3 bra wait; ld.global.b32 %r2, [%d1+256]; st.global.b32 [%d1+512], %r2; end:";
    const bool all = meet == "bar.sync 1, 96;";
    run.body.replace(run.body.find("WRITER"), 6, all ? meet : "");
    run.body.replace(run.body.find("MEET"), 4, meet);
    run.blocks = 2, run.threads = 96;
    run.settings.seed = seed;
    const Outcome outcome = run_ptx(run);
    REQUIRE(outcome.error == "");
    bool right = true;
    for (uint32_t l = 0; l < 32; ++l) right &= outcome.out[128 + l] == 1;
    wrong += !right;
  }
  return wrong;
}

TEST_CASE("A barrier or mbarrier tells nothing of stores by warps that it does not wait for") {
  CHECK(wrong_behind("bar.sync 1, 96;") == 0);
  CHECK(wrong_behind("bar.sync 1, 64;") >= 10);
  CHECK(
      wrong_behind("mbarrier.arrive.shared.b64 %d2, [%d9+8]; over: mbarrier.try_wait.parity.shared.b64 %p7, "
                   "[%d9+8], 0; @!%p7 bra over;") >= 10);
}

}  // namespace
}  // namespace softgpu
