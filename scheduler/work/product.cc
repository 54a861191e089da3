// The products are product, split_k_partial and expert.
#include <algorithm>

#include "ir/ceil.h"
#include "runtime/abi/abi.h"
#include "scheduler/machine/control_path.h"
#include "scheduler/work/processor.h"
#include "scheduler/work/variant.h"

namespace mkc {
namespace {

// Returns the bytes of sums that a task of a part leaves.
double sums_bytes(const TaskGrid& partial, int64_t tokens) {
  return static_cast<double>(kKSlices / split_k(partial) * kTileRows * tokens * dtype_bytes(DType::f32));
}

// Sets the time per byte of a tile, which follows from the instructions or from the loads, and the traffic of
// L2 per byte.
void set_rates(TaskWork& work, const TaskOn& t, const Variant& variant, double element_bytes,
               const mkrt::WeightFormat& format) {
  const double x_rows = variant.x_rows + (find_operand(t.grid, "norm") ? 1 : 0);
  const double x_bytes =
      x_rows * element_bytes / (kTileRows * static_cast<double>(format.bits) / 8) / variant.strips;
  const double x_ns = variant.activations_ns / variant.x_bytes / variant.strips;
  const double ns =
      std::max(1 / variant.bytes_per_ns + x_ns, variant.min_ns / variant.x_bytes / variant.strips);
  work.byte_ns = std::max(ns, x_bytes / t.m.worker_l2_bytes_per_ns);
  work.l2_bytes = x_bytes * t.readers();
}

// Returns the bytes that are loaded before the first product: rows for a norm, or sums of squares. Sums of
// squares of few tokens are loaded beside the strips.
double start_bytes(const TaskOn& t, const Tensor& activations, int64_t tokens, bool codes) {
  if (codes) return static_cast<double>(tokens * dtype_bytes(DType::f32));
  const int64_t rows_of_step = evaluate(activations.shape[0], t.step.symbols),
                normed = t.grid.body == BodyKind::kExpert ? rows_of_step : tokens;
  const Access* sum_squares = find_operand(t.grid, "sum_squares");
  if (sum_squares && rows_of_step > mkrt::kMma8Tokens)
    return static_cast<double>(normed * dtype_bytes(DType::f32) *
                               evaluate(t.tensor(*sum_squares).shape[1], {}));
  if (!find_operand(t.grid, "norm")) return 0;
  const int64_t cols = evaluate(t.tensor(*find_operand(t.grid, "weight")).shape.back(), {});
  return static_cast<double>(normed * cols) * static_cast<double>(dtype_bytes(activations.dtype));
}

// Returns the rounds in which the consumer threads take the sums of a block of kMma8Tokens tokens or fewer.
double epilogue_rounds(int64_t tokens) {
  constexpr int64_t of_round = mkrt::kConsumerThreads / (mkrt::kStripRows * mkrt::kBlockStrips);
  return static_cast<double>(ceil_of(tokens, of_round));
}

// Returns the cost of a product of `tokens` rows of activations, which `strips` strips load together.
TaskWork product_work(const TaskOn& t, int64_t tokens, uint32_t strips) {
  const Tensor& weight = t.tensor(*find_operand(t.grid, "weight"));
  const size_t dims = weight.shape.size();
  const int64_t rows = evaluate(weight.shape[dims - 2], {}), cols = evaluate(weight.shape[dims - 1], {});
  const auto shape =
      mkrt::packed_shape(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols), weight_type(weight));
  const auto parts = static_cast<uint32_t>(split_k(t.grid));
  const bool expert = t.grid.body == BodyKind::kExpert;
  const Tensor& activations = t.tensor(*multiplied_rows(t.grid));
  TaskWork work;
  set_tiles(work, shape, parts, expert ? strips : 1);
  if (expert) work.lookup_ns = t.m.fetch_ns;  // lookup of where the expert's rows are
  if (t.m.is_processor()) {
    time_on_processor(work, t, tokens, strips);
    return work;
  }
  Variant variant = variant_of(t.m, t.program, t.grid, tokens, weight_type(weight), strips);
  to_stored_bytes(variant, shape.format);
  const bool by_groups = variant.group == mkrt::kWgmmaTokens, codes = by_groups && reads_codes(t.grid);
  if (activations.dtype == DType::bf16 && variant.activations_ns > 0)
    variant.activations_ns = variant.counts_activations ? 0 : t.m.bf16_activations_ns / (codes ? 2 : 1);
  variant.activations_ns += variant.barrier_ns + (by_groups ? t.m.l2_ns : 0);
  if (variant.group <= mkrt::kMma32Tokens && parts > 1) share_k_slices(variant, parts, strips);

