// Arrays are written in NumPy's file format, version 1.0 (numpy.org, "NEP 1").
#pragma once

#include <span>
#include <string>

#include "runtime/base/status.h"

namespace mkrt {

// Writes a float32 matrix [values.size() / cols, cols] in C order. Requires values.size() to be a multiple of
// `cols`. Errors: those of write_file.
Status write_npy(const std::string& path, std::span<const float> values, uint64_t cols);

}  // namespace mkrt
