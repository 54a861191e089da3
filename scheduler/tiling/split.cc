#include "scheduler/tiling/split.h"

#include <fmt/format.h>

#include "ir/footprint.h"
#include "scheduler/tiling/grid_pattern.h"

namespace mkc {
namespace {

bool is_prologue(const Access& read) {
  return read.role == "x" || read.role == "weight" || read.role == "norm";
}

// Returns the partial grid; the caller adds its write of sums.
TaskGrid partial_of(const TaskGrid& product, int64_t parts) {
  TaskGrid grid = product;
  grid.body = BodyKind::kSplitKPartial;
  grid.coords.insert(grid.coords.begin(), {"p", parts});
  grid.writes.clear();
  std::erase_if(grid.reads, [](const Access& read) { return !is_prologue(read); });
  std::erase_if(grid.attrs, [&](const Attr& attr) {
    return attr.name != "wgmma_from" && attr.name != "fp8_from" &&
           (attr.name != "eps" || !find_operand(grid, "norm"));
  });
  return grid;
}

// Returns the reduce grid; the caller adds its read of sums.
TaskGrid reduce_of(const TaskProgram& program, const TaskGrid& product) {
  TaskGrid grid = product;
  grid.name += "_reduce";
  grid.body = BodyKind::kSplitKReduce;
  std::erase_if(grid.reads, is_prologue);
  std::erase_if(grid.attrs, [](const Attr& attr) { return attr.name != "gate" && attr.name != "eps"; });
  const Tensor& weight = program.tensors[find_operand(product, "weight")->tensor];
  if (find_operand(product, "sum_squares"))
    set_attr(grid.attrs, "columns", weight.shape[1].constant());
  else
    std::erase_if(grid.attrs, [](const Attr& attr) { return attr.name == "eps"; });
  return grid;
}

}  // namespace

std::string why_not_split(const TaskProgram& program, const TaskGrid& grid, int64_t parts) {
  if (grid.body != BodyKind::kProduct) return "it is no product";
  if (parts < 2 || kKSlices % parts != 0)
    return fmt::format("parts are 2, 4 or 8, which share out {} K slices", kKSlices);
  if (!weight_format(program.tensors[find_operand(grid, "weight")->tensor]).matrix())
    return "its weights have 4 bytes";
  if (find_operand(grid, "best_value", true)) return "it leaves the best logit of each strip";
  if (int_attr(grid.attrs, "gather_rows", 0) != 0) return "it gathers rows";
  return "";
}

namespace {

// Replaces a product by two grids. The partial grid keeps the product's name. The tasks of the partial grid
// multiply a strip with the columns of one part and leave the sum of each K slice. The tasks are ordered part
// by part. The grid NAME_reduce adds these sums in order and applies the product's epilogue. Requires that
// why_not_split returns "".
TaskProgram split_product(TaskProgram program, GridId id, int64_t parts) {
  const TaskGrid product = program.grids[id];
  MKC_ASSERT(why_not_split(program, product, parts).empty(), "a product that cannot be split");
  TaskGrid partial = partial_of(product, parts), reduce = reduce_of(program, product);
  const Expr tokens = rows_made(program, product), strips = product.coords[0].extent;
  Tensor sums;
  sums.name = product.name + ".sums";
  sums.dtype = DType::f32;
  sums.shape = {strips, kKSlices, tokens, kTileRows};
  sums.loc = product.loc;
  const TensorId tensor = program.tensors.add(std::move(sums));
  partial.writes.push_back({"sums", tensor, {}});
  reduce.reads.insert(reduce.reads.begin(), {"sums", tensor, {}});
  for (TaskGrid* grid : {&partial, &reduce}) declare_regions(program, *grid);
  program.grids[id] = std::move(partial);
  program.grids.items.insert(program.grids.items.begin() + id.index + 1, std::move(reduce));
  return program;
}

}  // namespace

Result<TaskProgram> split_as_asked(TaskProgram program, const std::vector<SplitRule>& rules) {
  std::vector<int64_t> parts(program.grids.size(), 1);
  for (const SplitRule& rule : rules) {
    const Result<std::vector<GridId>> grids = matching_grids(program, rule.grids, rule.loc);
    if (!grids.ok()) return grids.error();
    for (GridId id : grids.value()) {
      const TaskGrid& grid = program.grids[id];
      if (const std::string reason = why_not_split(program, grid, rule.split_k);
          rule.split_k != 1 && !reason.empty())
        return error_at(
            rule.loc, fmt::format("%{} cannot be split into {} parts: {}", grid.name, rule.split_k, reason));
      parts[id.index] = rule.split_k;
    }
  }
  for (size_t i = parts.size(); i-- > 0;)  // from the last grid on, as a split shifts the ids of later grids
    if (parts[i] != 1)
      program = split_product(std::move(program), GridId{static_cast<uint32_t>(i)}, parts[i]);
  return program;
}

}  // namespace mkc
