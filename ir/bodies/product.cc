#include <fmt/format.h>

#include "ir/bodies/strips.h"

namespace mkc {
namespace {

using enum OperandKind;

// Checks V17 of the rows besides the strips. `out` has as many rows as x, unless the product gathers rows.
void check(const GridUnderCheck& c) {
  const auto x = c.sizes.find('X'), out = c.sizes.find('T');
  const bool both = x != c.sizes.end() && out != c.sizes.end();
  if (int_attr(c.grid.attrs, "gather_rows", 0) == 0 && both && x->second != out->second)
    c.v.report(
        17, c.site,
        fmt::format("x has {} rows, out has {}", c.v.text.expr(x->second), c.v.text.expr(out->second)));
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
                                        {"next_norm?", {kVector, "O"}}},
                                       {{"out", {kEither, "TO"}},
                                        {"x_bf16?", {kBf16Value, "TO"}},
                                        {"sum_squares?", {kValue, "TS"}},
                                        {"best_value?", {kValue, "TS"}},
                                        {"best_index?", {kIndex, "TS"}}},
                                       {"fp8_from?", "gather_rows?", "gate?", "wgmma_from?"},
                                       {"eps?"}},
                            .footprint = strip_footprint,
                            .check = check};
  return body;
}

}  // namespace mkc
