#include "ir/bodies/body.h"

namespace mkc {
namespace {

using enum OperandKind;

std::optional<Region> embed_footprint(const FootprintOf& s) {
  if (s.is("tokens")) return Region{each(0)};
  if (s.is("out") || s.is("x_bf16") || s.is("sum_squares")) return Region{each(0), s.all(1)};
  return s.whole();
}

}  // namespace

const Body& embed_body() {
  static const Body body = {
      .kind = BodyKind::kEmbed,
      .name = "embed",
      .schema = {{{"t", "T"}},
                 {{"tokens", {kStep, "T"}}, {"table", {kWeight, "VD"}}, {"next_norm?", {kVector, "D"}}},
                 {{"out", {kValue, "TD"}}, {"x_bf16?", {kBf16Value, "TD"}}, {"sum_squares?", {kValue, "T1"}}},
                 {},
                 {}},
      .footprint = embed_footprint};
  return body;
}

}  // namespace mkc
