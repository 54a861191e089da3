#include "scheduler/place/place.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "scheduler/machine/cost.h"
#include "scheduler/place/assign.h"
#include "scheduler/place/workspace.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using test::find_grid;
using test::find_tensor;
using test::model_program;

Machine machine() {
  return load_machine("emulator").value();
}

Schedule placed(const test::ModelShape& shape, uint32_t workers) {
  Result<Schedule> schedule = place(model_program(shape), machine(), {workers});
  REQUIRE(schedule.ok());
  return schedule.value();
}

TEST_CASE("costs count the padded bytes of a strip") {
  // A strip of 16 rows of 64 bf16 columns is padded to 128 columns: 16 * 128 * 2 bytes.
  const TaskProgram program = model_program();
  const std::vector<int64_t> symbols = {1, 1};
  CHECK(task_cost(program, find_grid(program, "l0.q"), machine(), symbols).stream_bytes == 4096);
  CHECK(task_cost(program, find_grid(program, "embed"), machine(), symbols).stream_bytes == 0);
  CHECK(task_count(program.grids[find_grid(program, "l0.attend")], std::vector<int64_t>{1, 33}) == 6);
}

Result<Schedule> placed_by(Scheduler scheduler, std::vector<PlacementRule> rules) {
  PlaceOptions options{3};
  options.scheduler = scheduler;
  options.rules = std::move(rules);
  return place(model_program(), machine(), options);
}

TEST_CASE("the dynamic scheduler has all tasks claimed, but for those run inline") {
  const Schedule s = placed_by(Scheduler::kDynamic, {}).value();
  for (GridId g : s.program.grids.ids()) {
    const std::string& name = s.program.grids[g].name;
    CAPTURE(name);
    const PlacementKind expected = name.ends_with(".attend")    ? PlacementKind::kReady
                                   : name.ends_with(".combine") ? PlacementKind::kInline
                                                                : PlacementKind::kQueue;
    CHECK(s.placements[g.index].kind == expected);
  }
}

TEST_CASE("rules place grids by name or pattern, the last that fits") {
  const Schedule s = placed_by(Scheduler::kStatic, {{"l?.attend", PlacementKind::kQueue, {}},
                                                    {"l1.attend", PlacementKind::kReady, {}},
                                                    {"*combine", PlacementKind::kRange, {}}})
                         .value();
  const auto placement = [&](const char* name) { return s.placements[find_grid(s.program, name).index]; };
  CHECK(placement("l0.attend").kind == PlacementKind::kQueue);
  CHECK(placement("l1.attend").kind == PlacementKind::kReady);
  CHECK(placement("l1.combine").kind == PlacementKind::kRange);
  CHECK(placement("l0.q").kind == PlacementKind::kTable);
  CHECK(placement("l0.attend").reason == "asked for");
}

TEST_CASE("rules that fit no grid or ask for what is impossible are errors at their place") {
  const auto error = [](const char* grids, PlacementKind kind) {
    const auto schedule = placed_by(Scheduler::kStatic, {{grids, kind, {"model.yaml", 3, 5}}});
    return schedule.ok() ? "accepted" : schedule.error().message;
  };
  CHECK(error("l0.atend", PlacementKind::kQueue) ==
        "model.yaml:3:5: error: no grid is named 'l0.atend', did you mean 'l0.attend'?");
  CHECK(error("*.attend", PlacementKind::kTable) ==
        "model.yaml:3:5: error: %l0.attend cannot be placed by table: the number of its tasks is known at "
        "run time");
  CHECK(error("l1.o", PlacementKind::kReady) ==
        "model.yaml:3:5: error: %l1.o cannot be placed by ready: its loader must know the tasks before they "
        "are ready");
  CHECK(
      error("l1.o", PlacementKind::kInline) ==
      "model.yaml:3:5: error: %l1.o cannot be placed by inline: it is no combine or split_k_reduce that only "
      "attend or split_k_partial tasks complete");
}

