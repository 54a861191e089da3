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

// Returns a value as errors show it, with the elements of a list.
std::string text_of(const Node& node) {
  if (!node.is(Node::Kind::kList)) return describe(node);
  std::vector<std::string> items;
  for (const Node& item : node.items) items.push_back(text_of(item));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

Status expect(const Document& config, const Expected& expected) {
  const Node value = config_value(config, expected.key);
  if (std::ranges::count(expected.allowed, value) > 0) return {};
  std::vector<std::string> allowed;
  for (const Node& node : expected.allowed) allowed.push_back(text_of(node));
  const Place place = value.place.line != 0 ? value.place : config_value(config, kConfig).place;
  return config.error(
      place, fmt::format("{} is {}, expected {}", expected.key, text_of(value), fmt::join(allowed, " or ")));
}

Node list_node(std::vector<int64_t> values) {
  Node node;
  node.kind = Node::Kind::kList;
  for (const int64_t value : values) node.items.push_back(int_node(value));
  return node;
}

std::vector<Node> string_nodes(const std::vector<const char*>& values) {
  std::vector<Node> nodes;
  for (const char* value : values) nodes.push_back(string_node(value));
  return nodes;
}

Status expect_all(const Document& config, const std::vector<Expected>& keys) {
  for (const Expected& key : keys) MKC_TRY_STATUS(expect(config, key));
  return {};
}

Node block_node() {
  return list_node({mkrt::kScaleBlock, mkrt::kScaleBlock});
}

// Returns what a group of the format "float-quantized" may say: 8-bit floats with a scale for the tensor,
// each row, or each block. Activations may be asked for as 8-bit floats; mkc keeps bf16, which is closer.
std::vector<Expected> float_group(const std::string& group) {
  const std::string weights = group + ".weights.";
  return {{weights + "num_bits", {int_node(8)}},
          {weights + "type", {string_node("float")}},
          {weights + "strategy", string_nodes({"channel", "tensor", "block"})},
          {weights + "block_structure", {block_node(), null_node()}},
          {weights + "symmetric", {bool_node(true), null_node()}},
          {group + ".output_activations", {null_node()}}};
}

// Returns what a group of the format "pack-quantized" may say: integers of 4 bits around 0, with a scale for
// each row or each group of columns.
std::vector<Expected> packed_group(const std::string& group) {
  const std::string weights = group + ".weights.";
  return {{weights + "num_bits", {int_node(4)}},
          {weights + "type", {string_node("int")}},
          {weights + "strategy", string_nodes({"group", "channel"})},
          {weights + "symmetric", {bool_node(true), null_node()}},
          {weights + "actorder", {null_node(), string_node("static"), string_node("weight")}},
          {group + ".input_activations", {null_node()}},
          {group + ".output_activations", {null_node()}}};
}

// Reads the config of compressed-tensors 0.20 (compressed_tensors/quantization/quant_args.py).
Result<Quantization> read_compressed_tensors(const Document& config, const Node& quantization) {
  const std::string at = std::string(kConfig) + ".";
  MKC_TRY_STATUS(expect(config, {at + "format", string_nodes({"float-quantized", "pack-quantized"})}));
  const bool packed = config_value(config, at + "format") == string_node("pack-quantized");
  const Node groups = config_value(config, at + "config_groups");
  if (!groups.is(Node::Kind::kMap) || groups.keys.empty())
    return config.error(groups.place.line != 0 ? groups.place : quantization.place,
                        fmt::format("{}config_groups is {}, expected a map of groups", at, describe(groups)));
  for (const std::string& name : groups.keys) {
    const std::string group = at + "config_groups." + name;
    MKC_TRY_STATUS(expect_all(config, packed ? packed_group(group) : float_group(group)));
  }
  return packed ? Quantization::kInt4 : Quantization::kE4m3;
}

// Reads the config of the method "fp8" (transformers, quantizers/quantizer_finegrained_fp8.py; DeepSeek-V3).
Result<Quantization> read_fp8(const Document& config) {
  const std::string at = std::string(kConfig) + ".";
  MKC_TRY_STATUS(
      expect_all(config, {{at + "fmt", {string_node("e4m3"), null_node()}},
                          {at + "weight_block_size", {block_node(), null_node()}},
                          {at + "scale_fmt", {null_node(), string_node("float"), string_node("ue8m0")}}}));
  return Quantization::kE4m3;
}

}  // namespace

Result<Quantization> read_quantization(const Document& config) {
  const Node quantization = config_value(config, kConfig);
  if (quantization.is(Node::Kind::kNull)) return Quantization::kNone;
  const std::string at = std::string(kConfig) + ".";
  MKC_TRY_STATUS(expect(config, {at + "quant_method", string_nodes({"compressed-tensors", "fp8"})}));
  // Scales of caches are tensors of the checkpoint. --kv-dtype says what the cache is.
  const std::string cache = at + "kv_cache_scheme";
  if (!config_value(config, cache).is(Node::Kind::kNull))
    MKC_TRY_STATUS(expect_all(config, {{cache + ".num_bits", {int_node(8)}},
                                       {cache + ".type", {string_node("float")}},
                                       {cache + ".dynamic", {bool_node(false), null_node()}}}));
  if (config_value(config, at + "quant_method") == string_node("fp8")) return read_fp8(config);
  return read_compressed_tensors(config, quantization);
}

}  // namespace mkc