  const DType read = codes ? DType::e4m3 : activations.dtype;
  set_rates(work, t, variant, static_cast<double>(dtype_bytes(read)), shape.format);
  work.passes = static_cast<uint32_t>(ceil_of(tokens, variant.group));
  work.starts_once = true;
  const double bytes_ns = start_bytes(t, activations, tokens, codes) / t.l2_rate(),
               sums_ns = sums_bytes(t.grid, tokens) * strips / work.passes / t.l2_rate();
  work.issue_ns = weight_issue_ns(t.m, work.full_bytes);
  if (variant.group == mkrt::kMma8Tokens) {
    work.start_ns = path_ns(t.m, kProductStart) + bytes_ns;
    work.pass_ns = std::max(t.m.l2_ns, path_ns(t.m, kFirstProduct)) + path_ns(t.m, kProductSums);
    work.pass_ns += parts > 1 ? sums_ns : epilogue_rounds(tokens) * path_ns(t.m, kEpilogue);
    work.end_ns = path_ns(t.m, kProductNotify);
    return work;
  }
  work.start_ns = product_start_ns(t.m) + bytes_ns;
  work.pass_ns = (by_groups ? 0 : t.m.l2_ns) + (parts > 1 ? sums_ns : variant.epilogues * t.m.reduce_ns);
  work.end_ns = t.m.task_ns + t.m.barrier_ns;
  return work;
}

// Returns the rows of the weight that the task multiplies.
int64_t weight_rows(const TaskOn& t) {
  const Access& weight = *find_operand(t.grid, "weight");
  const size_t dim = t.tensor(weight).shape.size() - 2;
  const Range& range = weight.region[dim];
  return std::min(t.value(range.size), evaluate(t.tensor(weight).shape[dim], {}) - t.value(range.offset));
}

TaskWork strips_work(const TaskOn& t, uint32_t strips) {
  const Access& weight = *find_operand(t.grid, "weight");
  TaskWork work = product_work(t, rows_of_task(t.step, t.grid, t.coords), strips);
  const int64_t columns = std::max<int64_t>(0, t.value(weight.region.back().size));
  work.needed_bytes =
      static_cast<uint64_t>(weight_rows(t) * columns * weight_format(t.tensor(weight)).bits / 8);
  return work;
}

// An expert's task multiplies all its strips with the rows of its expert.
TaskWork expert_work(const TaskOn& t, uint32_t) {
  return strips_work(t, static_cast<uint32_t>(ceil_of(weight_rows(t), kTileRows)));
}

}  // namespace

void set_tiles(TaskWork& work, const mkrt::PackedShape& shape, uint32_t parts, uint32_t strips) {
  const auto strip_bytes = static_cast<int64_t>(shape.strip_bytes / parts);
  const int64_t scale_bytes = mkrt::kKSlices / parts * shape.format.scale_bytes;
  work.strips = strips;
  work.full_bytes = mkrt::full_tile_bytes(shape.format);
  const auto tiles = static_cast<uint32_t>(ceil_of(strip_bytes - scale_bytes, work.full_bytes));
  work.tiles = work.strips * tiles;
  work.tail_bytes = static_cast<uint32_t>(strip_bytes - int64_t{tiles - 1} * work.full_bytes);
}

int64_t rows_of_task(const Step& step, const TaskGrid& grid, std::span<const int64_t> coords) {
  const Region& made = grid.writes[0].region;
  return evaluate(made[grid.body == BodyKind::kSplitKPartial ? 2 : 0].size, step.symbols, coords);
}

const BodyWork kProductWork = {.work = strips_work};
const BodyWork kExpertWork = {.work = expert_work};

}  // namespace mkc
