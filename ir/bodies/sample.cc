#include "ir/bodies/body.h"

namespace mkc {
namespace {

using enum OperandKind;

// Gathered logits have the row of request b at index b. Otherwise the row is the request's last one. The
// region covers both cases.
std::optional<Region> sample_footprint(const FootprintOf& s) {
  if (s.is("next")) return Region{each(0)};
  const StepSymbols step = step_symbols(s.program.symbols);
  if (!step.first_row.valid() || !step.q_len.valid()) return std::nullopt;
  const Range own = interval(step.first_row, step.q_len, 0, s.dims[0]);
  return Region{{coord(0), own.offset + own.size - coord(0)}, s.all(1)};
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
      .footprint = sample_footprint};
  return body;
}

}  // namespace mkc
