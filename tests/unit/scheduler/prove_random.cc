// These tests compare the proof with an oracle on random schedules. The oracle knows nothing of orders: it
// runs random interleavings and watches each element's value.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "scheduler/machine/cost.h"
#include "scheduler/place/place.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

using Random = std::mt19937;
using Element = std::pair<uint32_t, std::vector<int64_t>>;  // tensor and index

uint32_t below(Random& random, uint64_t n) {
  return static_cast<uint32_t>(random() % n);
}

// Calls visit(element) for each element of the region that task `coords` accesses.
template <class Visit>
void for_each_element(const Access& a, std::span<const int64_t> symbols, std::span<const int64_t> coords,
                      Visit visit) {
  std::vector<int64_t> lo, hi;
  for (const Range& r : a.region) {
    lo.push_back(evaluate(r.offset, symbols, coords));
    hi.push_back(lo.back() + evaluate(r.size, symbols, coords));
    if (hi.back() <= lo.back()) return;
  }
  std::vector<int64_t> at = lo;
  while (true) {
    visit(Element{a.tensor.index, at});
    size_t d = at.size();
    while (d > 0 && ++at[d - 1] == hi[d - 1]) at[d - 1] = lo[d - 1], --d;
    if (d == 0) return;
  }
}

std::vector<int64_t> coords_of(const TaskGrid& grid, int64_t task, std::span<const int64_t> symbols) {
  std::vector<int64_t> coords(grid.coords.size());
  for (size_t d = coords.size(); d-- > 0;) {
    const int64_t extent = evaluate(grid.coords[d].extent, symbols);
    coords[d] = task % extent, task /= extent;
  }
  return coords;
}

// Reads maps a reading grid, its task and an element to the grid and task that wrote the element.
using Reads = std::map<std::tuple<uint32_t, int64_t, Element>, std::pair<uint32_t, int64_t>>;

struct Interpreter {
  const Schedule& s;
  std::vector<int64_t> symbols;
  std::map<uint64_t, std::pair<uint32_t, int64_t>> memory{};  // last writer of each workspace address
  std::map<std::pair<uint32_t, std::vector<int64_t>>, int64_t> counters{};
  Reads reads{};
  std::vector<Element> completed{};  // cells in the order of their completion

  bool activation(TensorId t) const { return s.program.tensors[t].kind == TensorKind::kActivation; }

  uint64_t address(const Element& e) const {
    const Tensor& tensor = s.program.tensors.items[e.first];
    uint64_t index = 0;
    for (size_t d = 0; d < tensor.shape.size(); ++d)
      index = index * static_cast<uint64_t>(evaluate(tensor.shape[d], symbols)) +
              static_cast<uint64_t>(e.second[d]);
    return s.slots[e.first].offset + index * static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  }

  void access(GridId g, int64_t task) {
    const TaskGrid& grid = s.program.grids[g];
    const auto coords = coords_of(grid, task, symbols);
    for (const Access& a : grid.reads)
      if (activation(a.tensor))
        for_each_element(a, symbols, coords, [&](const Element& e) {
          const auto it = memory.find(address(e));
          reads[{g.index, task, e}] = it == memory.end() ? std::pair(UINT32_MAX, int64_t{0}) : it->second;
        });
    for (const Access& a : grid.writes)
      if (activation(a.tensor))
        for_each_element(a, symbols, coords, [&](const Element& e) { memory[address(e)] = {g.index, task}; });
  }

  std::vector<int64_t> cell(const Wait& wait, const std::vector<int64_t>& coords) const {
    std::vector<int64_t> at;
    for (const Expr& e : wait.cell) at.push_back(evaluate(e, symbols, coords));
    return at;
  }

  bool ready(GridId g, int64_t task) {
    const auto coords = coords_of(s.program.grids[g], task, symbols);
    for (const Wait& wait : s.program.grids[g].waits) {
      const auto at = cell(wait, coords);
      if (counters[{wait.event.index, at}] < evaluate(s.program.events[wait.event].expect, symbols, at))
        return false;
    }
    return true;
  }

  // Runs the task, its notifications, and the inline tasks that they complete.
  void run(GridId g, int64_t task) {
    access(g, task);
    const auto coords = coords_of(s.program.grids[g], task, symbols);
    for (const Notify& notify : s.program.grids[g].notifies) {
      const Access box{"", TensorId{notify.event.index}, notify.cells, false};
      for_each_element(box, symbols, coords, [&](const Element& e) {
        if (++counters[e] == evaluate(s.program.events[notify.event].expect, symbols, e.second)) complete(e);
      });
    }
  }

