// Views name the parts of a checkpoint tensor that holds all experts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mkrt {

// TensorView is a vector or a matrix of one expert. Its name has one of three forms:
//
//   NAME[3, 1::2]     every second element of row 3, from element 1 on
//   NAME[3, :, 1::2]  a matrix whose rows are every second column of matrix 3, from column 1 on
//   NAME[3, :, :]     a matrix whose rows are the columns of matrix 3
//
// A tensor of codes has the rows of such a matrix as its rows (stored_matrix.h).
struct TensorView {
  std::string tensor;
  uint64_t index = 0;  // along the first dim
  bool columns = false;
  uint64_t first = 0, step = 1;

  // Returns the shape of the whole tensor of floats. `shape` is that of the view, and `stack` the number of
  // its first dim.
  std::vector<int64_t> whole_shape(const std::vector<int64_t>& shape, int64_t stack) const;
};

// Returns the view of a name, or nothing where the name is that of a whole tensor.
std::optional<TensorView> find_view(std::string_view name);

}  // namespace mkrt
