#include "tools/quantize/format.h"

#include <nlohmann/json.hpp>

#include "runtime/abi/weight_format.h"

namespace mkc::quantize {
namespace {

constexpr Format kFormats[] = {
    {.name = "fp8",
     .stored = "float-quantized",
     .strategy = "channel",
     .code = CodeType::kE4m3,
     .bits = 8,
     .scale = ScaleType::kBf16,
     .block_rows = 1,
     .block_cols = 0,
     .col_quantum = 1,
     .code_dtype = "F8_E4M3",
     .code_suffix = "",
     .scale_dtype = "BF16"},
    {.name = "fp8-block",
     .stored = "float-quantized",
     .strategy = "block",
     .code = CodeType::kE4m3,
     .bits = 8,
     .scale = ScaleType::kBf16,
     .block_rows = mkrt::kScaleBlock,
     .block_cols = mkrt::kScaleBlock,
     .col_quantum = 1,
     .code_dtype = "F8_E4M3",
     .code_suffix = "",
     .scale_dtype = "BF16"},
    {.name = "int4-g128",
     .stored = "pack-quantized",
     .strategy = "group",
     .code = CodeType::kInt4,
     .bits = 4,
     .scale = ScaleType::kBf16,
     .block_rows = 1,
     .block_cols = 128,
     .col_quantum = 128,
     .code_dtype = "I32",
     .code_suffix = "_packed",
     .scale_dtype = "BF16"},
    {.name = "mxfp4",
     .stored = "mxfp4-pack-quantized",
     .strategy = "group",
     .code = CodeType::kE2m1,
     .bits = 4,
     .scale = ScaleType::kE8m0,
     .block_rows = 1,
     .block_cols = 32,
     .col_quantum = 32,
     .code_dtype = "U8",
     .code_suffix = "_packed",
     .scale_dtype = "U8"},
};

// The experts of gpt-oss as transformers 5.23 reads them (quantizers/quantizer_mxfp4.py).
constexpr Format kStacked{.name = "mxfp4",
                          .stored = "mxfp4",
                          .strategy = "group",
                          .code = CodeType::kE2m1,
                          .bits = 4,
                          .scale = ScaleType::kE8m0,
                          .block_rows = 1,
                          .block_cols = 32,
                          .col_quantum = 32,
                          .code_dtype = "U8",
                          .code_suffix = "_blocks",
                          .scale_dtype = "U8",
                          .scale_suffix = "_scales",
                          .stacked = true};

}  // namespace

std::span<const Format> formats() {
  return kFormats;
}

const Format* find_stacked(const Format& format) {
  return std::string_view(format.name) == kStacked.name ? &kStacked : nullptr;
}

nlohmann::ordered_json config_of(const Format& format, const std::vector<std::string>& left_out) {
  using nlohmann::ordered_json;
  if (format.stacked) return {{"quant_method", format.stored}, {"modules_to_not_convert", left_out}};
  ordered_json weights{{"num_bits", format.bits},
                       {"type", format.code == CodeType::kInt4 ? "int" : "float"},
                       {"symmetric", true},
                       {"strategy", format.strategy},
                       {"dynamic", false}};
  if (format.block_rows > 1)
    weights["block_structure"] = {format.block_rows, format.block_cols};
  else if (format.block_cols != 0)
    weights["group_size"] = format.block_cols;
  if (format.scale == ScaleType::kE8m0) weights["scale_dtype"] = "torch.uint8";
  return {{"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"},
          {"format", format.stored},
          {"config_groups",
           {{"group_0",
             {{"targets", {"Linear"}},
              {"weights", std::move(weights)},
              {"input_activations", nullptr},
              {"output_activations", nullptr},
              {"format", format.stored}}}}},
          {"ignore", left_out},
          {"kv_cache_scheme", nullptr}};
}

}  // namespace mkc::quantize