  void complete(const Element& done) {
    completed.push_back(done);
    for (GridId g : s.program.grids.ids()) {
      if (s.placements[g.index].kind != PlacementKind::kInline) continue;
      const Wait& wait = s.program.grids[g].waits[0];
      if (wait.event.index != done.first) continue;
      for (int64_t t = 0; t < task_count(s.program.grids[g], symbols); ++t)
        if (cell(wait, coords_of(s.program.grids[g], t, symbols)) == done.second) run(g, t);
    }
  }
};

Reads sequential_reads(const Schedule& s, const std::vector<int64_t>& symbols) {
  // Every tensor has memory of its own here.
  Schedule apart = s;
  for (uint64_t t = 0; t < apart.slots.size(); ++t) apart.slots[t].offset = t << 32;
  Interpreter interpreter{apart, symbols};
  for (GridId g : s.program.grids.ids())
    for (int64_t t = 0; t < task_count(s.program.grids[g], symbols); ++t) interpreter.access(g, t);
  return interpreter.reads;
}

// Walker is one worker on its way through its stream.
struct Walker {
  size_t segment = 0;
  int64_t next = 0;         // next task of the segment
  bool has_ticket = false;  // true if `ticket` is one of a claimed grid
  int64_t ticket = 0;
};

// Walk runs the streams in a random interleaving.
struct Walk {
  const Schedule& s;
  Interpreter& interpreter;
  std::vector<Walker> walkers = std::vector<Walker>(s.workers);
  std::map<uint32_t, int64_t> claimed{};  // tickets claimed of each grid

  int64_t tasks(GridId g) const { return task_count(s.program.grids[g], interpreter.symbols); }

  // Returns the task that the worker may run now, or -1 if there is none yet.
  int64_t runnable(uint32_t w, const Segment& segment) {
    const Walker& walker = walkers[w];
    const GridId g = segment.grid;
    int64_t task = walker.has_ticket ? walker.ticket : walker.next;
    const bool by_log =
        s.placements[g.index].kind == PlacementKind::kReady && why_not_ready(s.program, g).empty();
    if (!by_log) return interpreter.ready(g, task) ? task : -1;
    const Wait& wait = s.program.grids[g].waits[0];
    const Event& event = s.program.events[wait.event];
    int64_t cells = 1;
    for (const Expr& dim : event.dims) cells *= evaluate(dim, interpreter.symbols);
    const int64_t per_cell = tasks(g) / cells;
    int64_t entry = task / per_cell;
    for (const Element& cell : interpreter.completed) {
      if (cell.first != wait.event.index || entry-- > 0) continue;
      int64_t number = 0;
      for (size_t d = 0; d < cell.second.size(); ++d)
        number = number * evaluate(event.dims[d], interpreter.symbols) + cell.second[d];
      return number * per_cell + task % per_cell;
    }
    return -1;
  }

  // Skips finished segments, and claims a ticket where the grid is claimed. The result is false at the end of
  // the worker's stream.
  bool advance(uint32_t w) {
    Walker& walker = walkers[w];
    for (; walker.segment < s.streams[w].size(); ++walker.segment, walker.next = -1) {
      const Segment& segment = s.streams[w][walker.segment];
      const int64_t n = tasks(segment.grid);
      const PlacementKind kind = s.placements[segment.grid.index].kind;
      if (claims_by_ticket(kind)) {
        if (!walker.has_ticket) walker.ticket = claimed[segment.grid.index]++;
        walker.has_ticket = walker.ticket < n;
        if (walker.has_ticket) return true;
        continue;
      }
      int64_t first = segment.first, end = first + segment.count;
      if (kind == PlacementKind::kRange) first = n * w / s.workers, end = n * (w + 1) / s.workers;
      walker.next = std::max(walker.next, first);
      if (walker.next < end) return true;
    }
    return false;
  }

  void run(uint32_t w, int64_t task) {
    Walker& walker = walkers[w];
    walker.has_ticket = false;
    if (!claims_by_ticket(s.placements[s.streams[w][walker.segment].grid.index].kind)) ++walker.next;
    interpreter.run(s.streams[w][walker.segment].grid, task);
  }
};

// Returns whether one random interleaving ends with all reads as in the sequential program.
bool runs_well(const Schedule& s, const std::vector<int64_t>& symbols, const Reads& expected,
               Random& random) {
  Interpreter interpreter{s, symbols};
  Walk walk{s, interpreter};
  const uint32_t favourite = below(random, s.workers);  // this worker runs as far ahead as it can
  while (true) {
    std::vector<std::pair<uint32_t, int64_t>> able;
    const uint32_t first = below(random, s.workers);  // this worker claims first
    for (uint32_t i = 0; i < s.workers; ++i) {
      const uint32_t w = (first + i) % s.workers;
      if (!walk.advance(w)) continue;
      if (const int64_t task = walk.runnable(w, s.streams[w][walk.walkers[w].segment]); task >= 0)
        able.emplace_back(w, task);
    }
    if (able.empty()) break;
    const auto at =
        std::find_if(able.begin(), able.end(), [&](const auto& x) { return x.first == favourite; });
    const auto [w, task] = at != able.end() ? *at : able[below(random, able.size())];
    walk.run(w, task);
  }
  return interpreter.reads == expected;
}

