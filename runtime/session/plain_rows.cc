#include "runtime/session/plain_rows.h"

#include <algorithm>
#include <cstring>

#include "runtime/artefact/tensor_view.h"
#include "runtime/session/matrix_reader.h"

namespace mkrt {

const StoredTensor* find_plain(const Checkpoint& checkpoint, const std::string& name) {
  const std::optional<TensorView> view = find_view(name);
  return checkpoint.find(view ? view->tensor : name);
}

std::span<const std::byte> plain_rows(const Checkpoint& checkpoint, const PlainMatrix& m, uint64_t first,
                                      uint64_t count, std::vector<std::byte>& memory) {
  const std::span<const std::byte> bytes = find_plain(checkpoint, m.name)->bytes;
  const uint64_t row_bytes = m.cols * m.bytes;
  const std::optional<TensorView> view = find_view(m.name);
  if (!view) return bytes.subspan(first * row_bytes, count * row_bytes);
  memory.resize(count * row_bytes);
  constexpr uint64_t kBlock = 16;  // elements of a row that lie in one line of the cache
  const uint64_t stride = m.rows * view->step, begin = view->index * m.cols * stride + view->first;
  for (uint64_t block = 0; block < m.cols; block += kBlock)
    for (uint64_t row = 0; row < count; ++row)
      for (uint64_t col = block; col < std::min(block + kBlock, m.cols); ++col)
        std::memcpy(&memory[(row * m.cols + col) * m.bytes],
                    &bytes[(begin + col * stride + (first + row) * view->step) * m.bytes], m.bytes);
  return memory;
}

void read_vector(const Checkpoint& checkpoint, const std::string& name, std::span<float> out) {
  const StoredTensor& t = *find_plain(checkpoint, name);
  const TensorView view = find_view(name).value_or(TensorView{});
  const uint64_t begin = view.index * out.size() * view.step + view.first;
  for (uint64_t i = 0; i < out.size(); ++i) out[i] = value_at(t, begin + i * view.step);
}

}  // namespace mkrt
