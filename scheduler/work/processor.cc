#include "scheduler/work/processor.h"

#include <string_view>

#include "scheduler/machine/control_path.h"

namespace mkc {
namespace {

// A query row takes so many reduce_ns with each KV tile: its rotation, weights, and partial. The number is an
// estimate from traces.
constexpr int64_t kRowReductions = 4;

LoopRate rate_of(const LoopRates& rates, mkrt::WeightType type) {
  return rates[static_cast<size_t>(type)];
}

// Returns the type of weights that has the name of a cache's type.
mkrt::WeightType loop_type(DType dtype) {
  for (const mkrt::WeightType type : mkrt::kWeightTypes)
    if (mkrt::weight_format(type).name == std::string_view(dtype_name(dtype))) return type;
  MKC_BUG(std::string("no loop of a processor takes ") + dtype_name(dtype));
}

}  // namespace

Groups groups_of(int64_t tokens, uint32_t group, const LoopRate& cached, const LoopRate& stream) {
  if (cached.many > 0 && tokens > group) {
    const double ns = static_cast<double>(tokens) / cached.many;
    return {.count = 2, .first_ns = 1 / stream.one, .others_ns = ns, .cached_ns = 1 / cached.one + ns};
  }
  Groups groups;
  for (uint32_t size = group; tokens > 0; tokens -= size) {
    while (size > tokens) size /= 2;
    const double ns = std::max(1 / cached.one, size / cached.group);
    groups.cached_ns += ns;
    if (groups.count++ > 0) {
      groups.others_ns += ns;
      continue;
    }
    // Arithmetic and memory overlap in part, so the time lies between the measured ones.
    const double one_ns = 1 / stream.one, group_ns = group / stream.group;
    groups.first_ns = group == 1 ? one_ns : one_ns + (group_ns - one_ns) * (size - 1) / (group - 1);
  }
  return groups;
}

void time_on_processor(TaskWork& work, const TaskOn& t, int64_t tokens, uint32_t strips) {
  const Tensor& weight = t.tensor(*find_operand(t.grid, "weight"));
  const mkrt::WeightType type = weight_type(weight);
  const Groups groups =
      groups_of(tokens, t.m.group_tokens, rate_of(t.m.product, type), rate_of(t.m.product_stream, type));
  const double bytes_of_element = weight_format(weight).bits / 8.0;
  const double strip_bytes = 1.0 * work.full_bytes * (work.tiles / work.strips - 1) + work.tail_bytes;
  work.passes = 1;
  work.byte_ns = groups.first_ns / bytes_of_element;
  // A block has strips of several tasks, or all those of an expert's task.
  work.pass_ns = strips * (strip_bytes / bytes_of_element * groups.others_ns +
                           static_cast<double>(tokens) * t.m.reduce_ns);
  const double x_bytes = static_cast<double>(tokens * evaluate(weight.shape.back(), {}) *
                                             dtype_bytes(t.tensor(*multiplied_rows(t.grid)).dtype));
  work.start_ns = product_start_ns(t.m) + x_bytes / t.l2_rate();
  work.starts_once = t.grid.body != BodyKind::kExpert;
  // A worker prepares an expert's rows once for its share of the expert's tasks.
  if (!work.starts_once)
    work.start_ns *= std::min(1.0, t.readers() / static_cast<double>(t.value(t.grid.coords[0].extent)));
  work.end_ns = t.m.task_ns;
}

void attend_on_processor(TaskWork& work, const TaskOn& t, int64_t rows, int64_t kv_tiles, double earlier,
                         double stepped) {
  const Tensor& keys = t.tensor(*find_operand(t.grid, "k_cache"));
  const mkrt::WeightType type = loop_type(keys.dtype);
  const Groups groups =
      groups_of(rows, t.m.group_rows, rate_of(t.m.attend, type), rate_of(t.m.attend_stream, type));
  const auto bytes_of_element = static_cast<double>(dtype_bytes(keys.dtype));
  const double read_ns = work.cold ? groups.first_ns : groups.cached_ns - groups.others_ns;
  work.passes = 1;
  work.byte_ns = read_ns / bytes_of_element;
  work.busy_ns = t.activation_bytes() / t.l2_rate() + stepped / bytes_of_element * groups.cached_ns;
  work.pass_ns = earlier / bytes_of_element * groups.others_ns;
  work.start_ns = t.m.fetch_ns;
  work.end_ns = static_cast<double>(kv_tiles * rows * kRowReductions) * t.m.reduce_ns + t.m.task_ns;
}

}  // namespace mkc
