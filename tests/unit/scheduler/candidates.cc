#include <doctest/doctest.h>

#include <algorithm>

#include "scheduler/search/search.h"
#include "scheduler/tiling/fuse.h"
#include "scheduler/tiling/split.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

// Returns five layers for steps of `requests` requests. The products o and down have 160 strips, as in
// Qwen3-4B.
TaskProgram layers(uint32_t requests) {
  std::string config = test::llama_config();
  for (const auto& [from, to] : {std::pair{"\"hidden_size\": 32", "\"hidden_size\": 2560"},
                                 {"\"intermediate_size\": 48", "\"intermediate_size\": 9728"},
                                 {"\"max_position_embeddings\": 64", "\"max_position_embeddings\": 1024"},
                                 {"\"num_hidden_layers\": 1", "\"num_hidden_layers\": 5"},
                                 {"\"num_attention_heads\": 4", "\"num_attention_heads\": 32"},
                                 {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 8"}})
    config = test::edited(config, from, to);
  ModelOptions options;
  options.max_tokens = options.max_requests = requests;
  const Result<OpGraph> graph = test::graph_of(config, options);
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  return fuse(graph.value()).value();
}

Machine h100() {
  return load_machine("h100").value();
}

SearchReport searched(const Machine& machine, std::vector<SplitRule> rules = {}, uint32_t requests = 16) {
  SearchOptions options;
  options.costs.workers = machine.workers;
  options.asked.splits = std::move(rules);
  return search(layers(requests), machine, options).value();
}

// Returns the splits that were tried, such as "l*.o in 2 parts".
std::vector<std::string> splits_tried(const SearchReport& report) {
  std::vector<std::string> tried;
  for (const Tried& t : report.tried)
    for (const auto& [grids, parts] : t.candidate.settings.splits)
      tried.push_back(grids + " " + t.candidate.how);
  return tried;
}

TEST_CASE(
    "a product whose strips keep some workers twice as long as others is split where steps get shorter") {
  const SearchReport report = searched(h100());
  CHECK(splits_tried(report) ==
        std::vector<std::string>{"l*.o in 2 parts", "l*.o in 4 parts", "l*.down in 2 parts",
                                 "l*.down in 4 parts", "l*.down in 4 parts, added up by tasks of their own"});
  CHECK_FALSE(report.found.splits.contains("l*.down"));  // 16 requests take longer in 2 parts
  CHECK(searched(h100(), {}, 8).found.splits.contains("l*.down"));
}

TEST_CASE("and is left whole where a finish costs more than it gains") {
  Machine machine = h100();
  machine.notify_ns *= 20;
  const SearchReport report = searched(machine);
  CHECK(splits_tried(report).size() == 5);
  CHECK_FALSE(report.found.splits.contains("l*.down"));
}

TEST_CASE("what a rule fits is not tried, nor are strips that are dealt out evenly") {
  CHECK(splits_tried(searched(h100(), {{"*.down", 1, {}}})).size() == 2);
  Machine even = h100();
  even.workers = 160;
  for (const std::string& tried : splits_tried(searched(even)))
    CHECK(tried.ends_with("in 4 parts, added up by tasks of their own"));
}

TEST_CASE("products of long rows and few strips are tried in parts with finishes that are dealt out") {
  const TaskProgram program = layers(16);
  const auto patterns = [&](const Asked& asked, uint32_t workers) {
    std::vector<std::string> out;
    for (const Candidate& candidate : narrow_candidates(program, asked, workers)) {
      REQUIRE(candidate.settings.splits.size() == 1);
      const std::string& grids = candidate.settings.splits.begin()->first;
      CHECK(candidate.settings.placements ==
            std::map<std::string, PlacementKind>{{grids + "_reduce", PlacementKind::kTable}});
      out.push_back(grids);
    }
    return out;
  };
  // q, k and v share their rows. The weight of o is square, and that of gate_up has more rows than columns.
  // 20 workers have a block of 8 strips each.
  CHECK(patterns({}, 132) == std::vector<std::string>{"l*.down"});
  CHECK(patterns({}, 20).empty());
  CHECK(patterns({false, {{"*.down", 1, {}}}}, 132).empty());
  CHECK(patterns({false, {}, {{"l0.down_reduce", PlacementKind::kInline, {}}}}, 132).empty());
}

TEST_CASE("-O3 splits each of the layers' products, and places what comes of it") {
  const TaskProgram program = layers(16);
  const auto patterns = [](const std::vector<Candidate>& candidates) {
    std::vector<std::string> out;
    for (const Candidate& candidate : candidates)
      for (const auto& [grids, parts] : candidate.settings.splits) out.push_back(grids);
    return out;
  };
  CHECK(patterns(split_candidates(program, {}, {2})) ==
        std::vector<std::string>{"l*.q", "l*.k", "l*.v", "l*.o", "l*.gate_up", "l*.down"});
  const TaskProgram split = derive_events(split_as_asked(program, {{"l*.down", 2, {}}}).value(), {}).value();
  const auto places_reduce = [&](const Asked& asked) {
    const std::vector<Candidate> candidates = placement_candidates(program, split, asked);
    return std::any_of(candidates.begin(), candidates.end(), [](const Candidate& candidate) {
      return candidate.settings.placements.contains("l*.down_reduce");
    });
  };
  CHECK(places_reduce({}));
  CHECK_FALSE(places_reduce({false, {}, {{"l1.down_red*", PlacementKind::kRange, {}}}}));
}

TEST_CASE("kinds of grids that cannot be split in all layers are not tried in parts") {
  TaskProgram program = layers(16);
  for (TaskGrid& grid : program.grids) {
    if (grid.name == "l1.o") grid.body = BodyKind::kExpert;
    if (grid.name == "l1.down") program.tensors[find_operand(grid, "weight")->tensor].dtype = DType::f32;
  }
  for (const Candidate& candidate : split_candidates(program, {}, {2}))
    for (const char* grids : {"l*.o", "l*.down"}) CHECK_FALSE(candidate.settings.splits.contains(grids));
  for (const Candidate& candidate : placement_candidates(program, derive_events(layers(16), {}).value(), {}))
    CHECK_FALSE(candidate.settings.placements.contains("l*.o"));
}

}  // namespace
}  // namespace mkc
