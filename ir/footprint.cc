#include "ir/footprint.h"

#include <fmt/format.h>

#include "ir/bodies.h"
#include "ir/footprint_attention.h"
#include "ir/values.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

// Returns the range of `size` elements from size * coordinate on. The range is cut to the dim, unless `size`
// divides a constant dim.
Range strip_range(int64_t size, const Expr& dim, uint32_t coordinate) {
  const Expr offset = size * coord(coordinate);
  const bool even = dim.is_const() && dim.constant() % size == 0;
  return {offset, even ? Expr(size) : min(size, dim - offset)};
}

// Returns the rows of a request in the step, cut to the rows of a tensor.
std::optional<Range> request_rows(const TaskProgram& program, const Expr& rows, uint32_t coordinate) {
  const SymbolId first = find_symbol(program.symbols, "first_row"),
                 count = find_symbol(program.symbols, "q_len");
  if (!first.valid() || !count.valid()) return std::nullopt;
  const Expr start = element(first, coord(coordinate));
  return Range{start, min(element(count, coord(coordinate)), rows - start)};
}

// Shape holds what the functions below need to know about one operand.
struct Shape {
  const TaskProgram& program;
  const TaskGrid& grid;
  const BodyOperand& operand;
  const std::vector<Expr>& dims;

  bool is(std::string_view role) const { return operand.role == role; }
  Range all(size_t dim) const { return {0, dims[dim]}; }
  Region whole() const {
    Region region;
    for (const Expr& dim : dims) region.push_back({0, dim});
    return region;
  }
  Range strip(int64_t size, size_t dim, uint32_t coordinate = 0) const {
    return strip_range(size, dims[dim], coordinate);
  }
};

Range each(uint32_t coordinate) {
  return {coord(coordinate), 1};
}

// Returns the columns of `out` that a strip of weight rows makes. A gate row and an up row make one column
// together.
int64_t strip_columns(const TaskGrid& grid) {
  return int_attr(grid.attrs, "gate", 0) != 0 ? kTileRows / 2 : kTileRows;
}

Region of_embed(const Shape& s) {
  if (s.is("tokens")) return {each(0)};
  if (s.is("out") || s.is("x_bf16") || s.is("sum_squares")) return {each(0), s.all(1)};
  return s.whole();
}

// Returns the region of a product or split_k_reduce. Coordinate 0 is the strip.
Region of_strip(const Shape& s) {
  const bool columns = s.is("out") || s.is("x_bf16") || s.is("residual");
  if (columns) return {s.all(0), s.strip(strip_columns(s.grid), 1)};
  if (s.is("weight")) return {s.strip(kTileRows, 0), s.all(1)};
  if (s.is("bias")) return {s.strip(kTileRows, 0)};
  if (s.is("next_norm")) return {s.strip(strip_columns(s.grid), 0)};
  const bool a_strip = s.is("best_value") || s.is("best_index") || (s.is("sum_squares") && s.operand.written);
  if (a_strip) return {s.all(0), each(0)};
  if (s.is("sums")) return {each(0), s.all(1), s.all(2), s.all(3)};
  return s.whole();
}

// Returns the region of a split_k_partial task: part coord(0) of strip coord(1). A part is some whole K
// slices of the packed columns.
Region of_split_k_partial(const Shape& s) {
  const int64_t parts = s.grid.coords[0].extent.constant();
  if (s.is("weight")) {
    const auto packed = mkrt::packed_shape(static_cast<uint64_t>(s.dims[0].constant()),
                                           static_cast<uint64_t>(s.dims[1].constant()),
                                           weight_type(s.program.tensors[s.operand.tensor]));
    const int64_t size = static_cast<int64_t>(packed.padded_cols) / parts, columns = s.dims[1].constant();
    const Expr offset = size * coord(0);
    return {s.strip(kTileRows, 0, 1),
            {offset, size * parts == columns ? Expr(size) : min(size, columns - offset)}};
  }
  const int64_t k_slices = kKSlices / parts;
  if (s.is("sums")) return {each(1), {k_slices * coord(0), k_slices}, s.all(2), s.all(3)};
  return s.whole();
}

std::optional<Region> of_sample(const Shape& s) {
  if (s.is("next")) return Region{each(0)};
  const std::optional<Range> own = request_rows(s.program, s.dims[0], 0);
  if (!own) return std::nullopt;
  // Gathered logits have the row of request b at index b. Otherwise the row is the request's last one. The
  // region covers both cases.
  return Region{{coord(0), own->offset + own->size - coord(0)}, s.all(1)};
}

// Returns the rows of active expert coord(1).
std::optional<Range> active_expert_rows(const Shape& s) {
  const SymbolId begin = find_symbol(s.program.symbols, "active_expert_begin"),
                 rows = find_symbol(s.program.symbols, "active_expert_rows");
  if (!begin.valid() || !rows.valid()) return std::nullopt;
  const Expr start = element(begin, coord(1));
  return Range{start, min(element(rows, coord(1)), s.dims[0] - start)};
}

