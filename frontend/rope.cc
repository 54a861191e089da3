#include "frontend/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontend/fields.h"
#include "frontend/params.h"

namespace mkc {
namespace {

using Kind = Node::Kind;

// The config's map of RoPE parameters, or else the family's. Null: there is none.
struct Parameters {
  const RopeDecl& rope;
  const Scope& scope;
  Node map;
  const Document* document;  // which has the map

  const Node* find_value(const std::string& key) const {
    const Node* node = find(map, key);
    return node && !node->is(Kind::kNull) ? node : nullptr;
  }
  Error wrong(const std::string& key, const Node& node, const std::string& expected) const {
    return document->error(node.place,
                           fmt::format("{}.{} is {}, expected {}", map.path, key, describe(node), expected));
  }
  // Returns a number above 0, or `fallback` if the config has none. Errors: a missing value without fallback,
  // any other value.
  Result<double> positive(const std::string& key, std::optional<double> fallback = {}) const {
    const Node* node = find_value(key);
    if (!node && fallback) return *fallback;
    if (const Node* null = find(map, key); null && !node) return wrong(key, *null, "a float");
    if (!node && document == scope.family)
      return document->error(map.place, fmt::format("missing key \"{}\" in {}", key, map.path));
    if (!node) return missing_key(scope, fmt::format("{}.{}", map.path, key), rope.parameters->place);
    return positive_number(*document, *node, fmt::format("{}.{}", map.path, key));
  }
  static Result<double> positive_number(const Document& of, const Node& node, const std::string& path) {
    const bool above = node.is_number() && node.number() > 0 && std::isfinite(node.number());
    if (above) return node.number();
    const char* expected = node.is_number() ? "more than 0" : "a float";
    return of.error(node.place, fmt::format("{} is {}, expected {}", path, describe(node), expected));
  }
  // Returns YaRN's factor. One that is null is the ratio of the config's positions to the original context.
  Result<double> yarn_factor() const {
    const Node* node = find(map, "factor");
    const Node* positions = find(scope.config->root, "max_position_embeddings");
    if (!node || !node->is(Kind::kNull) || !positions) return positive("factor");
    MKC_TRY(context, positive_number(*scope.config, *positions, "max_position_embeddings"));
    MKC_TRY(original, original_context());
    return context / original;
  }
  Result<bool> boolean(const std::string& key, bool fallback) const {
    const Node* node = find(map, key);
    if (!node) return fallback;
    if (!node->is(Kind::kBool)) return wrong(key, *node, "a bool");
    return node->boolean;
  }
  // Returns the positions of the original context. The config itself may have them, too. Errors: two numbers
  // that differ.
  Result<double> original_context() const {
    const std::string key = "original_max_position_embeddings";
    const Node* inside = find(map, key);
    const Node* outside = find(scope.config->root, key);
    if (inside && inside->is(Kind::kNull)) return wrong(key, *inside, "a float");
    if (inside && outside && *inside != *outside)
      return scope.config->error(
          outside->place, fmt::format("{} is {}, but {}.{} is {}", key, describe(*outside), map.path, key,
                                      describe(*inside)));
    if (!inside && outside) return positive_number(*scope.config, *outside, key);
    if (inside || !rope.original_context) return positive(key);
    MKC_TRY(fallback, evaluate_int(*rope.original_context, scope));
    return positive(key, static_cast<double>(fallback));
  }
};

Result<Parameters> parameters_of(const RopeDecl& rope, const Scope& scope) {
  Parameters parameters{rope, scope, null_node(), scope.config};
  if (rope.parameters) {
    MKC_TRY(map, evaluate(*rope.parameters, scope));
    parameters.map = map;
  }
  if (parameters.map.is(Kind::kNull) && rope.default_parameters) {
    parameters.map = *rope.default_parameters;
    parameters.map.path = "default_parameters";
    parameters.document = scope.family;
  }
  const Node& map = parameters.map;
  if (map.is(Kind::kMap) || map.is(Kind::kNull)) return parameters;
  return scope.config->error(map.place, fmt::format("{} is {}, expected a map", map.path, describe(map)));
}

// Returns the name of the RoPE type. Errors: null, an unknown type, keys that the type does not have.
Result<std::string> rope_type_of(const Parameters& p) {
  const std::string key = find(p.map, "rope_type") ? "rope_type" : "type";
  const Node* node = find(p.map, key);
  const std::string type = node && node->is(Kind::kString) ? node->string : "default";
  std::vector<std::string> keys = {"rope_type", "type", "rope_theta", "partial_rotary_factor",
                                   "original_max_position_embeddings"};
  const auto add = [&](std::initializer_list<const char*> more) {
    keys.insert(keys.end(), more.begin(), more.end());
  };
  if (type == "linear" || type == "dynamic")
    add({"factor"});
  else if (type == "llama3")
    add({"factor", "low_freq_factor", "high_freq_factor"});
  else if (type == "yarn")
    add({"factor", "beta_fast", "beta_slow", "attention_factor", "mscale", "mscale_all_dim", "truncate"});
  if (node && (!node->is(Kind::kString) || (keys.size() == 5 && type != "default")))
    return p.wrong(key, *node, "\"default\", \"linear\", \"dynamic\", \"llama3\" or \"yarn\"");
  if (!p.map.is(Kind::kNull)) MKC_TRY_STATUS(check_keys(*p.document, p.map, p.map.path, keys));
  return type;
}

// Scales frequencies as Llama 3.1 does. Long wavelengths are stretched by `factor`. Short ones are kept, and
// those between are blended.
Status scale_llama3(const Parameters& p, std::vector<double>& frequencies) {
  MKC_TRY(factor, p.positive("factor"));
  MKC_TRY(low, p.positive("low_freq_factor"));
  MKC_TRY(high, p.positive("high_freq_factor"));
  MKC_TRY(original, p.original_context());
  if (high <= low)
    return p.wrong("high_freq_factor", *p.find_value("high_freq_factor"),
                   fmt::format("more than low_freq_factor {}", low));
  for (double& frequency : frequencies) {
    const double turns = original * frequency / (2 * M_PI);  // full rotations within the original context
    const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    frequency = (1 - kept) * frequency / factor + kept * frequency;
  }
  return {};
}

// Scales frequencies as YaRN does. Returns the factor of cosines and sines.
//
// Frequencies that turn often within the original context are kept. Slow ones are divided by `factor`, and
// those between are blended by their index.
Result<double> scale_yarn(const Parameters& p, double theta, std::vector<double>& frequencies) {
  MKC_TRY(factor, p.yarn_factor());
  MKC_TRY(original, p.original_context());
  MKC_TRY(fast, p.positive("beta_fast", 32.0));
  MKC_TRY(slow, p.positive("beta_slow", 1.0));
  MKC_TRY(truncate, p.boolean("truncate", true));
  const auto dim = 2 * static_cast<double>(frequencies.size());
  const auto index_of = [&](double turns) {
    return dim * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(theta));
  };
  double low = index_of(fast), high = index_of(slow);
  if (truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const double stretched = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] *= stretched / factor + (1 - stretched);
  }
  const auto attention = [&](double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; };
  double derived = attention(1);
  if (p.find_value("mscale") && p.find_value("mscale_all_dim")) {
    MKC_TRY(mscale, p.positive("mscale"));
    MKC_TRY(all_dim, p.positive("mscale_all_dim"));
    derived = attention(mscale) / attention(all_dim);
  }
  return p.positive("attention_factor", derived);
}

