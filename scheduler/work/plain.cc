// These bodies load activations and compute at once: embed, append, combine, sample, route, expert_sum,
// split_k_reduce, row and quantize.
#include "scheduler/work/task.h"

namespace mkc {
namespace {

// Embedding rows come from memory.
TaskWork embed_work(const TaskOn& t, uint32_t strips) {
  TaskWork work = plain_work(t, strips);
  const Tensor& table = t.tensor(*find_operand(t.grid, "table"));
  work.cold_bytes = static_cast<uint64_t>(evaluate(table.shape[1], {}) * dtype_bytes(table.dtype));
  return work;
}

// An expert_sum task reads only the rows of the experts that its token chose.
int64_t expert_sum_elements(const TaskOn& t, const Access& read) {
  if (read.role != "x") return t.elements(read.region);
  const int64_t choices = t.elements(find_operand(t.grid, "routing_weight")->region);
  return t.elements(read.region) / evaluate(read.region[0].size, t.step.symbols) * choices;
}

}  // namespace

int attention_stages(const TaskGrid& grid) {
  return (find_operand(grid, "k_norm") != nullptr) + (find_operand(grid, "rope") != nullptr) + 1;
}

TaskWork plain_work(const TaskOn& t, uint32_t) {
  TaskWork work;
  work.start_ns = t.m.fetch_ns;
  work.busy_ns = t.activation_bytes() / t.l2_rate();
  work.end_ns = t.m.task_ns + t.m.barrier_ns;
  return work;
}

const BodyWork kPlainWork = {.work = plain_work};
const BodyWork kEmbedWork = {.work = embed_work};
const BodyWork kAppendWork = {.work = plain_work, .stages_before = attention_stages};
const BodyWork kExpertSumWork = {.work = plain_work, .elements_read = expert_sum_elements};

}  // namespace mkc
