#include "frontend/params.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "frontend/defaults.h"
#include "frontend/unread_keys.h"

namespace mkc {

namespace {
using Kind = Node::Kind;
}

Error value_error(const Scope& scope, const Node& value, Place asked_at, const std::string& name,
                  const std::string& message) {
  const std::string note = default_note(value);
  if ((value.place.line != 0 || !note.empty()) && !value.path.empty()) {
    return scope.config->error(value.place, fmt::format("{} {}{}", value.path, message, note));
  }
  return scope.family->error(asked_at, fmt::format("{} {}", name, message));
}

namespace {

Status check_only(const OnlyDecl& only, const Document& config, const std::string& family) {
  const Node value = config_value(config, only.key);
  const std::vector<Node> values = value.is(Kind::kList) ? value.items : std::vector<Node>{value};
  std::vector<std::string> texts;  // 7 and 7.0 have the same one
  for (const Node& node : only.allowed) {
    std::string text = describe(node);
    if (!node.is(Kind::kNull) && std::ranges::count(texts, text) == 0) texts.push_back(std::move(text));
  }
  const std::string allowed = texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, " or "));
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

// Returns what is expected of a number outside a parameter's bounds, or "" for a number within them.
std::string out_of_bounds(const ParamDecl& param, const Node& value) {
  if (!std::isfinite(value.number())) return "a finite number";
  if (param.min && !(value.number() >= *param.min)) return fmt::format("at least {}", *param.min);
  if (param.max && !(value.number() <= *param.max)) return fmt::format("at most {}", *param.max);
  return "";
}

// Returns a list of ints within the bounds of the parameter. A null value gives an empty list.
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

// Returns the text with each "{name}" replaced by the value of that name.
std::string fill_in(const std::string& text, const Scope& scope) {
  std::string filled;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text[at] == '{' ? text.find('}', at) : std::string::npos;
    const auto value =
        end == std::string::npos ? scope.names.end() : scope.names.find(text.substr(at + 1, end - at - 1));
    filled += value == scope.names.end() ? text.substr(at, 1) : describe(value->second);
    at = value == scope.names.end() ? at + 1 : end + 1;
  }
  return filled;
}

}  // namespace

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

Result<Scope> bind_params(const Family& family, const Document& config) {
  if (!config.root.is(Kind::kMap)) {
    return config.error({1, 1}, fmt::format("found {}, expected a map", describe(config.root)));
  }
  for (const OnlyDecl& only : family.only) MKC_TRY_STATUS(check_only(only, config, family.name));
  MKC_TRY_STATUS(check_unread_keys(family, config));
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
    return scope.config->error(value.place, fill_in(requirement.says, scope) + default_note(value));
  }
  return {};
}

}  // namespace mkc
