// These tests compare attention on the processor with float64 loops.
#include "tests/unit/processor/attend.h"

namespace mk {
namespace {

TEST_CASE("decodes at many contexts agree with float64, for each cache, head size and group") {
  for (const Form& form : kForms)
    for (const uint32_t head_dim : {16u, 24u, 64u, 80u, 128u, 256u})
      for (const uint32_t group : {1u, 2u, 3u, 8u, 12u}) {
        const uint32_t kv_heads = group < 8 ? 2 : 1;
        check_step({group * kv_heads,
                    kv_heads,
                    head_dim,
                    {{1, 1}, {15, 1}, {16, 1}, {17, 1}, {255, 1}, {256, 1}, {257, 1}, {600, 1}, {2100, 1}}},
                   form);
      }
}

TEST_CASE("chunks of prompts beside decodes agree with float64, with norms and windows") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 1u, 17u, 40u, 257u})
      for (const bool norm : {false, true}) {
        const std::vector<Request> requests = {{7, 7}, {270, 20}, {1, 1}, {600, 37}, {600, 1}, {2060, 14}};
        check_step({6, 2, 40, requests, window, norm, norm}, form);
        check_step({8, 1, 64, requests, window, norm, true}, form);
      }
}

TEST_CASE("a sink takes its share of single tokens, ragged chunks, partials and windows") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 1u, 17u, 257u}) {
      const std::vector<Request> requests = {{1, 1}, {7, 7}, {270, 20}, {600, 1}, {2060, 14}};
      check_step({6, 2, 40, requests, window, false, true, true}, form);
      check_step({16, 1, 64, requests, window, true, true, true}, form);
    }
}

TEST_CASE("a great sink leaves 0 of a row, and a small one leaves its bits") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 9u})
      for (const float far : {100.0f, 1e4f, 1e30f, 1e38f}) {
        CAPTURE(&form - kForms);
        CAPTURE(window);
        CAPTURE(far);
        const Case c{6, 2, 40, {{7, 7}, {600, 1}}, window};
        Problem p = make_problem(c), other = p;
        other.sinks = {far, -far, 0, -INFINITY, far, -far};
        const std::vector<float> plain = run(c, form, p), out = run(c, form, other);
        for (size_t i = 0; i < out.size(); ++i) {
          const float sink = other.sinks[i / c.head_dim % c.heads];
          if (sink > 0) CHECK(std::abs(out[i]) < 1e-35f);
          if (sink < 0) CHECK(out[i] == plain[i]);
        }
      }
}

TEST_CASE("the output is rounded to bf16 where only products read it") {
  for (const uint32_t head_dim : {40u, 128u}) {
    const Case c{4, 2, head_dim, {{5, 5}, {300, 1}}};
    Problem p = make_problem(c), other = p;
    const std::vector<float> out = run(c, kForms[1], p), halves = run(c, kForms[1], other, {}, true);
    for (size_t i = 0; i < out.size(); ++i)
      CHECK(reinterpret_cast<const uint16_t*>(halves.data())[i] == to_bf16(out[i]));
  }
}

TEST_CASE("a row's bits do not depend on how the prompt was cut into steps, nor on other requests") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 9u}) {
      CAPTURE(&form - kForms);
      const Case whole{6, 2, 40, {{263, 11}}, window};
      const uint32_t q_width = 6 * 40, kv_width = 2 * 40, count = whole.tokens();
      Problem p = make_problem(whole), fed = p;
      const std::vector<float> together = run(whole, form, p);
      for (uint32_t t = 0, rows = 1; t < count; t += rows, rows = 3 - rows) {
        rows = std::min(rows, count - t);
        const Case some{6, 2, 40, {{30, 3}, {252 + t + rows, rows}}, window};
        Problem part = make_problem(some);
        std::copy_n(p.q.begin() + t * q_width, rows * q_width, part.q.begin() + 3 * q_width);
        std::copy_n(p.k.begin() + t * kv_width, rows * kv_width, part.k.begin() + 3 * kv_width);
        std::copy_n(p.v.begin() + t * kv_width, rows * kv_width, part.v.begin() + 3 * kv_width);
        const size_t held = size_t{252 + t + rows} * kv_width;
        std::copy_n(fed.k_cache[0].begin(), held, part.k_cache[1].begin());
        std::copy_n(fed.v_cache[0].begin(), held, part.v_cache[1].begin());
        const std::vector<float> alone = run(some, form, part);
        std::copy(part.k_cache[1].begin(), part.k_cache[1].end(), fed.k_cache[0].begin());
        std::copy(part.v_cache[1].begin(), part.v_cache[1].end(), fed.v_cache[0].begin());
        CHECK(std::equal(alone.begin() + 3 * q_width, alone.end(), together.begin() + t * q_width));
      }
    }
}

TEST_CASE("what a row does not see does not reach it, even where it is no number") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 2u})
      for (const bool bad_key : {false, true}) {
        CAPTURE(&form - kForms);
        CAPTURE(window);
        const Case c{4, 2, 32, {{261, 8}}, window};
        const uint32_t width = 2 * 32, bad = 4;
        Problem p = make_problem(c), spoilt = p;
        for (uint32_t i = 0; i < width; ++i)
          (bad_key ? spoilt.k : spoilt.v)[bad * width + i] = i % 2 == 0 ? NAN : INFINITY;
        const std::vector<float> want = run(c, form, p), got = run(c, form, spoilt);
        for (uint32_t t = 0; t < c.tokens(); ++t) {
          CAPTURE(t);
          const bool sees = t >= bad && (window == 0 || t < bad + window);
          for (size_t i = t * size_t{4 * 32}; i < (t + 1) * size_t{4 * 32}; ++i)
            CHECK((sees ? std::isnan(got[i]) : got[i] == want[i]));
        }
      }
}

}  // namespace
}  // namespace mk
