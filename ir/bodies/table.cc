#include <fmt/format.h>

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

void GridUnderCheck::check_size(char letter, const Expr& wanted, std::string_view what,
                                std::string_view why) const {
  const auto found = sizes.find(letter);
  if (found != sizes.end() && found->second != wanted)
    v.report(
        17, site,
        fmt::format("{} {}, expected {}, {}", what, v.text.expr(found->second), v.text.expr(wanted), why));
}

void GridUnderCheck::check_best(const Expr& columns) const {
  if (find_operand(grid, "best_value") || find_operand(grid, "best_value", true))
    check_size('S', ceil_div(columns, kTileRows), "the columns of best_value are",
               fmt::format("the strips of {} columns", v.text.expr(columns)));
}

void GridUnderCheck::check_sums() const {
  if (grid.coords.size() == 2)
    check_size('P', grid.coords[1].extent, "the columns of sum_squares are", "the blocks of a row");
}

void GridUnderCheck::check_gathered() const {
  if (int_attr(grid.attrs, "gather_rows", 0) == 0) return;
  const StepSymbols step = step_symbols(program.symbols);
  if (!step.logit_rows.valid() || !step.tokens.valid() || !step.first_row.valid() || !step.q_len.valid())
    return v.report(17, site, "it gathers rows, but the program lacks T, R, q_len or first_row");
  check_size('T', symbol(step.logit_rows), "the gathered rows are", "the rows that need logits");
  check_size('X', symbol(step.tokens), "the rows that it gathers from are", "the rows of the step");
}

void GridUnderCheck::check_positions() const {
  const Access* rope = find_operand(grid, "rope");
  const SymbolId kv_len = step_symbols(program.symbols).kv_len;
  if (!rope || !kv_len.valid()) return;
  const std::vector<Expr>& shape = v.tensors[rope->tensor].shape;
  const int64_t context = v.symbols[kv_len].bounds.hi;
  if (shape.size() == 2 && lower_bound(shape[0], v.at_symbols) < context)
    v.report(17, site,
             fmt::format("its rotation table has {} rows, expected at least {}, the positions of a context",
                         v.text.expr(shape[0]), context));
}

}  // namespace mkc
