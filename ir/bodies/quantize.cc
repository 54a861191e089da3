#include <fmt/format.h>

#include "ir/bodies/body.h"
#include "ir/values.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> quantize_footprint(const FootprintOf& s) {
  return Region{each(0), s.all(1)};
}

void set_quantize_extents(const TaskProgram& program, const TaskGrid& grid,
                          std::vector<std::optional<Expr>>& extents) {
  const Access* x = find_operand(grid, "x");
  if (x && extents.size() == 1)
    extents[0] =
        coded_rows(program, program.tensors[x->tensor].shape[0], int_attr(grid.attrs, "wgmma_from", 0));
}

// Checks V17: chunks of 16 codes fill a row.
void check_quantize(const GridUnderCheck& c) {
  const int64_t columns = c.size('K');
  if (columns == 0 || columns % kCodesAtOnce != 0)
    c.v.report(17, c.site,
               fmt::format("rows have {} columns, expected a multiple of {}", columns, kCodesAtOnce));
}

}  // namespace

Expr coded_rows(const TaskProgram& program, const Expr& rows, int64_t from) {
  const Bounds found = bounds(rows, symbol_bounds(program.symbols));
  if (found.lo >= from) return rows;
  return min(rows, found.hi * max(0, rows - (from - 1)));
}

const Body& quantize_body() {
  static const Body body = {.kind = BodyKind::kQuantize,
                            .name = "quantize",
                            .schema = {{{"t", ""}},
                                       {{"x", {kBf16Value, "TK"}}, {"sum_squares?", {kValue, "TP"}}},
                                       {{"codes", {kCodes, "TK"}}, {"code_scale", {kValue, "T1"}}},
                                       {"wgmma_from"},
                                       {"eps?"}},
                            .footprint = quantize_footprint,
                            .set_extents = set_quantize_extents,
                            .check = check_quantize,
                            .min_extent = 0};
  return body;
}

}  // namespace mkc
