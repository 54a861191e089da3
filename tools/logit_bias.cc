#include "tools/logit_bias.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mkc {

std::vector<mkrt::LogitBias> read_logit_bias(const mkrt::JsonNode& node, double limit) {
  std::vector<mkrt::LogitBias> biases;
  for (const auto& [key, value] : node.members()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size() || id < 0)
      node.fail(fmt::format("found the key \"{}\", expected a token id", key));
    else if (!value.raw().is_number() || std::abs(value.raw().get<double>()) > limit)
      value.fail_expected(fmt::format("a number from {:g} to {:g}", -limit, limit));
    if (node.failed()) return {};
    biases.push_back({id, static_cast<float>(value.raw().get<double>())});
  }
  return biases;
}

}  // namespace mkc
