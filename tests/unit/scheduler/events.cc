#include "scheduler/events/events.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "ir/values.h"
#include "scheduler/place/place.h"
#include "scheduler/proof/prove.h"
#include "scheduler/simulate/simulate.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"
#include "tests/unit/scheduler/events_check.h"

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
  }
}

struct Sizes {
  int64_t hidden, heads, kv_heads, head_dim, feed_forward, vocab, layers;
};

TaskProgram derived(const Sizes& s, const EventCosts& costs, std::vector<std::string>* reasons = nullptr) {
  const std::string config = fmt::format(
      R"({{"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
"hidden_size": {}, "num_attention_heads": {}, "num_key_value_heads": {}, "head_dim": {},
"intermediate_size": {}, "vocab_size": {}, "num_hidden_layers": {}, "max_position_embeddings": 600,
"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "torch_dtype": "bfloat16"}})",
      s.hidden, s.heads, s.kv_heads, s.head_dim, s.feed_forward, s.vocab, s.layers);
  const Result<OpGraph> graph = test::graph_of(config);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  Result<TaskProgram> fused = fuse(graph.value());
  REQUIRE(fused.ok());
  Result<TaskProgram> program = derive_events(fused.value(), costs, reasons);
  REQUIRE(program.ok());
  return program.value();
}

const Event& event_named(const TaskProgram& program, std::string_view name) {
  for (const Event& event : program.events)
    if (event.name == name) return event;
  MKC_BUG("no such event");
}

using Requests = std::vector<StepRequest>;
const std::vector<Requests> kSteps = {{{1, 1}},    {{1, 257}}, {{7, 7}},
                                      {{16, 260}}, {{3, 513}}, {{1, 300}, {5, 9}, {1, 1}, {2, 257}}};

TEST_CASE("at awkward sizes every count is exact and every dependence of elements is waited for") {
  std::mt19937 random(7);
  const auto pick = [&](std::vector<int64_t> from) { return from[random() % from.size()]; };
  std::vector<Sizes> models = {
      {72, 3, 1, 40, 100, 1009, 2}, {72, 6, 3, 40, 100, 127, 1}, {40, 4, 4, 8, 24, 50, 1}};
  for (int i = 0; i < 6; ++i) {
    const int64_t kv_heads = pick({1, 2, 3, 5});
    models.push_back({pick({24, 40, 72}), kv_heads * pick({1, 2, 3}), kv_heads, pick({2, 8, 16, 24, 40, 48}),
                      pick({24, 50, 100}), pick({31, 50, 128}), 1});
  }
  for (const Sizes& sizes : models) {
    const TaskProgram program = derived(sizes, {});
    for (const Requests& step : kSteps) {
      CAPTURE(sizes.heads);
      CAPTURE(sizes.kv_heads);
      CAPTURE(sizes.head_dim);
      CAPTURE(step.size());
      CAPTURE(step[0].kv_len);
      CHECK(test::event_fault(program, step_values(program.symbols, step)) == "");
    }
  }
}

TEST_CASE("the check sees a lost notification, a wrong count and a wait for the wrong head") {
  const Sizes sizes{72, 6, 3, 40, 100, 50, 1};
  const auto fault_after = [&](auto change) {
    TaskProgram program = derived(sizes, {});
    change(program);
    return test::event_fault(program, step_values(program.symbols, Requests{{2, 5}}));
  };
  const auto grid = [](TaskProgram& program, std::string_view name) -> TaskGrid& {
    for (TaskGrid& g : program.grids)
      if (g.name == name) return g;
    MKC_BUG("no such grid");
  };
  CHECK(fault_after([&](TaskProgram& p) { grid(p, "l0.k").notifies.clear(); }) != "");
  CHECK(fault_after([&](TaskProgram& p) { p.events[EventId{0}].expect = 1; }) ==
        "a cell of @l0.q_ready expects 1 of 2");
  CHECK(fault_after([&](TaskProgram& p) { grid(p, "l0.attend").waits[0].cell[0] = 0; }) ==
        "%l0.attend does not wait for %l0.q");
}

