// These tests compare route with double loops over tokens and choices, on each target.
#include "tests/unit/device/routed.h"

namespace mk {
namespace {

TEST_CASE("route chooses the greatest of a softmax and sorts pairs by expert and token") {
  const struct {
    u32 tokens, experts, top_k;
    bool norm;
  } cases[] = {{1, 8, 2, true},    {1, 128, 8, true},   {5, 4, 4, false},   {9, 1, 1, false},
               {64, 128, 8, true}, {256, 60, 4, false}, {3, 512, 16, true}, {256, 512, 16, false}};
  for (const auto& c : cases)
    check_route(random_floats(size_t{c.tokens} * c.experts, c.experts, 2), c.tokens, c.experts, c.top_k,
                c.norm);
}

TEST_CASE("route takes the lowest expert of equal logits") {
  std::vector<float> logits = random_floats(40 * 70, 3, 0.3f);
  for (float& v : logits) v = std::round(v);  // most are zeros, of both signs
  check_route(logits, 40, 70, 6, true);
  check_route(std::vector<float>(7 * 70, -3.5f), 7, 70, 6, false);
}

TEST_CASE("route sends all tokens to one expert, and none to others") {
  std::vector<float> logits = random_floats(100 * 16, 4);
  for (size_t t = 0; t < 100; ++t)
    for (size_t e = 0; e < 16; ++e) logits[t * 16 + e] += e == 11 ? 30.0f : e % 3 == 0 ? -30.0f : 0.0f;
  check_route(logits, 100, 16, 1, true);
  check_route(logits, 100, 16, 3, true);
}

TEST_CASE("minus infinity is the least logit, and has no routing weight") {
  std::vector<float> logits = random_floats(20 * 40, 5);
  for (size_t i = 0; i < logits.size(); ++i)
    if (i % 40 > 5 && i % 7 != 0) logits[i] = -INFINITY;
  for (const bool norm : {false, true}) check_route(logits, 20, 40, 16, norm);
}

TEST_CASE("a token with a NaN logit has NaN for all routing weights, and chooses as if it were the least") {
  for (const u32 bad : {0u, 3u, 39u}) {
    std::vector<float> logits = random_floats(20 * 40, 6);
    for (const u32 token : {0u, 7u, 8u, 19u}) logits[token * 40 + bad] = token % 2 == 0 ? NAN : -NAN;
    for (const bool norm : {false, true})
      for (const u32 top_k : {1u, 4u, 16u}) check_route(logits, 20, 40, top_k, norm);
  }
}

TEST_CASE("logits that are no numbers still choose experts there are") {
  for (const float odd : {NAN, INFINITY, -INFINITY}) {
    CAPTURE(odd);
    const Routed r = route(std::vector<float>(3 * 5, odd), 3, 5, 2, true);
    CHECK(std::vector<u32>(r.expert.begin(), r.expert.begin() + 2) == std::vector<u32>{0, 1});
    CHECK(r.active_experts == 2);
    CHECK(r.token == std::vector<u32>{0, 1, 2, 0, 1, 2});
  }
}

}  // namespace
}  // namespace mk
