// Reads what a checkpoint's config.json says of quantized weights.
#pragma once

#include <optional>

#include "frontend/node.h"
#include "ir/tensor.h"

namespace mkc {

// Returns the dtype in which the checkpoint may have matrices, beside its plain dtype. Returns nothing where
// `quantization_config` is absent or null. Errors: a method, format or scheme that no weight format is for.
Result<std::optional<DType>> quantized_dtype(const Document& config);

}  // namespace mkc
