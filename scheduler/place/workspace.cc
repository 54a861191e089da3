#include "scheduler/place/workspace.h"

#include <algorithm>

#include "ir/bodies.h"
#include "ir/values.h"
#include "scheduler/machine/cost.h"

namespace mkc {
namespace {

using GridSet = boost::dynamic_bitset<>;

uint64_t tensor_bytes(const Tensor& tensor, bool is_read, const std::vector<int64_t>& max) {
  uint64_t elements = 1;
  for (const Expr& dim : tensor.shape)
    elements *= static_cast<uint64_t>(std::max<int64_t>(0, evaluate(dim, max)));
  const auto element_bytes = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
  switch (tensor.kind) {
    case TensorKind::kInput:
    case TensorKind::kCache:
      return 0;
    case TensorKind::kWeight:
      if (!is_read) return 0;
      if (!tensor.packing.sources.empty()) return packed_stack_bytes(tensor);
      return tensor.shape.size() < 2 ? elements * 4 : elements * element_bytes;
    case TensorKind::kTable:
      return elements * 4;
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return elements * element_bytes;
  }
  MKC_BUG("tensor of unknown kind");
}

uint64_t align(uint64_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

uint64_t append(Slot& slot, uint64_t end) {
  slot.offset = end;
  return align(end + slot.bytes);
}

// Tells whether each cell of the event is awaited by some task of `grid`. A different coordinate must walk
// each dim, in steps of one cell or of blocks.
bool waits_for_every_cell(const TaskGrid& grid, const Wait& wait, const Event& event) {
  std::vector<bool> used(grid.coords.size(), false);
  for (size_t d = 0; d < event.dims.size(); ++d) {
    if (event.dims[d].is_const(1)) continue;
    bool walked = false;
    for (uint32_t c = 0; c < grid.coords.size() && !walked; ++c) {
      if (used[c]) continue;
      const Expr& extent = grid.coords[c].extent;
      walked = wait.cell[d] == coord(c) && event.dims[d] == extent;
      const auto& nodes = wait.cell[d].nodes;
      if (!walked && nodes.size() == 3 && nodes[2].kind == ExprKind::kFloorDiv &&
          nodes[1].kind == ExprKind::kConst)
        walked = wait.cell[d] == floor_div(coord(c), nodes[1].value) &&
                 event.dims[d] == ceil_div(extent, nodes[1].value);
      used[c] = walked;
    }
    if (!walked) return false;
  }
  return true;
}

bool has_one_cell(const Event& event) {
  return std::all_of(event.dims.begin(), event.dims.end(), [](const Expr& dim) { return dim.is_const(1); });
}

// Tells whether each task of the grid notifies at least one cell.
bool always_notifies(const TaskGrid& grid, const Notify& notify, const std::vector<Bounds>& symbols) {
  const std::vector<Bounds> coords = coord_bounds(grid, symbols);
  return std::all_of(notify.cells.begin(), notify.cells.end(),
                     [&](const Range& range) { return bounds(range.size, symbols, coords).lo >= 1; });
}

bool never_expects_zero(const Event& event, const std::vector<Bounds>& symbols) {
  std::vector<Bounds> cells;
  for (const Expr& dim : event.dims) cells.push_back({0, std::max<int64_t>(0, bounds(dim, symbols).hi - 1)});
  return bounds(event.expect, symbols, cells).lo >= 1;
}

struct Lifetime {
  GridSet accessors;  // grids that read or write the tensor
  GridSet writers;
  // Workers without a task look the tensor up too. No event orders these reads before a later overwrite.
  bool looked_up = false;
};

std::vector<Lifetime> lifetimes(const TaskProgram& program) {
  std::vector<Lifetime> out(program.tensors.size(),
                            {GridSet(program.grids.size()), GridSet(program.grids.size()), false});
  for (GridId g : program.grids.ids()) {
    for (const Access& a : program.grids[g].reads) {
      out[a.tensor.index].accessors.set(g.index);
      if (looks_up(program.grids[g].body, a.role)) out[a.tensor.index].looked_up = true;
    }
    for (const Access& a : program.grids[g].writes) {
      out[a.tensor.index].accessors.set(g.index);
      out[a.tensor.index].writers.set(g.index);
    }
  }
  return out;
}

// Returns after[a], the grids that a precedes. before[b] are the grids that precede b.
std::vector<GridSet> transposed(const std::vector<GridSet>& before) {
  std::vector<GridSet> after(before.size(), GridSet(before.size()));
  for (size_t b = 0; b < before.size(); ++b)
    for (auto a = before[b].find_first(); a != GridSet::npos; a = before[b].find_next(a)) after[a].set(b);
  return after;
}

// The begin and the end of an activation. Two activations are compared in time of the second's writers.
struct Ends {
  GridSet after;  // grids that all accessors of the activation precede
  std::vector<uint32_t> writers;
};

Ends ends_of(const Lifetime& life, const std::vector<GridSet>& after) {
  Ends ends{GridSet(after.size()), {}};
  if (!life.looked_up) ends.after.set();
  for (auto a = life.accessors.find_first(); a != GridSet::npos && !life.looked_up;
       a = life.accessors.find_next(a))
    ends.after &= after[a];
  for (auto w = life.writers.find_first(); w != GridSet::npos; w = life.writers.find_next(w))
    ends.writers.push_back(static_cast<uint32_t>(w));
  return ends;
}

// Tells whether `first` is dead before any grid writes `second`.
bool ends_before(const Ends& first, const Ends& second) {
  return !second.writers.empty() && std::all_of(second.writers.begin(), second.writers.end(),
                                                [&](uint32_t w) { return first.after.test(w); });
}

// Places activations, largest first. Each gets the lowest offset where no other activation is alive at the
// same time. With `apart`, activations never share memory. Returns the end of the arena.
uint64_t place_activations(const TaskProgram& program, bool apart, std::vector<Slot>& slots) {
  const std::vector<GridSet> after = transposed(grids_before(program));
  std::vector<Ends> lives;
  for (const Lifetime& life : lifetimes(program)) lives.push_back(ends_of(life, after));
  std::vector<uint32_t> todo;
  for (TensorId t : program.tensors.ids())
    if (program.tensors[t].kind == TensorKind::kActivation && slots[t.index].bytes != 0)
      todo.push_back(t.index);
  std::sort(todo.begin(), todo.end(), [&](uint32_t a, uint32_t b) {
    return slots[a].bytes != slots[b].bytes ? slots[a].bytes > slots[b].bytes : a < b;
  });

  uint64_t end = 0;
  std::vector<uint32_t> placed;  // by offset
  for (uint32_t t : todo) {
    uint64_t offset = 0;
    for (uint32_t other : placed) {
      if (!apart && (ends_before(lives[t], lives[other]) || ends_before(lives[other], lives[t]))) continue;
      if (offset + align(slots[t].bytes) <= slots[other].offset) break;
      offset = std::max(offset, align(slots[other].offset + slots[other].bytes));
    }
    end = std::max(end, append(slots[t], offset));
    placed.insert(std::upper_bound(placed.begin(), placed.end(), t,
                                   [&](uint32_t a, uint32_t b) { return slots[a].offset < slots[b].offset; }),
                  t);
  }
  return end;
}

}  // namespace

std::vector<GridSet> grids_before(const TaskProgram& program) {
  struct Source {
    GridId grid;
    bool always;  // each of its tasks notifies
    bool exists;  // it has a task
  };
  const uint32_t grids = program.grids.size();
  const std::vector<Bounds> symbols = symbol_bounds(program.symbols);
  std::vector<std::vector<Source>> sources(program.events.size());
  for (GridId g : program.grids.ids())
    for (const Notify& n : program.grids[g].notifies)
      sources[n.event.index].push_back(
          {g, always_notifies(program.grids[g], n, symbols), never_empty(program.grids[g], symbols)});

  // before[b] holds the grids that precede every task of b. flows[b] holds the grids each task of which
  // precedes some task of b. A grid's sources come first in program order. Grids that are not processed yet
  // count as unordered.
  std::vector<GridSet> before(grids, GridSet(grids)), flows(grids, GridSet(grids));
  for (GridId b : program.grids.ids()) {
    const TaskGrid& grid = program.grids[b];
    for (const Wait& wait : grid.waits) {
      const Event& event = program.events[wait.event];
      const bool one_cell = has_one_cell(event);
      const bool every_cell =
          never_empty(grid, symbols) && (one_cell || waits_for_every_cell(grid, wait, event));
      GridSet before_any_source(grids);
      if (never_expects_zero(event, symbols)) before_any_source.set();
      for (const Source& a : sources[wait.event.index]) {
        GridSet flows_to_a = flows[a.grid.index];
        flows_to_a.set(a.grid.index);
        before_any_source &= before[a.grid.index];
        if (one_cell && a.always) before[b.index] |= flows_to_a;
        if (one_cell && a.always && a.exists) before[b.index] |= before[a.grid.index];
        if (every_cell && a.always) flows[b.index] |= flows_to_a;
      }
      // The grids before every source precede the cell, whichever source completes it.
      if (!sources[wait.event.index].empty()) before[b.index] |= before_any_source;
    }
  }
  return before;
}

namespace {

// Returns the bytes that each tensor needs, at the symbols' upper bounds. Inputs take none, and neither do
// weights that no grid reads. Plain weights of rank 1 are kept in f32, those of rank 2 in their own type.
// Packed weights are laid out as in runtime/abi/packing.h.
std::vector<uint64_t> slot_bytes(const TaskProgram& program) {
  const std::vector<int64_t> max = upper_bounds(program.symbols);
  std::vector<bool> is_read(program.tensors.size(), false);
  for (const TaskGrid& grid : program.grids)
    for (const Access& read : grid.reads) is_read[read.tensor.index] = true;
  std::vector<uint64_t> bytes;
  for (TensorId t : program.tensors.ids())
    bytes.push_back(tensor_bytes(program.tensors[t], is_read[t.index], max));
  return bytes;
}

// Returns the counters that each event needs, at the symbols' upper bounds: its cells, and its log where it
// keeps one. Requires the placements.
std::vector<uint32_t> event_counters(const Schedule& schedule) {
  std::vector<uint32_t> counters;
  for (EventId e : schedule.program.events.ids()) {
    const uint32_t cells = max_cells(schedule.program, e);
    counters.push_back(keeps_log(schedule, e) ? cells + 1 + cells : cells);
  }
  return counters;
}

}  // namespace

void plan_memory(Schedule& schedule, bool keep_activations) {
  const TaskProgram& program = schedule.program;
  schedule.slots.clear();
  for (uint64_t bytes : slot_bytes(program)) schedule.slots.push_back({0, bytes});
  schedule.workspace_bytes = place_activations(program, keep_activations, schedule.slots);
  for (TensorId t : program.tensors.ids()) {
    Slot& slot = schedule.slots[t.index];
    if (slot.bytes == 0) continue;
    switch (program.tensors[t].kind) {
      case TensorKind::kInput:
      case TensorKind::kCache:
      case TensorKind::kActivation:
        break;
      case TensorKind::kWeight:
      case TensorKind::kTable:
        schedule.weight_bytes = append(slot, schedule.weight_bytes);
        break;
      case TensorKind::kOutput:
        schedule.workspace_bytes = append(slot, schedule.workspace_bytes);
        break;
    }
  }
}

void plan_counters(Schedule& schedule) {
  schedule.event_base.clear();
  schedule.event_cells = 0;
  for (uint32_t counters : event_counters(schedule)) {
    schedule.event_base.push_back(schedule.event_cells);
    schedule.event_cells += counters;
  }
  for (Placement& placement : schedule.placements)
    if (claims_by_ticket(placement.kind)) placement.tickets = schedule.event_cells++;
}

}  // namespace mkc
