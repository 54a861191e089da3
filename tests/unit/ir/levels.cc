#include <doctest/doctest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "scheduler/events/events.h"
#include "scheduler/machine/machine.h"
#include "scheduler/place/place.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

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

template <class Level>
void check_valid(const Level& value) {
  for (const Error& error : verify(value)) FAIL_CHECK(error.message);
  check_round_trip(value);
}

Schedule placed(const TaskProgram& program, const char* machine) {
  Result<Schedule> schedule = place(program, load_machine(machine).value());
  REQUIRE_MESSAGE(schedule.ok(), schedule.error().message);
  return schedule.value();
}

void check_levels(const std::string& config) {
  const OpGraph graph = test::graph_of(config).value();
  check_valid(graph);
  const TaskProgram fused = fuse(graph).value();
  check_valid(fused);
  const TaskProgram program = derive_events(fused, {}).value();
  check_valid(program);
  check_valid(placed(program, "emulator"));
  check_valid(placed(program, "h100"));
}

// Returns a config whose heads of 40 columns cross strips of 16 rows. The other sizes are no multiples of
// tiles.
std::string awkward(std::string config, const std::string& kv_heads) {
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"hidden_size\": 32", "hidden_size\": 120"},
        {"intermediate_size\": 48", "intermediate_size\": 84"},
        {"embeddings\": 64", "embeddings\": 1000"},
        {"attention_heads\": 4", "attention_heads\": 3"},
        {"hidden_layers\": 1", "hidden_layers\": 2"},
        {"key_value_heads\": 2", "key_value_heads\": " + kv_heads},
        {"vocab_size\": 100", "vocab_size\": 1009"}})
    config = test::edited(std::move(config), from, to);
  return config;
}

TEST_CASE("every level of every family is valid and reads back from its text") {
  for (const std::string& config :
       {test::llama_config(), test::qwen2_config(), test::qwen3_config(), test::mistral_config()}) {
    check_levels(config);
    check_levels(awkward(config, "1"));
    check_levels(awkward(config, "3"));
  }
}

}  // namespace
}  // namespace mkc
