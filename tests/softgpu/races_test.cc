// Accesses that nothing orders are found, in whatever order they ran. Accesses that something orders are not.
#include <doctest/doctest.h>

#include "tests/softgpu/run_ptx.h"

namespace softgpu {
namespace {

std::string races_of(const std::string& body, uint32_t blocks, uint32_t threads) {
  Run run;
  run.body = body;
  run.blocks = blocks, run.threads = threads;
  run.settings.races = true;
  return run_ptx(run).error;
}

// Returns PTX in which warp 0 writes words of shared memory and warp 1 reads one. Both warps execute
// `between` before the read.
std::string within_cta(const std::string& between) {
  return "setp.ge.u32 %p0, %t, 32; @%p0 bra sync; mul.wide.u32 %d0, %t, 4; mov.b64 %d1, smem; add.s64 %d1, "
         "%d1, %d0;"
         "st.shared.b32 [%d1+64], %t;\n"
         "sync: " +
         between + "setp.lt.u32 %p1, %t, 32; @%p1 bra end; ld.shared.b32 %r0, [smem+64]; end:";
}

TEST_CASE("Warps of a CTA are ordered by a barrier of both") {
  CHECK(races_of(within_cta("bar.sync 0, 64;"), 1, 64) == "");
  CHECK(has(races_of(within_cta(""), 1, 64), "race: "));
  CHECK(has(races_of(within_cta("bar.warp.sync -1;"), 1, 64), "race: "));
}

TEST_CASE("Lanes of a warp are ordered by bar.warp.sync") {
  const auto body = [](const std::string& between) {
    return "mul.wide.u32 %d0, %t, 4; mov.b64 %d1, smem; add.s64 %d1, %d1, %d0; st.shared.b32 [%d1], %t;" +
           between + "ld.shared.b32 %r0, [smem+4];";
  };
  CHECK(races_of(body("bar.warp.sync -1;"), 1, 32) == "");
  CHECK(has(races_of(body(""), 1, 32), "race: reads behind a write"));
}

// Returns PTX in which CTA 0 writes a word and announces it by `tell`. CTA 1 waits by `hear`, which leaves
// the flag in %r1. CTA 1 then executes `then` and reads the word.
std::string between_ctas(const std::string& tell, const std::string& hear, const std::string& then = "") {
  return "setp.ne.b32 %p0, %t, 0; @%p0 bra end; setp.ne.b32 %p1, %c, 0; @%p1 bra reader;"
         "mov.b32 %r0, 1; st.global.b32 [%out+256], %r0;\n" +
         tell + "bra.uni end;\nreader: " + hear + "setp.eq.b32 %p2, %r1, 0; @%p2 bra reader;" + then +
         "ld.global.b32 %r2, [%out+256]; end:";
}

TEST_CASE("CTAs are ordered by a release and an acquire of one word") {
  const std::string acquire = "ld.acquire.gpu.global.b32 %r1, [%out];";
  const std::string relaxed = "ld.relaxed.gpu.global.b32 %r1, [%out];";
  const std::string add = "red.relaxed.gpu.global.add.u32 [%out], 1;";
  CHECK(races_of(between_ctas("st.release.gpu.global.b32 [%out], 1;", acquire), 2, 32) == "");
  CHECK(races_of(between_ctas("fence.release.gpu; " + add, acquire), 2, 32) == "");
  CHECK(races_of(between_ctas("fence.release.gpu; " + add, relaxed, "fence.acq_rel.gpu;"), 2, 32) == "");
  CHECK(races_of(between_ctas("atom.acq_rel.gpu.global.add.u32 %r3, [%out], 1;", acquire), 2, 32) == "");
  CHECK(has(races_of(between_ctas(add, acquire), 2, 32), "race: "));
  CHECK(has(races_of(between_ctas("fence.release.gpu; " + add, relaxed), 2, 32), "race: "));
  CHECK(has(races_of(between_ctas("st.relaxed.gpu.global.b32 [%out], 1;", acquire), 2, 32), "race: "));
}

TEST_CASE("What follows a release is not ordered by it") {
  const std::string late = "st.release.gpu.global.b32 [%out], 1; st.global.b32 [%out+256], %r0;";
  CHECK(has(races_of(between_ctas(late, "ld.acquire.gpu.global.b32 %r1, [%out];"), 2, 32), "race: "));
}

TEST_CASE("Scopes: .cta orders nothing between CTAs") {
  const std::string acquire = "ld.acquire.gpu.global.b32 %r1, [%out];";
  CHECK(has(races_of(between_ctas("st.release.cta.global.b32 [%out], 1;", acquire), 2, 32), "race: "));
  CHECK(has(
      races_of(between_ctas("fence.release.cta; red.relaxed.gpu.global.add.u32 [%out], 1;", acquire), 2, 32),
      "race: "));
  CHECK(has(
      races_of(between_ctas("st.release.gpu.global.b32 [%out], 1;", "ld.acquire.cta.global.b32 %r1, [%out];"),
               2, 32),
      "race: "));
  CHECK(races_of(between_ctas("st.release.sys.global.b32 [%out], 1;", acquire), 2, 32) == "");
  CHECK(has(races_of("red.relaxed.cta.global.add.u32 [%out], 1;", 2, 32), "race: "));
  CHECK(races_of("red.relaxed.gpu.global.add.u32 [%out], 1;", 2, 32) == "");
}

TEST_CASE("Scopes: a read of scope .cta races with another CTA's update, whatever its warp reads besides") {
  const std::string update =
      "bra.uni end; other: @%p1 bra end; nanosleep.u32 64; nanosleep.u32 64; nanosleep.u32 64;"
      "red.relaxed.gpu.global.add.u32 [%out], 1; end:";
  const std::string lanes =
      "setp.ne.u32 %p0, %c, 0; setp.ne.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 1; @%p0 bra other;";
  const std::string wide = "@!%p1 ld.relaxed.gpu.global.b32 %r0, [%out];";
  const std::string narrow = "@%p2 ld.relaxed.cta.global.b32 %r1, [%out];";
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Run run;
    run.blocks = 2;
    run.settings.races = true, run.settings.seed = seed;
    for (const std::string& reads : {wide + narrow, narrow + wide}) {
      run.body = lanes + reads + update;
      CHECK(has(run_ptx(run).error, "race: "));
    }
    run.body = lanes + wide + update;
    CHECK(run_ptx(run).error == "");
  }
}

// Returns PTX in which lane 0 writes a word of shared memory and then copies over it. `fence` comes between.
std::string over_written(const std::string& fence) {
  return "setp.ne.b32 %p0, %t, 0; @%p0 bra end; mov.b64 %d9, smem; mbarrier.init.shared.b64 [%d9], 1;"
         "fence.mbarrier_init.release.cluster; st.shared.b32 [smem+1024], %t;" +
         fence +
         "mov.b32 %r1, 64; mbarrier.arrive.expect_tx.shared.b64 %d1, [%d9], %r1;"
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%d9+1024], [%out], %r1, [%d9];"
         "wait: mbarrier.try_wait.parity.shared.b64 %p1, [%d9], 0; @!%p1 bra wait; ld.shared.b32 %r2, "
         "[smem+1024]; end:";
}

