// The tests of route_cases.cc run on the processor by this function, and some that the emulator is too slow
// for.
#include "tests/unit/device/routed.h"
#include "tests/unit/processor/worker.h"

namespace mk {

Routed route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm) {
  Routed r(tokens, experts, top_k);
  const RouteArgs a = r.args(logits, norm);
  TestWorker worker;
  mkb_route(&worker.w, &a);
  return r;
}

namespace {

TEST_CASE("route chooses the greatest of a softmax and sorts pairs by expert and token, for many sizes") {
  for (const u32 experts : {4u, 8u, 15u, 16u, 60u, 128u, 257u, 512u})
    for (const u32 top_k : {1u, 2u, 4u, 7u, 8u, 16u})
      for (const u32 tokens : {1u, 2u, 9u, 64u, 256u})
        for (const bool norm : {false, true})
          if (top_k <= experts)
            check_route(random_floats(size_t{tokens} * experts, experts + top_k, 2), tokens, experts, top_k,
                        norm);
}

}  // namespace
}  // namespace mk
