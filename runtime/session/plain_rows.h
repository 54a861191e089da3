// Floats of checkpoint tensors are read whole or by views (runtime/artefact/tensor_view.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/artefact/safetensors.h"

namespace mkrt {

// Returns the tensor that holds a weight, or null where it is absent. `name` may be that of a view.
const StoredTensor* find_plain(const Checkpoint& checkpoint, const std::string& name);

// Matrix says which matrix of floats is read: `rows` x `cols`, of elements of `bytes` bytes.
struct PlainMatrix {
  std::string name;
  uint64_t rows, cols, bytes;
};

// Returns rows [first, first + count) of a matrix. The bytes are those of the file or of `memory`. Requires a
// tensor of the matrix's shape.
std::span<const std::byte> plain_rows(const Checkpoint& checkpoint, const PlainMatrix& matrix, uint64_t first,
                                      uint64_t count, std::vector<std::byte>& memory);

// Writes the elements of a vector as f32. Requires a tensor of the vector's size.
void read_vector(const Checkpoint& checkpoint, const std::string& name, std::span<float> out);

}  // namespace mkrt
