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
  ScaleType scale = ScaleType::kBf16;
  // A scale belongs to block_rows x block_cols weights; block_cols 0: to a row.
  uint64_t block_rows = 1, block_cols = 0;
  uint64_t col_quantum = 1;                                // columns are a multiple of it
  const char *code_suffix = "", *scale_suffix = "_scale";  // of the tensors' names behind "weight"
  bool stacked = false;                                    // for stacked matrices (rows.h) alone

  uint32_t bits() const { return code == CodeType::kE4m3 ? 8 : 4; }  // of a code
  uint64_t scale_bytes() const { return scale == ScaleType::kBf16 ? 2 : 1; }
  // Return types of safetensors. Codes of integers are packed in words.
  const char* code_dtype() const {
    return code == CodeType::kE4m3 ? "F8_E4M3" : code == CodeType::kInt4 ? "I32" : "U8";
  }
  const char* scale_dtype() const { return scale == ScaleType::kBf16 ? "BF16" : "U8"; }
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
