#include "frontend/quantization.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/formula.h"

namespace mkc {
namespace {

constexpr const char* kConfig = "quantization_config";

// Expected is a key of the config with the values that it may have.
struct Expected {
  std::string key;
  std::vector<Node> allowed;
};

Status expect(const Document& config, const Expected& expected) {
  const Node value = config_value(config, expected.key);
  if (std::ranges::count(expected.allowed, value) > 0) return {};
  std::vector<std::string> allowed;
  for (const Node& node : expected.allowed) allowed.push_back(describe(node));
  const Place place = value.place.line != 0 ? value.place : config_value(config, kConfig).place;
  return config.error(
      place, fmt::format("{} is {}, expected {}", expected.key, describe(value), fmt::join(allowed, " or ")));
}

// Returns what a group of the format "float-quantized" may say: 8-bit floats with a scale for each row.
// Activations may be asked for as 8-bit floats with scales of each step; mkc keeps bf16, which is closer.
std::vector<Expected> float_group(const std::string& group) {
  const std::string weights = group + ".weights.";
  return {{weights + "num_bits", {int_node(8)}},
          {weights + "type", {string_node("float")}},
          {weights + "strategy", {string_node("channel")}},
          {weights + "symmetric", {bool_node(true), null_node()}},
          {group + ".output_activations", {null_node()}}};
}

}  // namespace

Result<std::optional<DType>> quantized_dtype(const Document& config) {
  const Node quantization = config_value(config, kConfig);
  const std::string at = std::string(kConfig) + ".";
  if (quantization.is(Node::Kind::kNull)) return std::optional<DType>();
  for (const Expected& key : {Expected{at + "quant_method", {string_node("compressed-tensors")}},
                              Expected{at + "format", {string_node("float-quantized")}},
                              Expected{at + "kv_cache_scheme", {null_node()}}})
    MKC_TRY_STATUS(expect(config, key));
  const Node groups = config_value(config, at + "config_groups");
  if (!groups.is(Node::Kind::kMap) || groups.keys.empty())
    return config.error(groups.place.line != 0 ? groups.place : quantization.place,
                        fmt::format("{}config_groups is {}, expected a map of groups", at, describe(groups)));
  for (const std::string& name : groups.keys) {
    const std::string group = at + "config_groups." + name;
    for (const Expected& key : float_group(group)) MKC_TRY_STATUS(expect(config, key));
    const bool rounds = !config_value(config, group + ".input_activations").is(Node::Kind::kNull);
    if (rounds) MKC_TRY_STATUS(expect(config, {group + ".input_activations.dynamic", {bool_node(true)}}));
  }
  return std::optional(DType::e4m3);
}

}  // namespace mkc
