#include "frontend/params.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/fields.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

// An error about a value: in the config file where it was read from there, else where the family asks for it.
Error value_error(const Scope& scope, const Node& value, Place asked_at, const std::string& name,
                  const std::string& message) {
  if (value.place.line != 0 && !value.path.empty()) {
    return scope.config->error(value.place, fmt::format("{} {}", value.path, message));
  }
  return scope.family->error(asked_at, fmt::format("{} {}", name, message));
}

Status check_only(const OnlyDecl& only, const Document& config, const std::string& family) {
  const Node value = config_value(config, only.key);
  const std::vector<Node> values = value.is(Kind::kList) ? value.items : std::vector<Node>{value};
  std::string allowed;
  for (const Node& node : only.allowed) {
    if (!node.is(Kind::kNull)) allowed += fmt::format("{}{}", allowed.empty() ? "" : " or ", describe(node));
  }
  if (allowed.empty()) allowed = "none";
  for (const Node& item : values) {
    if (std::find(only.allowed.begin(), only.allowed.end(), item) != only.allowed.end()) continue;
    if (item.is(Kind::kNull) && item.place.line == 0) {
      return error_at({config.source.path}, fmt::format("missing key \"{}\", the {} family supports {}",
                                                        only.key, family, allowed));
    }
    return config.error(value.place, fmt::format("{} is {}, the {} family supports {}", only.key,
                                                 describe(item), family, allowed));
  }
  return {};
}

// Whether a number is within the bounds of a parameter: "", or what is expected.
std::string out_of_bounds(const ParamDecl& param, const Node& value) {
  if (param.min && !(value.number() >= *param.min)) return fmt::format("at least {}", *param.min);
  if (param.max && !(value.number() <= *param.max)) return fmt::format("at most {}", *param.max);
  return "";
}

// A list of ints within the bounds of the parameter; none is an empty one.
Result<Node> bind_list(const ParamDecl& param, const Scope& scope, Node value) {
  if (value.is(Kind::kNull)) value.kind = Kind::kList;
  if (!value.is(Kind::kList)) {
    return value_error(scope, value, param.place, param.name,
                       fmt::format("is {}, expected a list", describe(value)));
  }
  for (const Node& item : value.items) {
    const std::string expected = item.is(Kind::kInt) ? out_of_bounds(param, item) : "an int";
    if (!expected.empty()) {
      return value_error(scope, value, param.place, param.name,
                         fmt::format("holds {}, expected {}", describe(item), expected));
    }
  }
  return value;
}

Result<Node> bind_param(const ParamDecl& param, const Scope& scope) {
  MKC_TRY(value, evaluate(param.value, scope));
  if (param.type == Kind::kList) return bind_list(param, scope, value);
  if (value.is(Kind::kNull) && value.place.line == 0 && !value.path.empty()) {
    return missing_key(scope, value.path, param.value.place);
  }
  if (param.type == Kind::kFloat && value.is(Kind::kInt)) {
    value.kind = Kind::kFloat;
    value.real = static_cast<double>(value.integer);
  }
  if (!value.is(param.type)) {
    return value_error(scope, value, param.place, param.name,
                       fmt::format("is {}, expected {}", describe(value), kind_phrase(param.type)));
  }
  if (!value.is_number()) return value;
  const std::string expected = out_of_bounds(param, value);
  if (expected.empty()) return value;
  return value_error(scope, value, param.place, param.name,
                     fmt::format("is {}, expected {}", describe(value), expected));
}

// "{name}" replaced by the value of that name.
std::string fill_in(std::string text, const Scope& scope) {
  for (const auto& [name, value] : scope.names) {
    const std::string mark = "{" + name + "}";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, mark.size(), describe(value));
    }
  }
  return text;
}

