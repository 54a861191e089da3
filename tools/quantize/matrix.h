// One matrix of a checkpoint is quantized into a file, some rows at a time, by several threads.
#pragma once

#include <functional>

#include "runtime/artefact/safetensors.h"
#include "tools/quantize/blocks.h"

namespace mkc::quantize {

// RowsSink takes quantized rows from `first` on. Several threads may call it at once.
using RowsSink = std::function<mkrt::Status(uint64_t first, const QuantizedRows& rows)>;
// Called with the bytes of weights that were read since the last call, by one thread at a time.
using OnRead = std::function<void(uint64_t bytes)>;

// Quantizes the rows (rows.h) of a tensor of F32, F16 or BF16. Each thread has some rows in memory, of about
// 4 MB of weights. The result does not depend on the number of threads. Errors: a weight that is not finite;
// those of the sink.
mkrt::Result<SquareSums> quantize_matrix(const Format& format, const mkrt::StoredTensor& matrix,
                                         uint32_t threads, const RowsSink& sink, const OnRead& on_read);

}  // namespace mkc::quantize
