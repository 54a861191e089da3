#include "scheduler/events.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "scheduler/fuse.h"
#include "scheduler/place.h"
#include "scheduler/prove.h"
#include "tests/unit/frontend_fixtures.h"

namespace mkc {
namespace {

TEST_CASE("the events of every family make schedules that prove accepts") {
  for (const std::string& config :
       {test::llama_config(), test::qwen2_config(), test::qwen3_config(), test::mistral_config()}) {
    Result<TaskProgram> fused = fuse(test::graph_of(config).value());
    REQUIRE(fused.ok());
    Result<TaskProgram> program = derive_events(fused.value(), {});
    REQUIRE(program.ok());
    const Result<Schedule> schedule = place(program.value(), load_machine("emulator").value(), {3});
    REQUIRE(schedule.ok());
    const Result<ProofReport> report = prove(schedule.value());
    REQUIRE_MESSAGE(report.ok(), report.error().message);
    CHECK(report.value().deadlock_free_for_all);
  }
}

}  // namespace
}  // namespace mkc
