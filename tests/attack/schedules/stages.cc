#include "tests/attack/schedules/stages.h"

#include <algorithm>

#include "runtime/abi/packing.h"
#include "tests/attack/schedules/footprint.h"

namespace mkc::attack {
namespace {

int64_t over(int64_t n, int64_t by) {
  return (n + by - 1) / by;
}

struct Product {
  int64_t tokens, tiles, split_k, wgmma_from;
  mkrt::WeightType type;
  bool expert;
};

Stages of_strips(const Product& p, int64_t strips) {
  const auto tokens = static_cast<uint32_t>(p.tokens);
  const int64_t at_once = over(strips, p.split_k);
  const mkrt::ProductVariant variant =
      mkrt::product_variant(tokens, p.type, p.expert ? mkrt::kExpert : static_cast<uint32_t>(strips),
                            p.split_k == 1 ? static_cast<uint32_t>(p.wgmma_from) : 0);
  const int64_t passes = over(p.tokens, mkrt::group_tokens(variant));
  if (variant < mkrt::ProductVariant::kMma64)
    return {passes * p.tiles * at_once, variant == mkrt::ProductVariant::kMma32 ? at_once : 1};
  const int64_t k_slices = mkrt::kKSlices / p.split_k;
  if (variant == mkrt::ProductVariant::kWgmma128) return {2 * passes * k_slices * p.tiles, 1};
  const int64_t together = std::max<int64_t>(1, mkrt::mma64_tiles(static_cast<uint32_t>(strips)));
  return {passes * k_slices * over(p.tiles, together), 1};
}

Stages of_attend(const Schedule& s, const Step& step, const TaskGrid& grid, std::span<const int64_t> coords) {
  const Access* cache = find_operand(grid, "k_cache");
  if (!cache) return {};
  const int64_t bytes = dtype_bytes(s.program.tensors[cache->tensor].dtype);
  const int64_t h = int_attr(grid.attrs, "head_dim", 1), window = int_attr(grid.attrs, "window", 0),
                group = int_attr(grid.attrs, "heads", 1) /
                        std::max<int64_t>(1, int_attr(grid.attrs, "kv_heads", 1));
  constexpr int64_t kColumns = 64;  // columns of keys or values in a stage
  const int64_t positions = std::min<int64_t>(mkrt::kStageBytes / (kColumns * bytes), kKvTilePositions),
                rows_at_once = bytes == 4 ? 8 : 16;
  const RowBlock b = row_block(s, step, coords[1]);
  const int64_t part = part_positions_of(s, step, grid),
                begin = b.first_kv_tile(window) * kKvTilePositions + coords[2] * part;
  int64_t taken = 0;
  for (int64_t row = 0; row < b.rows * group; row += rows_at_once) {
    const int64_t last_row = std::min(row + rows_at_once, b.rows * group) - 1;
    const int64_t from = RowBlock::first_seen(b.fresh() + row / group, window),
                  to = b.fresh() + last_row / group + 1;
    for (int64_t first = begin; first < begin + part; first += positions)
      if (first < to && first + positions > from) taken += 2 * over(h, kColumns);
  }
  return {taken, 1};
}

Product product_of(const Schedule& s, const Step& step, const TaskGrid& grid) {
  const Tensor& weight = s.program.tensors[find_operand(grid, "weight")->tensor];
  Product p{};
  p.type = weight_type(weight);
  p.expert = grid.body == BodyKind::kExpert;
  p.split_k = 1;
  if (grid.body == BodyKind::kSplitKPartial && grid.coords[0].extent.is_const())
    p.split_k = std::clamp<int64_t>(grid.coords[0].extent.constant(), 1, mkrt::kKSlices);
  const Access* made = find_operand(grid, grid.body == BodyKind::kSplitKPartial ? "sums" : "out", true);
  if (made)
    p.tokens = step.at(s.program.tensors[made->tensor].shape[grid.body == BodyKind::kSplitKPartial ? 2 : 0]);
  const size_t rank = weight.shape.size();
  p.tiles = mkrt::packed_shape(static_cast<uint64_t>(step.at(weight.shape[rank - 2])),
                               static_cast<uint64_t>(step.at(weight.shape[rank - 1])), p.type)
                .tiles;
  p.wgmma_from = has_warpgroups(s.machine) && step.at(weight.shape[rank - 1]) % 8 == 0
                     ? int_attr(grid.attrs, "wgmma_from", 0)
                     : 0;
  return p;
}

}  // namespace

bool has_warpgroups(const std::string& machine) {
  return machine == "h100" || machine == "h200" || machine == "emulator";
}

int64_t max_strips(const Schedule& s, const Step& step, const TaskGrid& grid) {
  if (!find_operand(grid, "weight")) return 1;
  const Product p = product_of(s, step, grid);
  return mkrt::block_strips(static_cast<uint32_t>(p.tokens), p.type,
                            mkrt::mma64_strips(has_warpgroups(s.machine)));
}

Stages stages_of(const Schedule& s, const Step& step, const TaskGrid& grid, std::span<const int64_t> coords,
                 int64_t count) {
  if (grid.body == BodyKind::kAttend) return of_attend(s, step, grid, coords);
  if (!multiplies(grid) || !find_operand(grid, "weight")) return {};
  Product p = product_of(s, step, grid);
  if (!p.expert) return of_strips(p, count);
  p.tokens = step.active_expert_rows.at(static_cast<size_t>(coords[1]));
  const int64_t strips = int_attr(grid.attrs, "strips", 1);
  const Tensor& weight = s.program.tensors[find_operand(grid, "weight")->tensor];
  const int64_t all = over(step.at(weight.shape[weight.shape.size() - 2]), mkrt::kStripRows);
  return of_strips(p, std::clamp<int64_t>(all - coords[0] * strips, 1, strips));
}

}  // namespace mkc::attack