TEST_CASE("Proxies: a copy over generic writes needs a proxy fence") {
  CHECK(races_of(over_written("fence.proxy.async.shared::cta;"), 1, 32) == "");
  CHECK(races_of(over_written("fence.proxy.async;"), 1, 32) == "");
  CHECK(has(races_of(over_written(""), 1, 32), "no proxy fence"));
  CHECK(has(races_of(over_written("fence.proxy.async.global;"), 1, 32), "no proxy fence"));
}

TEST_CASE("Proxies: cp.async is generic, so a bulk copy over it needs a proxy fence behind its completion") {
  const auto body = [](const std::string& fence) {
    std::string all = over_written(fence);
    all.replace(all.find("st.shared.b32 [smem+1024], %t;"), 30,
                "mbarrier.init.shared.b64 [%d9+8], 1; cp.async.cg.shared.global [%d9+1024], [%out], 16;"
                "cp.async.mbarrier.arrive.shared.b64 [%d9+8]; mbarrier.arrive.shared.b64 %d2, [%d9+8];"
                "first: mbarrier.try_wait.parity.shared.b64 %p2, [%d9+8], 0; @!%p2 bra first;");
    return all;
  };
  CHECK(races_of(body("fence.proxy.async.shared::cta;"), 1, 32) == "");
  CHECK(has(races_of(body(""), 1, 32), "no proxy fence"));
}

TEST_CASE("What a copy brings is ordered by the wait for its bytes alone") {
  std::string body = over_written("fence.proxy.async;");
  const size_t wait = body.find("wait:"), end = body.find("ld.shared");
  body = body.substr(0, wait) + body.substr(end, body.find("end:") - end) + body.substr(wait, end - wait) +
         "end:";
  CHECK(has(races_of(body, 1, 32), "race: reads behind a write of CTA 0 a bulk copy"));
}