TEST_CASE("an event that ready tasks wait for has a log, and claimed grids have a counter each") {
  const Schedule fixed = placed_by(Scheduler::kStatic, {}).value();
  const Schedule s = placed_by(Scheduler::kStatic, {{"l0.attend", PlacementKind::kReady, {}},
                                                    {"l1.o", PlacementKind::kQueue, {}}})
                         .value();
  const EventId event = test::find_event(s.program, "l0.qkv_ready");
  CHECK(keeps_log(s, event));
  CHECK_FALSE(keeps_log(s, test::find_event(s.program, "l1.qkv_ready")));
  // The event has two cells, one for each head. The log adds a count and two entries.
  CHECK(s.event_base[event.index + 1] == s.event_base[event.index] + 2 + 3);
  CHECK(s.event_cells == fixed.event_cells + 3 + 2);
  CHECK(s.placements[find_grid(s.program, "l0.attend").index].tickets == s.event_cells - 2);
  CHECK(s.placements[find_grid(s.program, "l1.o").index].tickets == s.event_cells - 1);
}

TEST_CASE("each grid gets its kind of placement with a reason") {
  const Schedule s = placed({}, 3);
  const auto kind = [&](const char* name) { return s.placements[find_grid(s.program, name).index].kind; };
  CHECK(kind("embed") == PlacementKind::kRange);
  CHECK(kind("l0.q") == PlacementKind::kTable);
  CHECK(kind("l0.attend") == PlacementKind::kRange);
  CHECK(kind("l0.combine") == PlacementKind::kInline);
  CHECK(kind("sample") == PlacementKind::kTable);
  for (const Placement& p : s.placements) CHECK_FALSE(p.reason.empty());
}

TEST_CASE(
    "streamed bytes stay within one strip of the largest grid, and strips of what starts together within "
    "one") {
  for (uint32_t workers : {1u, 2u, 5u, 7u, 132u}) {
    CAPTURE(workers);
    const test::ModelShape shape{.layers = 3, .hidden = 512, .feed_forward = 1536, .vocab = 1009};
    const Schedule s = placed(shape, workers);
    const std::vector<int64_t> symbols = decode_symbols(s.program);
    const std::vector<GridId> order = critical_path_order(s.program, machine()).value();
    const auto waits = [&](GridId g) -> const std::vector<Wait>& { return s.program.grids[g].waits; };
    std::vector<uint64_t> bytes(workers, 0);
    uint64_t largest = 0;
    for (size_t i = 0; i < order.size();) {
      std::vector<uint32_t> strips(workers, 0);
      const GridId first = order[i];
      for (; i < order.size() && waits(order[i]) == waits(first); ++i) {
        const uint64_t strip = task_cost(s.program, order[i], machine(), symbols).stream_bytes;
        largest = std::max(largest, strip);
        for (uint32_t w = 0; w < workers; ++w)
          for (const Segment& segment : s.streams[w])
            if (segment.grid == order[i]) strips[w] += segment.count, bytes[w] += segment.count * strip;
      }
      const auto [fewest, max] = std::minmax_element(strips.begin(), strips.end());
      CHECK(*max - *fewest <= 1);
      const auto [low, high] = std::minmax_element(bytes.begin(), bytes.end());
      CHECK(*high - *low <= largest);
    }
  }
}

TEST_CASE("grids that start together are dealt out as one: nobody has two strips while another has none") {
  const test::ModelShape shape{
      .layers = 3, .hidden = 512, .heads = 8, .kv_heads = 8, .head_dim = 64, .feed_forward = 2048};
  const auto check = [&](uint32_t workers, uint32_t max_strips, uint32_t max_grids) {
    const Schedule s = placed(shape, workers);  // q, k and v have 32 strips each
    for (const auto& stream : s.streams)
      for (const char* layer : {"l0", "l1", "l2"}) {
        uint32_t strips = 0, grids = 0;
        for (const Segment& segment : stream)
          for (const char* grid : {".q", ".k", ".v"})
            if (s.program.grids[segment.grid].name == std::string(layer) + grid)
              strips += segment.count, ++grids;
        CHECK(strips <= max_strips);
        CHECK(grids <= max_grids);
      }
  };
  check(100, 1, 1);  // 68 workers have no strip of down
  check(13, 8, 2);   // 7 or 8 strips in a row, where each grid alone would be 2 or 3
}

