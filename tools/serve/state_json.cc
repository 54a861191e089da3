#include "tools/serve/state_json.h"

#include <fmt/format.h>

namespace mkc {
namespace {

// Returns the shortest decimal number that reads back as the same float: 0.8, not 0.800000011920929.
Json shortest(float value) {
  return Json::parse(fmt::format("{}", value));
}

}  // namespace

Json model_json(const ServedModel& model) {
  const mkrt::MkSampling& s = model.sampling;
  return {{"name", model.name},
          {"device", model.device},
          {"chat", model.render_chat != nullptr},
          {"traced", model.read_trace != nullptr},
          {"positions", model.positions()},
          {"max_requests", model.limits.max_requests},
          {"sampling",
           {{"temperature", shortest(s.temperature)},
            {"top_p", shortest(s.top_p)},
            {"top_k", s.top_k},
            {"min_p", shortest(s.min_p)},
            {"repetition_penalty", shortest(s.repetition_penalty)}}}};
}

Json figures_json(const Metrics& m) {
  return {{"running", m.engine.running},
          {"waiting", m.engine.waiting},
          {"pages", m.engine.pages},
          {"pages_used", m.engine.pages_used},
          {"steps", m.engine.steps},
          {"prompt_tokens", m.prompt_tokens},
          {"generation_tokens", m.generation_tokens}};
}

}  // namespace mkc
