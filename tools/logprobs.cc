#include "tools/logprobs.h"

#include <nlohmann/json.hpp>

namespace mkc {

nlohmann::json logprobs_json(const std::vector<mkrt::Drawn>& draws) {
  nlohmann::json out = nlohmann::json::array();
  for (const mkrt::Drawn& drawn : draws) {
    nlohmann::json top = nlohmann::json::array();
    for (const mkrt::TokenLogprob& t : drawn.top) top.push_back({{"id", t.id}, {"logprob", t.logprob}});
    out.push_back({{"id", drawn.id}, {"logprob", drawn.logprob}, {"top", std::move(top)}});
  }
  return out;
}

}  // namespace mkc