TEST_CASE("attention's shares turn, so that over layers in a row workers differ by a task at most") {
  constexpr uint32_t kWorkers = 5;
  test::ModelShape shape;
  shape.layers = 12;
  const Schedule s = placed(shape, kWorkers);
  std::vector<GridId> attends;
  for (GridId g : s.program.grids.ids())
    if (s.program.grids[g].body == BodyKind::kAttend) attends.push_back(g);
  REQUIRE(attends.size() == 12);
  for (uint32_t tasks = 1; tasks <= 12; ++tasks)
    for (size_t begin = 0; begin < attends.size(); ++begin) {
      std::vector<uint32_t> taken(kWorkers);
      for (size_t layer = begin; layer < attends.size(); ++layer)
        for (uint32_t w = 0; w < kWorkers; ++w) {
          const uint32_t share = range_share(s, attends[layer], w);
          taken[w] += tasks * (share + 1) / kWorkers - tasks * share / kWorkers;
        }
      const auto [min, max] = std::minmax_element(taken.begin(), taken.end());
      CHECK(*max - *min <= 1);
    }
}

TEST_CASE("bytes leveled in each grid alone add up on the first workers") {
  Result<Schedule> placed =
      place(model_program({.layers = 3}), machine(), {.workers = 3, .balance_grids = true});
  REQUIRE(placed.ok());
  const Schedule& s = placed.value();
  const std::vector<int64_t> symbols = decode_symbols(s.program);
  std::vector<uint64_t> bytes(3, 0);
  for (uint32_t w = 0; w < 3; ++w)
    for (const Segment& segment : s.streams[w])
      bytes[w] += segment.count * task_cost(s.program, segment.grid, machine(), symbols).stream_bytes;
  CHECK(bytes[0] > bytes[1]);
  CHECK(bytes[1] > bytes[2]);
}

TEST_CASE("table grids are dealt out whole, in runs that follow each other from worker to worker") {
  const Schedule s = placed({.vocab = 1009}, 7);
  std::map<uint32_t, uint32_t> next;
  for (const auto& stream : s.streams)
    for (const Segment& segment : stream) {
      if (s.placements[segment.grid.index].kind != PlacementKind::kTable) continue;
      CHECK(segment.first == next[segment.grid.index]);
      next[segment.grid.index] += segment.count;
    }
  for (GridId g : s.program.grids.ids())
    if (s.placements[g.index].kind == PlacementKind::kTable)
      CHECK(next[g.index] == task_count(s.program.grids[g], decode_symbols(s.program)));
}

TEST_CASE("eight strips of three grids on three workers are dealt as by hand") {
  // q has 4 strips of 4096 bytes, k and v have 2 each. The workers get 3, 3 and 2 strips in a row.
  const Schedule s = placed({.layers = 1}, 3);
  const auto segment = [&](uint32_t worker, const char* name) {
    for (const Segment& x : s.streams[worker])
      if (x.grid == find_grid(s.program, name)) return std::pair(x.first, x.count);
    return std::pair(0u, 0u);
  };
  CHECK(segment(0, "l0.q") == std::pair(0u, 3u));
  CHECK(segment(1, "l0.q") == std::pair(3u, 1u));
  CHECK(segment(2, "l0.q") == std::pair(0u, 0u));
  CHECK(segment(0, "l0.k") == std::pair(0u, 0u));
  CHECK(segment(1, "l0.k") == std::pair(0u, 2u));
  CHECK(segment(2, "l0.k") == std::pair(0u, 0u));
  CHECK(segment(2, "l0.v") == std::pair(0u, 2u));
}

TEST_CASE("grids that wait for each other are an error that names them") {
  TaskProgram program = model_program({.layers = 1});
  const EventId late = test::find_event(program, "l0.x2_ready");
  program.grids[find_grid(program, "l0.q")].waits.push_back({late, {}});
  CHECK(place(program, machine()).error().message ==
        "error: grids wait for each other: %l0.q -> %l0.attend -> %l0.combine -> %l0.o -> %l0.q");
}

