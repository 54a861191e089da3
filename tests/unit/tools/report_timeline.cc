// These tests check bars of a report's timeline: their numbers, and how many are joined where there are too
// many.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tools/report/timeline_json.h"

namespace mkc {
namespace {

using nlohmann::ordered_json;

constexpr double kUs = 1e-3;  // microseconds of a nanosecond

// A span of worker 0. `begin` and `end` are nanoseconds.
TimelineSpan span(uint32_t grid, uint32_t task, double begin, double end, bool loader = false,
                  bool waits = false) {
  return {0, loader, waits, GridId{grid}, task, 1, begin * kUs, end * kUs};
}

TEST_CASE("a bar has its grid, its tasks, the gap before it, its length and its wait for the ring") {
  Timeline timeline{"step", 2, {span(3, 7, 0, 40, false, true), span(3, 7, 40, 100), span(1, 0, 130, 150)}};
  timeline.spans[1].ring_us = 25 * kUs;
  timeline.spans[2].worker = 1;
  const ordered_json json = timeline_json(timeline);
  CHECK(json["joined"] == 0);
  REQUIRE(json["rows"].size() == 2);
  CHECK(json["rows"][0]["bars"] == ordered_json{7, 7, 1, 0, 40, 0, 6, 7, 1, 0, 60, 25});
  CHECK(json["rows"][1] == ordered_json{{"worker", 1}, {"loader", false}, {"bars", {2, 0, 1, 130, 20, 0}}});
}

TEST_CASE("copies of a loader for one grid without time between them are one bar") {
  const Timeline timeline{"step",
                          1,
                          {span(0, 0, 0, 10, true), span(0, 1, 10, 20, true), span(0, 2, 25, 30, true),
                           span(1, 0, 30, 40, true)}};
  CHECK(timeline_json(timeline)["rows"][0]["bars"] ==
        ordered_json{0, 0, 2, 0, 20, 0, 0, 2, 1, 5, 5, 0, 2, 0, 1, 0, 10, 0});
}

TEST_CASE("tasks of a grid are joined only where there are too many bars, and grids never") {
  Timeline timeline{"step", 1, {}};
  for (uint32_t task = 0; task < 100; ++task)
    timeline.spans.push_back(span(0, task, 30 * task, 30 * task + 20));
  timeline.spans.push_back(span(1, 0, 3000, 3010));
  CHECK(timeline_json(timeline, 101)["rows"][0]["bars"].size() == 6 * 101);
  const ordered_json json = timeline_json(timeline, 100);
  CHECK(json["joined"] == 16);
  CHECK(json["rows"][0]["bars"] == ordered_json{0, 0, 100, 0, 2990, 0, 2, 0, 1, 10, 10, 0});
  CHECK(timeline_json(timeline, 1)["rows"][0]["bars"].size() == 12);  // two grids are two bars
}

TEST_CASE("readings of the emulator's clock stay as they are") {
  Timeline timeline{"counted", 1, {}};
  timeline.timed = false;
  timeline.spans.push_back({0, false, false, GridId{0}, 0, 1, 5, 9});
  CHECK(timeline_json(timeline)["rows"][0]["bars"] == ordered_json{0, 0, 1, 5, 4, 0});
}

}  // namespace
}  // namespace mkc
