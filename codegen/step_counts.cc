#include "codegen/step_counts.h"

#include <algorithm>
#include <memory>

#include "codegen/given_values.h"
#include "ir/values.h"
#include "runtime/emulator/emulator.h"

namespace mkc {
namespace {

bool mentions(const Expr& e, SymbolId symbol) {
  return std::any_of(e.nodes.begin(), e.nodes.end(), [&](const ExprNode& node) {
    return node.kind == ExprKind::kSymbol && node.value == symbol.index;
  });
}

bool is_routed(const Event& event, SymbolId active_experts) {
  return mentions(event.expect, active_experts) ||
         std::any_of(event.dims.begin(), event.dims.end(),
                     [&](const Expr& e) { return mentions(e, active_experts); });
}

// Returns, by event, a grid that reads its number of active experts from a table. All grids of an event that
// read such a table read one and the same table.
std::vector<GridId> routed_grids(const TaskProgram& program) {
  std::vector<GridId> grids(program.events.size());
  for (GridId id : program.grids.ids()) {
    const TaskGrid& grid = program.grids[id];
    if (!find_operand(grid, kActiveExpertsSymbol)) continue;
    for (const Wait& wait : grid.waits)
      if (!wait.lookup) grids[wait.event.index] = id;
    for (const Notify& notify : grid.notifies)
      if (!grids[notify.event.index].valid()) grids[notify.event.index] = id;
  }
  return grids;
}

// Values has the values of the symbols of one step.
class Values {
 public:
  Values(const Schedule& schedule, const mkrt::StepGiven& given)
      : symbols_(schedule.program.symbols),
        active_experts_(step_symbols(symbols_).active_experts),
        values_(given_values(symbols_, given)) {}

  // Returns the values for this number of active experts. The rows of experts do not matter to events.
  const std::vector<int64_t>& with_active_experts(uint32_t active_experts) {
    if (active_experts_.valid())
      values_[active_experts_.index] = std::min<int64_t>(active_experts, symbols_[active_experts_].bounds.hi);
    return values_;
  }

 private:
  const Symbols& symbols_;
  SymbolId active_experts_;
  std::vector<int64_t> values_;
};

class Counter {
 public:
  Counter(const Schedule& schedule, const mkrt::StepGiven& given, std::span<const uint32_t> looked_up)
      : s_(schedule), values_(schedule, given), looked_up_(looked_up) {
    counts_.counters.resize(schedule.event_cells);
  }

  mkrt::StepCounts count(Mode mode) {
    for (GridId id : s_.program.grids.ids())
      counts_.tasks.push_back(static_cast<uint32_t>(
          TaskSpace(s_.program.grids[id], values_.with_active_experts(looked_up_[id.index])).count()));
    if (mode == Mode::kKernels) return std::move(counts_);
    const SymbolId active_experts = step_symbols(s_.program.symbols).active_experts;
    const std::vector<GridId> routed = routed_grids(s_.program);
    for (EventId id : s_.program.events.ids()) {
      const bool depends = active_experts.valid() && is_routed(s_.program.events[id], active_experts);
      count_event(id, depends ? looked_up_[routed[id.index].index] : 0);
    }
    for (GridId id : s_.program.grids.ids()) count_tickets(id);
    return std::move(counts_);
  }

 private:
  void count_event(EventId id, uint32_t active_experts) {
    const Event& event = s_.program.events[id];
    const std::vector<int64_t>& values = values_.with_active_experts(active_experts);
    std::vector<int64_t> extents;
    int64_t cells = 1;
    for (const Expr& dim : event.dims) {
      extents.push_back(evaluate(dim, values));
      cells *= std::max<int64_t>(0, extents.back());
    }
    const uint32_t base = s_.event_base[id.index];
    std::vector<uint32_t> completed;
    std::vector<int64_t> cell(extents.size());
    for (int64_t number = 0; number < cells; ++number) {
      for (size_t d = extents.size(), rest = static_cast<size_t>(number); d-- > 0;) {
        cell[d] = static_cast<int64_t>(rest) % extents[d];
        rest /= static_cast<size_t>(extents[d]);
      }
      const int64_t expect = evaluate(event.expect, values, cell);
      counts_.counters[base + static_cast<uint32_t>(number)] = static_cast<uint32_t>(expect);
      if (expect != 0) completed.push_back(static_cast<uint32_t>(number) + 1);
    }
    if (!keeps_log(s_, id)) return;
    const uint32_t log = base + max_cells(s_.program, id);
    counts_.counters[log] = static_cast<uint32_t>(completed.size());
    std::copy(completed.begin(), completed.end(), counts_.counters.begin() + log + 1);
    counts_.logs.push_back({log + 1, static_cast<uint32_t>(completed.size())});
  }

  void count_tickets(GridId id) {
    if (!claims_by_ticket(s_.placements[id.index].kind)) return;
    counts_.counters[s_.placements[id.index].tickets] = counts_.tasks[id.index] + s_.workers;
  }

  const Schedule& s_;
  Values values_;
  std::span<const uint32_t> looked_up_;
  mkrt::StepCounts counts_;
};

}  // namespace

std::vector<uint32_t> looked_up_tensors(const Schedule& schedule) {
  std::vector<uint32_t> tensors;
  for (const TaskGrid& grid : schedule.program.grids) {
    const Access* table = find_operand(grid, kActiveExpertsSymbol);
    tensors.push_back(table ? table->tensor.index : mkrt::kNotLookedUp);
  }
  return tensors;
}

mkrt::CountStep step_counts(const Schedule& schedule, Mode mode) {
  return [s = std::make_shared<Schedule>(schedule), mode](const mkrt::StepGiven& given,
                                                          std::span<const uint32_t> looked_up) {
    return Counter(*s, given, looked_up).count(mode);
  };
}

}  // namespace mkc
