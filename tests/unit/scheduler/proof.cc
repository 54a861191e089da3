// These tests run the proof for all values on programs of real families. They check what it accepts, and one
// fault of each kind.
#include <doctest/doctest.h>

#include "ir/verify.h"
#include "scheduler/events/events.h"
#include "scheduler/place/place.h"
#include "scheduler/proof/placements.h"
#include "scheduler/proof/prove.h"
#include "scheduler/tiling/fuse.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

Schedule schedule_of(const std::string& config, Scheduler scheduler = Scheduler::kStatic,
                     bool keep_activations = false) {
  const Result<OpGraph> graph = test::graph_of(config);
  REQUIRE_MESSAGE(graph.ok(), graph.error().message);
  Result<TaskProgram> program = derive_events(fuse(graph.value()).value(), {});
  REQUIRE(program.ok());
  PlaceOptions options{3};
  options.scheduler = scheduler;
  options.keep_activations = keep_activations;
  return place(program.value(), load_machine("emulator").value(), options).value();
}

std::string two_layers(const std::string& config) {
  return test::edited(config, "\"num_hidden_layers\": 1", "\"num_hidden_layers\": 2");
}

std::string verdict(const Schedule& s) {
  const std::vector<Error> errors = verify(s);
  if (!errors.empty()) return errors[0].message;
  const Result<ProofReport> report = prove(s);
  return report.ok() ? "proved" : report.error().message;
}

Event& event(Schedule& s, std::string_view name) {
  for (Event& e : s.program.events.items)
    if (e.name == name) return e;
  MKC_BUG("no such event");
}
TaskGrid& grid(Schedule& s, std::string_view name) {
  for (TaskGrid& g : s.program.grids.items)
    if (g.name == name) return g;
  MKC_BUG("no such grid");
}
Expr symbol_named(const Schedule& s, std::string_view name) {
  for (SymbolId id : s.program.symbols.ids())
    if (s.program.symbols[id].name == name) return symbol(id);
  MKC_BUG("no such symbol");
}

TEST_CASE("schedules of every family are proved for all values, statically and by tickets") {
  for (const std::string& config : {test::llama_config(), test::qwen2_config(), test::qwen3_config(),
                                    test::mistral_config(), test::qwen3_moe_config()})
    for (const Scheduler scheduler : {Scheduler::kStatic, Scheduler::kDynamic}) {
      const Schedule s = schedule_of(two_layers(config), scheduler);
      CHECK(verdict(s) == "proved");
      const ProofReport report = prove(s).value();
      CHECK(report.symbolic > 100);
      CHECK(report.lemmas >= 8);
      CHECK(report.enumerated == 0);
    }
}

TEST_CASE("a count that is wrong for one number of tokens is refused there") {
  Schedule s = schedule_of(test::llama_config());
  const Expr t = symbol_named(s, "T");
  event(s, "l0.q_ready").expect = t + max(0, 1 - max(t - 5, 5 - t));
  CHECK(verdict(s).starts_with("error: @l0.q_ready[] expects 6 notifications, 5 tasks notify it (at T = 5"));
  event(s, "l0.q_ready").expect = t + min(t - 1, 64 - t);
  CHECK(verdict(s).starts_with("error: @l0.q_ready[] expects "));
}

TEST_CASE("a count that is wrong from some number of requests on is refused at values that a step may have") {
  Schedule s = schedule_of(test::llama_config());
  event(s, "l0.o_ready").expect = event(s, "l0.o_ready").expect + max(0, symbol_named(s, "B") - 6);
  CHECK(verdict(s).starts_with("error: @l0.o_ready[] expects "));
}

TEST_CASE("a count that is right in another form is accepted, value by value") {
  Schedule s = schedule_of(test::llama_config());
  const Expr t = symbol_named(s, "T");
  event(s, "l0.q_ready").expect = floor_div(t * t, t);
  CHECK(verdict(s) == "proved");
  CHECK(prove(s).value().enumerated == 1);
}

TEST_CASE("a count of list elements that is wrong for one number of tokens is refused") {
  Schedule s = schedule_of(test::llama_config());
  Event& parts = event(s, "l0.combine_ready");
  parts.expect = parts.expect + max(0, 1 - max(symbol_named(s, "T") - 5, 5 - symbol_named(s, "T")));
  CHECK(verdict(s).starts_with("error: @l0.combine_ready["));
}

