// These tests check a plan against its manifest, record by record.
#include <doctest/doctest.h>

#include <cstddef>

#include "tests/unit/runtime/fake_device.h"

namespace mkrt {
namespace {

using namespace test;

// Returns a manifest with a table of 5 tasks, a range grid and a claimed grid.
Manifest three_grids() {
  Manifest m = manifest();
  m.event_cells = 6;
  m.grids.resize(3);
  m.grids[0].placement = GridPlacement::kTable;
  m.grids[0].tasks = 5;
  m.grids[2].name = "sample";
  m.grids[2].placement = GridPlacement::kQueue;
  m.grids[2].tickets = 5;
  return m;
}

// Offsets are byte offsets into the plan of three_grids().
struct Offsets {
  PlanLayout layout;
  uint64_t grid(uint32_t g, size_t member) const { return layout.grids + g * sizeof(MkGrid) + member; }
  uint64_t segment(uint32_t s, size_t member) const {
    return layout.segments + s * sizeof(MkSegment) + member;
  }
};

// Returns the error of checking the plan after a change of one word.
std::string with_word(uint64_t at, uint32_t value, const Manifest& m = three_grids()) {
  std::vector<std::byte> plan = plan_of(m);
  put(plan, at, value);
  const Status status = check_plan(m, plan);
  return status.ok() ? "" : status.error().message;
}

Offsets offsets() {
  const std::vector<std::byte> plan = plan_of(three_grids());
  MkPlanHeader header;
  std::memcpy(&header, plan.data(), sizeof(header));
  return {plan_layout(header)};
}

TEST_CASE("a plan that a manifest describes is accepted") {
  CHECK(check_manifest(three_grids()).ok());
  CHECK(check_plan(three_grids(), plan_of(three_grids())).ok());
}

TEST_CASE(
    "each word of a plan that is not what the manifest says is refused, but for whose segments are whose") {
  const std::vector<std::byte> plan = plan_of(three_grids());
  const uint64_t second_stream = offsets().layout.stream_begin + sizeof(uint32_t);
  for (size_t at = 0; at < plan.size(); ++at)
    for (const int bit : {0, 3, 7}) {
      if (at / sizeof(uint32_t) == second_stream / sizeof(uint32_t)) continue;
      CAPTURE(at);
      std::vector<std::byte> changed = plan;
      changed[at] ^= std::byte(1 << bit);
      CHECK(!check_plan(three_grids(), changed).ok());
    }
  for (size_t bytes = 0; bytes < plan.size(); ++bytes)
    CHECK(!check_plan(three_grids(), std::span(plan).first(bytes)).ok());
}

TEST_CASE("errors name the record and its field") {
  const Offsets o = offsets();
  CHECK(with_word(offsetof(MkPlanHeader, bounds) + offsetof(MkBounds, max_tokens), 5) ==
        "plan: error: header: max_tokens is 5, expected 4");
  CHECK(with_word(o.grid(1, offsetof(MkGrid, kind)), 0) ==
        "plan: error: grid l0.attend: kind is 0, expected 1");
  CHECK(with_word(o.grid(1, offsetof(MkGrid, operand) + 4), 3) ==
        "plan: error: grid l0.attend: operand 1 is 3, expected 0");
  CHECK(with_word(o.grid(1, offsetof(MkGrid, notify_base)), 7) ==
        "plan: error: grid l0.attend: notify 0 is 7, expected 2");
  CHECK(with_word(o.grid(0, offsetof(MkGrid, product)), 1) ==
        "plan: error: grid l0.q: product word 0 is 1, expected 0");
  CHECK(with_word(o.layout.stream_begin + 4, 9) == "plan: error: stream 1 begins at segment 9 of 5");
}

TEST_CASE("segments hold each task of a table once, and no others") {
  const Offsets o = offsets();
  const auto segment = [&](size_t member, uint32_t value) { return with_word(o.segment(0, member), value); };
  CHECK(segment(offsetof(MkSegment, count), 6) ==
        "plan: error: segment 0 of grid l0.q is 0+6, which it has not");
  CHECK(segment(offsetof(MkSegment, first), 1) ==
        "plan: error: segment 0 of grid l0.q is 1+5, which it has not");
  CHECK(segment(offsetof(MkSegment, count), 0) ==
        "plan: error: segment 0 of grid l0.q is 0+0, which it has not");
  CHECK(segment(offsetof(MkSegment, count), kRangeCount) ==
        "plan: error: segment 0 of grid l0.q is 0+4294967295, which it has not");
  CHECK(segment(offsetof(MkSegment, count), 4) ==
        "plan: error: grid l0.q: the segments hold task or share 4 of 5 twice or not at all");
  CHECK(segment(offsetof(MkSegment, grid), 3) == "plan: error: segment 0 names grid 3 of 3");
  CHECK(segment(offsetof(MkSegment, inline_grid), 1) ==
        "plan: error: segment 0: inline_grid is 1, expected 4294967295");
  CHECK(with_word(o.segment(1, offsetof(MkSegment, first)), 2) ==
        "plan: error: segment 1 of grid l0.attend is 2+4294967295, which it has not");
  CHECK(with_word(o.segment(1, offsetof(MkSegment, first)), 1) ==
        "plan: error: grid l0.attend: the segments hold task or share 0 of 2 twice or not at all");
}

TEST_CASE("names that the manifest lacks are refused") {
  Manifest m = three_grids();
  m.grids[1].operands[1] = "l7.k";
  const Status status = check_plan(m, plan_of(three_grids()));
  REQUIRE(!status.ok());
  CHECK(status.error().message == "plan: error: grid l0.attend: operand l7.k is not in the manifest");
}

}  // namespace
}  // namespace mkrt
