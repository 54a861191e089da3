#include "scheduler/proof/check_values.h"

#include "scheduler/machine/cost.h"
#include "scheduler/place/step.h"
#include "scheduler/proof/chosen_values.h"
#include "scheduler/proof/value_accesses.h"
#include "scheduler/proof/value_order.h"

namespace mkc::proof {
namespace {

constexpr int64_t kFewValues = 256;

// Returns all values of the symbols. Returns nothing where there are lists, caches, symbols that are found
// within the step, or too many values.
std::vector<std::vector<int64_t>> few_values(const TaskProgram& program) {
  for (const Tensor& t : program.tensors)
    if (t.kind == TensorKind::kCache) return {};
  int64_t count = 1;
  for (const Symbol& s : program.symbols) {
    if (s.is_list() || s.routed || s.cut || s.bounds.hi - s.bounds.lo >= kFewValues / count) return {};
    count *= s.bounds.hi - s.bounds.lo + 1;
  }
  std::vector<std::vector<int64_t>> values;
  for (int64_t number = 0; number < count; ++number) {
    int64_t rest = number;
    std::vector<int64_t>& at = values.emplace_back();
    for (const Symbol& s : program.symbols) {
      const int64_t size = s.bounds.hi - s.bounds.lo + 1;
      at.push_back(s.bounds.lo + rest % size);
      rest /= size;
    }
  }
  return values;
}

Status check_at(const Schedule& schedule, const Places* places, const std::vector<int64_t>& symbols,
                uint64_t& orderings) {
  Result<Step> step = expand_step(schedule, symbols, places);
  if (!step.ok()) return step.error();
  Result<HappensBefore> order = order_tasks(step.value());
  if (!order.ok()) return order.error();
  return mkc::check_accesses(step.value(), order.value(), orderings);
}

}  // namespace

Result<ValuesChecked> check_at_values(const Schedule& schedule, const Places* places, uint64_t task_budget) {
  std::vector<std::vector<int64_t>> values = few_values(schedule.program);
  ValuesChecked checked;
  checked.all = !values.empty();
  if (values.empty()) values = chosen_values(schedule.program);
  if (values.empty())
    return error_about({Part::kHeader}, "no symbol values within bounds give every region a size", places);
  for (const std::vector<int64_t>& symbols : values) {
    uint64_t tasks = 0;
    for (const TaskGrid& grid : schedule.program.grids)
      tasks += static_cast<uint64_t>(task_count(grid, symbols));
    if (checked.values.size() >= 2 && checked.tasks + tasks > task_budget) {
      checked.all = false;
      continue;
    }
    if (Status status = check_at(schedule, places, symbols, checked.orderings); !status.ok())
      return status.error();
    checked.values.push_back(symbols);
    checked.tasks += tasks;
  }
  return checked;
}

}  // namespace mkc::proof
