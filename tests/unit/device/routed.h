// Tests of route, and of the bodies behind it, share route's outputs.
#pragma once

#include <cmath>
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

inline Routed route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm) {
  Routed r(tokens, experts, top_k);
  const RouteArgs a = r.args(logits, norm);
  Sides s;
  s.consume = [&](Worker& w) { mkb_route(&w, &a); };
  launch(s);
  return r;
}

}  // namespace mk
