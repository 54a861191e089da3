// The tests of route_cases.cc run on the emulator by this function.
#include "tests/unit/device/routed.h"

namespace mk {

Routed route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm) {
  Routed r(tokens, experts, top_k);
  const RouteArgs a = r.args(logits, norm);
  Sides s;
  s.consume = [&](Worker& w) { mkb_route(&w, &a); };
  launch(s);
  return r;
}

}  // namespace mk
