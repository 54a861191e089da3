#include "tools/quantize/format.h"

#include <nlohmann/json.hpp>

#include "runtime/abi/weight_format.h"

namespace mkc::quantize {
namespace {

constexpr Format kMxfp4{.name = "mxfp4",
                        .stored = "mxfp4-pack-quantized",
                        .strategy = "group",
                        .code = CodeType::kE2m1,
                        .scale = ScaleType::kE8m0,
                        .block_cols = 32,
                        .col_quantum = 32,
                        .code_suffix = "_packed"};

constexpr Format kFormats[] = {
    {.name = "fp8", .stored = "float-quantized", .strategy = "channel", .code = CodeType::kE4m3},
    {.name = "fp8-block",
     .stored = "float-quantized",
     .strategy = "block",
     .code = CodeType::kE4m3,
     .block_rows = mkrt::kScaleBlock,
     .block_cols = mkrt::kScaleBlock},
    {.name = "int4-g128",
     .stored = "pack-quantized",
     .strategy = "group",
     .code = CodeType::kInt4,
     .block_cols = 128,
     .col_quantum = 128,
     .code_suffix = "_packed"},
    kMxfp4,
};

// Returns the form of gpt-oss's experts as transformers 5.23 reads them (quantizers/quantizer_mxfp4.py).
constexpr Format stacked_mxfp4() {
  Format f = kMxfp4;
  f.stored = "mxfp4";
  f.code_suffix = "_blocks";
  f.scale_suffix = "_scales";
  f.stacked = true;
  return f;
}
constexpr Format kStacked = stacked_mxfp4();

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
  ordered_json weights{{"num_bits", format.bits()},
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
