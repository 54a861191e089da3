#include "tools/quantize/matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <thread>

#include "tools/quantize/rows.h"

namespace mkc::quantize {
namespace {

using mkrt::Error;
using mkrt::Result;
using mkrt::Status;
using mkrt::StoredTensor;

constexpr uint64_t kWeightsOfChunk = 1 << 20;

Status check_finite(const StoredTensor& t, uint64_t first_row, std::span<const float> weights) {
  const auto at = std::ranges::find_if(weights, [](float w) { return !std::isfinite(w); });
  if (at == weights.end()) return {};
  const uint64_t cols = rows_of(t).cols, i = static_cast<uint64_t>(at - weights.begin());
  return Error{fmt::format("{}: error: tensor \"{}\" has {} at {}, expected a finite number", t.file, t.name,
                           *at, place_of(t, first_row + i / cols, i % cols))};
}

// Chunks is the work on one matrix. Threads take chunks of rows in turn.
struct Chunks {
  const Format& format;
  const StoredTensor& matrix;
  const RowsSink& sink;
  const OnRead& on_read;
  uint64_t rows = rows_of(matrix).rows, cols = rows_of(matrix).cols;
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
    read_rows(matrix, first, weights);
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
