#include <algorithm>
#include <map>

#include "scheduler/machine/control_path.h"
#include "scheduler/work/task.h"

namespace mkc {
namespace {

// The table is in the order of BodyKind.
constexpr const BodyWork* kWorks[] = {
    &kEmbedWork,  &kProductWork,   &kAppendWork,  &kAttendWork, &kPlainWork, &kPlainWork, &kPlainWork,
    &kExpertWork, &kExpertSumWork, &kProductWork, &kPlainWork,  &kPlainWork, &kPlainWork};
static_assert(std::size(kWorks) == std::size(kBodyKinds));

// Returns the number of bodies that more than one grid has. Layers come back to these bodies.
uint32_t looped_bodies(const TaskProgram& program) {
  std::map<BodyKind, uint32_t> grids;
  for (const TaskGrid& grid : program.grids) ++grids[grid.body];
  return static_cast<uint32_t>(
      std::ranges::count_if(grids, [](const auto& body) { return body.second > 1; }));
}

}  // namespace

const BodyWork& work_of(BodyKind kind) {
  return *kWorks[static_cast<size_t>(kind)];
}

TaskOn::TaskOn(const Step& task_step, const StepSymbols& step_symbols, const Machine& machine,
               uint32_t number)
    : step(task_step),
      symbols(step_symbols),
      m(machine),
      task(number),
      id(step.grid_of[number]),
      program(step.schedule->program),
      grid(program.grids[id]) {
  task_coords(step, task, coords);
}

int64_t TaskOn::elements(const Region& region) const {
  int64_t elements = 1;
  for (const Range& range : region) elements *= std::max<int64_t>(0, value(range.size));
  return elements;
}

double TaskOn::activation_bytes() const {
  const auto elements_read = work_of(grid.body).elements_read;
  double bytes = 0;
  for (const Access& read : grid.reads) {
    const Tensor& t = tensor(read);
    if (t.kind != TensorKind::kActivation && t.kind != TensorKind::kOutput) continue;
    const int64_t count = elements_read ? elements_read(*this, read) : elements(read.region);
    bytes += static_cast<double>(count * dtype_bytes(t.dtype));
  }
  return bytes;
}

double TaskOn::readers() const {
  return std::clamp(step.task_base[id.index + 1] - step.task_base[id.index], 1u, step.schedule->workers);
}

double TaskOn::l2_rate() const {
  return std::min(m.worker_l2_bytes_per_ns, (m.l2_bytes_per_ns - m.stream_bytes_per_ns) / readers());
}

FusedStages fused_stages(const TaskGrid& grid) {
  const auto before = work_of(grid.body).stages_before;
  const bool normed = find_operand(grid, "norm") || find_operand(grid, "sum_squares");
  const bool ends = int_attr(grid.attrs, "gate", 0) != 0 || find_operand(grid, "residual");
  return {before ? before(grid) : normed, ends};
}

TaskWorks::TaskWorks(const Step& step, const Machine& machine)
    : step_(step),
      symbols_(step_symbols(step.schedule->program.symbols)),
      machine_(machine),
      blocks_(step.schedule->program.grids.size(), 1) {
  const TaskProgram& program = step.schedule->program;
  dispatch_ns_ = path_ns(machine, kDispatch) + code_miss_ns(machine, looped_bodies(program) + 1);
  for (GridId g : program.grids.ids()) {
    const TaskGrid& grid = program.grids[g];
    if (!multiplies_in_blocks(grid)) continue;
    const Tensor& weight = program.tensors[find_operand(grid, "weight")->tensor];
    blocks_[g.index] = mkrt::block_strips(static_cast<uint32_t>(rows_of_task(step, grid)),
                                          weight_type(weight), mkrt::mma64_strips(machine.warpgroups));
  }
}

TaskWork TaskWorks::of(uint32_t task, uint32_t strips) const {
  const TaskOn on(step_, symbols_, machine_, task);
  return work_of(on.grid.body).work(on, strips);
}

uint32_t TaskWorks::block(GridId grid, uint32_t first) const {
  const uint32_t tasks = step_.task_base[grid.index + 1] - step_.task_base[grid.index];
  const uint32_t of_part = tasks / static_cast<uint32_t>(split_k(step_.schedule->program.grids[grid]));
  return std::min(blocks_[grid.index], of_part - first % of_part);
}

}  // namespace mkc
