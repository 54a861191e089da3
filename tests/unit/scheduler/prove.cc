#include "scheduler/proof/prove.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "scheduler/place/place.h"
#include "scheduler/proof/check_values.h"
#include "scheduler/proof/chosen_values.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using test::find_event;
using test::find_grid;
using test::find_tensor;
using test::model_program;

Schedule placed(const test::ModelShape& shape = {}, uint32_t workers = 3) {
  Result<Schedule> schedule = place(model_program(shape), load_machine("emulator").value(), {workers});
  REQUIRE(schedule.ok());
  return schedule.value();
}

// These models have no lists. The proof decides at chosen values what it cannot show of them.
std::string proof_error(const Schedule& schedule) {
  return test::refusal(schedule);
}

TEST_CASE("placed models are accepted at chosen values on any number of workers") {
  for (uint32_t workers : {1u, 2u, 3u, 7u, 64u}) {
    CAPTURE(workers);
    const Result<proof::ValuesChecked> checked = proof::check_at_values(placed({.layers = 3}, workers));
    REQUIRE_MESSAGE(checked.ok(), checked.error().message);
    CHECK(checked.value().values.size() >= 8);
  }
}

TEST_CASE("values without lists are those around each divisor, and both ends of the bounds") {
  for (const auto& divide : {floor_div, ceil_div, mod}) {
    TaskProgram program;
    const Expr n = symbol(program.symbols.add({"n", {1, 100}, {}}));
    Event event;
    event.expect = divide(n, 7);
    program.events.add(event);
    const std::vector<std::vector<int64_t>> values = chosen_values(program);
    for (const int64_t wanted : {1, 7, 8, 98, 99, 100})
      CHECK(std::find(values.begin(), values.end(), std::vector{wanted}) != values.end());
  }
}

TEST_CASE("a model with caches and without lists is unproved") {
  const Result<ProofReport> report = prove(placed());
  REQUIRE_FALSE(report.ok());
  CHECK(report.error().message == "error: unproved: %l0.k_cache is filled: it has no append grid");
}

// Each mutant below is an accepted schedule with one fault.

Segment& segment_of(Schedule& s, uint32_t worker, const char* grid) {
  for (Segment& segment : s.streams[worker])
    if (segment.grid == find_grid(s.program, grid)) return segment;
  MKC_BUG("no such segment");
}

TEST_CASE("a task that no stream holds is refused") {
  Schedule s = placed();
  segment_of(s, 1, "l0.gate_up").count -= 1;
  CHECK(proof_error(s) == "error: no stream runs task 7 of %l0.gate_up");
}

TEST_CASE("a task that two streams hold is refused") {
  Schedule s = placed();
  segment_of(s, 1, "l0.gate_up").first -= 1;
  CHECK(proof_error(s) == "error: task 3 of %l0.gate_up is in the streams twice");
}

TEST_CASE("tasks past the end of a grid are refused") {
  Schedule s = placed();
  segment_of(s, 2, "l0.gate_up").count += 1;
  CHECK(proof_error(s) == "error: a stream runs tasks 8 to 12 of %l0.gate_up, which has 12");
}

TEST_CASE("a range grid that a worker's stream leaves out is refused") {
  Schedule s = placed();
  std::erase_if(s.streams[2], [&](const Segment& x) { return x.grid == find_grid(s.program, "l1.attend"); });
  CHECK(proof_error(s) ==
        "error: %l1.attend is placed by range, but the stream of worker 2 has 0 segments of it, expected 1");
}

TEST_CASE("a table grid of symbolic extent is refused") {
  Schedule s = placed();
  s.placements[find_grid(s.program, "embed").index].kind = PlacementKind::kTable;
  CHECK(proof_error(s) == "error: %embed is placed by table, but its extent depends on symbols");
}