// Checks the config's theta, for which a family's file may have a default. A theta of null is not left out.
Status check_theta_key(const Parameters& p) {
  const std::string key = "rope_theta";
  if (const Node* inside = find(p.map, key))
    return inside->is(Kind::kNull) ? Status(p.wrong(key, *inside, "a float")) : Status();
  const Node* outside = find(p.scope.config->root, key);
  if (!outside || !outside->is(Kind::kNull)) return {};
  return p.scope.config->error(outside->place, key + " is null, expected a float");
}

Result<double> theta_of(const RopeDecl& rope, const Scope& scope, const std::string& type) {
  MKC_TRY(value, bind_param({"theta", Kind::kFloat, rope.theta, {}, {}, rope.theta.place}, scope));
  if (type == "yarn" && value.number() == 1)  // its logarithm is a divisor
    return value_error(scope, value, rope.theta.place, "theta", "is 1, expected another value for yarn");
  if (value.number() > 0 && std::isfinite(value.number())) return value.number();
  return value_error(scope, value, rope.theta.place, "theta",
                     fmt::format("is {}, expected more than 0", describe(value)));
}

}  // namespace

Result<RopeValues> rope_values(const RopeDecl& rope, const Scope& scope) {
  MKC_TRY(dim, evaluate_int(rope.dim, scope));
  if (dim < 2 || dim % 2 != 0) {
    MKC_TRY(value, evaluate(rope.dim, scope));
    return value_error(scope, value, rope.place, "rope dim",
                       fmt::format("is {}, expected a positive even number", dim));
  }
  MKC_TRY(parameters, parameters_of(rope, scope));
  MKC_TRY(type, rope_type_of(parameters));
  MKC_TRY_STATUS(check_theta_key(parameters));
  MKC_TRY(theta, theta_of(rope, scope, type));
  RopeValues values;
  for (int64_t i = 0; i < dim / 2; ++i)
    values.inv_freq.push_back(std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  if (type == "linear") {
    MKC_TRY(factor, parameters.positive("factor"));
    for (double& frequency : values.inv_freq) frequency /= factor;
  } else if (type == "llama3") {
    MKC_TRY_STATUS(scale_llama3(parameters, values.inv_freq));
  } else if (type == "yarn") {
    MKC_TRY(scale, scale_yarn(parameters, theta, values.inv_freq));
    values.scale = scale;
  }
  return values;
}

Result<int64_t> stretched_context(const RopeDecl& rope, const Scope& scope) {
  MKC_TRY(parameters, parameters_of(rope, scope));
  MKC_TRY(type, rope_type_of(parameters));
  if (type != "yarn") return int64_t{0};
  MKC_TRY(factor, parameters.yarn_factor());
  MKC_TRY(original, parameters.original_context());
  constexpr double kMax = 1e15;
  return static_cast<int64_t>(std::min(factor * original, kMax));
}

}  // namespace mkc
