#include <fmt/format.h>

#include "ir/bodies/strips.h"
#include "runtime/abi/packing.h"

namespace mkc {
namespace {

using enum OperandKind;

// Returns the region of part coord(0) of strip coord(1). A part is some whole K slices of the packed columns.
std::optional<Region> partial_footprint(const FootprintOf& s) {
  const int64_t parts = s.grid.coords[0].extent.constant();
  if (s.is("weight")) {
    const auto packed = mkrt::packed_shape(static_cast<uint64_t>(s.dims[0].constant()),
                                           static_cast<uint64_t>(s.dims[1].constant()),
                                           weight_type(s.program.tensors[s.operand.tensor]));
    const int64_t size = static_cast<int64_t>(packed.padded_cols) / parts, columns = s.dims[1].constant();
    const Expr offset = size * coord(0);
    return Region{s.block(kTileRows, 0, 1),
                  {offset, size * parts == columns ? Expr(size) : min(size, columns - offset)}};
  }
  const int64_t k_slices = kKSlices / parts;
  if (s.is("sums")) return Region{each(1), {k_slices * coord(0), k_slices}, s.all(2), s.all(3)};
  return s.whole();
}

// Checks the strips, and V19: each part has the same number of whole K slices.
void check_partial(const GridUnderCheck& c) {
  check_strips(c, 1);
  if (c.grid.coords.empty()) return;
  const Expr& parts = c.grid.coords[0].extent;
  const bool divide = parts.is_const() && parts.constant() > 1 && kKSlices % parts.constant() == 0;
  if (!divide)
    c.v.report(19, c.site,
               fmt::format("coordinate {} has extent {}, expected 2, 4 or 8, which share out {} K slices",
                           c.grid.coords[0].name, c.v.text.expr(parts), kKSlices));
}

void check_reduce(const GridUnderCheck& c) {
  check_strips(c);
}

}  // namespace

const Body& split_k_partial_body() {
  static const Body body = {
      .kind = BodyKind::kSplitKPartial,
      .name = "split_k_partial",
      .schema = {{{"p", ""}, {"j", "S"}},
                 {{"x", {kEither, "TK"}}, {"weight", {kWeight, "NK"}}, {"norm?", {kVector, "K"}}},
                 {{"sums", {kValue, "ScTr"}}},
                 {"fp8_from?", "wgmma_from?"},
                 {"eps?"}},
      .footprint = partial_footprint,
      .check = check_partial};
  return body;
}

const Body& split_k_reduce_body() {
  static const Body body = {.kind = BodyKind::kSplitKReduce,
                            .name = "split_k_reduce",
                            .schema = {{{"j", "S"}},
                                       {{"sums", {kValue, "ScTr"}},
                                        {"sum_squares?", {kValue, "TP"}},
                                        {"bias?", {kVector, "O"}},
                                        {"residual?", {kValue, "TO"}},
                                        {"next_norm?", {kVector, "O"}}},
                                       {{"out", {kEither, "TO"}},
                                        {"x_bf16?", {kBf16Value, "TO"}},
                                        {"sum_squares?", {kValue, "TS"}}},
                                       {"columns?", "gate?"},
                                       {"eps?"}},
                            .footprint = strip_footprint,
                            .check = check_reduce,
                            .merges = BodyKind::kSplitKPartial};
  return body;
}

}  // namespace mkc
