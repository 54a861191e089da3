#include "tests/attack/schedules/contract.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "ir/values.h"
#include "runtime/abi/abi.h"
#include "runtime/abi/packing.h"
#include "tests/attack/schedules/finding.h"

namespace mkc::attack {
namespace {

constexpr uint64_t kAlignment = 256;
constexpr uint32_t kMaxStages = 16;  // stages of the ring, at most

struct Extent {
  uint64_t begin, end;
  std::string name;
};

// Throws a Finding for the first pair that overlaps, or the first extent that leaves the arena.
void require_apart(std::vector<Extent> extents, uint64_t arena, const char* kind) {
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i].end > arena)
      throw Finding{kind, fmt::format("{} ends at {} of {}", extents[i].name, extents[i].end, arena)};
    if (i > 0 && extents[i].begin < extents[i - 1].end)
      throw Finding{kind, fmt::format("{} and {} overlap", extents[i - 1].name, extents[i].name)};
  }
}

uint64_t weight_bytes(const Tensor& t) {
  uint64_t elements = 1;
  for (const Expr& dim : t.shape) {
    if (!dim.is_const()) throw Finding{"slot", "%" + t.name + " is of no constant shape"};
    elements *= static_cast<uint64_t>(dim.constant());
  }
  if (t.kind == TensorKind::kTable || t.shape.size() < 2) return elements * 4;
  if (t.packing.sources.empty()) return elements * static_cast<uint64_t>(dtype_bytes(t.dtype));
  const size_t rank = t.shape.size();
  const auto dim = [&](size_t d) { return static_cast<uint64_t>(t.shape[d].constant()); };
  const auto packed = mkrt::packed_shape(dim(rank - 2), dim(rank - 1), weight_type(t));
  return packed.bytes * (rank == 3 ? dim(0) : 1);
}

void check_memory(const Schedule& s) {
  const TaskProgram& p = s.program;
  std::vector<bool> used(p.tensors.size(), false);
  for (const TaskGrid& grid : p.grids)
    for (const auto* accesses : {&grid.reads, &grid.writes})
      for (const Access& a : *accesses) used[a.tensor.index] = true;
  std::vector<Extent> weights, outputs;
  for (TensorId t : p.tensors.ids()) {
    const Tensor& tensor = p.tensors[t];
    const Slot& slot = s.slots[t.index];
    const Extent extent{slot.offset, slot.offset + slot.bytes, "%" + tensor.name};
    const bool weight = tensor.kind == TensorKind::kWeight || tensor.kind == TensorKind::kTable;
    if (tensor.kind == TensorKind::kInput || tensor.kind == TensorKind::kCache) continue;
    if (slot.bytes != 0 && slot.offset % kAlignment != 0)
      throw Finding{"slot", fmt::format("%{} begins at {}", tensor.name, slot.offset)};
    if (weight && used[t.index] && slot.bytes < weight_bytes(tensor))
      throw Finding{"slot",
                    fmt::format("%{} has {} bytes of {}", tensor.name, slot.bytes, weight_bytes(tensor))};
    if (weight && slot.bytes != 0 && used[t.index]) weights.push_back(extent);
    if (!weight && slot.bytes != 0 && extent.end > s.workspace_bytes)
      throw Finding{"slot", fmt::format("%{} ends at {} of {}", tensor.name, extent.end, s.workspace_bytes)};
    if (tensor.kind == TensorKind::kOutput) outputs.push_back(extent);
  }
  require_apart(weights, s.weight_bytes, "slot");
  require_apart(outputs, s.workspace_bytes, "slot");
  for (const Extent& output : outputs)
    for (TensorId t : p.tensors.ids())
      if (const Slot& slot = s.slots[t.index];
          p.tensors[t].kind == TensorKind::kActivation && used[t.index] && slot.bytes != 0)
        require_apart({output, {slot.offset, slot.offset + slot.bytes, "%" + p.tensors[t].name}},
                      s.workspace_bytes, "slot");
  for (const TaskGrid& grid : p.grids)
    for (const Access& a : grid.writes)
      if (const TensorKind kind = p.tensors[a.tensor].kind;
          kind == TensorKind::kWeight || kind == TensorKind::kTable || kind == TensorKind::kInput)
        throw Finding{"slot", fmt::format("%{} writes %{}", grid.name, p.tensors[a.tensor].name)};
}

void check_counters(const Schedule& s) {
  std::vector<Extent> extents;
  for (EventId e : s.program.events.ids()) {
    const uint64_t base = s.event_base[e.index], cells = max_cells(s.program, e);
    extents.push_back(
        {base, base + (keeps_log(s, e) ? 2 * cells + 1 : cells), "@" + s.program.events[e].name});
  }
  for (GridId g : s.program.grids.ids())
    if (const Placement& p = s.placements[g.index]; claims_by_ticket(p.kind))
      extents.push_back({p.tickets, uint64_t{p.tickets} + 1, "tickets of %" + s.program.grids[g].name});
  require_apart(extents, s.event_cells, "counter");
}

