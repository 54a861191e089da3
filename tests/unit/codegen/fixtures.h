// These fixtures schedule small models for the tests of codegen/.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "scheduler/events/events.h"
#include "scheduler/place/place.h"
#include "scheduler/tiling/fuse.h"
#include "scheduler/tiling/split.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc::test {

// Returns the schedule of a config.json for a machine. `splits` says which products are split, and how far.
inline Schedule scheduled(const std::string& config, const char* machine = "emulator",
                          const std::vector<SplitRule>& splits = {}, const ModelOptions& options = {}) {
  const Result<OpGraph> graph = graph_of(config, options);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  const Result<TaskProgram> program = fuse(graph.value());
  REQUIRE_MESSAGE(program.ok(), program.error().message);
  const Result<TaskProgram> split = split_as_asked(program.value(), splits);
  REQUIRE_MESSAGE(split.ok(), split.error().message);
  const Result<TaskProgram> with_events = derive_events(split.value(), {});
  REQUIRE_MESSAGE(with_events.ok(), with_events.error().message);
  Result<Schedule> schedule = place(with_events.value(), load_machine(machine).value());
  REQUIRE_MESSAGE(schedule.ok(), schedule.error().message);
  return schedule.value();
}

}  // namespace mkc::test