std::optional<Region> of_expert(const Shape& s) {
  const int64_t strips = task_strips(s.grid);
  if (s.is("weight")) return Region{s.all(0), s.strip(strips * kTileRows, 1), s.all(2)};
  if (!s.is("out") && !s.is("rows") && !s.is("token")) return s.whole();
  const std::optional<Range> rows = active_expert_rows(s);
  if (!rows) return std::nullopt;
  if (s.is("token")) return Region{*rows};
  return Region{*rows, s.is("out") ? s.strip(strips * strip_columns(s.grid), 1) : s.all(1)};
}

Region of_expert_sum(const Shape& s) {
  if (s.is("share") || s.is("row")) return {each(0), s.all(1)};
  if (s.is("sum_squares")) return {each(0), each(1)};
  if (s.is("next_norm")) return {s.strip(kSumColumns, 0, 1)};
  if (s.is("x")) return {s.all(0), s.strip(kSumColumns, 1, 1)};
  if (s.is("active_experts")) return s.whole();
  return {each(0), s.strip(kSumColumns, 1, 1)};
}

Region of_row(const Shape& s) {
  const int64_t columns = row_columns(s.program, s.grid);
  const Expr& cols = s.program.tensors[find_operand(s.grid, "out", true)->tensor].shape[1];
  const Range block =
      cols.is_const() && cols.constant() <= columns ? Range{0, cols} : strip_range(columns, cols, 1);
  if (s.is("norm") || s.is("norm_bias") || s.is("rope")) return s.whole();
  if (s.is("x") && int_attr(s.grid.attrs, "gather_rows", 0) != 0) return {s.all(0), block};
  if (s.is("positions")) return {each(0)};
  if (s.is("next_norm")) return {block};
  if (s.is("sum_squares")) return {each(0), each(1)};
  if (s.is("best_value") || s.is("best_index"))
    return {each(0), cols.constant() <= columns ? s.all(1) : strip_range(columns / kTileRows, s.dims[1], 1)};
  return {each(0), block};
}

}  // namespace

std::optional<Region> footprint(const TaskProgram& program, const TaskGrid& grid,
                                const BodyOperand& operand) {
  const Shape s{program, grid, operand, program.tensors[operand.tensor].shape};
  const bool is_cache = operand.role == "k_cache" || operand.role == "v_cache";
  const bool streams = multiplies(grid) && operand.role == "weight";
  if (!is_cache && operand.stream != streams) return std::nullopt;
  switch (grid.body) {
    case BodyKind::kEmbed:
      return of_embed(s);
    case BodyKind::kProduct:
    case BodyKind::kSplitKReduce:
      return of_strip(s);
    case BodyKind::kSplitKPartial:
      return of_split_k_partial(s);
    case BodyKind::kAppend:
    case BodyKind::kAttend:
    case BodyKind::kCombine:
      return attention_footprint(program, grid, operand);
    case BodyKind::kSample:
      return of_sample(s);
    case BodyKind::kRoute:
      return s.whole();
    case BodyKind::kExpert:
      return of_expert(s);
    case BodyKind::kExpertSum:
      return of_expert_sum(s);
    case BodyKind::kRow:
      return of_row(s);
  }
  MKC_BUG("body of unknown kind");
}

std::vector<std::optional<Expr>> coordinate_extents(const TaskProgram& program, const TaskGrid& grid) {
  std::vector<std::optional<Expr>> extents(grid.coords.size());
  if (grid.body == BodyKind::kExpertSum && extents.size() == 2)
    if (const Access* out = find_operand(grid, "out", true))
      extents[1] = ceil_div(program.tensors[out->tensor].shape[1], kSumColumns);
  if (grid.body == BodyKind::kRow && extents.size() == 2)
    if (const Access* out = find_operand(grid, "out", true))
      extents[1] = ceil_div(program.tensors[out->tensor].shape[1], row_columns(program, grid));
  const bool attends =
      grid.body == BodyKind::kAppend || grid.body == BodyKind::kAttend || grid.body == BodyKind::kCombine;
  if (attends) add_attention_extents(program, grid, extents);
  return extents;
}

void declare_regions(const TaskProgram& program, TaskGrid& grid) {
  for (auto [accesses, written] : {std::pair(&grid.reads, false), {&grid.writes, true}})
    for (Access& access : *accesses) {
      std::optional<Region> region =
          footprint(program, grid, {access.role, access.tensor, written, access.stream});
      MKC_ASSERT(region, fmt::format("%{} has no footprint of {}", grid.name, access.role));
      access.region = *std::move(region);
    }
}

}  // namespace mkc
