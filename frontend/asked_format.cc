#include "frontend/asked_format.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkc {
namespace {

std::string codes_text(mkrt::WeightType type, uint32_t bits) {
  const mkrt::WeightFormat& format = mkrt::weight_format(type);
  if (format.code == mkrt::CodeType::kInteger) return fmt::format("integers of {} bits", bits);
  return format.e4m3() ? "8-bit floats" : type == mkrt::WeightType::kNvfp4 ? "NVFP4" : "MXFP4";
}

std::string scales_text(const QuantizedMatrix& m) {
  const mkrt::StoredMatrix& s = m.stored;
  if (s.type == mkrt::WeightType::kE4m3Block)
    return fmt::format("a scale for each block of {} x {}", s.scale_rows, s.scale_cols);
  if (s.scale_rows > 1) return "one scale";
  return s.scale_cols >= m.cols ? "a scale for each row"
                                : fmt::format("a scale for each group of {} columns", s.scale_cols);
}

// Returns the error of a key that asks for something else than a tensor has.
Error differs(const Document& config, const Node& key, const std::string& tensor, const std::string& found) {
  const std::string value = key.is(Node::Kind::kList)
                                ? fmt::format("[{}, {}]", mkrt::kScaleBlock, mkrt::kScaleBlock)
                                : describe(key);
  return config.error(key.place,
                      fmt::format("{} is {}, but tensor \"{}\" has {}", key.path, value, tensor, found));
}

Status check_codes(const FormatRule& rule, const Document& config, const QuantizedMatrix& m) {
  const bool integers = mkrt::weight_format(m.stored.type).code == mkrt::CodeType::kInteger;
  const std::string found = codes_text(m.stored.type, m.stored.bits),
                    asked = rule.bits == 0 ? codes_text(rule.floats, 0)
                                           : codes_text(mkrt::WeightType::kInt8, rule.bits);
  if (found == asked) return {};
  return differs(config, rule.bits != 0 && integers ? rule.bits_key : rule.format_key, m.stored.codes, found);
}

// Scales of one shape may be those of rows, of groups and of blocks at once, so their numbers are compared.
Status check_scales(const FormatRule& rule, const Document& config, const QuantizedMatrix& m) {
  uint64_t rows = 1, cols = m.cols;  // that share a scale
  switch (rule.scales) {
    case ScalesRule::kUnsaid:
      return {};
    case ScalesRule::kTensor:
      rows = m.rows;
      break;
    case ScalesRule::kRows:
      break;
    case ScalesRule::kBlocks:
      rows = cols = mkrt::kScaleBlock;
      break;
    case ScalesRule::kGroups:
      cols = std::min(rule.group_cols, m.cols);
      break;
  }
  const auto count = [](uint64_t size, uint64_t by) { return (size + by - 1) / by; };
  if (count(m.rows, rows) == count(m.rows, m.stored.scale_rows) &&
      count(m.cols, cols) == count(m.cols, m.stored.scale_cols))
    return {};
  return differs(config, rule.scales_key, m.stored.scales, scales_text(m));
}

Status check_rule(const FormatRule& rule, const Document& config, const QuantizedMatrix& m) {
  MKC_TRY_STATUS(check_codes(rule, config, m));
  return check_scales(rule, config, m);
}

Status check_not_left_out(const PlannedFormats& asked, const Document& config, const QuantizedMatrix& m) {
  const std::string module = m.name.substr(0, m.name.rfind('.'));
  for (const ModulePattern& pattern : asked.left_out) {
    MKC_TRY(named, matches(config, pattern, module));
    if (named)
      return config.error(
          pattern.place,
          fmt::format("{} has \"{}\" for module \"{}\", but tensor \"{}\" has {}", pattern.list, pattern.name,
                      module, m.stored.codes, codes_text(m.stored.type, m.stored.bits)));
  }
  return {};
}

// Tells whether targets may be classes that mkc does not know. Names of modules begin with lower case.
bool may_name_classes(const PlannedFormats& asked) {
  return std::ranges::any_of(asked.rules, [](const FormatRule& rule) {
    return std::ranges::any_of(rule.modules, [](const ModulePattern& pattern) {
      return !pattern.name.empty() && pattern.name[0] >= 'A' && pattern.name[0] <= 'Z';
    });
  });
}

}  // namespace

Result<bool> check_asked_format(const PlannedFormats& asked, const Document& config,
                                const QuantizedMatrix& matrix) {
  if (asked.overridden) return true;
  const FormatRule* rule = &asked.rules.front();
  if (asked.by_module) {
    MKC_TRY_STATUS(check_not_left_out(asked, config, matrix));
    MKC_TRY(found, find_rule(asked, config, matrix.name));
    if (!found) return may_name_classes(asked);
    rule = found;
  }
  // AutoRound gave the same class to each of several groups (its pull request 2128), so that any may be
  // meant.
  const auto may_be_meant = [&](const FormatRule& other) {
    return rule->all && other.all && check_rule(other, config, matrix).ok();
  };
  if (std::ranges::any_of(asked.rules, may_be_meant)) return true;
  MKC_TRY_STATUS(check_rule(*rule, config, matrix));
  return true;
}

}  // namespace mkc
