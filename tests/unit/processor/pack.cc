// These tests look for each element of packed weights where the layout has it.
#include <doctest/doctest.h>

#include <cstring>

#include "codegen/processor/layout.h"
#include "tests/unit/processor/level/bf16_pairs.h"
#include "tests/unit/processor/product.h"

namespace mk {
namespace {

// Returns how many elements of one weight, or of two whose groups of rows take turns, lie elsewhere.
uint64_t misplaced(WeightType type, uint64_t rows, uint64_t cols, uint64_t group, uint64_t piece) {
  std::vector<Tensor> sources{make_tensor(type, rows, cols, 3)};
  if (group != 0) sources.push_back(make_tensor(type, rows, cols, 4));
  const Matrix m = pack_matrix(sources, group, piece);
  const uint64_t bytes = sources[0].element_bytes();
  uint64_t wrong = 0;
  for (uint64_t source = 0; source < sources.size(); ++source)
    for (uint64_t row = 0; row < rows; ++row)
      for (uint64_t col = 0; col < cols; ++col) {
        const uint64_t at = group == 0 ? row : (row / group * 2 + source) * group + row % group;
        wrong += std::memcmp(&m.packed[element_offset(m.shape, type, at, col, kBf16Pairs)],
                             &sources[source].stored[(row * cols + col) * bytes], bytes) != 0;
      }
  return wrong;
}

TEST_CASE("packing puts each element where the layout has it") {
  for (const FormatBodies& format : kFormats)
    for (const uint64_t piece : {96, 37})             // rows of whole strips, and others
      for (const uint64_t cols : {256, 130, 7})       // of whole tiles, and others
        for (const uint64_t group : {0, 8, 24, 4}) {  // rows of a source that follow each other
          CAPTURE(static_cast<int>(format.type));
          CAPTURE(piece);
          CAPTURE(cols);
          CAPTURE(group);
          CHECK(misplaced(format.type, 120, cols, group, piece) == 0);
        }
}

}  // namespace
}  // namespace mk
