// These tests compare samples on the host with their definitions in float64, and with their distribution.
#include "runtime/session/sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "tests/unit/random_changes.h"

namespace mkrt {
namespace {

using Words = std::array<uint32_t, 4>;

Words philox_words(Words counter, uint32_t key0, uint32_t key1) {
  const PhiloxWords out = philox({{counter[0], counter[1], counter[2], counter[3]}}, key0, key1);
  return {out.word[0], out.word[1], out.word[2], out.word[3]};
}

TEST_CASE("Philox4x32-10 gives the answers published with Random123") {
  CHECK(philox_words({0, 0, 0, 0}, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox_words({~0u, ~0u, ~0u, ~0u}, ~0u, ~0u) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox_words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a mass is the power of two, rounded, to 22 bits") {
  for (const float scale : {1.44269504f, 0.01f, 700.0f})
    for (float below = 0; below > -100; below -= 0.0137f) {
      const double exact = std::exp2(44 + static_cast<double>(below) * static_cast<double>(scale));
      // The exponent is not rounded, so the error is that of the polynomial and of the last rounding.
      CHECK(std::abs(static_cast<double>(mass_of(below, scale)) - exact) <= 0.5001 + exact * 0x1p-22);
    }
  CHECK(mass_of(0, 1) == uint64_t{1} << 44);
  CHECK(mass_of(0, mass_scale(1e-40f)) == uint64_t{1} << 44);
  CHECK(mass_of(-kMaxLogit, 1.0f) == 0);
  CHECK(mass_of(plain_logit(-INFINITY) - kMaxLogit, 1.0f) == 0);
}

TEST_CASE("the logarithm of a mass is right to 1e-6") {
  for (uint64_t mass = uint64_t{1} << 44; mass < uint64_t{1} << 62; mass += mass / 97)
    CHECK(std::abs(log_of_mass(mass) - std::log(static_cast<double>(mass) * 0x1p-44)) < 1e-6);
}

TEST_CASE("shares of a mass are rounded up") {
  CHECK(share_of(0.5f, 10) == 5);
  CHECK(share_of(0.5f, 11) == 6);
  CHECK(share_of(0.0f, 11) == 1);
  CHECK(share_of(0x1p-100f, 11) == 1);
  CHECK(share_of(0x1.fffffep-1f, uint64_t{1} << 62) == (uint64_t{1} << 62) - (uint64_t{1} << 38));
  CHECK(min_mass(1) == uint64_t{1} << 44);
  CHECK(min_mass(0) == 0);
  CHECK(min_mass(0x1p-45f) == 1);
}

// Returns the probability of each id that the filters leave, computed from the definitions.
std::map<uint32_t, double> by_definition(const std::vector<float>& logits, const MkSampling& s,
                                         const SeenIds& seen, const RandomChanges& changes = {}) {
  std::map<uint32_t, MkBias> biases;
  for (const MkBias& bias : changes.biases) biases[bias.id] = bias;
  std::vector<std::pair<double, uint32_t>> sorted;  // (-logit / temperature, id), the most likely id first
  for (uint32_t id = 0; id < logits.size(); ++id) {
    double v = logits[id];
    if (biases.contains(id)) v += double{biases[id].before};
    if (!seen.empty() && (seen[id / 32] >> id % 32 & 1))
      v = v > 0 ? v / s.repetition_penalty : v * s.repetition_penalty;
    if (biases.contains(id)) v += double{biases[id].after};
    if (!changes.allowed.empty() && !(changes.allowed[id / 32] >> id % 32 & 1)) v = -INFINITY;
    sorted.emplace_back(-v / s.temperature, id);
  }
  std::sort(sorted.begin(), sorted.end());
  if (s.top_k > 0 && s.top_k < sorted.size()) sorted.resize(s.top_k);
  const auto probabilities = [&] {
    std::vector<double> p;
    double sum = 0;
    for (const auto& [minus, id] : sorted) sum += p.emplace_back(std::exp(sorted[0].first - minus));
    for (double& v : p) v /= sum;
    return p;
  };
  std::vector<double> p = probabilities();
  size_t kept = 0;
  for (double before = 0; kept < p.size() && (s.top_p == 1 || before < s.top_p);) before += p[kept++];
  sorted.resize(kept);
  p = probabilities();
  while (p.back() < s.min_p * p[0]) p.pop_back();
  sorted.resize(p.size());
  p = probabilities();
  std::map<uint32_t, double> out;
  for (size_t i = 0; i < sorted.size(); ++i)
    if (p[i] > 0) out[sorted[i].second] = p[i];
  return out;
}

struct Row {
  std::vector<float> logits;
  SeenIds seen;
};

// Returns normal logits, of which a tenth is masked. Odd seeds make ties. Up to an eighth of the ids count as
// seen.
Row random_row(uint32_t vocab, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0, 3);
  Row row{std::vector<float>(vocab), SeenIds((vocab + 31) / 32)};
  for (float& v : row.logits) {
    v = normal(rng);
    if (seed % 2) v = std::round(v * 4) / 4;
    if (rng() % 10 == 0) v = -INFINITY;
  }
  row.logits[rng() % vocab] = 1;
  for (uint32_t i = 0; i < vocab / 8; ++i) see(row.seen, rng() % vocab);
  return row;
}

// Checks probabilities within a relative `error`.
void check_survivors(const std::vector<Candidate>& all, std::map<uint32_t, double> want, double error) {
  std::vector<Candidate> got = all;
  std::erase_if(got, [](const Candidate& c) { return c.mass == 0; });
  std::erase_if(want, [](const auto& entry) { return entry.second < 1e-13; });
  double total = 0;
  for (const Candidate& c : got) total += static_cast<double>(c.mass);
  REQUIRE(got.size() >= want.size());
  for (const Candidate& c : got) {
    const double p = want.contains(c.id) ? want[c.id] : 0;
    CHECK(std::abs(static_cast<double>(c.mass) / total - p) < error * p + 1e-12);
  }
}

TEST_CASE("the filters leave the ids of their definitions, at their probabilities") {
  uint32_t seed = 0;
  for (const uint32_t vocab : {1u, 15u, 300u, 4097u})
    for (const float penalty : {1.0f, 1.3f, 0.7f})
      for (const float temperature : {0.3f, 1.0f, 4.0f})
        for (const uint32_t top_k : {0u, 1u, 40u})
          for (const float top_p : {1.0f, 0.9f, 0.3f})
            for (const float min_p : {0.0f, 0.07f, 1.0f}) {
              CAPTURE(++seed);
              const Row row = random_row(vocab, seed);
              const MkSampling s{penalty, temperature, top_k, top_p, min_p};
              // Temperature and penalty are rounded to f32, and act on exponents up to 31.
              check_survivors(survivors(row.logits, s, {row.seen}), by_definition(row.logits, s, row.seen),
                              6e-6);
            }
}

TEST_CASE("biases and allowed ids change the logits that the filters act on") {
  uint32_t seed = 1000;
  for (const uint32_t vocab : {15u, 300u, 4097u})
    for (const float penalty : {1.0f, 1.3f, 0.7f})
      for (const uint32_t top_k : {0u, 40u})
        for (const float top_p : {1.0f, 0.9f})
          for (const float min_p : {0.0f, 0.07f})
            for (int times = 0; times < 5; ++times) {
              CAPTURE(++seed);
              const Row row = random_row(vocab, seed);
              const RandomChanges changes = random_changes(vocab, seed);
              const MkSampling s{penalty, 0.8f, top_k, top_p, min_p};
              // Two sums of each logit are rounded to f32, too.
              check_survivors(survivors(row.logits, s, changes.with(row.seen)),
                              by_definition(row.logits, s, row.seen, changes), 1.2e-5);
            }
}

TEST_CASE("a bias comes before the repetition penalty, or behind it") {
  const auto greedy = [](float before, float after, float other) {
    const std::vector<MkBias> biases{{1, before, after}};
    return sample(std::vector<float>{other, 2}, {2}, {SeenIds{0b10}, biases}).id;
  };
  CHECK(greedy(2, -0.5f, 1.375f) == 1);  // (2 + 2) / 2 - 0.5 is 1.5
  CHECK(greedy(2, -0.5f, 1.625f) == 0);
  CHECK(greedy(-3, 4, 1.875f) == 1);  // (2 - 3) * 2 + 4 is 2
  CHECK(greedy(-3, 4, 2.125f) == 0);
}

TEST_CASE("a forbidden id is not sampled while another one is left, whatever its logit") {
  const std::vector<MkBias> before{{0, -INFINITY, 1e30f}}, after{{0, 1e30f, -INFINITY}},
      raised{{0, 1e30f, 0}};
  const std::vector<float> row{INFINITY, -1e30f, -INFINITY};
  for (const auto* biases : {&before, &after})
    for (const MkSampling& s : {MkSampling{}, {1000, 1e6f}, {0.001f, 1e6f}})
      CHECK(sample(row, s, {SeenIds{0b101}, *biases}).id == 1);
  CHECK(sample(std::vector<float>{-INFINITY, -1e30f}, {0.001f}, {SeenIds{1}, raised}).id ==
        1);  // stays masked
  CHECK(sample(row, {1, 1}, {.biases = raised, .allowed = SeenIds{0b110}}).id == 1);
}

TEST_CASE("the index of biases says how many come before each block of ids") {
  for (uint32_t seed = 0; seed < 5; ++seed)
    for (const uint32_t vocab : {1u, 127u, 128u, 129u, 1000u}) {
      const RandomChanges changes = random_changes(vocab, seed);
      const std::vector<uint32_t> begin = changes.bias_begin(vocab);
      REQUIRE(begin.size() == (vocab + 127) / 128 + 1);
      for (size_t block = 0; block < begin.size(); ++block)
        CHECK(begin[block] == std::ranges::count_if(
                                  changes.biases, [&](const MkBias& bias) { return bias.id < block * 128; }));
    }
}

TEST_CASE("top-p stops at the id with which its share is reached, also where it is reached exactly") {
  const auto ids = [](const std::vector<Candidate>& kept) {
    std::vector<uint32_t> out;
    for (const Candidate& c : kept) out.push_back(c.id);
    return out;
  };
  const std::vector<float> equal = {1, 1, 1, 1};
  CHECK(ids(survivors(equal, {1, 1, 0, 0.5f})) == std::vector<uint32_t>{0, 1});
  CHECK(ids(survivors(equal, {1, 1, 0, 0.500001f})) == std::vector<uint32_t>{0, 1, 2});
  CHECK(ids(survivors(equal, {1, 1, 2, 0.5f})) == std::vector<uint32_t>{0});
  CHECK(ids(survivors(std::vector<float>{0, 9, 0, 9}, {1, 1, 3})) == std::vector<uint32_t>{0, 1, 3});
}

// Checks that Pearson's statistic of the samples is below its quantile at 1 - 1e-5. The quantile is the
// approximation of Wilson and Hilferty 1931. Outcomes expected fewer than 5 times are taken together.
void check_distribution(const std::map<uint32_t, double>& want, const std::map<uint32_t, uint32_t>& counts,
                        uint32_t samples) {
  double statistic = 0, rare = 0, freedom = -1;
  int64_t rare_count = 0, accounted = 0;
  const auto add = [&](double expected, double count) {
    statistic += (count - expected) * (count - expected) / expected;
    ++freedom;
  };
  for (const auto& [id, p] : want) {
    const uint32_t count = counts.contains(id) ? counts.at(id) : 0;
    accounted += count;
    if (p * samples >= 5)
      add(p * samples, count);
    else
      rare += p * samples, rare_count += count;
  }
  CHECK(accounted == samples);  // the filters' dropped ids are never sampled
  if (rare >= 5) add(rare, static_cast<double>(rare_count));
  REQUIRE(freedom > 0);
  const double spread = 2 / (9 * freedom);
  CHECK(statistic < freedom * std::pow(1 - spread + 4.265 * std::sqrt(spread), 3));
}

TEST_CASE("samples have the distribution that the filters leave, over positions of a seed and over seeds") {
  constexpr uint32_t samples = 100'000;
  const MkSampling settings[] = {{1, 1.0f},
                                 {1, 3.0f},
                                 {1, 1.5f, 7},
                                 {1, 2.0f, 0, 0.8f},
                                 {1, 2.0f, 0, 1, .1f},
                                 {1.5f, 2.0f, 30, 0.95f, 0.01f}};
  uint32_t seed = 40;
  for (MkSampling s : settings) {
    CAPTURE(++seed);
    const Row row = random_row(48, seed);
    std::map<uint32_t, uint32_t> by_position, by_seed;
    for (uint32_t i = 0; i < samples; ++i) {
      s.seed = seed, s.position = i;
      ++by_position[static_cast<uint32_t>(sample(row.logits, s, {row.seen}).id)];
      s.seed = i, s.position = seed;
      ++by_seed[static_cast<uint32_t>(sample(row.logits, s, {row.seen}).id)];
    }
    const std::map<uint32_t, double> want = by_definition(row.logits, s, row.seen);
    check_distribution(want, by_position, samples);
    check_distribution(want, by_seed, samples);
  }
}

TEST_CASE("log-probabilities are those of the logits as they are, whatever the filters") {
  const Row row = random_row(300, 3);
  const std::map<uint32_t, double> want = by_definition(row.logits, {1, 1}, {});
  const Sampled sampled =
      sample(row.logits, {1.3f, 0.5f, 5, 0.5f, 0, 1 + 20, 9}, random_changes(300, 3).with(row.seen));
  const auto check = [&](int32_t id, float logprob) {
    CHECK(std::abs(logprob - std::log(want.at(static_cast<uint32_t>(id)))) < 3e-6);
  };
  check(sampled.id, sampled.logprob);
  const float logit = row.logits[static_cast<size_t>(sampled.id)];
  CHECK(sampled.rank == std::ranges::count_if(row.logits, [&](float other) { return other >= logit; }));
  REQUIRE(sampled.top.size() == 20);
  for (size_t i = 0; i < 20; ++i) {
    check(sampled.top[i].id, sampled.top[i].logprob);
    if (i == 0) continue;
    const TokenLogprob &a = sampled.top[i - 1], &b = sampled.top[i];
    CHECK((a.logprob > b.logprob || (a.logprob == b.logprob && a.id < b.id)));
  }
  for (const uint32_t top : {0u, 3u}) {
    const Sampled scored = score(row.logits, 7, top);
    CHECK(scored.id == 7);
    check(7, scored.logprob);
    CHECK(std::ranges::equal(scored.top, std::span(sampled.top).first(top)));
    CHECK(from_abi(7, to_abi(scored), top) == scored);
  }
}

TEST_CASE("a score has no log-probability where the greatest logit is not finite") {
  for (const float first : {NAN, -INFINITY, INFINITY})
    CHECK(std::isnan(score(std::vector<float>{first, first, NAN}, 1, 1).logprob));
  for (const float first : {NAN, -INFINITY, -5.0f})
    CHECK(std::isfinite(score(std::vector<float>{first, 3, NAN}, 0, 1).logprob));
}

TEST_CASE(
    "greedy takes the lowest of equal ids; what is masked out is never sampled while anything is left") {
  CHECK(sample(std::vector<float>{1, 3, -INFINITY, 3}, {}).id == 1);
  CHECK(sample(std::vector<float>{-INFINITY, NAN, -5, -INFINITY}, {1, 1e6f}).id == 2);
  CHECK(sample(std::vector<float>{-0.0f, 0.0f}, {}).id == 0);
  CHECK(sample(std::vector<float>{0, INFINITY, 9}, {1, 1}).id == 1);
  CHECK(sample(std::vector<float>{-INFINITY, -INFINITY}, {}).id == 0);
  CHECK(sample(std::vector<float>{2, 1.5f}, {2}, {SeenIds{1}}).id == 1);  // 2 / 2 is below 1.5
  CHECK(sample(std::vector<float>{-2, -3}, {2}, {SeenIds{1}}).id == 1);   // -2 * 2 is below -3
}

TEST_CASE("values outside their ranges are refused by name") {
  const auto error = [](const MkSampling& s) {
    const Status status = check_sampling(s);
    return status.ok() ? "" : status.error().message;
  };
  CHECK(error({}) == "");
  CHECK(error({0.1f, 1e6f, ~0u, 1e-9f, 1, 21, ~0ull, ~0u}) == "");
  CHECK(error({0}) == "repetition_penalty: error: is 0, expected 0.001 to 1000");
  CHECK(error({NAN}) == "repetition_penalty: error: is nan, expected 0.001 to 1000");
  CHECK(error({1, -1}) == "temperature: error: is -1, expected 0 to 1000000");
  CHECK(error({1, INFINITY}) == "temperature: error: is inf, expected 0 to 1000000");
  CHECK(error({1, 1, 0, 0}) == "top_p: error: is 0, expected more than 0, at most 1");
  CHECK(error({1, 1, 0, 1.5f}) == "top_p: error: is 1.5, expected more than 0, at most 1");
  CHECK(error({1, 1, 0, 1, -0.5f}) == "min_p: error: is -0.5, expected 0 to 1");
  CHECK(error({1, 1, 0, 1, 0, 22}) == "logprobs: error: is 22, expected 0 to 21");
}

}  // namespace
}  // namespace mkrt
