#include <doctest/doctest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "scheduler/events.h"
#include "scheduler/fuse.h"
#include "scheduler/machine.h"
#include "scheduler/place.h"
#include "tests/unit/frontend_fixtures.h"
#include "tests/unit/scheduler_programs.h"

namespace mkc {
namespace {

template <class Level>
void check_round_trip(const Level& value) {
  const std::string text = print(value);
  Result<Module> module = parse_mkir(text, "printed.mkir");
  REQUIRE_MESSAGE(module.ok(), module.error().message);
  const Level& back = std::get<Level>(module.value());
  CHECK(back == value);
  CHECK(print(back) == text);
}

Schedule placed(const TaskProgram& program, const char* machine) {
  Result<Schedule> schedule = place(program, load_machine(machine).value());
  REQUIRE_MESSAGE(schedule.ok(), schedule.error().message);
  return schedule.value();
}

TEST_CASE("every level of every family reads back from its text") {
  for (const std::string& config :
       {test::llama_config(), test::qwen2_config(), test::qwen3_config(), test::mistral_config()}) {
    const OpGraph graph = test::graph_of(config).value();
    check_round_trip(graph);
    const TaskProgram fused = fuse(graph).value();
    check_round_trip(fused);
    const TaskProgram program = derive_events(fused, {}).value();
    check_round_trip(program);
    check_round_trip(placed(program, "emulator"));
    check_round_trip(placed(program, "h100"));
  }
}

}  // namespace
}  // namespace mkc