TEST_CASE("an inline grid with two waits, or in a stream, is refused") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.combine")].waits.push_back(
      {find_event(s.program, "x0_ready"), {}});
  CHECK(proof_error(s) == "error: %l0.combine runs inline, but has 2 waits, expected 1");
  s = placed();
  s.streams[0].push_back({find_grid(s.program, "l0.combine"), 0, 1});
  CHECK(proof_error(s) == "error: %l0.combine runs inline, but is in the stream of worker 0");
}

Schedule claimed(uint32_t workers = 3) {
  PlaceOptions options{workers};
  options.scheduler = Scheduler::kDynamic;
  return place(model_program(), load_machine("emulator").value(), options).value();
}

TEST_CASE("grids whose tasks are claimed are accepted") {
  CHECK(proof_error(claimed()) == "");
}

TEST_CASE("a claimed grid that a worker's stream leaves out is refused") {
  Schedule s = claimed();
  std::erase_if(s.streams[1], [&](const Segment& x) { return x.grid == find_grid(s.program, "l0.o"); });
  CHECK(proof_error(s) ==
        "error: %l0.o is placed by queue, but the stream of worker 1 has 0 segments of it, expected 1");
}

TEST_CASE("a log without room for every cell, and tickets that are another's counter, are refused") {
  Schedule s = claimed();
  const EventId next{find_event(s.program, "l0.qkv_ready").index + 1};
  s.event_base[next.index] -= 1;
  CHECK(proof_error(s) == "error: @l0.qkv_ready and @l0.combined overlap in the counters");
  s = claimed();
  const uint32_t tickets = s.placements[find_grid(s.program, "l0.q").index].tickets;
  s.placements[find_grid(s.program, "l0.k").index].tickets = tickets;
  CHECK(proof_error(s) == "error: tickets of %l0.q and tickets of %l0.k overlap in the counters");
  s.placements[find_grid(s.program, "l0.k").index].tickets = s.event_cells;
  CHECK(proof_error(s) == "error: tickets of %l0.k ends at " + std::to_string(s.event_cells + 1) +
                              ", beyond the counters of " + std::to_string(s.event_cells));
}

TEST_CASE("ready tasks whose cell nobody completes are refused") {
  Schedule s = claimed();
  s.program.events[find_event(s.program, "l0.qkv_ready")].expect = 0;
  for (const char* grid : {"l0.q", "l0.k", "l0.v"})
    s.program.grids[find_grid(s.program, grid)].notifies.clear();
  CHECK(
      proof_error(s) ==
      "error: %l0.attend[0, 0] is claimed once it is ready, but nobody completes @l0.qkv_ready[0] (at T = 1, "
      "kv_len = 1)");
}

TEST_CASE("a grid whose tasks do not follow from the cells is not ready") {
  Schedule s = claimed();
  const auto refused = [&](const char* grid) {
    s.placements[find_grid(s.program, grid).index].kind = PlacementKind::kReady;
    return proof_error(s);
  };
  CHECK(refused("l0.o") ==
        "error: %l0.o is placed by ready, but its loader must know the tasks before they are ready");
  s = claimed();
  CHECK(refused("embed") == "error: %embed is placed by ready, but its tasks wait for 0 events");
  s = claimed();
  s.program.grids[find_grid(s.program, "l0.attend")].waits[0].cell[0] = coord(1);
  CHECK(proof_error(s) ==
        "error: %l0.attend is placed by ready, but the cells of @l0.qkv_ready are not its first coordinates");
}

TEST_CASE("a claimed task is not ordered by the stream of the worker that happens to run it") {
  Schedule by_table = placed({}, 1), s = claimed(1);
  for (Schedule* schedule : {&by_table, &s})
    schedule->program.grids[find_grid(s.program, "l0.down")].waits.clear();
  CHECK(proof_error(by_table) == "");
  CHECK(proof_error(s) ==
        "error: %l0.down[0] may read %l0.x2 before %l0.o[0] has written it (at T = 1, kv_len = 1)");
}

