#include "ir/bodies/body.h"

namespace mkc {
namespace {

using enum OperandKind;

// Returns the rows of request coord(0) in the step, cut to `rows` rows.
std::optional<Range> request_rows(const TaskProgram& program, const Expr& rows) {
  const StepSymbols step = step_symbols(program.symbols);
  if (!step.first_row.valid() || !step.q_len.valid()) return std::nullopt;
  const Expr start = element(step.first_row, coord(0));
  return Range{start, min(element(step.q_len, coord(0)), rows - start)};
}

// Gathered logits have the row of request b at index b. Otherwise the row is the request's last one. The
// region covers both cases.
std::optional<Region> footprint_of(const FootprintOf& s) {
  if (s.is("next")) return Region{each(0)};
  const std::optional<Range> own = request_rows(s.program, s.dims[0]);
  if (!own) return std::nullopt;
  return Region{{coord(0), own->offset + own->size - coord(0)}, s.all(1)};
}

}  // namespace

const Body& sample_body() {
  static const Body body = {
      .kind = BodyKind::kSample,
      .name = "sample",
      .schema = {{{"b", "B"}},
                 {{"logits", {kValue, "TV"}}, {"best_value", {kValue, "TS"}}, {"best_index", {kIndex, "TS"}}},
                 {{"next", {kIndex, "B"}}},
                 {},
                 {}},
      .footprint = footprint_of};
  return body;
}

}  // namespace mkc