TEST_CASE("memory: packed sources and inputs take none, outputs lie alone, slots are aligned") {
  const Schedule s = placed({}, 3);
  const auto slot = [&](const char* name) { return s.slots[find_tensor(s.program, name).index]; };
  CHECK(slot("tokens").bytes == 0);
  CHECK(slot("l0.w_q").bytes == 0);
  CHECK(slot("l0.w_q.packed").bytes == 4 * 4096);
  CHECK(slot("embedding").bytes == 160 * 64 * 2);
  CHECK(slot("l0.k_cache").bytes == 0);  // the cache is bound at run time
  CHECK(slot("x0").bytes == 4 * 64 * 4);
  const Slot logits = slot("logits");
  for (TensorId t : s.program.tensors.ids()) {
    CHECK(s.slots[t.index].offset % 256 == 0);
    if (s.program.tensors[t].kind != TensorKind::kActivation) continue;
    CHECK(s.slots[t.index].offset + s.slots[t.index].bytes <= logits.offset);
  }
}

TEST_CASE("activations of different layers share memory, those alive together do not") {
  const Schedule s = placed({.layers = 8}, 3);
  const Schedule one = placed({.layers = 1}, 3);
  CHECK(s.workspace_bytes < 2 * one.workspace_bytes);
  const auto apart = [&](const char* a, const char* b) {
    const Slot x = s.slots[find_tensor(s.program, a).index], y = s.slots[find_tensor(s.program, b).index];
    return x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
  };
  CHECK(apart("x0", "l0.q"));       // x0 is q's operand
  CHECK(apart("x0", "l0.x2"));      // x0 is still read by o, which writes x2
  CHECK(apart("l0.q", "l0.attn"));  // combine of one head runs beside attend of another
}

TEST_CASE("activations that are kept share no memory") {
  const Schedule s = place(model_program({.layers = 3}), machine(), {.keep_activations = true}).value();
  std::vector<Slot> slots;
  for (TensorId t : s.program.tensors.ids())
    if (s.program.tensors[t].kind == TensorKind::kActivation && s.slots[t.index].bytes != 0)
      slots.push_back(s.slots[t.index]);
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) { return a.offset < b.offset; });
  CHECK(slots.size() > 6);
  for (size_t i = 1; i < slots.size(); ++i)
    CHECK(slots[i - 1].offset + slots[i - 1].bytes <= slots[i].offset);
  CHECK(slots.back().offset + slots.back().bytes <= s.workspace_bytes);
}

TEST_CASE("grids are known to be before others through heads and joins") {
  const TaskProgram program = model_program();
  const auto before = grids_before(program);
  const auto is_before = [&](const char* a, const char* b) {
    return before[find_grid(program, b).index].test(find_grid(program, a).index);
  };
  CHECK(is_before("embed", "l0.q"));
  CHECK(is_before("embed", "l0.attend"));
  CHECK_FALSE(is_before("l0.q", "l0.attend"));
  CHECK_FALSE(is_before("l0.attend", "l0.combine"));
  CHECK(is_before("l0.q", "l0.o"));
  CHECK(is_before("l0.attend", "l0.o"));
  CHECK(is_before("l0.v", "l1.q"));
  CHECK_FALSE(is_before("l0.o", "l0.o"));
}

TEST_CASE("a model of 36 layers on 132 workers is placed") {
  const test::ModelShape shape{.layers = 36,
                               .hidden = 4096,
                               .heads = 32,
                               .kv_heads = 8,
                               .head_dim = 128,
                               .feed_forward = 12288,
                               .vocab = 151936,
                               .context = 4096,
                               .kv_tile = 256,
                               .tokens = 16};
  const Result<Schedule> schedule = place(model_program(shape), load_machine("h100").value());
  REQUIRE(schedule.ok());
}

}  // namespace
}  // namespace mkc
