// Each task body has one row here: all that the IR knows of it. A further body is one more file of this
// folder and a line in table.cc. This header is internal to ir.
#pragma once

#include "ir/bodies.h"
#include "ir/footprint.h"
#include "ir/step_symbols.h"
#include "ir/verifier.h"

namespace mkc {

// FootprintOf names the operand whose footprint is wanted. `dims` is its tensor's shape.
struct FootprintOf {
  const TaskProgram& program;
  const TaskGrid& grid;
  const BodyOperand& operand;
  const std::vector<Expr>& dims;

  bool is(std::string_view role) const { return operand.role == role; }
  Range all(size_t dim) const { return {0, dims[dim]}; }
  Region whole() const;
  // Returns `size` elements of a dim from size * coordinate on, cut to the dim.
  Range block(int64_t size, size_t dim, uint32_t coordinate = 0) const;
};

// Returns the range of `size` elements from size * coordinate on. The range is cut to the dim, unless `size`
// divides a constant dim.
Range block_range(int64_t size, const Expr& dim, uint32_t coordinate);

// Returns element coord(coordinate) of the interval lists `begin` and `count`, cut to a dim of `rows` rows.
Range interval(SymbolId begin, SymbolId count, uint32_t coordinate, const Expr& rows);

// Returns the range of one element: the coordinate's value.
inline Range each(uint32_t coordinate) {
  return {coord(coordinate), 1};
}

// GridUnderCheck is a grid under verification. `sizes` has the sizes of the letters of its operands' shapes.
struct GridUnderCheck {
  Verifier& v;
  const TaskProgram& program;
  const TaskGrid& grid;
  const Sizes& sizes;
  const Site& site;

  // Returns the size of a letter, or 0 where it has none that is constant.
  int64_t size(char letter) const;
  bool reads(std::string_view role) const { return find_operand(grid, role) != nullptr; }
  bool writes(std::string_view role) const { return find_operand(grid, role, true) != nullptr; }

  // Checks V17: the letter's size is `wanted`, where operands have the letter. `what` names its dims and
  // `why` the wanted size.
  void check_size(char letter, const Expr& wanted, std::string_view what, std::string_view why) const;
  // Checks V17: best values have a column for each strip of 16 of `columns` columns.
  void check_best(const Expr& columns) const;
  // Checks V17: each block of columns, the grid's second coordinate, has a sum of squares.
  void check_sums() const;
  // Checks V17: gathered rows are those that need logits, of all rows of the step.
  void check_gathered() const;
  // Checks V17: the rotation table has a row for each position of a context.
  void check_positions() const;
};

struct Body {
  BodyKind kind;
  const char* name;  // "embed", "product", …
  BodySchema schema;
  // Returns footprint() of an operand whose streaming fits the body.
  std::optional<Region> (*footprint)(const FootprintOf& operand);
  // Sets the extents that the body determines (coordinate_extents()). Null where other rules determine all.
  void (*set_extents)(const TaskProgram& program, const TaskGrid& grid,
                      std::vector<std::optional<Expr>>& extents) = nullptr;
  // Checks what the schema cannot say of V15 to V19.
  void (*check)(const GridUnderCheck& c) = nullptr;
  // Checks what V33 and V34 require besides footprints and extents.
  void (*check_regions)(Verifier& v, const TaskProgram& program, const TaskGrid& grid,
                        const Site& site) = nullptr;
  std::vector<std::string_view> lookups{};  // operands of looks_up()
  int64_t min_extent = 1;                   // 0: a step may have no task of the grid
  std::optional<BodyKind> merges{};         // merged_body()
};

const Body& body_of(BodyKind kind);

// The rows in the order of BodyKind.
const Body& embed_body();
const Body& product_body();
const Body& append_body();
const Body& attend_body();
const Body& combine_body();
const Body& sample_body();
const Body& route_body();
const Body& expert_body();
const Body& expert_sum_body();
const Body& split_k_partial_body();
const Body& split_k_reduce_body();
const Body& row_body();
const Body& quantize_body();

}  // namespace mkc
