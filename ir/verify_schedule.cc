#include <fmt/format.h>

#include "ir/verifier.h"

namespace mkc {
namespace {

constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 62;

Site machine_site(const Schedule& s) {
  return {{Part::kMachine}, "schedule for " + s.machine, nullptr};
}

// Checks V27. Returns whether the tables have an entry for each object.
bool check_tables(Verifier& v, const Schedule& s) {
  const TaskProgram& p = s.program;
  const Site site = machine_site(s);
  const auto check = [&](const char* what, size_t found, size_t expected) {
    if (found != expected) v.report(27, site, fmt::format("{} {}, expected {}", found, what, expected));
    return found == expected;
  };
  if (s.workers == 0) v.report(27, site, "no workers");
  check("streams", s.streams.size(), s.workers);
  const bool placed = check("placements", s.placements.size(), p.grids.size());
  const bool slots = check("slots", s.slots.size(), p.tensors.size());
  return check("counter bases", s.event_base.size(), p.events.size()) && placed && slots;
}

// Returns how a segment violates V28, or "".
std::string segment_fault(const Schedule& s, const Segment& segment, const Domain& at_symbols) {
  const TaskGrid& grid = s.program.grids[segment.grid];
  switch (s.placements[segment.grid.index].kind) {
    case PlacementKind::kRange:
      if (s.placements[segment.grid.index].rotation >= s.workers)
        return fmt::format("is of a grid rotated by {} of {} workers",
                           s.placements[segment.grid.index].rotation, s.workers);
      [[fallthrough]];
    case PlacementKind::kQueue:
    case PlacementKind::kReady:
      return segment.first == 0 && segment.count == 0
                 ? ""
                 : fmt::format("names tasks of a grid placed by {}",
                               placement_name(s.placements[segment.grid.index].kind));
    case PlacementKind::kInline:
      return "is of a grid that runs inline";
    case PlacementKind::kTable:
      break;
  }
  int64_t tasks = 1;  // upper bound, which V19 limits
  for (const Coord& c : grid.coords) tasks *= upper_bound(c.extent, at_symbols);
  if (segment.count == 0) return "holds no task";
  const int64_t end = int64_t{segment.first} + segment.count;
  return end <= tasks ? "" : fmt::format("ends at task {} of {}", end, tasks);
}

// Checks V35 of one grid. A grid that may run inline is recorded under the event that it waits for.
void check_placement(Verifier& v, const Schedule& s, GridId id, std::vector<GridId>& inline_grids) {
  const PlacementKind kind = s.placements[id.index].kind;
  const TaskGrid& grid = s.program.grids[id];
  if (const std::string reason = why_not_placed(s.program, id, kind); !reason.empty())
    v.report(35, {{Part::kGrid, id.index}, "grid %" + spell_name(grid.name), &grid.loc},
             fmt::format("it cannot be placed by {}: {}", placement_name(kind), reason));
  else if (kind == PlacementKind::kInline)
    inline_grids[grid.waits[0].event.index] = id;
}

// Checks V35. Code generation lets the notifications of one grid run at most one inline grid.
void check_placements(Verifier& v, const Schedule& s) {
  const TaskProgram& p = s.program;
  std::vector<GridId> inline_grids(p.events.size());  // by EventId
  for (GridId g : p.grids.ids()) check_placement(v, s, g, inline_grids);
  for (GridId g : p.grids.ids()) {
    const TaskGrid& grid = p.grids[g];
    GridId first;
    for (const Notify& notify : grid.notifies) {
      const GridId run = inline_grids[notify.event.index];
      if (run.valid() && first.valid())
        v.report(35, {{Part::kGrid, g.index}, "grid %" + spell_name(grid.name), &grid.loc},
                 fmt::format("it runs %{} and %{} inline, expected one of them",
                             spell_name(p.grids[first].name), spell_name(p.grids[run].name)));
      if (run.valid()) first = run;
    }
  }
}

void check_streams(Verifier& v, const Schedule& s) {
  for (uint32_t w = 0; w < s.streams.size(); ++w)
    for (uint32_t i = 0; i < s.streams[w].size(); ++i) {
      const Segment& segment = s.streams[w][i];
      const std::string fault = segment_fault(s, segment, v.at_symbols);
      const TaskGrid& grid = s.program.grids[segment.grid];
      if (!fault.empty())
        v.report(28,
                 {{Part::kSegment, w, i}, fmt::format("worker {}, %{}", w, spell_name(grid.name)), nullptr},
                 fmt::format("its segment {}", fault));
    }
}

uint64_t arena_bytes(const Schedule& s, TensorKind kind) {
  switch (kind) {
    case TensorKind::kInput:
    case TensorKind::kCache:
      return 0;
    case TensorKind::kWeight:
    case TensorKind::kTable:
      return s.weight_bytes;
    case TensorKind::kActivation:
    case TensorKind::kOutput:
      return s.workspace_bytes;
  }
  MKC_BUG("tensor of unknown kind");
}

// Checks V29 of an arena. Ends of slots then fit into 63 bits.
void check_arena(Verifier& v, const Schedule& s, const char* name, uint64_t bytes) {
  if (bytes > kMaxArenaBytes)
    v.report(29, machine_site(s), fmt::format("its {} has {} bytes, expected at most 2^62", name, bytes));
}

// Checks V29.
void check_slots(Verifier& v, const Schedule& s) {
  check_arena(v, s, "arena of weights", s.weight_bytes);
  check_arena(v, s, "workspace", s.workspace_bytes);
  for (TensorId t : s.program.tensors.ids()) {
    const Slot& slot = s.slots[t.index];
    if (slot.bytes == 0) continue;
    const uint64_t arena = arena_bytes(s, s.program.tensors[t].kind);
    const Site site = v.tensor_site(t);
    if (slot.offset % kSlotAlignment != 0)
      v.report(
          29, site,
          fmt::format("its slot begins at byte {}, expected a multiple of {}", slot.offset, kSlotAlignment));
    if (slot.bytes > arena || slot.offset > arena - slot.bytes)
      v.report(29, site,
               fmt::format("its slot of {} bytes at {} leaves the {} of its arena", slot.bytes, slot.offset,
                           arena));
  }
}

// Checks V30.
void check_counters(Verifier& v, const Schedule& s) {
  for (EventId e : s.program.events.ids()) {
    const Event& event = s.program.events[e];
    const int64_t cells = max_cells(s.program, e);
    const int64_t log = keeps_log(s, e) ? 1 + cells : 0;
    const int64_t end = int64_t{s.event_base[e.index]} + cells + log;
    if (end > int64_t{s.event_cells})
      v.report(30, {{Part::kEvent, e.index}, "event @" + spell_name(event.name), &event.loc},
               fmt::format("its counters end at {}, the schedule has {}", end, s.event_cells));
  }
}

// Checks V2 of segments.
bool check_grid_ids(Verifier& v, const Schedule& s) {
  for (uint32_t w = 0; w < s.streams.size(); ++w)
    for (uint32_t i = 0; i < s.streams[w].size(); ++i)
      v.check_id(s.program.grids.contains(s.streams[w][i].grid),
                 {{Part::kSegment, w, i}, fmt::format("worker {}", w), nullptr},
                 fmt::format("grid %#{}", s.streams[w][i].grid.index));
  return v.errors.empty();
}

}  // namespace

std::vector<Error> verify(const Schedule& s, const Places* places) {
  Verifier v(s.program.name, s.program.symbols, s.program.tensors, places);
  const bool has_form = check_program(v, s.program);
  const bool has_tables = check_tables(v, s);
  // The checks below count tasks and cells. V19 and V23 limit these counts.
  if (!has_form || !has_tables || !v.errors.empty() || !check_grid_ids(v, s)) return v.errors;
  v.check_given_symbols();
  check_placements(v, s);
  // check_streams() needs table grids with a constant number of tasks.
  if (!v.errors.empty()) return v.errors;
  check_streams(v, s);
  check_slots(v, s);
  check_counters(v, s);
  if (v.errors.empty()) check_footprints(v, s.program);
  return v.errors;
}

}  // namespace mkc