test::ModelShape random_shape(Random& random) {
  test::ModelShape shape{.layers = 1 + below(random, 2), .hidden = 16 * (1 + below(random, 3))};
  shape.kv_heads = 1 + below(random, 3);
  shape.heads = shape.kv_heads * (1 + below(random, 2));
  shape.feed_forward = 8 * (1 + below(random, 6));
  shape.vocab = 16 * (1 + below(random, 4));
  shape.context = 24, shape.kv_tile = 8, shape.tokens = 2;
  return shape;
}

PlaceOptions random_options(Random& random, uint32_t workers) {
  PlaceOptions options{workers};
  options.scheduler = below(random, 2) ? Scheduler::kDynamic : Scheduler::kStatic;
  for (const char* grids : {"*attend", "*combine", "*.[qkvo]", "sample"})
    for (const PlacementKind kind : {PlacementKind::kQueue, PlacementKind::kReady, PlacementKind::kRange})
      if (below(random, 8) == 0 && !(kind == PlacementKind::kReady && std::string(grids) == "*.[qkvo]"))
        options.rules.push_back({grids, kind, {}});
  return options;
}

// Makes one change to the events, the streams or the memory. The change may be harmless.
void mutate(Schedule& s, Random& random) {
  TaskGrid& grid = s.program.grids.items[below(random, s.program.grids.size())];
  Event& event = s.program.events.items[below(random, s.program.events.size())];
  auto& stream = s.streams[below(random, s.workers)];
  switch (below(random, 6)) {
    case 0:
      if (s.placements[static_cast<size_t>(&grid - s.program.grids.items.data())].kind !=
          PlacementKind::kInline)
        grid.waits.clear();
      break;
    case 1:
      grid.notifies.clear();
      break;
    case 2:
      event.expect = event.expect + (below(random, 2) ? 1 : -1);
      break;
    case 3:
      if (stream.size() > 1)
        std::swap(stream[below(random, stream.size())], stream[below(random, stream.size())]);
      break;
    case 4:
      for (Wait& wait : grid.waits)
        for (Expr& e : wait.cell) e = Expr(0);
      break;
    case 5: {
      std::vector<uint32_t> activations;
      for (TensorId t : s.program.tensors.ids())
        if (s.program.tensors[t].kind == TensorKind::kActivation) activations.push_back(t.index);
      const uint32_t from = activations[below(random, activations.size())];
      s.slots[from].offset = s.slots[activations[below(random, activations.size())]].offset;
      s.workspace_bytes += 1 << 20;
      break;
    }
  }
}

TEST_CASE("random models are accepted and run well in random interleavings") {
  Random random(7);
  for (int round = 0; round < 40; ++round) {
    const auto program = test::model_program(random_shape(random));
    const uint32_t workers = 1 + below(random, 5);
    const Schedule s =
        place(program, load_machine("emulator").value(), random_options(random, workers)).value();
    REQUIRE(test::refusal(s) == "");
    const std::vector<int64_t> symbols = {1 + below(random, 2), 2 + below(random, 23)};
    CHECK(runs_well(s, symbols, sequential_reads(s, symbols), random));
  }
}

TEST_CASE("what an interleaving shows to be wrong is always refused") {
  Random random(11);
  int shown = 0, refused = 0;
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const auto program = test::model_program(random_shape(random));
    const uint32_t workers = 2 + below(random, 3);
    Schedule s = place(program, load_machine("emulator").value(), random_options(random, workers)).value();
    mutate(s, random);
    const bool accepted = test::refusal(s).empty();
    refused += !accepted;
    const std::vector<int64_t> symbols = {1 + below(random, 2), 2 + below(random, 23)};
    const Reads expected = sequential_reads(s, symbols);
    for (int run = 0; run < 4; ++run)
      if (!runs_well(s, symbols, expected, random)) {
        ++shown;
        CHECK_FALSE(accepted);
        break;
      }
  }
  // The oracle must find faults, and the proof must not refuse everything.
  CHECK(shown > 20);
  CHECK(refused >= shown);
  CHECK(refused < 200);
  MESSAGE(shown << " shown to be wrong, " << refused << " refused, of 200");
}

}  // namespace
}  // namespace mkc
