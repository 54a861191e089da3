#include "tools/quantize/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <mutex>
#include <thread>

#include "runtime/base/half.h"

namespace mkc::quantize {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;
using mkrt::StoredTensor;

constexpr uint64_t kWeightsOfChunk = 1 << 20;

// Reads elements from `first` on.
void read_floats(const StoredTensor& t, uint64_t first, std::span<float> to) {
  if (t.dtype == "F32") {
    std::memcpy(to.data(), t.bytes.data() + first * 4, to.size_bytes());
    return;
  }
  const bool f16 = t.dtype == "F16";
  const std::byte* from = t.bytes.data() + first * 2;
  for (size_t i = 0; i < to.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + i * 2, sizeof(bits));
    to[i] = f16 ? mkrt::f16_to_f32(bits) : mkrt::bf16_to_f32(bits);
  }
}

Status check_finite(const StoredTensor& t, uint64_t first_row, std::span<const float> weights) {
  const auto at = std::ranges::find_if(weights, [](float w) { return !std::isfinite(w); });
  if (at == weights.end()) return {};
  const auto cols = static_cast<uint64_t>(t.shape[1]), i = static_cast<uint64_t>(at - weights.begin());
  return Error{fmt::format("{}: error: tensor \"{}\" has {} at row {}, column {}, expected a finite number",
                           t.file, t.name, *at, first_row + i / cols, i % cols)};
}

// Chunks is the work on one matrix. Threads take chunks of rows in turn.
struct Chunks {
  const Format& format;
  const StoredTensor& matrix;
  const RowsSink& sink;
  const OnRead& on_read;
  uint64_t rows = static_cast<uint64_t>(matrix.shape[0]), cols = static_cast<uint64_t>(matrix.shape[1]);
  uint64_t chunk_rows = std::max<uint64_t>(kWeightsOfChunk / cols / format.block_rows, 1) * format.block_rows;
  uint64_t count = (rows + chunk_rows - 1) / chunk_rows;
  std::vector<Status> statuses = std::vector<Status>(count);
  std::vector<SquareSums> sums = std::vector<SquareSums>(count);
  std::atomic<uint64_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex reporting{};

  Status quantize(uint64_t chunk) {
    const uint64_t first = chunk * chunk_rows, taken = std::min(chunk_rows, rows - first);
    std::vector<float> weights(taken * cols);
    read_floats(matrix, first * cols, weights);
    if (Status status = check_finite(matrix, first, weights); !status.ok()) return status;
    const QuantizedRows quantized = quantize_rows(format, weights, cols);
    sums[chunk] = quantized.sums;
    if (Status status = sink(first, quantized); !status.ok()) return status;
    const std::lock_guard lock(reporting);
    on_read(matrix.bytes.size() / rows * taken);
    return {};
  }

  void work() {
    for (uint64_t chunk; !failed && (chunk = next++) < count;) {
      statuses[chunk] = quantize(chunk);
      if (!statuses[chunk].ok()) failed = true;
    }
  }
};

}  // namespace

Result<SquareSums> quantize_matrix(const Format& format, const StoredTensor& matrix, uint32_t threads,
                                   const RowsSink& sink, const OnRead& on_read) {
  Chunks chunks{format, matrix, sink, on_read};
  {
    std::vector<std::jthread> others;
    for (uint64_t i = 1; i < std::min<uint64_t>(threads, chunks.count); ++i)
      others.emplace_back([&] { chunks.work(); });
    chunks.work();
  }
  SquareSums all;
  for (uint64_t chunk = 0; chunk < chunks.count; ++chunk) {
    if (!chunks.statuses[chunk].ok()) return chunks.statuses[chunk].error();
    all.add(chunks.sums[chunk]);
  }
  return all;
}

}  // namespace mkc::quantize