TEST_CASE("a count of list elements in another form is unproved, with the cell that it is of") {
  Schedule s = schedule_of(test::llama_config());
  Event& parts = event(s, "l0.combine_ready");
  parts.expect = floor_div(parts.expect * parts.expect, parts.expect);
  CHECK(verdict(s).starts_with("error: unproved: @l0.combine_ready[0, $1] expects "));
}

TEST_CASE("tasks whose number depends on a coordinate that no cell tells cannot be counted") {
  Schedule s = schedule_of(test::llama_config());
  for (Symbol& symbol : s.program.symbols.items)
    if (symbol.name.ends_with("kv_len")) symbol.bounds.hi = 200;  // one KV tile holds 200 positions
  const auto wait =
      std::find_if(grid(s, "l0.o").waits.begin(), grid(s, "l0.o").waits.end(),
                   [&](const Wait& w) { return s.program.events[w.event].name == "l0.o_ready"; });
  s.program.events[wait->event].expect = 4 * symbol_named(s, "blocks");
  grid(s, "l0.attend").notifies.push_back({wait->event, {}});
  const Result<ProofReport> report = prove(s);
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().message ==
        "error: unproved: %l0.attend notifies @l0.o_ready in a way that cannot be counted: the number of its "
        "tasks depends on a coordinate that its cells do not tell");
}

TEST_CASE("a coordinate that decides two dims of the cells leaves most of them without a notification") {
  Schedule s = schedule_of(test::llama_config());
  const GridId notifier{static_cast<uint32_t>(&grid(s, "l0.gate_up") - s.program.grids.items.data())};
  const Expr tasks = s.program.grids[notifier].coords[0].extent;
  Event diagonal;
  diagonal.name = "diagonal";
  diagonal.dims = {tasks, tasks};
  diagonal.expect = 1;
  s.event_base.push_back(s.event_cells);
  s.event_cells += static_cast<uint32_t>(tasks.constant() * tasks.constant());
  s.program.grids[notifier].notifies.push_back(
      {s.program.events.add(diagonal), {{coord(0), 1}, {coord(0), 1}}});
  CHECK(prove(s).error().message.starts_with(
      "error: @diagonal[0, 1] expects 1 notifications, 0 tasks notify it"));
}

TEST_CASE("experts that all write the rows of the second one are refused") {
  Schedule s = schedule_of(test::qwen3_moe_config());
  const Expr starts = element(find_symbol(s.program.symbols, "active_expert_begin"), Expr(1));
  Range& rows = grid(s, "l0.expert_down").writes[0].region[0];
  rows.offset = starts;
  rows.size = element(find_symbol(s.program.symbols, "active_expert_rows"), coord(1));
  CHECK_FALSE(prove(s).ok());
}

TEST_CASE("a cell that is missed for one value is unproved") {
  Schedule s = schedule_of(test::llama_config());
  const Expr t = symbol_named(s, "T");
  grid(s, "l0.attend").notifies[0].cells[0].size = 1 - max(0, 1 - max(t - 12, 12 - t));
  CHECK(verdict(s).ends_with(
      "V35: grid %l0.combine: it cannot be placed by inline: %l0.attend does not notify cell by cell of "
      "@l0.combine_ready"));
}

TEST_CASE("a layer that uses another layer's cache is refused") {
  Schedule s = schedule_of(two_layers(test::llama_config()));
  const TensorId other = find_operand(grid(s, "l0.attend"), "k_cache", true)->tensor;
  for (auto* accesses : {&grid(s, "l1.attend").reads, &grid(s, "l1.attend").writes})
    for (Access& a : *accesses)
      if (a.role == "k_cache") a.tensor = other;
  CHECK(verdict(s) == "error: %l0.attend and %l1.attend both attend to the cache %l0.k_cache");
}

TEST_CASE("a region that is not what the body touches is refused") {
  Schedule s = schedule_of(test::llama_config());
  grid(s, "l0.attend").writes[1].region[3].size = 0;
  CHECK(verdict(s).find("V33: grid %l0.attend writes v_cache: dim 3 is 0:+0, its body touches 0:+") !=
        std::string::npos);
}

