#include <doctest/doctest.h>

#include "scheduler/fuse.h"
#include "scheduler/split_by_cost.h"
#include "tests/unit/frontend_fixtures.h"

namespace mkc {
namespace {

// Two layers whose o and down have 160 strips, as Qwen3-4B's, for steps of 64 requests.
TaskProgram layers() {
  std::string config = test::llama_config();
  for (const auto& [from, to] : {std::pair{"\"hidden_size\": 32", "\"hidden_size\": 2560"},
                                 {"\"intermediate_size\": 48", "\"intermediate_size\": 9728"},
                                 {"\"max_position_embeddings\": 64", "\"max_position_embeddings\": 1024"},
                                 {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2"},
                                 {"\"num_attention_heads\": 4", "\"num_attention_heads\": 32"},
                                 {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 8"}})
    config = test::edited(config, from, to);
  ModelOptions options;
  options.max_tokens = options.max_requests = 64;
  const Result<OpGraph> graph = test::graph_of(config, options);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return fuse(graph.value()).value();
}

const TaskGrid& grid_of(const TaskProgram& program, std::string_view name) {
  for (const TaskGrid& grid : program.grids)
    if (grid.name == name) return grid;
  MKC_BUG("no such grid");
}

struct Split {
  TaskProgram program;
  std::vector<SplitChoice> choices;
};
Split split_on(const Machine& machine, SplitOptions options = {}) {
  Split split;
  options.costs.workers = machine.workers;
  options.scheduler = Scheduler::kAuto;
  split.program = split_products(layers(), machine, options, &split.choices).value();
  return split;
}

Machine h100() {
  return load_machine("h100").value();
}

TEST_CASE(
    "a product whose strips keep some workers twice as long as others is split where steps get shorter") {
  const Split split = split_on(h100());
  REQUIRE(split.choices.size() == 2);
  CHECK(split.choices[0].grids == "l*.o");
  CHECK(split.choices[1].grids == "l*.down");
  CHECK_MESSAGE(split.choices[1].parts > 1, split.choices[1].reason);
  CHECK(column_parts(grid_of(split.program, "l0.down")) == split.choices[1].parts);
  CHECK(grid_of(split.program, "l0.down_finish").body == BodyKind::kFinish);
  CHECK(split.choices[1].reason.starts_with("split into "));
}

TEST_CASE("and is left whole where a finish costs more than it gains") {
  Machine machine = h100();
  machine.notify_ns *= 20;
  const Split split = split_on(machine);
  REQUIRE(split.choices.size() == 2);
  CHECK(split.choices[1].parts == 1);
  CHECK(split.choices[1].reason.starts_with(
      "not split; simulated steps in 2 parts to those in one: 1 request "));
  CHECK(split.program == layers());
}

TEST_CASE(
    "what a rule fits is not tried, nor are strips that are dealt out evenly but in a thorough search") {
  SplitOptions options;
  options.rules = {{"*.down", 1, {}}};
  CHECK(split_on(h100(), options).choices.size() == 1);
  options.thorough = true;
  const Split split = split_on(h100(), options);
  REQUIRE(split.choices.size() == 5);
  CHECK(split.choices[4].grids == "l*.gate_up");
  Machine even = h100();
  even.workers = 160;
  CHECK(split_on(even).choices.empty());
}

}  // namespace
}  // namespace mkc