TEST_CASE("a grid of which only some tasks are ordered is refused at the first that is not") {
  // Worker 0 alone waits for all of gate_up, before it begins with down.
  Schedule s = placed();
  const GridId down = find_grid(s.program, "l0.down");
  TaskGrid hears;
  hears.name = "hears";
  hears.coords = {{"t", 1}};
  hears.waits = std::exchange(s.program.grids[down].waits, {});
  const GridId added = s.program.grids.add(hears);
  s.placements.emplace_back();
  std::vector<Segment>& stream = s.streams[0];
  const auto at =
      std::find_if(stream.begin(), stream.end(), [&](const Segment& x) { return x.grid == down; });
  REQUIRE(at != stream.end());
  REQUIRE((at->first == 0 && at->count == 2));
  stream.insert(at, {added, 0, 1});
  CHECK(proof_error(s) ==
        "error: %l0.down[2] may read %l0.act before %l0.gate_up[3] has written it (at T = 1, kv_len = 1)");
}

TEST_CASE("a task that waits for a cell by symbol is refused where another task filled it") {
  Schedule s = placed();
  const EventId ready = find_event(s.program, "l0.act_ready");
  s.program.events[ready].dims = {4}, s.program.events[ready].expect = 3;
  s.program.grids[find_grid(s.program, "l0.gate_up")].notifies[0].cells = {{floor_div(coord(0), 3), 1}};
  TaskGrid& down = s.program.grids[find_grid(s.program, "l0.down")];
  down.waits[0].cell = {symbol(SymbolId{0}) - 1};
  for (Access& read : down.reads)
    if (read.role == "x") read.region[1] = {0, 24};
  for (uint32_t& base : s.event_base)
    if (base > s.event_base[ready.index]) base += 3;
  s.event_cells += 3;
  CHECK(proof_error(s) ==
        "error: %l0.down[2] may read %l0.act before %l0.gate_up[2] has written it (at T = 4, kv_len = 64)");
}

TEST_CASE("a dropped wait is refused as an unordered read") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.down")].waits.clear();
  CHECK(proof_error(s) ==
        "error: %l0.down[0] may read %l0.act before %l0.gate_up[7] has written it (at T = 1, kv_len = 1)");
}

TEST_CASE("a dropped notification is refused by count") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.v")].notifies.clear();
  CHECK(proof_error(s) ==
        "error: @l0.qkv_ready[0] expects 4 notifications, 3 tasks notify it (at T = 1, kv_len = 1)");
}

TEST_CASE("an expect that is too high or too low is refused by count") {
  Schedule s = placed();
  s.program.events[find_event(s.program, "l1.x2_ready")].expect = 3;
  CHECK(proof_error(s) ==
        "error: @l1.x2_ready[] expects 3 notifications, 4 tasks notify it (at T = 1, kv_len = 1)");
  s.program.events[find_event(s.program, "l1.x2_ready")].expect = 5;
  CHECK(proof_error(s) ==
        "error: @l1.x2_ready[] expects 5 notifications, 4 tasks notify it (at T = 1, kv_len = 1)");
}

TEST_CASE("an expect that is wrong from the second piece on is refused") {
  Schedule s = placed();
  s.program.events[find_event(s.program, "l0.parts")].expect = 1;
  CHECK(proof_error(s) ==
        "error: @l0.parts[0] expects 1 notifications, 4 tasks notify it (at T = 4, kv_len = 64)");
}

TEST_CASE("cells outside the event are refused") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.attend")].waits[0].cell[0] = coord(0) + 1;
  CHECK(proof_error(s) ==
        "error: %l0.attend[1, 0] waits for @l0.qkv_ready[2], outside its cells [2] (at T = 1, kv_len = 1)");
  s = placed();
  s.program.grids[find_grid(s.program, "l0.k")].notifies[0].cells[0].offset = coord(0) - 1;
  CHECK(proof_error(s) ==
        "error: %l0.k[0] notifies @l0.qkv_ready[-1], outside its cells [2] (at T = 1, kv_len = 1)");
}

