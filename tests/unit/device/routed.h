// Tests of route, and of the bodies behind it, share route's outputs.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/device/launch.h"

namespace mk {

// Routed holds the outputs of route.
struct Routed {
  u32 tokens, experts, top_k, active_experts = ~0u;
  std::vector<float> routing_weight;
  std::vector<u32> expert, active_expert_rows, active_expert_begin, token, row;
  Routed(u32 t, u32 e, u32 k)
      : tokens(t),
        experts(e),
        top_k(k),
        routing_weight(t * k, NAN),
        expert(e, ~0u),
        active_expert_rows(e, ~0u),
        active_expert_begin(e, ~0u),
        token(t * k, ~0u),
        row(t * k, ~0u) {}
  RouteArgs args(const std::vector<float>& logits, bool norm) {
    return {global(logits.data()),
            global(routing_weight.data()),
            global(&active_experts),
            global(expert.data()),
            global(active_expert_rows.data()),
            global(active_expert_begin.data()),
            global(token.data()),
            global(row.data()),
            tokens,
            experts,
            top_k,
            norm};
  }
  u32 rows() const { return top_k * tokens; }
};

// Returns what route makes of logits. Each target's route.cc defines it.
Routed route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm);

// Returns the experts of a token in order of falling logits. The lowest expert wins a tie, and NaN is minus
// infinity.
inline std::vector<u32> choices_of(const float* logits, u32 experts, u32 top_k) {
  std::vector<u32> order(experts);
  std::iota(order.begin(), order.end(), 0u);
  const auto value = [&](u32 e) { return std::isnan(logits[e]) ? -INFINITY : logits[e]; };
  std::sort(order.begin(), order.end(),
            [&](u32 a, u32 b) { return value(a) > value(b) || (value(a) == value(b) && a < b); });
  order.resize(top_k);
  return order;
}

inline void check_route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm) {
  CAPTURE(tokens);
  CAPTURE(experts);
  CAPTURE(top_k);
  const Routed r = route(logits, tokens, experts, top_k, norm);
  std::vector<std::vector<u32>> tokens_of(experts);  // tokens of each expert, in order
  std::vector<std::vector<u32>> chosen;
  for (u32 t = 0; t < tokens; ++t) {
    const float* l = &logits[t * experts];
    chosen.push_back(choices_of(l, experts, top_k));
    const auto weight = [&](u32 e) { return std::exp(double{l[e]} - l[chosen[t][0]]); };
    double all = 0, kept = 0;
    for (u32 e = 0; e < experts; ++e) all += weight(e);
    for (const u32 e : chosen[t]) kept += weight(e);
    for (u32 i = 0; i < top_k; ++i) {
      tokens_of[chosen[t][i]].push_back(t);
      const float found = r.routing_weight[t * top_k + i];
      if (std::isnan(all))
        CHECK(std::isnan(found));
      else
        CHECK(std::abs(found - weight(chosen[t][i]) / (norm ? kept : all)) < 2e-6);
    }
  }
  u32 active_expert = 0, row = 0;
  for (u32 e = 0; e < experts; ++e) {
    if (tokens_of[e].empty()) continue;
    CHECK(r.expert[active_expert] == e);
    CHECK(r.active_expert_rows[active_expert] == tokens_of[e].size());
    CHECK(r.active_expert_begin[active_expert++] == row);
    for (const u32 t : tokens_of[e]) {
      CHECK(r.token[row] == t);
      const auto choice = std::find(chosen[t].begin(), chosen[t].end(), e) - chosen[t].begin();
      CHECK(r.row[t * top_k + static_cast<u32>(choice)] == row++);
    }
  }
  CHECK(r.active_experts == active_expert);
}

}  // namespace mk
