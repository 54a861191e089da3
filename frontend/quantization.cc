#include "frontend/quantization.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "frontend/formula.h"
#include "frontend/json.h"

namespace mkc {
namespace {

constexpr const char* kConfig = "quantization_config";
constexpr const char* kModelopt = "quantization";  // of hf_quant_config.json

// Expected names a key of the config, with the values that it may have.
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
  const std::string section = expected.key.substr(0, expected.key.find('.'));
  const Place place = value.place.line != 0 ? value.place : config_value(config, section).place;
  return config.error(
      place, fmt::format("{} is {}, expected {}", expected.key, text_of(value), fmt::join(allowed, " or ")));
}

Node list_node(const std::vector<int64_t>& values) {
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

// Expects null or an empty map at the key, for settings that change the computation.
Status expect_nothing(const Document& config, const std::string& key) {
  const Node value = config_value(config, key);
  if (value.is(Node::Kind::kNull) || (value.is(Node::Kind::kMap) && value.keys.empty())) return {};
  return config.error(value.place,
                      fmt::format("{} is {}, expected null or an empty map", key, describe(value)));
}

// Checks the keys that change the computation under any method: rotations of activations, and sparse weights.
Status check_changes(const Document& config, const std::string& at) {
  for (const char* key : {"transform_config", "rotation_config", "hadamard_config"})
    MKC_TRY_STATUS(expect_nothing(config, at + key));
  const std::string sparsity = at + "sparsity_config";
  const Node value = config_value(config, sparsity);
  if (!value.is(Node::Kind::kMap)) return expect_nothing(config, sparsity);
  return expect(config, {sparsity + ".format", {null_node(), string_node("dense")}});
}

Node block_node() {
  return list_node({mkrt::kScaleBlock, mkrt::kScaleBlock});
}

std::vector<Node> int_nodes(const std::vector<int64_t>& values) {
  std::vector<Node> nodes;
  for (const int64_t value : values) nodes.push_back(int_node(value));
  return nodes;
}

std::vector<Node> boolean_nodes() {
  return {bool_node(true), bool_node(false), null_node()};
}

// Formats of compressed-tensors whose codes are 4-bit floats, and the columns that share a scale.
struct Float4 {
  const char *format, *strategy;
  int64_t group_cols;
};
constexpr Float4 kFloat4[] = {{"nvfp4-pack-quantized", "tensor_group", 16},
                              {"mxfp4-pack-quantized", "group", 32}};

// Returns what a group of a format may say. Activations may be asked for as 8-bit or 4-bit floats where
// weights are floats; mkc keeps bf16, which is closer.
std::vector<Expected> group_of(const std::string& group, const std::string& format) {
  const std::string weights = group + ".weights.";
  const bool integers = format == "pack-quantized";
  const auto* float4 = std::ranges::find(kFloat4, format, &Float4::format);
  const bool floats4 = float4 != std::end(kFloat4);
  std::vector<Expected> keys{
      {weights + "num_bits", int_nodes(integers  ? std::vector<int64_t>{4, 8}
                                       : floats4 ? std::vector<int64_t>{4}
                                                 : std::vector<int64_t>{8})},
      {weights + "type", {string_node(integers ? "int" : "float")}},
      {weights + "actorder", {null_node(), string_node("static"), string_node("weight")}},
      {group + ".output_activations", {null_node()}}};
  const auto add = [&](const std::string& key, std::vector<Node> allowed) {
    keys.push_back({key, std::move(allowed)});
  };
  if (integers) {
    add(weights + "strategy", string_nodes({"group", "channel"}));
    add(weights + "symmetric", boolean_nodes());
    add(group + ".input_activations", {null_node()});
    return keys;
  }
  add(weights + "symmetric", {bool_node(true), null_node()});
  if (floats4) {
    add(weights + "strategy", {string_node(float4->strategy)});
    add(weights + "group_size", {int_node(float4->group_cols)});
    return keys;
  }
  add(weights + "strategy", string_nodes({"channel", "tensor", "block"}));
  add(weights + "block_structure", {block_node(), null_node()});
  return keys;
}

// Reads the config of compressed-tensors 0.20 (compressed_tensors/quantization/quant_args.py). A group has
// the config's format, or a format of its own.
Status check_compressed_tensors(const Document& config, const std::string& at) {
  const std::vector<Node> formats =
      string_nodes({"float-quantized", "pack-quantized", kFloat4[0].format, kFloat4[1].format});
  std::vector<Node> of_config = formats;
  of_config.push_back(string_node("mixed-precision"));
  MKC_TRY_STATUS(expect(config, {at + "format", of_config}));
  const Node groups = config_value(config, at + "config_groups");
  if (!groups.is(Node::Kind::kMap) || groups.keys.empty())
    return config.error(groups.place.line != 0 ? groups.place : config_value(config, kConfig).place,
                        fmt::format("{}config_groups is {}, expected a map of groups", at, describe(groups)));
  for (const std::string& name : groups.keys) {
    const std::string group = at + "config_groups." + name;
    const bool own = config_value(config, at + "format") == string_node("mixed-precision") ||
                     !config_value(config, group + ".format").is(Node::Kind::kNull);
    if (own) MKC_TRY_STATUS(expect(config, {group + ".format", formats}));
    const Node format = config_value(config, own ? group + ".format" : at + "format");
    MKC_TRY_STATUS(expect_all(config, group_of(group, format.string)));
  }
  return {};
}

// Method is a `quant_method` with the values of its keys.
struct Method {
  const char* name;
  std::vector<Expected> keys;
};

// Returns the methods but for compressed-tensors. Sources: transformers 5.23, quantizers/ (fp8, awq, gptq,
// auto-round), and ModelOpt's hf_quant_config.json.
std::vector<Method> methods(const std::string& at) {
  return {{"fp8",
           {{at + "fmt", {string_node("e4m3"), null_node()}},
            {at + "weight_block_size", {block_node(), null_node()}},
            {at + "activation_scheme", {null_node(), string_node("dynamic"), string_node("static")}},
            {at + "scale_fmt", {null_node(), string_node("float"), string_node("ue8m0")}}}},
          {"gptq",
           {{at + "bits", int_nodes({4, 8})},
            {at + "sym", boolean_nodes()},
            {at + "checkpoint_format", {string_node("gptq"), string_node("gptq_v2"), null_node()}},
            {at + "format", {string_node("gptq"), string_node("gptq_v2"), null_node()}}}},
          {"awq",
           {{at + "bits", {int_node(4)}},
            {at + "version", {string_node("gemm"), string_node("GEMM"), null_node()}},
            {at + "format", {string_node("gemm"), string_node("GEMM"), null_node()}},
            {at + "zero_point", boolean_nodes()}}},
          {"auto-round",
           {{at + "bits", int_nodes({4, 8})},
            {at + "sym", boolean_nodes()},
            {at + "data_type", {string_node("int"), string_node("fp"), null_node()}},
            {at + "packing_format",
             {string_node("auto_round:auto_gptq"), string_node("auto_round:auto_awq"), null_node()}}}},
          {"mxfp4", {}},
          {"modelopt", {{at + "quant_algo", string_nodes({"NVFP4", "FP8"})}}}};
}

// GPTQ's format is under two keys, `checkpoint_format` in older files. Errors: the two differ.
Status check_gptq_format(const Document& config, const std::string& at) {
  const Node older = config_value(config, at + "checkpoint_format"),
             newer = config_value(config, at + "format");
  if (older.is(Node::Kind::kNull) || newer.is(Node::Kind::kNull) || older == newer) return {};
  return config.error(newer.place, fmt::format("{} is {}, but {} is {}, expected the same", newer.path,
                                               describe(newer), older.path, describe(older)));
}

// Files of llm-awq have another order of codes, and say so by `backend` alone.
Status check_awq_backend(const Document& config, const std::string& at) {
  const Node backend = config_value(config, at + "backend");
  if (backend != string_node("llm-awq")) return {};
  return config.error(backend.place, fmt::format("{} is {}, expected another: codes of llm-awq are not read",
                                                 backend.path, describe(backend)));
}

// Returns the values of AutoRound's keys where it wrote 8-bit floats, which are those of the method fp8.
std::vector<Expected> auto_round_floats(const std::string& at) {
  std::vector<Expected> keys = methods(at)[0].keys;
  keys.push_back({at + "bits", {int_node(8)}});
  keys.push_back({at + "packing_format", {string_node("auto_round:fp8"), null_node()}});
  return keys;
}

// Scales of caches are tensors of the checkpoint. --kv-dtype says what the cache is.
Status check_cache_scheme(const Document& config, const std::string& cache) {
  if (config_value(config, cache).is(Node::Kind::kNull)) return {};
  return expect_all(config, {{cache + ".num_bits", {int_node(8)}},
                             {cache + ".type", {string_node("float")}},
                             {cache + ".dynamic", {bool_node(false), null_node()}}});
}

// Tells whether all groups of compressed-tensors with weights of 8-bit floats ask for such activations.
bool groups_ask_for_fp8(const Document& config, const std::string& at) {
  bool some = false;
  for (const std::string& name : config_value(config, at + "config_groups").keys) {
    const std::string group = at + "config_groups." + name, activations = group + ".input_activations";
    const Node own = config_value(config, group + ".format"),
               format = own.is(Node::Kind::kNull) ? config_value(config, at + "format") : own;
    if (format != string_node("float-quantized")) continue;
    if (config_value(config, activations).is(Node::Kind::kNull) ||
        config_value(config, activations + ".num_bits") != int_node(8) ||
        config_value(config, activations + ".type") != string_node("float"))
      return false;
    some = true;
  }
  return some;
}

// Takes what the groups with integers say of zero points, or that they differ. A group is symmetric where
// it does not say (compressed_tensors/quantization/quant_args.py).
void read_symmetry(const Document& config, const std::string& at, Quantization& to) {
  size_t symmetric = 0, asymmetric = 0;
  for (const std::string& name : config_value(config, at + "config_groups").keys) {
    const std::string group = at + "config_groups." + name;
    const Node own = config_value(config, group + ".format"),
               format = own.is(Node::Kind::kNull) ? config_value(config, at + "format") : own;
    if (format != string_node("pack-quantized")) continue;
    ++(config_value(config, group + ".weights.symmetric") == bool_node(false) ? asymmetric : symmetric);
  }
  to.symmetric = symmetric > 0 && asymmetric == 0;
  to.asymmetric = asymmetric > 0 && symmetric == 0;
  to.mixed_zeros = symmetric > 0 && asymmetric > 0;
}

// Tells whether the config asks for activations of 8-bit floats.
bool asks_for_fp8(const Document& config, const std::string& at, const std::string& method) {
  if (method == "compressed-tensors") return groups_ask_for_fp8(config, at);
  if (method == "modelopt") return config_value(config, at + "quant_algo") == string_node("FP8");
  return method == "fp8" && !config_value(config, at + "activation_scheme").is(Node::Kind::kNull);
}

// Reads the config that ModelOpt writes.
Result<std::optional<Quantization>> read_modelopt(const std::string& directory) {
  MKC_TRY(found, read_optional_json(directory + "/" + kModeloptConfig));
  if (!found) return std::optional<Quantization>();
  const auto shared = std::make_shared<const Document>(std::move(*found));
  const Document& document = *shared;
  MKC_TRY_STATUS(check_changes(document, std::string(kModelopt) + "."));
  MKC_TRY_STATUS(expect(document, {std::string(kModelopt) + ".quant_algo", string_nodes({"NVFP4", "FP8"})}));
  Quantization quantization;
  quantization.modelopt = shared;
  quantization.fp8_activations = asks_for_fp8(document, std::string(kModelopt) + ".", "modelopt");
  return std::optional(quantization);
}

}  // namespace

Result<std::optional<Quantization>> read_quantization(const Document& config, const std::string& directory) {
  if (config_value(config, kConfig).is(Node::Kind::kNull)) return read_modelopt(directory);
  const std::string at = std::string(kConfig) + ".";
  MKC_TRY_STATUS(check_changes(config, at));
  std::vector<Node> names{string_node("compressed-tensors")};
  for (const Method& method : methods(at)) names.push_back(string_node(method.name));
  MKC_TRY_STATUS(expect(config, {at + "quant_method", names}));
  MKC_TRY_STATUS(check_cache_scheme(config, at + "kv_cache_scheme"));
  const Node name = config_value(config, at + "quant_method");
  if (name == names[0]) MKC_TRY_STATUS(check_compressed_tensors(config, at));
  const bool floats =
      name == string_node("auto-round") && config_value(config, at + "data_type") == string_node("fp");
  if (floats) MKC_TRY_STATUS(expect_all(config, auto_round_floats(at)));
  for (const Method& method : methods(at))
    if (name.string == method.name && !floats) MKC_TRY_STATUS(expect_all(config, method.keys));
  if (name == string_node("gptq")) MKC_TRY_STATUS(check_gptq_format(config, at));
  if (name == string_node("awq")) MKC_TRY_STATUS(check_awq_backend(config, at));
  Quantization quantization;
  quantization.symmetric = config_value(config, at + "sym") == bool_node(true);
  quantization.reordered = config_value(config, at + "desc_act") == bool_node(true);
  if (name == names[0]) read_symmetry(config, at, quantization);
  quantization.fp8_activations = asks_for_fp8(config, at, name.string);
  return std::optional(quantization);
}

}  // namespace mkc
