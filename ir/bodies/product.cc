#include <fmt/format.h>

#include "ir/bodies/strips.h"

namespace mkc {
namespace {

using enum OperandKind;

// Tells whether a quantize grid makes these codes and scales of what the product multiplies.
bool are_of_its_rows(const GridUnderCheck& c, TensorId codes, TensorId scale) {
  const auto tensor = [](const TaskGrid& grid, const char* role, bool written = false) {
    const Access* operand = find_operand(grid, role, written);
    return operand ? operand->tensor : TensorId{};
  };
  for (const TaskGrid& grid : c.program.grids)
    if (grid.body == BodyKind::kQuantize && tensor(grid, "codes", true) == codes)
      return tensor(grid, "code_scale", true) == scale && tensor(grid, "x") == tensor(c.grid, "x") &&
             tensor(grid, "sum_squares") == tensor(c.grid, "sum_squares") &&
             float_attr(grid.attrs, "eps", 0) == float_attr(c.grid.attrs, "eps", 0);
  return false;
}

// Checks V15 and V18: codes come with their scales, and only warpgroups multiply them.
void check_codes(const GridUnderCheck& c) {
  if (c.reads("codes") != c.reads("code_scale"))
    c.v.report(15, c.site, "it reads one of codes and code_scale, expected both or neither");
  if (!c.reads("codes") || !c.reads("code_scale")) return;
  if (!are_of_its_rows(c, find_operand(c.grid, "codes")->tensor, find_operand(c.grid, "code_scale")->tensor))
    c.v.report(15, c.site, "it reads codes that no quantize grid makes of its x, sum_squares and eps");
  const Access* x = find_operand(c.grid, "x");
  if (x && c.v.tensors[x->tensor].dtype != DType::bf16)
    c.v.report(15, c.site, "it reads codes, expected x of bf16");
  if (!find_attr(c.grid.attrs, "wgmma_from") || find_attr(c.grid.attrs, "fp8_from") ||
      int_attr(c.grid.attrs, "gather_rows", 0) != 0)
    c.v.report(18, c.site, "it reads codes, expected wgmma_from, no fp8_from and no gather_rows");
  if (c.reads("weight") && !multiplies_e4m3(c.program, c.grid))
    c.v.report(15, c.site, "it reads codes, expected a weight of E4M3");
}

// Checks V17 of the rows, gathered or not, besides the strips. `out` has as many rows as x, unless the
// product gathers rows.
void check_product(const GridUnderCheck& c) {
  const auto x = c.sizes.find('X'), out = c.sizes.find('T');
  const bool both = x != c.sizes.end() && out != c.sizes.end();
  if (int_attr(c.grid.attrs, "gather_rows", 0) == 0 && both && x->second != out->second)
    c.v.report(
        17, c.site,
        fmt::format("x has {} rows, out has {}", c.v.text.expr(x->second), c.v.text.expr(out->second)));
  c.check_gathered();
  check_codes(c);
  check_strips(c);
}

}  // namespace

const Body& product_body() {
  static const Body body = {.kind = BodyKind::kProduct,
                            .name = "product",
                            .schema = {{{"j", "S"}},
                                       {{"x", {kEither, "XK"}},
                                        {"weight", {kWeight, "NK"}},
                                        {"norm?", {kVector, "K"}},
                                        {"sum_squares?", {kValue, "XP"}},
                                        {"bias?", {kVector, "N"}},
                                        {"residual?", {kValue, "TO"}},
                                        {"next_norm?", {kVector, "O"}},
                                        {"codes?", {kCodes, "XK"}},
                                        {"code_scale?", {kValue, "X1"}}},
                                       {{"out", {kEither, "TO"}},
                                        {"x_bf16?", {kBf16Value, "TO"}},
                                        {"sum_squares?", {kValue, "TS"}},
                                        {"best_value?", {kValue, "TS"}},
                                        {"best_index?", {kIndex, "TS"}}},
                                       {"fp8_from?", "gather_rows?", "gate?", "wgmma_from?"},
                                       {"eps?"}},
                            .footprint = strip_footprint,
                            .check = check_product};
  return body;
}

}  // namespace mkc