Result<double> positive(const std::optional<Formula>& formula, const Scope& scope, const RopeDecl& rope,
                        const std::string& name) {
  if (!formula) return scope.family->error(rope.place, fmt::format("missing key \"{}\" in rope", name));
  MKC_TRY(value, bind_param({name, Kind::kFloat, *formula, {}, {}, formula->place}, scope));
  if (value.number() > 0 && std::isfinite(value.number())) return value.number();
  return value_error(scope, value, formula->place, name,
                     fmt::format("is {}, expected more than 0", describe(value)));
}

// Long wavelengths are stretched by `factor`, short ones kept, those between blended.
Status scale_llama3(const RopeDecl& rope, const Scope& scope, std::vector<double>& frequencies) {
  MKC_TRY(factor, positive(rope.factor, scope, rope, "factor"));
  MKC_TRY(low, positive(rope.low_freq_factor, scope, rope, "low_freq_factor"));
  MKC_TRY(high, positive(rope.high_freq_factor, scope, rope, "high_freq_factor"));
  MKC_TRY(original, positive(rope.original_context, scope, rope, "original_context"));
  if (high <= low) {
    MKC_TRY(value, evaluate(*rope.high_freq_factor, scope));
    return value_error(scope, value, rope.place, "high_freq_factor",
                       fmt::format("is {}, expected more than low_freq_factor {}", high, low));
  }
  for (double& frequency : frequencies) {
    const double turns = original * frequency / (2 * M_PI);  // full rotations within the original context
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = (1 - kept) * frequency / factor + kept * frequency;
  }
  return {};
}

}  // namespace

Result<Scope> bind_params(const Family& family, const Document& config) {
  if (!config.root.is(Kind::kMap)) {
    return config.error({1, 1}, fmt::format("found {}, expected a map", describe(config.root)));
  }
  for (const OnlyDecl& only : family.only) MKC_TRY_STATUS(check_only(only, config, family.name));
  for (const KnownKeysDecl& known : family.known_keys) {
    const Node map = config_value(config, known.key);
    if (!map.is(Kind::kNull)) MKC_TRY_STATUS(check_keys(config, map, known.key, known.known));
  }
  Scope scope{&family.document, &config, {}};
  MKC_TRY_STATUS(bind(family.params, scope));
  return scope;
}

Status bind(const std::vector<ParamDecl>& params, Scope& scope) {
  for (const ParamDecl& param : params) {
    MKC_TRY(value, bind_param(param, scope));
    scope.names[param.name] = std::move(value);
  }
  return {};
}

Status check_requirements(const Family& family, const Scope& scope) {
  for (const Requirement& requirement : family.require) {
    MKC_TRY(holds, evaluate_bool(requirement.that, scope));
    if (holds) continue;
    const Node value = config_value(*scope.config, requirement.key);
    return scope.config->error(value.place, fill_in(requirement.says, scope));
  }
  return {};
}

Result<std::vector<double>> rope_frequencies(const RopeDecl& rope, const Scope& scope) {
  MKC_TRY(dim, evaluate_int(rope.dim, scope));
  if (dim < 2 || dim % 2 != 0) {
    MKC_TRY(value, evaluate(rope.dim, scope));
    return value_error(scope, value, rope.place, "rope dim",
                       fmt::format("is {}, expected a positive even number", dim));
  }
  MKC_TRY(theta, positive(rope.theta, scope, rope, "theta"));
  std::vector<double> frequencies;
  for (int64_t i = 0; i < dim / 2; ++i) {
    frequencies.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  }
  MKC_TRY(type, bind_param({"rope type", Kind::kString, rope.type, {}, {}, rope.place}, scope));
  if (type.string == "linear") {
    MKC_TRY(factor, positive(rope.factor, scope, rope, "factor"));
    for (double& frequency : frequencies) frequency /= factor;
  } else if (type.string == "llama3") {
    MKC_TRY_STATUS(scale_llama3(rope, scope, frequencies));
  } else if (type.string != "default") {
    return value_error(scope, type, rope.place, "rope type",
                       fmt::format("is {}, expected \"default\", \"linear\" or \"llama3\"", describe(type)));
  }
  return frequencies;
}

}  // namespace mkc