// The loader brings what the body takes from the ring, and nothing else.
void check_streams(const Schedule& s, const TaskGrid& grid) {
  const auto fail = [&](const std::string& what) { throw Finding{"stream", "%" + grid.name + " " + what}; };
  const Access* first = nullptr;
  for (const Access& read : grid.reads)
    if (read.stream && !first) first = &read;
  for (const Access& write : grid.writes)
    if (write.stream) fail("streams what it writes");
  if (multiplies(grid)) {
    if (!first) fail("does not stream its weight");
    if (first->role != "weight") fail("streams " + first->role + " in the place of its weight");
  } else if (grid.body == BodyKind::kAttend) {
    if (!first) fail("does not stream its cache");
    if (first->role != "k_cache" && first->role != "v_cache") fail("streams " + first->role);
  } else if (first) {
    fail("streams " + first->role + ", which its body does not take from the ring");
  }
  for (const Access& read : grid.reads)
    if (read.stream && read.role != "weight" && read.role != "k_cache" && read.role != "v_cache")
      fail("streams " + read.role);
  if (!first) return;
  if (s.ring.stages == 0 || s.ring.stages > kMaxStages)
    throw Finding{"ring", fmt::format("{} stages", s.ring.stages)};
  if (s.ring.stage_bytes < mkrt::kStageBytes)
    throw Finding{"ring", fmt::format("stages of {} bytes", s.ring.stage_bytes)};
}

void check_grid(const Schedule& s, GridId id) {
  const TaskGrid& grid = s.program.grids[id];
  const auto fail = [&](const char* kind, const std::string& what) {
    throw Finding{kind, "%" + grid.name + " " + what};
  };
  check_streams(s, grid);
  if (grid.waits.size() > mkrt::kMaxWaits) fail("waits", fmt::format("has {} waits", grid.waits.size()));
  if (grid.notifies.size() > mkrt::kMaxNotifies)
    fail("waits", fmt::format("notifies {} events", grid.notifies.size()));
  const bool looks_up =
      std::any_of(grid.waits.begin(), grid.waits.end(), [](const Wait& w) { return w.lookup; });
  const bool needs = grid.body == BodyKind::kExpert || grid.body == BodyKind::kExpertSum;
  if (needs && !looks_up) fail("lookup", "does not look up its active experts");
  for (const Wait& wait : grid.waits)
    if (wait.lookup && std::any_of(wait.cell.begin(), wait.cell.end(), uses_coord))
      fail("lookup", "looks up after another cell for each task");
  const PlacementKind kind = s.placements[id.index].kind;
  if (kind == PlacementKind::kInline) {
    if (grid.waits.size() != 1) fail("inline", fmt::format("runs inline with {} waits", grid.waits.size()));
    const std::vector<Expr>& cell = grid.waits[0].cell;
    for (uint32_t i = 0; i < grid.coords.size(); ++i)
      if (std::find(cell.begin(), cell.end(), coord(i)) == cell.end() && !grid.coords[i].extent.is_const(1))
        fail("inline", "runs inline, but its tasks do not follow from their cells");
  }
  if (kind == PlacementKind::kReady) {
    if (grid.waits.size() != 1) fail("ready", fmt::format("is ready after {} waits", grid.waits.size()));
    if (uses_coord(s.program.events[grid.waits[0].event].expect))
      fail("ready", "is ready after cells of different counts");
  }
}

// Workers make the lists of row blocks, and read what routes found. Symbols of these kinds must be marked cut
// or routed, and no others.
void check_symbols(const TaskProgram& p) {
  const auto require = [&](const char* name, bool Symbol::* flag, const char* what) {
    const SymbolId id = find_symbol(p.symbols, name);
    if (id.valid() && !(p.symbols[id].*flag))
      throw Finding{"symbol", fmt::format("{} is not {}", name, what)};
  };
  for (const char* name :
       {"blocks", "block_request", "block_rows", "block_first_row", "block_kv_len", "partial_positions"})
    require(name, &Symbol::cut, "cut");
  for (const char* name : {"active_experts", "active_expert_rows", "active_expert_begin"})
    require(name, &Symbol::routed, "routed");
  for (const Symbol& symbol : p.symbols) {
    if (symbol.cut && symbol.name != "blocks" && !symbol.name.starts_with("block_") &&
        symbol.name != "partial_positions")
      throw Finding{"symbol", symbol.name + " is cut"};
    if (symbol.routed && !symbol.name.starts_with("active_expert"))
      throw Finding{"symbol", symbol.name + " is routed"};
  }
  constexpr std::array<std::array<const char*, 2>, 3> kSums = {
      {{"first_row", "q_len"},
       {"block_first_row", "block_rows"},
       {"active_expert_begin", "active_expert_rows"}}};
  for (const auto& [sum, of] : kSums)
    if (const SymbolId id = find_symbol(p.symbols, sum);
        id.valid() && p.symbols[id].sums != find_symbol(p.symbols, of))
      throw Finding{"symbol", fmt::format("{} does not sum {}", sum, of)};
}

}  // namespace

void check_contract(const Schedule& s) {
  if (s.workers == 0 || s.streams.size() != s.workers) throw Finding{"workers", "streams of other workers"};
  if (s.placements.size() != s.program.grids.size() || s.slots.size() != s.program.tensors.size() ||
      s.event_base.size() != s.program.events.size())
    throw Finding{"tables", "tables of other sizes"};
  check_symbols(s.program);
  check_memory(s);
  check_counters(s);
  for (GridId g : s.program.grids.ids()) check_grid(s, g);
}

}  // namespace mkc::attack