TEST_CASE("a cell that only another grid notifies orders nothing of the grids before the first") {
  // down waits for a cell that v alone completes, and reads what o writes. gate_up waits for o, but does not
  // notify this cell.
  Schedule s = schedule_of(test::llama_config(), Scheduler::kStatic, true);
  TaskGrid &gate_up = grid(s, "l0.gate_up"), &down = grid(s, "l0.down"), &v = grid(s, "l0.v");
  const EventId ready = down.waits[0].event;
  Event& cells = s.program.events[ready];
  const auto tasks_of = [](const TaskGrid& g) { return g.coords[0].extent.constant(); };
  cells.expect = tasks_of(gate_up) + (tasks_of(v) - tasks_of(gate_up)) * coord(0);
  cells.dims = {2};
  gate_up.notifies[0].cells = {{0, 1}};
  v.notifies.push_back({ready, {{1, 1}}});
  down.waits[0].cell = {1};
  std::erase_if(down.reads, [](const Access& a) { return a.role == "x"; });
  for (size_t e = ready.index + 1; e < s.event_base.size(); ++e) ++s.event_base[e];
  ++s.event_cells;
  CHECK(prove(s).error().message == "error: unproved: %l0.down reads %l0.y after %l0.o has written it");
}

TEST_CASE("what a cell's one notifier has waited for is there for whoever waits for the cell") {
  Schedule s = schedule_of(test::llama_config(), Scheduler::kStatic, true);
  const TensorId x = grid(s, "embed").writes[0].tensor;
  const std::vector<Expr>& shape = s.program.tensors[x].shape;
  grid(s, "l0.combine").reads.push_back({"x", x, {{0, shape[0]}, {0, shape[1]}}, false});
  const auto said = [&] {
    const Result<ProofReport> report = prove(s);
    return report.ok() ? "" : report.error().message;
  };
  CHECK(said() == "");
  grid(s, "l0.attend").waits.clear();
  CHECK(said() != "");
}

TEST_CASE("an attention that does not wait for what is appended is refused") {
  Schedule s = schedule_of(test::llama_config());
  Event& ready = event(s, "l0.attend_ready");
  TaskGrid& append = grid(s, "l0.append");
  std::erase_if(append.notifies, [&](const Notify& n) { return &s.program.events[n.event] == &ready; });
  for (Event& e : s.program.events.items)
    if (e.name == "l0.attend_ready")
      e.expect = e.expect - 2 * max(0, symbol_named(s, "blocks") - symbol_named(s, "B"));
  const std::string found = verdict(s);
  CHECK(found != "proved");
  CHECK(found.find("l0.attend") != std::string::npos);
}

TEST_CASE("grids without one order are refused with the cycle") {
  Schedule s = schedule_of(test::llama_config());
  for (std::vector<Segment>& stream : s.streams) {
    const auto find = [&](const char* name) {
      return std::find_if(stream.begin(), stream.end(),
                          [&](const Segment& x) { return s.program.grids[x.grid].name == name; });
    };
    if (find("embed") != stream.end() && find("sample") != stream.end())
      std::swap(*find("embed"), *find("sample"));
  }
  CHECK(verdict(s).starts_with("error: deadlock: "));
}

TEST_CASE("memory is not taken from a tensor before all its readers are done, whoever has no task") {
  Schedule s = schedule_of(test::llama_config());
  const auto slot = [&](std::string_view name) -> Slot& {
    for (TensorId t : s.program.tensors.ids())
      if (s.program.tensors[t].name == name) return s.slots[t.index];
    MKC_BUG("no such tensor");
  };
  slot("l0.attended").offset = slot("l0.q").offset;
  CHECK(verdict(s) != "proved");
}

TEST_CASE("the ring has as many stages as products of some tokens hold at once") {
  Schedule s = schedule_of(test::llama_config());
  CHECK(proof::min_stages(s.program) == 4);
  s.ring.stages = 3;
  CHECK(verdict(s) == "error: the ring has 3 stages, expected at least 4: so many are held at once");
  for (Symbol& symbol : s.program.symbols.items)
    if (symbol.name == "T") symbol.bounds.hi = 8;
  CHECK(proof::min_stages(s.program) == 1);
  // Rows of another symbol count by its bounds.
  Schedule other = s;
  const Expr rows = symbol(other.program.symbols.add({"S", {1, 64}, {}}));
  for (TaskGrid& grid : other.program.grids.items)
    if (grid.name == "l0.o") other.program.tensors[find_operand(grid, "x")->tensor].shape[0] = rows;
  CHECK(proof::min_stages(other.program) == 4);
  const Result<OpGraph> graph = test::graph_of(test::edited(test::llama_config(), "bfloat16", "float32"));
  CHECK(proof::min_stages(fuse(graph.value()).value()) == 1);
}

}  // namespace
}  // namespace mkc
