#include <fmt/format.h>

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

// Checks V17: logits are of all rows or of those that need logits. Each strip of them has its best value.
void check_sample(const GridUnderCheck& c) {
  const StepSymbols step = step_symbols(c.program.symbols);
  const auto rows = c.sizes.find('T'), vocab = c.sizes.find('V');
  if (rows == c.sizes.end() || vocab == c.sizes.end()) return;  // another rule reports the missing logits
  const auto are = [&](SymbolId id) { return id.valid() && rows->second == symbol(id); };
  if (!are(step.tokens) && !are(step.logit_rows))
    c.v.report(17, c.site,
               fmt::format("its logits have {} rows, expected T or R", c.v.text.expr(rows->second)));
  if (const int64_t max = upper_bound(vocab->second, c.v.at_symbols); max > kMaxSampled)
    c.v.report(17, c.site, fmt::format("a row has {} logits, expected at most {}", max, kMaxSampled));
  c.check_best(vocab->second);
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
      .footprint = sample_footprint,
      .check = check_sample};
  return body;
}

}  // namespace mkc
