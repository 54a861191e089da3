#include "codegen/operands.h"

#include "ir/bodies.h"
#include "ir/schedule.h"
#include "ir/values.h"
#include "runtime/abi/abi.h"
#include "runtime/abi/packing.h"

namespace mkc {

const Tensor& operand_tensor(const TaskProgram& program, const TaskGrid& grid, std::string_view role,
                             bool written) {
  const Access* operand = find_operand(grid, role, written);
  MKC_ASSERT(operand, "grid " + grid.name + " has no operand " + std::string(role));
  return program.tensors[operand->tensor];
}

bool may_gather_rows(const TaskProgram& program) {
  return step_symbols(program.symbols).q_len.valid();
}

Expr partial_positions_of(const TaskProgram& program, const TaskGrid& grid) {
  const std::optional<RowBlocks> blocks = step_symbols(program.symbols).blocks;
  const bool by_symbol =
      blocks && blocks->partial_positions.valid() && int_attr(grid.attrs, "window", 0) == 0;
  return by_symbol ? symbol(blocks->partial_positions) : Expr(kKvTilePositions);
}

size_t operand_place(BodyKind body, std::string_view role, bool written) {
  // split_k_partial grids share code with products. The `sums` of a split_k_partial grid take the entry of a
  // product's `out`.
  if (body == BodyKind::kSplitKPartial)
    return operand_place(BodyKind::kProduct, role == "sums" ? "out" : role, written);
  const BodySchema& schema = body_schema(body);
  size_t place = written ? schema.reads.size() : 0;
  for (const RoleSchema& known : written ? schema.writes : schema.reads) {
    if (role_name(known.name) == role) {
      MKC_ASSERT(place < mkrt::kMaxOperands, "too many operands");
      return place;
    }
    ++place;
  }
  MKC_BUG("a body has no role " + std::string(role));
}

namespace {

mk::Padding own_padding(const Tensor& weight) {
  return mk::padding_of(static_cast<uint32_t>(weight.shape.back().constant()), weight_type(weight));
}

std::pair<DType, DType> multiplied_types(const TaskProgram& program, const TaskGrid& grid) {
  return {operand_tensor(program, grid, "weight").dtype, operand_tensor(program, grid, "x").dtype};
}

}  // namespace

std::set<std::pair<DType, DType>> types_with_padded_chunks(const TaskProgram& program) {
  std::set<std::pair<DType, DType>> types;
  for (const TaskGrid& grid : program.grids)
    if (multiplies_in_blocks(grid) &&
        own_padding(operand_tensor(program, grid, "weight")) == mk::kPaddingOfChunks)
      types.insert(multiplied_types(program, grid));
  return types;
}

mk::Padding code_padding(const TaskProgram& program, const TaskGrid& grid,
                         const std::set<std::pair<DType, DType>>& padded_chunks) {
  const mk::Padding padding = own_padding(operand_tensor(program, grid, "weight"));
  const bool shared = padding == mk::kNoPadding && multiplies_in_blocks(grid) &&
                      padded_chunks.contains(multiplied_types(program, grid));
  return shared ? mk::kPaddingOfChunks : padding;
}

namespace {

uint32_t epilogue_parts(const TaskGrid& grid) {
  uint32_t parts = 0;
  const auto add = [&](bool has, mk::EpiloguePart part) { parts |= has ? part : 0u; };
  add(find_operand(grid, "bias"), mk::kBiasPart);
  add(find_operand(grid, "residual"), mk::kResidualPart);
  add(find_operand(grid, "next_norm"), mk::kNormOutputsPart);
  add(find_operand(grid, "best_value", true), mk::kBestPart);
  add(int_attr(grid.attrs, "gate", 0) != 0, mk::kGatePart);
  add(int_attr(grid.attrs, "gather_rows", 0) != 0, mk::kGatherPart);
  return parts;
}

}  // namespace

uint32_t left_out(const TaskProgram& program, const TaskGrid& grid) {
  uint32_t parts = epilogue_parts(grid);
  if (multiplies(grid)) {
    const DType type = operand_tensor(program, grid, "weight").dtype;
    for (const TaskGrid& other : program.grids)
      if (multiplies(other) && (other.body == BodyKind::kExpert) == (grid.body == BodyKind::kExpert) &&
          operand_tensor(program, other, "weight").dtype == type)
        parts |= epilogue_parts(other);
  }
  return ~parts;
}

static_assert(kMinWgmmaFrom == mkrt::kMma32Tokens + 1);
static_assert(kMinRing >= mkrt::kBlockStrips);  // Mma32 waits for one stage of each strip

static_assert(kMinFp8From == mkrt::kMma32Tokens + 1);

namespace {

// Returns `from`, or 0 if the product never has as many rows.
uint32_t if_reached(const TaskProgram& program, const TaskGrid& grid, uint32_t from) {
  return from != 0 && max_multiplied_rows(program, grid) >= from ? from : 0;
}

}  // namespace

uint32_t reached_wgmma_from(const Schedule& schedule, GridId id, const Engines& engines) {
  const TaskGrid& grid = schedule.program.grids[id];
  return if_reached(schedule.program, grid, engines.warpgroups ? wgmma_from(schedule.program, grid) : 0);
}

bool needs_registers(const Schedule& schedule, GridId id, const Engines& engines) {
  const TaskGrid& grid = schedule.program.grids[id];
  if (!engines.warpgroups || !multiplies(grid)) return false;
  const mkrt::WeightType type = weight_type(operand_tensor(schedule.program, grid, "weight"));
  return reached_wgmma_from(schedule, id, engines) != 0 ||
         (mkrt::has_wide_warps(type, mkrt::kMma64Strips, grid.body == BodyKind::kExpert) &&
          max_multiplied_rows(schedule.program, grid) > mkrt::kWarpTokens);
}

uint32_t reached_fp8_from(const Schedule& schedule, GridId id) {
  const TaskGrid& grid = schedule.program.grids[id];
  return if_reached(schedule.program, grid, fp8_from(schedule.program, grid));
}

}  // namespace mkc
