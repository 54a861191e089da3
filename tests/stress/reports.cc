// A race report names both tasks, both lines of the bodies, the tensor and its element.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "tests/stress/edits.h"
#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

// Returns the first report of a step of so many tokens by the changed kernel, in the fixed order.
std::string first_report(const SiteEdit& change, uint32_t tokens = 2) {
  const Compiled compiled(TinyModel{});
  const HostKernel kernel =
      compile_for_host(compiled.schedule, {.race = true, .edit = always(change), .quick = true});
  RunOptions options;
  options.device.race = true;
  options.device.max_reports = 1;  // the kernel could go on with anything as an address
  options.steps = {tokens};
  const std::string error = run(compiled, kernel, options).error;
  CAPTURE(error);
  const size_t begin = error.find("\n  ");
  REQUIRE(begin != error.npos);
  return error.substr(begin + 3, error.find('\n', begin + 1) - begin - 3);
}

// Returns "FILE:LINE" of the first line of a body's source that has `text`.
std::string site(const std::string& file, const std::string& text) {
  std::ifstream source(MKC_SOURCE_DIR "/codegen/device/" + file);
  std::string line;
  for (int number = 1; std::getline(source, line); ++number)
    if (line.find(text) != line.npos) return fmt::format("{}:{}", file, number);
  FAIL("no line has " << text);
  return {};
}

TEST_CASE("a read after an unordered write names both") {
  CHECK(first_report({"mkd_release", "mk_fence_release", 0, drop}) ==
        fmt::format("unordered read after write of %x.x_bf16[0, 12]: worker 2 thread 31, task l0.q[2], {}; "
                    "earlier worker "
                    "1 thread 13, task embed[0], {}",
                    site("product_rows.h", "return *(AS1 const u32x2*)"),
                    site("norm_outputs.h", "Bf16::store(to.x_bf16")));
}

TEST_CASE("a write after an unordered read names both") {
  CHECK(first_report({"13warp_epilogueILj16E", "mk_warp_sync", 1, drop}, 40) ==
        fmt::format(
            "unordered write after read of shared+0x1bc20: worker 0 thread 129, task l0.gate_up[0], {}; "
            "earlier worker 0 thread 128, task l0.gate_up[0], {}",
            site("product_sums.h", "to[sum_place(entry_of(lane, i))] = sum[i]"),
            site("product_multiply.h", "return sums[sum_place(entry - row + r)]")));
}

TEST_CASE("a write after an unordered write names both") {
  CHECK(
      first_report({"mk_kernel", "mkd_wait", kEvery, drop}, 40) ==
      fmt::format(
          "unordered write after write of %x[13, 32]: worker 1 thread 32, task embed[13], {}; earlier worker "
          "0 thread 67, task logits[0], {}",
          site("tokens.cc", "a.out[token * a.cols + col] ="),
          site("epilogue.h", "a.epilogue->best_index[at] =")));
}

TEST_CASE("a copy over a stage that is being read names the copy and the reader") {
  CHECK(
      first_report({"release_stage", "mk_warp_sync", 0, drop}) ==
      fmt::format("unordered write after read of shared+0x10: worker 2, asynchronous copy; earlier worker 2 "
                  "thread 1, task l0.q[2], {}",
                  site("product_mma8.h",
                       "if (i < mine) sums[s].step(W::unpack(stage[i * kWarpLanes]), operand[i])")));
}

TEST_CASE("an access outside shared memory names the task and the line") {
  const std::string report = first_report({"mk_kernel", "mkd_begin", 0, add_to(3, 1)});
  CAPTURE(report);
  const size_t who = report.find(": ");
  CHECK(report.starts_with("access outside shared memory of shared+0x"));
  CHECK(report.substr(std::min(who, report.size())) ==
        fmt::format(": worker 2 thread 159, task l0.q[2], {}",
                    site("product_sums.h", "to[sum_place(entry_of(lane, i))] = sum[i]")));
}

}  // namespace
}  // namespace mkc::test
