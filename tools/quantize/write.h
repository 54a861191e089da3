// The files of weights of a quantized checkpoint are written here.
#pragma once

#include <functional>

#include "tools/quantize/matrix.h"
#include "tools/quantize/shard.h"

namespace mkc::quantize {

struct WriteOptions {
  uint32_t threads = 1;
  OnRead on_read;  // gets the bytes that are read of the source
  // Called for each tensor of the source when it is written, with what quantization changed.
  std::function<void(const ShardSource&, const SquareSums&)> on_tensor;
};

// Writes a file into a folder. No more than some rows of a matrix for each thread are in memory. Errors:
// those of quantize_matrix; a file that cannot be written.
mkrt::Status write_shard(const Shard& shard, const Format& format, const std::string& folder,
                         const WriteOptions& options);

}  // namespace mkc::quantize
