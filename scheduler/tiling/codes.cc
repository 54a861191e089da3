#include "scheduler/tiling/codes.h"

#include <map>

#include "ir/bodies.h"
#include "ir/footprint.h"

namespace mkc {
namespace {

struct Codes {
  TensorId codes, scale;
};

// Rounded says what a quantize grid rounds: rows of x, whose scales have the norm of sum_squares.
struct Rounded {
  TensorId x, sum_squares;
  double eps = 0;
  auto operator<=>(const Rounded&) const = default;
};

Rounded rounded_by(const TaskGrid& product) {
  const Access* sum_squares = find_operand(product, "sum_squares");
  return {multiplied_rows(product)->tensor, sum_squares ? sum_squares->tensor : TensorId{},
          float_attr(product.attrs, "eps", 0)};
}

TensorId add_activation(TaskProgram& program, std::string name, DType dtype, std::vector<Expr> shape,
                        const Loc& loc) {
  Tensor t;
  t.name = std::move(name);
  t.dtype = dtype;
  t.shape = std::move(shape);
  t.loc = loc;
  return program.tensors.add(std::move(t));
}

// Adds the tensors that the quantize grid of x writes.
Codes add_tensors(TaskProgram& program, TensorId x) {
  const Tensor rows = program.tensors[x];
  return {add_activation(program, rows.name + ".codes", DType::e4m3, rows.shape, rows.loc),
          add_activation(program, rows.name + ".code_scale", DType::f32, {rows.shape[0], 1}, rows.loc)};
}

// Returns the quantize grid of the rows that `product` multiplies.
TaskGrid quantize_grid(const TaskProgram& program, const TaskGrid& product, const Codes& made) {
  const auto [x, sum_squares, eps] = rounded_by(product);
  const int64_t from = wgmma_from(program, product);
  TaskGrid grid;
  grid.name = product.name + "_codes";
  grid.body = BodyKind::kQuantize;
  grid.coords = {{"t", coded_rows(program, program.tensors[x].shape[0], from)}};
  grid.reads = {{"x", x, {}}};
  grid.writes = {{"codes", made.codes, {}}, {"code_scale", made.scale, {}}};
  set_attr(grid.attrs, "wgmma_from", from);
  if (sum_squares.valid()) {
    grid.reads.push_back({"sum_squares", sum_squares, {}});
    set_attr(grid.attrs, "eps", eps);
  }
  grid.ops = product.ops;
  grid.layer = product.layer;
  grid.loc = product.loc;
  declare_regions(program, grid);
  return grid;
}

}  // namespace

bool can_read_codes(const TaskProgram& program, const TaskGrid& grid, uint32_t from) {
  if (grid.body != BodyKind::kProduct || !multiplies_e4m3(program, grid)) return false;
  const Tensor& x = program.tensors[multiplied_rows(grid)->tensor];
  const uint32_t now = wgmma_from(program, grid);
  return now != 0 && x.dtype == DType::bf16 && int_attr(grid.attrs, "gather_rows", 0) == 0 &&
         x.shape[1].constant() % kCodesAtOnce == 0 &&
         max_multiplied_rows(program, grid) >= int64_t{from != 0 ? from : now};
}

TaskProgram add_codes(TaskProgram program, uint32_t from) {
  std::map<Rounded, Codes> made;
  Table<GridId, TaskGrid> grids;
  for (TaskGrid& grid : program.grids) {
    if (can_read_codes(program, grid, from)) {
      if (from != 0) set_attr(grid.attrs, "wgmma_from", int64_t{from});
      const Rounded rounded = rounded_by(grid);
      if (!made.contains(rounded)) {
        made[rounded] = add_tensors(program, rounded.x);
        grids.add(quantize_grid(program, grid, made[rounded]));
      }
      grid.reads.push_back({"codes", made[rounded].codes, {}});
      grid.reads.push_back({"code_scale", made[rounded].scale, {}});
      declare_regions(program, grid);
    }
    grids.add(std::move(grid));
  }
  program.grids = std::move(grids);
  return program;
}

}  // namespace mkc
