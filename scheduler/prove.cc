#include "scheduler/prove.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/bodies.h"
#include "runtime/packing.h"
#include "scheduler/cost.h"
#include "scheduler/order.h"
#include "scheduler/prove_access.h"
#include "scheduler/prove_order.h"
#include "scheduler/prove_step.h"
#include "scheduler/prove_values.h"
#include "scheduler/workspace.h"

namespace mkc {
namespace {

// Rule 1, as far as it does not depend on symbols.
Status check_placements(const Schedule& s) {
  const TaskProgram& program = s.program;
  if (s.workers == 0 || s.streams.size() != s.workers)
    return Error{fmt::format("error: {} workers have {} streams", s.workers, s.streams.size())};
  if (s.placements.size() != program.grids.size())
    return Error{
        fmt::format("error: {} grids have {} placements", program.grids.size(), s.placements.size())};
  std::vector<std::vector<uint32_t>> segments(s.workers, std::vector<uint32_t>(program.grids.size(), 0));
  for (uint32_t w = 0; w < s.workers; ++w)
    for (const Segment& segment : s.streams[w]) {
      if (!program.grids.contains(segment.grid))
        return Error{fmt::format("error: worker {} has a segment of grid {}, which does not exist", w,
                                 segment.grid.index)};
      ++segments[w][segment.grid.index];
    }
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    const bool symbolic = std::any_of(grid.coords.begin(), grid.coords.end(),
                                      [](const Coord& c) { return uses_symbol(c.extent); });
    switch (s.placements[g.index].kind) {
      case PlacementKind::kTable:
        if (symbolic)
          return Error{
              fmt::format("error: %{} is placed by table, but its extent depends on symbols", grid.name)};
        break;
      case PlacementKind::kReady:
        if (const std::string reason = why_not_ready(program, g); !reason.empty())
          return Error{fmt::format("error: %{} is placed by ready, but {}", grid.name, reason)};
        [[fallthrough]];
      case PlacementKind::kRange:
      case PlacementKind::kQueue:
        for (uint32_t w = 0; w < s.workers; ++w)
          if (segments[w][g.index] != 1)
            return Error{
                fmt::format("error: %{} is placed by {}, but the stream of worker {} has {} segments of "
                            "it, expected 1",
                            grid.name, placement_name(s.placements[g.index].kind), w, segments[w][g.index])};
        break;
      case PlacementKind::kInline:
        for (uint32_t w = 0; w < s.workers; ++w)
          if (segments[w][g.index] != 0)
            return Error{
                fmt::format("error: %{} runs inline, but is in the stream of worker {}", grid.name, w)};
        if (grid.waits.size() != 1)
          return Error{fmt::format("error: %{} runs inline, but has {} waits, expected 1", grid.name,
                                   grid.waits.size())};
        if (keeps_log(s, grid.waits[0].event))
          return Error{fmt::format("error: %{} runs inline, but @{} keeps a log for a grid that is ready",
                                   grid.name, program.events[grid.waits[0].event].name)};
        break;
    }
  }
  return {};
}

struct Span {
  uint64_t begin, end;
  std::string name;
};

// No two spans meet, and none leaves the arena.
Status check_disjoint(std::vector<Span> spans, uint64_t arena_end, const char* arena) {
  std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
  for (size_t i = 0; i < spans.size(); ++i) {
    if (spans[i].end > arena_end)
      return Error{fmt::format("error: {} ends at {}, beyond the {} of {}", spans[i].name, spans[i].end,
                               arena, arena_end)};
    if (i > 0 && spans[i].begin < spans[i - 1].end)
      return Error{
          fmt::format("error: {} and {} overlap in the {}", spans[i - 1].name, spans[i].name, arena)};
  }
  return {};
}

// Rule 2 of counters: those of an event's cells, of its log, with room for each of them once, and tickets.
Status check_counters(const Schedule& s) {
  const std::vector<uint32_t> needed = event_counters(s);
  if (s.event_base.size() != needed.size())
    return Error{fmt::format("error: {} events have {} counter bases", needed.size(), s.event_base.size())};
  std::vector<Span> counters;
  for (EventId e : s.program.events.ids())
    counters.push_back({s.event_base[e.index], uint64_t{s.event_base[e.index]} + needed[e.index],
                        "@" + s.program.events[e].name});
  for (GridId g : s.program.grids.ids())
    if (const Placement& p = s.placements[g.index]; draws_tickets(p.kind))
      counters.push_back({p.tickets, uint64_t{p.tickets} + 1, "tickets of %" + s.program.grids[g].name});
  return check_disjoint(counters, s.event_cells, "counters");
}

// Rule 2. Activations may overlap each other: rule 6 looks at them.
Status check_memory(const Schedule& s) {
  const TaskProgram& program = s.program;
  const std::vector<uint64_t> needed = slot_bytes(program);
  if (s.slots.size() != needed.size())
    return Error{fmt::format("error: {} tensors have {} slots", needed.size(), s.slots.size())};
  std::vector<Span> weights, outputs;
  for (TensorId t : program.tensors.ids()) {
    const Slot& slot = s.slots[t.index];
    const std::string name = "%" + program.tensors[t].name;
    if (slot.bytes < needed[t.index])
      return Error{
          fmt::format("error: the slot of {} has {} bytes, it needs {}", name, slot.bytes, needed[t.index])};
    if (slot.bytes == 0) continue;
    const Span span{slot.offset, slot.offset + slot.bytes, name};
    switch (program.tensors[t].kind) {
      case TensorKind::kInput:
      case TensorKind::kCache:
        break;
      case TensorKind::kWeight:
      case TensorKind::kTable:
        weights.push_back(span);
        break;
      case TensorKind::kOutput:
        outputs.push_back(span);
        break;
      case TensorKind::kActivation:
        if (Status status = check_disjoint({span}, s.workspace_bytes, "workspace"); !status.ok())
          return status;
    }
  }
  // An output outlives the step: it may share with no activation.
  for (const Span& output : outputs)
    for (TensorId t : program.tensors.ids()) {
      const Slot& slot = s.slots[t.index];
      if (program.tensors[t].kind != TensorKind::kActivation || slot.bytes == 0) continue;
      const Span other{slot.offset, slot.offset + slot.bytes, "%" + program.tensors[t].name};
      if (Status status = check_disjoint({output, other}, s.workspace_bytes, "workspace"); !status.ok())
        return status;
    }
  if (Status status = check_disjoint(weights, s.weight_bytes, "weights"); !status.ok()) return status;
  if (Status status = check_disjoint(outputs, s.workspace_bytes, "workspace"); !status.ok()) return status;

  return check_counters(s);
}

// Rule 2 at given values, for shapes that do not grow with each symbol.
Status check_shapes(const Schedule& s, const std::vector<int64_t>& symbols) {
  for (TensorId t : s.program.tensors.ids()) {
    const Tensor& tensor = s.program.tensors[t];
    if (tensor.kind != TensorKind::kActivation && tensor.kind != TensorKind::kOutput) continue;
    auto needed = static_cast<uint64_t>(dtype_bytes(tensor.dtype));
    for (const Expr& dim : tensor.shape)
      needed *= static_cast<uint64_t>(std::max<int64_t>(0, evaluate(dim, symbols)));
    if (s.slots[t.index].bytes < needed)
      return Error{fmt::format("error: the slot of %{} has {} bytes, with {} it needs {}", tensor.name,
                               s.slots[t.index].bytes, values_text(s.program.symbols, symbols), needed)};
  }
  return {};
}

// By TensorId, the last grid that writes it; -1: none.
std::vector<int64_t> last_writers(const TaskProgram& program) {
  std::vector<int64_t> last(program.tensors.size(), -1);
  for (GridId g : program.grids.ids())
    for (const Access& write : program.grids[g].writes) last[write.tensor.index] = g.index;
  return last;
}

// Rule 3: workers that look up which tasks they have and what these stream wait for all who write that, and
// nothing overwrites it.
Status check_tables(const Schedule& s, GridId g, const std::vector<int64_t>& last_writer) {
  const TaskProgram& program = s.program;
  const TaskGrid& grid = program.grids[g];
  const auto awaits_all = [&](const TaskGrid& writer) {
    return std::any_of(grid.waits.begin(), grid.waits.end(), [&](const Wait& wait) {
      return wait.lookup && std::any_of(writer.notifies.begin(), writer.notifies.end(), [&](const Notify& n) {
               return n.event == wait.event && program.events[n.event].dims.empty();
             });
    });
  };
  for (const Access& read : grid.reads) {
    if (!looks_up(grid.body, read.role)) continue;
    const Slot& table = s.slots[read.tensor.index];
    for (TensorId t : program.tensors.ids()) {
      const Slot& other = s.slots[t.index];
      if (t != read.tensor && last_writer[t.index] > last_writer[read.tensor.index] &&
          program.tensors[t].kind == TensorKind::kActivation && other.offset < table.offset + table.bytes &&
          table.offset < other.offset + other.bytes)
        return Error{fmt::format("error: %{} looks up %{}, which %{} may overwrite", grid.name,
                                 program.tensors[read.tensor].name, program.tensors[t].name)};
    }
    for (const TaskGrid& writer : program.grids)
      for (const Access& write : writer.writes)
        if (write.tensor == read.tensor && !awaits_all(writer))
          return Error{fmt::format("error: %{} looks up %{} without a lookup after %{}", grid.name,
                                   program.tensors[read.tensor].name, writer.name)};
  }
  return {};
}

// Rule 3. With it, ring reuse adds nothing to rule 5: tiles are loaded in stream order, and tile i waits for
// the release of tile i - stages, by a task at the same or an earlier place of the same stream.
Status check_ring(const Schedule& s) {
  const std::vector<int64_t> last = last_writers(s.program);
  for (GridId g : s.program.grids.ids())
    if (Status status = check_tables(s, g, last); !status.ok()) return status;
  std::set<TensorId> written;
  for (const TaskGrid& grid : s.program.grids)
    for (const Access& write : grid.writes) written.insert(write.tensor);
  for (TensorId t : written) {
    const TensorKind kind = s.program.tensors[t].kind;
    if (kind == TensorKind::kInput || kind == TensorKind::kWeight || kind == TensorKind::kTable)
      return Error{
          fmt::format("error: %{} is written, but is an input, weight or table", s.program.tensors[t].name)};
  }
  for (GridId g : s.program.grids.ids()) {
    const TaskGrid& grid = s.program.grids[g];
    for (const Access& read : grid.reads) {
      if (!read.stream) continue;
      const std::string& tensor = s.program.tensors[read.tensor].name;
      if (s.ring.stages == 0)
        return Error{fmt::format("error: %{} streams %{}, but the ring has 0 stages", grid.name, tensor)};
      if (s.ring.stage_bytes < mkrt::kStageBytes)
        return Error{fmt::format("error: %{} streams %{} in tiles of {} bytes, but a stage has {}", grid.name,
                                 tensor, mkrt::kStageBytes, s.ring.stage_bytes)};
      const bool kept = s.program.tensors[read.tensor].kind == TensorKind::kCache;  // rule 7 looks at parts
      if (written.contains(read.tensor) && !kept)
        return Error{
            fmt::format("error: %{} streams %{}, which is written in the same step", grid.name, tensor)};
      if (s.placements[g.index].kind == PlacementKind::kInline)
        return Error{fmt::format("error: %{} runs inline and streams %{}, but no loader knows when",
                                 grid.name, tensor)};
    }
  }
  return {};
}

// Whether the grids can be numbered so that every stream and every event goes from lower to higher. Then no
// step has a cycle, whatever the symbols and however many notifications are added up.
bool grids_have_one_order(const Schedule& s) {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (const auto& stream : s.streams)
    for (size_t i = 1; i < stream.size(); ++i)
      edges.emplace_back(stream[i - 1].grid.index, stream[i].grid.index);
  std::vector<std::vector<uint32_t>> notifiers(s.program.events.size());
  for (GridId g : s.program.grids.ids())
    for (const Notify& n : s.program.grids[g].notifies) notifiers[n.event.index].push_back(g.index);
  for (GridId g : s.program.grids.ids())
    for (const Wait& wait : s.program.grids[g].waits)
      for (uint32_t notifier : notifiers[wait.event.index]) edges.emplace_back(notifier, g.index);
  return topological_order(s.program.grids.size(), edges).cycle.empty();
}

// Rule 5. A worker looks up before it knows whether it has tasks; the checks at given values see only those
// who have.
Status check_lookups(const Schedule& s, bool one_order) {
  for (const TaskGrid& grid : s.program.grids)
    for (const Wait& wait : grid.waits)
      if (wait.lookup && !one_order)
        return Error{
            fmt::format("error: %{} looks up its tasks, but its grids have no one order", grid.name)};
  return {};
}

}  // namespace