TEST_CASE("queries, keys and values of a head complete one cell; strips across heads count for both") {
  std::vector<std::string> reasons;
  const TaskProgram program = derived({72, 6, 3, 40, 100, 50, 1}, {}, &reasons);
  const Event& ready = event_named(program, "l0.attend_ready");
  // Head 1 has columns 80 to 159 of q, which are strips 5 to 9. The columns 40 to 79 of k and v are strips 2
  // to 4.
  const auto expected = [&](const Requests& step) {
    return evaluate(ready.expect, step_values(program.symbols, step), std::vector<int64_t>{1});
  };
  CHECK(expected({{1, 300}, {8, 9}}) == 5 + 3 + 3);
  CHECK(expected({{1, 300}, {9, 9}, {17, 300}}) == 5 + 3 + 3 + 1 + 2);  // append has tasks of 8 rows
  CHECK(reasons.size() == program.events.size());
  for (const std::string& reason : reasons) CHECK_FALSE(reason.empty());
}

TEST_CASE("grids that depend on the same tasks wait for one event, and implied waits are dropped") {
  const TaskProgram program = derived({72, 6, 3, 40, 100, 50, 2}, {});
  for (const TaskGrid& grid : program.grids) {
    CHECK(grid.waits.size() <= 1);
    // down also reads the residual, but a completed gate_up implies a completed o.
    CHECK(grid.notifies.size() <= (grid.name.ends_with(".k") || grid.name.ends_with(".v") ? 2 : 1));
  }
  // Each layer has 7 events: for q, k and v, append, attend, combine, o, gate_up and down. Two more are for
  // logits and sample.
  CHECK(program.events.size() == 2 * 7 + 2);
}

TEST_CASE("where a further notification is dear there is one cell") {
  const Sizes sizes{72, 6, 3, 40, 100, 50, 1};
  CHECK(event_named(derived(sizes, {}), "l0.attend_ready").dims.size() == 1);
  std::vector<std::string> reasons;
  const TaskProgram program = derived(sizes, {.notify_ns = 1e6}, &reasons);
  CHECK(event_named(program, "l0.attend_ready").dims.empty());
  CHECK(test::event_fault(program, step_values(program.symbols, Requests{{3, 300}})) == "");
}

TEST_CASE("a row block's combine waits for its own pieces alone") {
  const TaskProgram program = derived({72, 6, 3, 40, 100, 50, 1}, {});
  const Event& ready = event_named(program, "l0.combine_ready");
  // The last request has 9 rows: 8 in block 0, and its last row in block 3.
  const std::vector<int64_t> values = step_values(program.symbols, Requests{{1, 300}, {1, 1}, {9, 769}});
  REQUIRE(ready.dims.size() == 2);
  CHECK(evaluate(ready.dims[0], values) == 3);
  CHECK(evaluate(ready.dims[1], values) == 4);
  for (const auto& [block, pieces] : {std::pair{0, 3}, {1, 2}, {2, 1}, {3, 4}})
    CHECK(evaluate(ready.expect, values, std::vector<int64_t>{2, block}) == pieces);
}

TEST_CASE("a request's context comes from memory once, however many blocks its rows are cut into") {
  const Machine machine = load_machine("emulator").value();
  const Schedule schedule = place(derived({72, 6, 3, 40, 100, 50, 1}, {}), machine, {3}).value();
  const auto bytes = [&](const StepRequest& request) {
    const std::vector<StepRequest> step{request};
    return simulate(schedule, machine, step_values(schedule.program.symbols, step)).value().bytes;
  };
  // The last block has one row in both steps. Each of the chunk's 16 other tokens reads an embedding of 72
  // columns of 2 bytes.
  CHECK(bytes({17, 316}) == bytes({1, 300}) + 16 * 72 * 2);
}

}  // namespace
}  // namespace mkc