TEST_CASE("waiting for the wrong head is refused as an unordered read") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.attend")].waits[0].cell[0] = Expr(1) - coord(0);
  CHECK(proof_error(s) ==
        "error: %l0.attend[1, 0] may read %l0.q before %l0.q[2] has written it (at T = 1, kv_len = 1)");
}

TEST_CASE("segments swapped against their dependence are refused with the cycle") {
  Schedule s = placed({.layers = 1}, 2);
  std::swap(segment_of(s, 0, "l0.gate_up"), segment_of(s, 0, "l0.o"));
  CHECK(
      proof_error(s) ==
      "error: deadlock: %l0.gate_up[0]..%l0.gate_up[5] on worker 0 -stream-> %l0.o[0]..%l0.o[1] on worker 0 "
      "-notify-> @l0.x2_ready[] -wait-> %l0.gate_up[0]..%l0.gate_up[5] on worker 0 (at T = 1, kv_len = 1)");
}

TEST_CASE("a claimed grid in a cycle is named with all its tasks") {
  Schedule s = claimed();
  std::vector<Segment>& stream = s.streams[0];
  const auto place = [&](const char* grid) {
    return std::find_if(stream.begin(), stream.end(),
                        [&](const Segment& x) { return x.grid == find_grid(s.program, grid); });
  };
  REQUIRE(place("embed") < place("l0.q"));
  REQUIRE(place("l0.q") < place("l0.o"));
  const auto deadlock_names = [&](const char* first, const char* second, const char* named) {
    Schedule edited = s;
    std::iter_swap(edited.streams[0].begin() + (place(first) - stream.begin()),
                   edited.streams[0].begin() + (place(second) - stream.begin()));
    const std::string error = proof_error(edited);
    CAPTURE(error);
    CHECK(error.starts_with("error: deadlock: "));
    CHECK(error.find(named) != error.npos);
  };
  deadlock_names("l0.q", "l0.o", "%l0.q[0]..%l0.q[3] on any worker");
  deadlock_names("embed", "l0.q", "%embed[0] on any worker");
}

TEST_CASE("memory shared by tensors that are alive together is refused") {
  Schedule s = placed();
  s.slots[find_tensor(s.program, "l0.x2").index].offset = s.slots[find_tensor(s.program, "x0").index].offset;
  CHECK(proof_error(s) ==
        "error: %l0.o[0] may write %l0.x2 over %x0 before %l0.o[3] is done with it (at T = 1, kv_len = 1)");
}

TEST_CASE("an overwrite of what is still read is refused") {
  // combine of one head overwrites the q of the other head, whose attend tasks may not have begun.
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.combine")].writes.push_back(
      {"out", find_tensor(s.program, "l0.q"), {{0, 1}, {32 * (Expr(1) - coord(0)), 32}}, false});
  CHECK(proof_error(s) ==
        "error: %l0.combine[0] may overwrite %l0.q before %l0.q[2] has written it (at T = 1, kv_len = 1)");
}

TEST_CASE("a task may overwrite what it alone still reads") {
  // o adds to its columns of x0 in place. q, k and v have read them before.
  Schedule s = placed();
  TaskGrid& o = s.program.grids[find_grid(s.program, "l0.o")];
  o.writes.push_back({"out", find_tensor(s.program, "x0"), o.writes[0].region, false});
  CHECK(proof_error(s) == "");
}

TEST_CASE("a read that earlier grids wrote only in part is refused") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.gate_up")].writes[0].region[1].size = 7;
  CHECK(proof_error(s) ==
        "error: %l0.down[0] reads 96 elements of %l0.act, of which earlier grids write 84 (at T = 1, kv_len "
        "= 1)");
}