// Warp 0 writes byte 0 of shared memory, then executes `more`. Warp 1 reads byte 0, and nothing orders it.
std::string bytes(const std::string& more) {
  return "setp.ge.u32 %p0, %t, 32; @%p0 bra reader; setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 1; mov.b32 "
         "%r1, 7; cvt.u16.u32 %h0, %r1; @%p1 st.shared.b8 [smem+64], %h0; bar.warp.sync -1; " +
         more +
         "bra.uni end; reader: setp.ne.u32 %p3, %t, 32; @%p3 bra end; ld.shared.b8 %h1, [smem+64]; end:";
}

TEST_CASE("A write of a byte hides nothing of the byte beside it, in whatever order accesses run") {
  const std::string beside = "@%p2 st.shared.b8 [smem+65], %h0; bar.warp.sync -1; ";
  const std::string again = beside + "@%p1 st.shared.b8 [smem+64], %h0; ";
  for (const std::string& more :
       {std::string(), beside, again, "@%p2 ld.shared.b8 %h2, [smem+65]; " + beside})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Run run;
      run.body = bytes(more);
      run.threads = 64;
      run.settings.races = true, run.settings.seed = seed;
      CHECK(has(run_ptx(run).error, "race: "));
    }
  const std::string other =
      "setp.eq.u32 %p1, %t, 0; mov.b32 %r1, 7; cvt.u16.u32 %h0, %r1; @%p1 st.shared.b8 "
      "[smem+64], %h0; setp.eq.u32 %p2, %t, 32; @%p2 st.shared.b8 [smem+65], %h0;";
  CHECK(races_of(other, 1, 64) == "");
}

// Warp 0 announces bytes, executes `store` and issues their copy. Warp 1 waits for the copy and reads the
// word that `store` writes.
std::string beside_a_copy(const std::string& before, const std::string& store) {
  return "setp.ge.u32 %p0, %t, 32; mov.b64 %d9, smem; setp.ne.b32 %p5, %t, 0; @%p5 bra made;"
         "mbarrier.init.shared.b64 [%d9], 1; fence.mbarrier_init.release.cluster; made: bar.sync 0, 64;"
         "@%p0 bra reader; @%p5 bra end; mov.b32 %r1, 64; " +
         before + "mbarrier.arrive.expect_tx.shared.b64 %d1, [%d9], %r1; " + store +
         "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%d9+1024], [%out], %r1, [%d9];"
         "bra.uni end; reader: setp.ne.b32 %p6, %t, 32;"
         "wait: mbarrier.try_wait.parity.shared.b64 %p1, [%d9], 0; @!%p1 bra wait; @%p6 bra end;"
         "ld.shared.b32 %r2, [smem+64]; ld.shared.b32 %r3, [smem+1024]; end:";
}

TEST_CASE("A bulk copy publishes its bytes and what the async proxy sees, not what its thread did besides") {
  const std::string store = "st.shared.b32 [smem+64], %t; ";
  CHECK(races_of(beside_a_copy(store, ""), 1, 64) == "");
  CHECK(races_of(beside_a_copy("", store + "fence.proxy.async.shared::cta; "), 1, 64) == "");
  CHECK(has(races_of(beside_a_copy("", store), 1, 64), "race: "));
}

TEST_CASE("The arrival of a thread's cp.async publishes their bytes alone") {
  const auto body = [](const std::string& store) {
    return "setp.ge.u32 %p0, %t, 32; mov.b64 %d9, smem; setp.ne.b32 %p5, %t, 0; @%p5 bra made;"
           "mbarrier.init.shared.b64 [%d9], 1; made: bar.sync 0, 64; @%p0 bra reader; @%p5 bra end;" +
           store +
           "cp.async.cg.shared.global [%d9+1024], [%out], 16; cp.async.mbarrier.arrive.shared.b64 [%d9];"
           "st.relaxed.cta.shared.b32 [smem+128], 1; bra.uni end; reader: setp.ne.b32 %p6, %t, 32; @%p6 bra "
           "end;"
           "poll: ld.relaxed.cta.shared.b32 %r3, [smem+128]; setp.ne.b32 %p2, %r3, 1; @%p2 bra poll;"
           "mbarrier.arrive.shared.b64 %d2, [%d9];"
           "wait: mbarrier.try_wait.parity.shared.b64 %p1, [%d9], 0; @!%p1 bra wait;"
           "ld.shared.b32 %r2, [smem+64]; end:";
  };
  bool found = false;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Run run;
    run.threads = 64;
    run.settings.races = true, run.settings.seed = seed;
    run.body = body("");
    CHECK(run_ptx(run).error == "");
    run.body = body("st.shared.b32 [smem+64], %t; ");
    found |= has(run_ptx(run).error, "race: ");
  }
  CHECK(found);
}

}  // namespace
}  // namespace softgpu
