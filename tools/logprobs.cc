#include "tools/logprobs.h"

#include <nlohmann/json.hpp>

namespace mkc {

nlohmann::json logprobs_json(const std::vector<mkrt::Sampled>& samples) {
  nlohmann::json out = nlohmann::json::array();
  for (const mkrt::Sampled& sampled : samples) {
    nlohmann::json top = nlohmann::json::array();
    for (const mkrt::TokenLogprob& t : sampled.top) top.push_back({{"id", t.id}, {"logprob", t.logprob}});
    out.push_back({{"id", sampled.id}, {"logprob", sampled.logprob}, {"top", std::move(top)}});
  }
  return out;
}

}  // namespace mkc
