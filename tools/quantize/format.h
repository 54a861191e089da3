// mkc quantize writes these formats, as compressed-tensors 0.20 defines them, and the form of gpt-oss's
// experts.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

namespace mkc::quantize {

enum class CodeType : uint8_t { kInt4, kE4m3, kE2m1 };
enum class ScaleType : uint8_t { kBf16, kE8m0 };

struct Format {
  const char* name;    // of --format
  const char* stored;  // `format` of compressed-tensors, or `quant_method` of stacked matrices
  const char* strategy;
  CodeType code;
  uint32_t bits;  // of a code
  ScaleType scale;
  // A scale belongs to block_rows x block_cols weights; block_cols 0: to a row.
  uint64_t block_rows, block_cols;
  uint64_t col_quantum;     // columns are a multiple of it
  const char* code_dtype;   // of the tensor of codes
  const char* code_suffix;  // of its name behind "weight"
  const char* scale_dtype;
  const char* scale_suffix = "_scale";
  bool stacked = false;  // for stacked matrices (rows.h) alone

  uint64_t scale_bytes() const { return scale == ScaleType::kBf16 ? 2 : 1; }
  // Return the columns of a block, and the blocks of a row, of a matrix with `cols` columns.
  uint64_t width(uint64_t cols) const { return block_cols == 0 ? cols : block_cols; }
  uint64_t blocks(uint64_t cols) const { return (cols + width(cols) - 1) / width(cols); }
};

// Returns all formats of matrices.
std::span<const Format> formats();

// Returns the format of stacked matrices that --format of this name stands for; nullptr: there is none.
const Format* find_stacked(const Format& format);

// Returns quantization_config. `left_out` names the modules that are not quantized.
nlohmann::ordered_json config_of(const Format& format, const std::vector<std::string>& left_out);

}  // namespace mkc::quantize