Result<ProofReport> prove(const Schedule& schedule, const ProveOptions& options) {
  for (auto rule : {check_placements, check_memory, check_ring})
    if (Status s = rule(schedule); !s.ok()) return s.error();

  ProofReport report;
  report.deadlock_free_for_all = grids_have_one_order(schedule);
  if (Status s = check_lookups(schedule, report.deadlock_free_for_all); !s.ok()) return s.error();
  const auto samples = chosen_values(schedule.program);
  if (samples.empty()) return Error{"error: no symbol values within bounds give every region a size"};
  for (const std::vector<int64_t>& symbols : samples) {
    uint64_t tasks = 0;
    for (const TaskGrid& grid : schedule.program.grids)
      tasks += static_cast<uint64_t>(task_count(grid, symbols));
    if (report.checked.size() >= 2 && report.tasks + tasks > options.task_budget) {
      ++report.values_left_out;
      continue;
    }
    if (Status s = check_shapes(schedule, symbols); !s.ok()) return s.error();
    Result<Step> step = expand_step(schedule, symbols);
    if (!step.ok()) return step.error();
    Result<HappensBefore> order = order_tasks(step.value());
    if (!order.ok()) return order.error();
    if (Status s = check_accesses(step.value(), order.value(), report.orderings); !s.ok()) return s.error();
    report.checked.push_back(symbols);
    report.tasks += tasks;
  }
  return report;
}

std::string to_string(const ProofReport& report, const Schedule& schedule) {
  return fmt::format(
      "{}: {}; {} symbol values checked task by task ({} left out), {} tasks, {} orderings",
      schedule.program.name,
      report.deadlock_free_for_all ? "no deadlock for any symbol value" : "no deadlock at the checked values",
      report.checked.size(), report.values_left_out, report.tasks, report.orderings);
}

}  // namespace mkc
