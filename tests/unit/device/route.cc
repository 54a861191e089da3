// These tests compare route with double loops over tokens and choices.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/unit/device/routed.h"

namespace mk {
namespace {

// Returns the experts of a token in order of falling logits. The lowest expert wins a tie, and NaN is minus
// infinity.
std::vector<u32> choices_of(const float* logits, u32 experts, u32 top_k) {
  std::vector<u32> order(experts);
  std::iota(order.begin(), order.end(), 0u);
  const auto value = [&](u32 e) { return std::isnan(logits[e]) ? -INFINITY : logits[e]; };
  std::sort(order.begin(), order.end(),
            [&](u32 a, u32 b) { return value(a) > value(b) || (value(a) == value(b) && a < b); });
  order.resize(top_k);
  return order;
}

void check_route(const std::vector<float>& logits, u32 tokens, u32 experts, u32 top_k, bool norm) {
  CAPTURE(tokens);
  CAPTURE(experts);
  CAPTURE(top_k);
  const Routed r = route(logits, tokens, experts, top_k, norm);
  std::vector<std::vector<u32>> tokens_of(experts);  // tokens of each expert, in order
  std::vector<std::vector<u32>> chosen;
  for (u32 t = 0; t < tokens; ++t) {
    const float* l = &logits[t * experts];
    chosen.push_back(choices_of(l, experts, top_k));
    double all = 0, kept = 0;
    for (u32 e = 0; e < experts; ++e) all += std::exp(double{l[e]} - l[chosen[t][0]]);
    for (const u32 e : chosen[t]) kept += std::exp(double{l[e]} - l[chosen[t][0]]);
    for (u32 i = 0; i < top_k; ++i) {
      tokens_of[chosen[t][i]].push_back(t);
      const double want = std::exp(double{l[chosen[t][i]]} - l[chosen[t][0]]) / (norm ? kept : all);
      const float found = r.routing_weight[t * top_k + i];
      if (std::isnan(all))
        CHECK(std::isnan(found));
      else
        CHECK(std::abs(found - want) < 2e-6);
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
  std::vector<float> logits = random_floats(40 * 70, 3);
  for (float& v : logits) v = std::round(v);
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

TEST_CASE("a token with a NaN logit has NaN for all routing weights, and chooses as if it were the least") {
  for (const u32 bad : {0u, 3u, 69u}) {
    std::vector<float> logits = random_floats(20 * 70, 5);
    for (const u32 token : {0u, 7u, 8u, 19u}) logits[token * 70 + bad] = token % 2 == 0 ? NAN : -NAN;
    for (const bool norm : {false, true})
      for (const u32 top_k : {1u, 4u, 16u}) check_route(logits, 20, 70, top_k, norm);
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
