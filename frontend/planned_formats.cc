#include "frontend/planned_formats.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontend/formula.h"
#include "runtime/artefact/stored_matrix.h"

namespace mkc {
namespace {

constexpr const char* kSection = "quantization_config";
constexpr const char* kAllModules = "Linear";  // the class of all modules that have products
// Methods but for compressed-tensors leave the head and routers as they are, whether the config says so or
// not (transformers 5.23, quantizers/).
constexpr const char* kLeftOut[] = {"lm_head", "gate"};
constexpr const char* kLeftOutKeys[] = {"ignore", "modules_to_not_convert", "ignored_layers",
                                        "exclude_modules"};
// Maps from modules to other bits and groups than the config's: of GPTQModel, and of AutoRound.
constexpr const char* kOverrides[] = {"dynamic", "extra_config"};

Node value_of(const Document& config, const std::string& key) {
  return config_value(config, fmt::format("{}.{}", kSection, key));
}

// Sets the integers of a rule from three values of the config.
Status set_integers(const Document& config, FormatRule& rule, const Node& bits, const Node& group,
                    bool zeros) {
  rule.bits = static_cast<uint32_t>(bits.integer);
  rule.bits_key = bits;
  rule.zeros = zeros;
  rule.scales_key = group;
  if (group == int_node(-1)) rule.scales = ScalesRule::kRows;
  if (group.is(Node::Kind::kNull) || group == int_node(-1)) return {};
  if (!group.is(Node::Kind::kInt) || group.integer < 1)
    return config.error(group.place, fmt::format("{} is {}, expected a number of columns, or -1", group.path,
                                                 describe(group)));
  rule.scales = ScalesRule::kGroups;
  rule.group_cols = static_cast<uint64_t>(group.integer);
  return {};
}

// Reads a group of compressed-tensors.
Result<FormatRule> read_group(const Document& config, const std::string& group, const Node& format) {
  FormatRule rule;
  const Node targets = value_of(config, group + ".targets");
  rule.all = std::ranges::count(targets.items, string_node(kAllModules)) > 0;
  MKC_TRY(modules, read_patterns(config, targets));
  std::erase_if(modules, [](const ModulePattern& pattern) { return pattern.name == kAllModules; });
  for (ModulePattern& pattern : modules) pattern.exact = true;
  rule.modules = std::move(modules);
  rule.place = value_of(config, group + ".weights").place;
  rule.format_key = format;
  const Node strategy = value_of(config, group + ".weights.strategy");
  if (format == string_node("pack-quantized")) {
    MKC_TRY_STATUS(set_integers(config, rule, value_of(config, group + ".weights.num_bits"),
                                value_of(config, group + ".weights.group_size"),
                                value_of(config, group + ".weights.symmetric") == bool_node(false)));
    if (strategy == string_node("channel")) rule.scales = ScalesRule::kRows, rule.scales_key = strategy;
    return rule;
  }
  rule.floats = format == string_node("nvfp4-pack-quantized")   ? mkrt::WeightType::kNvfp4
                : format == string_node("mxfp4-pack-quantized") ? mkrt::WeightType::kMxfp4
                : strategy == string_node("block")              ? mkrt::WeightType::kE4m3Block
                                                                : mkrt::WeightType::kE4m3;
  if (format != string_node("float-quantized")) return rule;
  rule.scales_key = strategy;
  rule.scales = strategy == string_node("block")     ? ScalesRule::kBlocks
                : strategy == string_node("channel") ? ScalesRule::kRows
                                                     : ScalesRule::kTensor;
  return rule;
}

// Sets the rule for ModelOpt's `quant_algo`.
void set_algorithm(FormatRule& rule, const Node& algorithm) {
  rule.format_key = algorithm;
  rule.floats = algorithm == string_node("NVFP4") ? mkrt::WeightType::kNvfp4 : mkrt::WeightType::kE4m3;
}

// Tells whether some modules have other bits or groups than the config's.
bool has_overrides(const Document& config) {
  return std::ranges::any_of(kOverrides, [&](const char* key) {
    const Node value = value_of(config, key);
    return !value.is(Node::Kind::kNull) && !(value.is(Node::Kind::kMap) && value.keys.empty());
  });
}

// Reads a method that has one format for all modules.
Result<FormatRule> read_method(const Document& config, const std::string& method) {
  FormatRule rule{.all = true, .place = config_value(config, kSection).place};
  rule.format_key = value_of(config, "quant_method");
  if (method == "fp8" || value_of(config, "data_type") == string_node("fp")) {
    // Readers differ on what a missing block means. The tensors then decide.
    rule.scales_key = value_of(config, "weight_block_size");
    const bool blocks = !rule.scales_key.is(Node::Kind::kNull);
    rule.floats = blocks ? mkrt::WeightType::kE4m3Block : mkrt::WeightType::kE4m3;
    if (blocks) rule.scales = ScalesRule::kBlocks;
  } else if (method == "mxfp4") {
    rule.all = false, rule.modules = {{.name = "experts"}};
    rule.floats = mkrt::WeightType::kMxfp4;
  } else if (method == "modelopt") {
    set_algorithm(rule, value_of(config, "quant_algo"));
  } else {
    const bool zeros = method == "awq" ? value_of(config, "zero_point") == bool_node(true)
                                       : value_of(config, "sym") == bool_node(false);
    MKC_TRY_STATUS(
        set_integers(config, rule, value_of(config, "bits"), value_of(config, "group_size"), zeros));
  }
  return rule;
}

}  // namespace

Result<PlannedFormats> read_planned_formats(const Document& config, bool has_tensors) {
  PlannedFormats planned;
  const std::string method = value_of(config, "quant_method").string;
  planned.by_module = method == "compressed-tensors";
  for (const char* key : kLeftOutKeys) {
    if (has_tensors && !planned.by_module) break;  // the tensors say it
    MKC_TRY(patterns, read_patterns(config, value_of(config, key)));
    for (ModulePattern& pattern : patterns) {
      pattern.exact = method == "compressed-tensors";
      planned.left_out.push_back(std::move(pattern));
    }
  }
  planned.overridden = !planned.by_module && has_overrides(config);
  if (!planned.by_module) {
    for (const char* name : kLeftOut) planned.left_out.push_back({.name = name});
    MKC_TRY(rule, read_method(config, method));
    planned.rules.push_back(std::move(rule));
    return planned;
  }
  for (const std::string& name : value_of(config, "config_groups").keys) {
    const std::string group = "config_groups." + name;
    Node format = value_of(config, group + ".format");
    if (format.is(Node::Kind::kNull)) format = value_of(config, "format");
    MKC_TRY(rule, read_group(config, group, format));
    planned.rules.push_back(std::move(rule));
  }
  return planned;
}

PlannedFormats read_modelopt_formats(const Document& document) {
  FormatRule rule{.all = true};
  set_algorithm(rule, config_value(document, "quantization.quant_algo"));
  PlannedFormats planned;
  planned.rules.push_back(std::move(rule));
  return planned;
}

Result<const FormatRule*> find_rule(const PlannedFormats& planned, const Document& config,
                                    const std::string& name) {
  const std::string module = name.substr(0, name.rfind('.'));
  MKC_TRY(left_out, matches_any(config, planned.left_out, module));
  const FormatRule* found = nullptr;
  if (left_out) return found;
  // Names go before regular expressions, and these before classes. The lesser text goes before the greater,
  // and the last rule before earlier ones (compressed_tensors 0.20, utils/match.py and lifecycle/apply.py).
  std::pair<bool, std::string> best;
  for (const FormatRule& rule : planned.rules)
    for (const ModulePattern& pattern : rule.modules) {
      MKC_TRY(named, matches(config, pattern, module));
      std::pair<bool, std::string> rank{pattern.regex != nullptr, pattern.name};
      if (!named || (found && rank > best)) continue;
      best = std::move(rank);
      found = &rule;
    }
  if (found) return found;
  for (const FormatRule& rule : planned.rules)
    if (rule.all) found = &rule;
  return found;
}

Result<std::optional<DType>> planned_dtype(const PlannedFormats& planned, const Document& config,
                                           const std::string& name, uint64_t cols) {
  MKC_TRY(rule, find_rule(planned, config, name));
  if (!rule) return std::optional<DType>();
  if (rule->bits == 0) return std::optional(static_cast<DType>(rule->floats));
  const uint64_t group_cols = rule->group_cols == 0 ? cols : rule->group_cols;
  const auto type =
      cols % group_cols == 0 ? mkrt::integer_type(rule->bits, rule->zeros, group_cols, cols) : std::nullopt;
  if (!type)
    return config.error(rule->place, fmt::format("group_size is {}, expected a multiple of 32 that divides "
                                                 "the {} columns of \"{}\"",
                                                 group_cols, cols, name));
  return std::optional(static_cast<DType>(*type));
}

}  // namespace mkc