TEST_CASE("elements that two grids write count once") {
  // o writes 14 of 16 columns and gate_up 7 of 8 over them, so that 8 of 96 columns stay unwritten.
  Schedule s = placed();
  const TensorId act = find_tensor(s.program, "l0.act");
  Access& gate_up = s.program.grids[find_grid(s.program, "l0.gate_up")].writes[0];
  gate_up.region[1].size = 7;
  Region twice = gate_up.region;
  twice[1] = {16 * coord(0), 14};
  s.program.grids[find_grid(s.program, "l0.o")].writes.push_back({"out", act, twice, false});
  CHECK(proof_error(s) ==
        "error: %l0.down[0] reads 96 elements of %l0.act, of which earlier grids write 88 (at T = 1, kv_len "
        "= 1)");
}

TEST_CASE("an output that the step writes in part is refused") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "sample")].writes[0].region[0].size = 0;
  CHECK(proof_error(s) ==
        "error: the host reads 1 elements of %next, of which the step writes 0 (at T = 1, kv_len = 1)");
}

TEST_CASE("tasks of one grid that write the same part are refused") {
  Schedule s = placed();
  s.program.grids[find_grid(s.program, "l0.gate_up")].writes[0].region[1].size = 9;
  CHECK(proof_error(s) ==
        "error: %l0.gate_up[0] writes what %l0.gate_up[1] writes of %l0.act: tasks of one grid must not meet "
        "(at T = 1, kv_len = 1)");
  s.program.grids[find_grid(s.program, "l0.gate_up")].writes[0].region[1] = {0, 96};  // all by every task
  CHECK(proof_error(s) ==
        "error: %l0.gate_up[0] writes what %l0.gate_up[1] writes of %l0.act: tasks of one grid must not meet "
        "(at T = 1, kv_len = 1)");
}

TEST_CASE("slots that are too small, outside or on top of each other are refused") {
  Schedule s = placed();
  s.slots[find_tensor(s.program, "logits").index].bytes -= 4;
  CHECK(proof_error(s) == "error: the slot of %logits has 2556 bytes, it needs 2560");
  s = placed();
  s.slots[find_tensor(s.program, "logits").index].offset = 0;
  CHECK(proof_error(s) == "error: %logits and %l0.partial_acc overlap in the workspace");
  s = placed();
  Tensor& logits = s.program.tensors[find_tensor(s.program, "logits")];
  logits.shape[0] = 8 - logits.shape[0];  // more tokens make fewer rows
  CHECK(proof_error(s) == "error: the slot of %logits has 2560 bytes, it needs 4480");
  s = placed();
  s.weight_bytes -= 256;
  CHECK(proof_error(s) == "error: %w_lm_head.packed ends at 290816, beyond the weights of 290560");
  s = placed();
  s.event_base[1] -= 1;
  CHECK(proof_error(s) == "error: @x0_ready and @l0.qkv_ready overlap in the counters");
}

TEST_CASE("a stream without a ring, or of what the step writes, is refused") {
  Schedule s = placed();
  s.ring.stages = 0;
  CHECK(proof_error(s) == "error: the ring has 0 stages, expected at least 1: so many are held at once");
  s = placed();
  s.ring.stage_bytes = 8192;
  CHECK(proof_error(s) == "error: a stage of the ring has 8192 bytes, expected 16384, a tile");
  s = placed();
  s.program.grids[find_grid(s.program, "l0.q")].reads[0].stream = true;
  CHECK(proof_error(s) == "error: %l0.q[0] streams what %embed[0] writes of %x0 (at T = 1, kv_len = 1)");
  s = placed();
  for (Access& read : s.program.grids[find_grid(s.program, "l0.attend")].reads)
    if (read.role == "k_cache") read.region[1].size = read.region[1].size + 1;
  CHECK(proof_error(s) ==
        "error: %l0.attend[0, 0] streams what %l0.attend[0, 0] writes of %l0.k_cache (at T = 1, kv_len = 1)");
}

}  // namespace
}  // namespace mkc
