// Activations are rounded to bf16 where bf16 weights are multiplied with them. The task that computes an
// activation rounds it, so that not every worker that multiplies it has to. The pass takes activations that
// only matrix products read, directly or through a norm.
//
// Let x be a row and n the norm's weights. The products of (x * n / rms(x)) equal those of (x * n), divided
// by rms(x). The writer therefore rounds x * n. The square root waits until the products are summed, and the
// writer's tasks leave the sums of squares for it.
#include <optional>

#include "scheduler/tiling/fuse_build.h"

namespace mkc {
namespace {

// ValueUses are the users of a tensor.
struct ValueUses {
  std::vector<GridId> writers, products;  // `products` are those that multiply as bf16.
  bool others = false;                    // other grids read the tensor
};

std::vector<ValueUses> tensor_uses(const TaskProgram& program) {
  std::vector<ValueUses> uses(program.tensors.size());
  for (GridId id : program.grids.ids()) {
    const TaskGrid& grid = program.grids[id];
    for (const Access& write : grid.writes) uses[write.tensor.index].writers.push_back(id);
    for (const Access& read : grid.reads) {
      const bool multiplied = &read == multiplied_rows(grid) &&
                              weight_format(program.tensors[find_operand(grid, "weight")->tensor]).operand ==
                                  mkrt::WeightType::kBf16;
      if (multiplied)
        uses[read.tensor.index].products.push_back(id);
      else
        uses[read.tensor.index].others = true;
    }
  }
  return uses;
}

// Returns the norm that all of the products share, or an invalid id where they have none. Returns nothing
// where the products differ.
std::optional<TensorId> shared_norm(const TaskProgram& program, const std::vector<GridId>& products) {
  std::optional<TensorId> shared;
  for (GridId id : products) {
    const Access* norm = find_operand(program.grids[id], "norm");
    const TensorId tensor = norm ? norm->tensor : TensorId{};
    if (shared && *shared != tensor) return {};
    shared = tensor;
  }
  return shared;
}

// Returns how many sums of squares the writer's tasks leave of a row. Returns nothing where its body leaves
// none.
std::optional<Expr> parts_of(const TaskGrid& writer) {
  switch (writer.body) {
    case BodyKind::kEmbed:
      return 1;
    case BodyKind::kProduct:
      if (int_attr(writer.attrs, "gate", 0) != 0 || find_operand(writer, "best_value", true)) return {};
      return writer.coords[0].extent;
    case BodyKind::kRow:
      if (find_operand(writer, "best_value", true)) return {};
      return writer.coords[1].extent;
    case BodyKind::kExpertSum:
      return writer.coords[1].extent;
    default:
      return {};
  }
}

void round_through_norm(Fusion& f, TensorId x, TensorId norm, const ValueUses& uses) {
  TaskProgram& p = f.program;
  const GridId writer = uses.writers[0];
  const std::optional<Expr> parts = parts_of(p.grids[writer]);
  if (!parts) return;
  const Tensor from = p.tensors[x];
  const TensorId x_bf16 = f.add_activation(from.name + ".x_bf16", DType::bf16, from.shape, from.loc);
  const TensorId sum_squares =
      f.add_activation(from.name + ".sum_squares", DType::f32, {from.shape[0], *parts}, from.loc);
  f.read(writer, "next_norm", norm);
  f.write(writer, "x_bf16", x_bf16);
  f.write(writer, "sum_squares", sum_squares);
  for (GridId id : uses.products)
    for (Access& read : p.grids[id].reads) {
      if (read.tensor == x && read.role == "x") read.tensor = x_bf16;
      if (read.role == "norm") read = {"sum_squares", sum_squares, {}};
    }
}

}  // namespace

void round_activations(Fusion& f) {
  const std::vector<ValueUses> uses = tensor_uses(f.program);
  for (uint32_t i = 0; i < uses.size(); ++i) {
    const TensorId x{i};
    const Tensor& t = f.program.tensors[x];
    if (t.kind != TensorKind::kActivation || t.dtype != DType::f32 || t.shape.size() != 2) continue;
    // Products load two neighbouring columns together.
    if (uses[i].products.empty() || uses[i].writers.size() != 1 || !t.shape[1].is_const() ||
        t.shape[1].constant() % 2 != 0)
      continue;
    const std::optional<TensorId> norm = shared_norm(f.program, uses[i].products);
    if (!norm) continue;
    const BodyKind writer = f.program.grids[uses[i].writers[0]].body;
    if (norm->valid())
      round_through_norm(f, x, *norm, uses[i]);
    else if (!uses[i].others && writer != BodyKind::kEmbed && writer != BodyKind::kExpertSum)
      f.program.tensors[x].dtype = DType::bf16;
  }
}

}  // namespace mkc
