#include <algorithm>

#include "ir/bodies/body.h"

namespace mkc {
namespace {

// The table is in the order of BodyKind.
constexpr const Body& (*kBodies[])() = {
    embed_body,          product_body, append_body,  attend_body,     combine_body,
    sample_body,         route_body,   expert_body,  expert_sum_body, split_k_partial_body,
    split_k_reduce_body, row_body,     quantize_body};
static_assert(std::size(kBodies) == std::size(kBodyKinds));

}  // namespace

const Body& body_of(BodyKind kind) {
  const Body& body = kBodies[static_cast<size_t>(kind)]();
  MKC_ASSERT(body.kind == kind, "the table of bodies is out of order");
  return body;
}

const char* body_name(BodyKind kind) {
  return body_of(kind).name;
}

const BodySchema& body_schema(BodyKind kind) {
  return body_of(kind).schema;
}

bool looks_up(BodyKind kind, std::string_view role) {
  const std::vector<std::string_view>& roles = body_of(kind).lookups;
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

std::optional<BodyKind> merged_body(const TaskGrid& grid) {
  return body_of(grid.body).merges;
}

Range block_range(int64_t size, const Expr& dim, uint32_t coordinate) {
  const Expr offset = size * coord(coordinate);
  const bool even = dim.is_const() && dim.constant() % size == 0;
  return {offset, even ? Expr(size) : min(size, dim - offset)};
}

Range interval(SymbolId begin, SymbolId count, uint32_t coordinate, const Expr& rows) {
  const Expr start = element(begin, coord(coordinate));
  return {start, min(element(count, coord(coordinate)), rows - start)};
}

Region FootprintOf::whole() const {
  Region region;
  for (const Expr& dim : dims) region.push_back({0, dim});
  return region;
}

Range FootprintOf::block(int64_t size, size_t dim, uint32_t coordinate) const {
  return block_range(size, dims[dim], coordinate);
}

int64_t GridUnderCheck::size(char letter) const {
  const auto at = sizes.find(letter);
  return at != sizes.end() && at->second.is_const() ? at->second.constant() : 0;
}

}  // namespace mkc
