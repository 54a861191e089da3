// These tests compare the kernel's samples with the host's, exactly.
#include "runtime/session/sample.h"

#include <cmath>
#include <numeric>

#include "tests/unit/device/launch.h"
#include "tests/unit/random_changes.h"

namespace mk {
namespace {

// Problem is a set of requests with one vocabulary. Each request has a row of logits.
struct Problem {
  uint32_t vocab;
  std::vector<std::vector<float>> logits;
  std::vector<SeenIds> seen;
  std::vector<MkSampling> sampling;
  std::vector<RandomChanges> changes{};  // empty: none

  LogitChanges changes_of(size_t i) const {
    return changes.empty() ? LogitChanges{seen[i]} : changes[i].with(seen[i]);
  }
  uint32_t strips() const { return (vocab + 15) / 16; }
  uint32_t words() const { return (vocab + 31) / 32; }
};

// Appends the greatest logit of each strip of 16. The lowest index wins a tie.
void add_best(const std::vector<float>& row, std::vector<float>& value, std::vector<u32>& index) {
  for (size_t first = 0; first < row.size(); first += 16) {
    const auto begin = row.begin() + static_cast<ptrdiff_t>(first);
    const auto best =
        std::max_element(begin, begin + static_cast<ptrdiff_t>(std::min<size_t>(16, row.size() - first)));
    value.push_back(*best);
    index.push_back(static_cast<u32>(best - row.begin()));
  }
}

struct Samples {
  std::vector<Sampled> sampled;
  std::vector<SeenIds> seen;
  std::vector<bool> not_finite;  // the token has the mark kNotFinite
};

struct RunOptions {
  uint64_t seed = 1;
  bool scan = true;  // without it the kernel must not read the logits
  uint32_t step = 0;
  float best_shift = 0;              // error of every strip's best logit
  const Problem* best_of = nullptr;  // null: the strips' best logits are those of the problem
};

// Runs the samples of all requests. The rows lie in reverse order of the requests.
Samples run(const Problem& p, const RunOptions& options = {}) {
  const size_t n = p.sampling.size();
  const u32 limit = options.step + 1;
  std::vector<float> logits, value;
  std::vector<u32> index, next(n, ~0u), sampled(n * (1 + limit), ~0u);
  MkLogprobs none{NAN, {}, {}, 0};
  std::fill_n(none.top_id, kMaxTop, ~0u);
  std::vector<MkLogprobs> logprobs(n * limit, none);
  std::vector<SeenIds> seen = p.seen;
  std::vector<std::vector<u32>> bias_begin(n);
  std::vector<MkSample> samples(n);
  std::vector<u32> launch_request(n);
  std::iota(launch_request.begin(), launch_request.end(), 0);
  for (size_t i = n; i-- > 0;) {
    logits.insert(logits.end(), p.logits[i].begin(), p.logits[i].end());
    add_best((options.best_of ? *options.best_of : p).logits[i], value, index);
  }
  for (float& v : value) v += options.best_shift;
  for (size_t i = 0; i < n; ++i) {
    const auto address = [](auto& of) { return reinterpret_cast<uint64_t>(&of); };
    samples[i].sampling = p.sampling[i];
    samples[i].sampled = address(sampled[i * (1 + limit)]);
    samples[i].logprobs = address(logprobs[i * limit]);
    samples[i].limit = limit;
    if (p.sampling[i].repetition_penalty != 1) samples[i].seen = address(seen[i][0]);
    if (p.changes.empty()) continue;
    const RandomChanges& of = p.changes[i];
    if (!of.allowed.empty()) samples[i].allowed = address(of.allowed[0]);
    if (of.biases.empty()) continue;
    bias_begin[i] = of.bias_begin(p.vocab);
    samples[i].biases = address(of.biases[0]);
    samples[i].bias_begin = address(bias_begin[i][0]);
  }
  Sides s;
  s.consume = [&](Worker& w) {
    AS3 u32 *first_row = (AS3 u32*)w.stage_at(0), *rows = first_row + n;
    for (u32 i = w.thread; i < n; i += kConsumerThreads)
      first_row[i] = static_cast<u32>(n) - 1 - i, rows[i] = 1;
    mkd_barrier();
    const SampleArgs a{options.scan ? global(logits.data()) : nullptr,
                       global(value.data()),
                       global(index.data()),
                       global(next.data()),
                       global(samples.data()),
                       global(launch_request.data()),
                       first_row,
                       rows,
                       static_cast<u32>(n),
                       static_cast<u32>(n),
                       p.vocab};
    if (w.thread == 0) w.arenas()->step = options.step;
    mkd_barrier();
    for (u32 i = mk_worker(); i < n; i += 2) {
      mkb_sample(&w, &a, i);
      mkd_barrier();
    }
  };
  launch(s, 2, options.seed);
  Samples out;
  for (size_t i = 0; i < n; ++i) {
    CHECK(sampled[i * (1 + limit)] == limit);
    CHECK((sampled[i * (1 + limit) + limit] & ~kNotFinite) == next[i]);
    out.not_finite.push_back(sampled[i * (1 + limit) + limit] >= kNotFinite);
    const MkLogprobs& of = logprobs[i * limit + options.step];
    Sampled d{static_cast<int32_t>(next[i]), p.sampling[i].logprobs ? of.sampled : 0, {}};
    if (p.sampling[i].logprobs) d.rank = of.rank;
    for (size_t j = 0; j < kMaxTop && of.top_id[j] != ~0u; ++j)
      d.top.push_back({static_cast<int32_t>(of.top_id[j]), of.top[j]});
    out.sampled.push_back(d);
  }
  out.seen = seen;
  return out;
}

// Returns normal logits, of which a tenth is masked. `coarse` rounds to quarters, which makes ties.
std::vector<float> random_logits(uint32_t vocab, uint32_t seed, bool coarse) {
  std::vector<float> row = random_floats(vocab, seed, 3);
  std::mt19937 rng(seed);
  for (float& v : row) {
    if (coarse) v = std::round(v * 4) / 4;
    if (rng() % 10 == 0) v = -INFINITY;
  }
  return row;
}

// Returns a request for every combination of filters, over rows with and without ties.
Problem all_filters(uint32_t vocab) {
  Problem p{vocab, {}, {}, {}};
  uint32_t at = 0;
  for (const float penalty : {1.0f, 1.3f, 0.7f})
    for (const float temperature : {0.0f, 0.8f, 5.0f})
      for (const uint32_t top_k : {0u, 1u, 40u})
        for (const float top_p : {1.0f, 0.9f, 0.01f})
          for (const float min_p : {0.0f, 0.05f}) {
            if (temperature == 0 && (top_k > 0 || top_p < 1 || min_p > 0)) continue;
            ++at;
            p.sampling.push_back({penalty, temperature, top_k, top_p, min_p, at % 23 % (kMaxTop + 2),
                                  at * 0x123456789abcull, at % 5});
            p.logits.push_back(random_logits(vocab, at, at % 2));
            std::vector<u32> seen(p.words());
            std::mt19937 rng(at);
            for (uint32_t i = 0; i < vocab / 8 + 1; ++i) see(seen, rng() % vocab);
            p.seen.push_back(seen);
          }
  return p;
}

// Tells whether the greatest logit is finite, where NaN is the least.
bool has_finite_greatest(const std::vector<float>& row) {
  float greatest = -INFINITY;
  for (const float v : row) greatest = v > greatest ? v : greatest;
  return std::isfinite(greatest);
}

void check_same(const Problem& p, const Samples& got) {
  for (size_t i = 0; i < p.sampling.size(); ++i) {
    CAPTURE(i);
    CHECK(got.not_finite[i] == !has_finite_greatest(p.logits[i]));
    const Sampled want = sample(p.logits[i], p.sampling[i], p.changes_of(i));
    CHECK(got.sampled[i].id == want.id);
    CHECK(got.sampled[i].logprob == want.logprob);
    CHECK(got.sampled[i].top == want.top);
    CHECK(got.sampled[i].rank == want.rank);
    SeenIds seen = p.seen[i];
    if (p.sampling[i].repetition_penalty != 1) see(seen, static_cast<uint32_t>(want.id));
    CHECK(got.seen[i] == seen);
  }
}

TEST_CASE("the kernel samples what the host samples, under every combination of filters") {
  for (const uint32_t vocab : {1u, 15u, 4097u}) {
    CAPTURE(vocab);
    const Problem p = all_filters(vocab);
    check_same(p, run(p));
  }
}

TEST_CASE("the kernel samples what the host samples from a vocabulary of 152064, and from the largest") {
  for (const uint32_t vocab : {152064u, kMaxVocab}) {
    Problem p{vocab, {}, {}, {}};
    p.sampling = {{1, 1, 0, 1, 0, 1 + kMaxTop},    {1, 30, 0, 0.95f}, {1.2f, 1, 1000, 1, 0.001f, 6},
                  {1.2f, 0, 0, 1, 0, 1 + kMaxTop}, {1, 1, 5, 0.5f},   {0.9f, 1e6f, 100'000, 0.999f}};
    for (uint32_t i = 0; i < p.sampling.size(); ++i) {
      p.sampling[i].seed = ~uint64_t{i};
      p.logits.push_back(random_logits(vocab, i, i % 2));
      p.logits[i][vocab - 1] = 2;
      p.seen.emplace_back(p.words(), 0x80010000u);
    }
    check_same(p, run(p));
  }
}

TEST_CASE("the kernel samples what the host samples with biases and allowed ids") {
  for (const uint32_t vocab : {1u, 127u, 128u, 300u, 4097u}) {
    CAPTURE(vocab);
    Problem p = all_filters(vocab);
    for (uint32_t i = 0; i < p.sampling.size(); ++i) p.changes.push_back(random_changes(vocab, i));
    check_same(p, run(p));
  }
}

TEST_CASE("the kernel samples what the host samples with biases in a vocabulary of 152063") {
  Problem p{152063, {}, {}, {{1, 0, 0, 1, 0, 3}, {1.2f, 0}, {1, 1, 40, 0.95f}, {0.8f, 2, 0, 0.9f, 0.01f}}};
  for (uint32_t i = 0; i < p.sampling.size(); ++i) {
    p.logits.push_back(random_logits(p.vocab, i, i % 2));
    p.seen.emplace_back(p.words(), 0x80010000u);
    p.changes.push_back(random_changes(p.vocab, i + 1));
  }
  check_same(p, run(p));
}

// The logits outside the strips with changes are replaced, and would be sampled if the kernel read them.
TEST_CASE("a greedy sample reads the logits of strips with changes only") {
  Problem p{4097, {random_logits(4097, 1, false)}, {SeenIds(129)}, {{}}, {{}}};
  p.changes[0].biases = {{17, 9, 0}, {1000, 1, 1}, {4096, 5, 0}};
  const Sampled want = sample(p.logits[0], {}, p.changes_of(0));
  Problem replaced = p;
  for (uint32_t id = 0; id < p.vocab; ++id)
    if (id / 16 != 1 && id / 16 != 62 && id / 16 != 256) replaced.logits[0][id] = 1e30f;
  CHECK(run(replaced, {.best_of = &p}).sampled[0].id == want.id);
}

TEST_CASE("ids that are all forbidden are sampled like masked ones") {
  Problem p{40, {random_logits(40, 1, false)}, {SeenIds(2)}, {{}}, {{}}};
  for (uint32_t id = 0; id < p.vocab; ++id) p.changes[0].biases.push_back({id, -INFINITY, 0});
  CHECK(run(p).sampled[0].id == 0);
  p.sampling[0].temperature = 1;
  check_same(p, run(p));
}

TEST_CASE("the kernel and the host agree on rows of one value, of infinities and of nothing") {
  Problem p{5000, {}, {}, {}};
  for (const float value : {0.0f, -0.0f, 1e30f, INFINITY, -INFINITY, NAN})
    for (const MkSampling s :
         {MkSampling{1, 0, 0, 1, 0, 4}, {1, 0.7f, 0, 1, 0, 4}, {3, 0.7f, 4500, 0.5f, 1}}) {
      p.sampling.push_back(s);
      p.logits.emplace_back(p.vocab, value);
      p.logits.back()[77] = value * 0.5f;
      p.seen.emplace_back(p.words(), 0xff00u);
    }
  check_same(p, run(p));
}

TEST_CASE("a greedy sample without log-probabilities reads no logits") {
  Problem p{4097, {}, {}, {}};
  for (uint32_t i = 0; i < 4; ++i) {
    p.sampling.push_back({1, 0, 7, 0.5f, 0.5f, 0, i});
    p.logits.push_back(random_logits(p.vocab, i, i % 2));
    p.seen.emplace_back(p.words());
  }
  check_same(p, run(p, {1, false}));
}

TEST_CASE("in later steps of a launch the samples are those of later positions") {
  Problem p = all_filters(40);
  const Samples got = run(p, {1, true, 3});
  for (MkSampling& s : p.sampling) s.position += 3;
  check_same(p, got);
}

TEST_CASE("samples do not depend on the order in which threads run") {
  const Problem p = all_filters(300);
  const Samples first = run(p), second = run(p, {99});
  CHECK(first.sampled == second.sampled);
  CHECK(first.seen == second.seen);
}

// Returns a logit below 0 with the largest mass that is at most `mass`. The greatest logit is 0.
float logit_of_mass(uint64_t mass) {
  float logit = static_cast<float>(std::log(static_cast<double>(mass) * 0x1p-44)) + 1e-5f;
  while (mass_of(logit, mass_scale(1)) > mass) logit = std::nextafter(logit, -100.0f);
  return logit;
}

TEST_CASE("a sample at exactly the running sum goes to the next id") {
  constexpr uint64_t likeliest = uint64_t{1} << 44;
  uint32_t cases = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    // The ids before the likeliest have a total mass equal to the sampled number.
    uint64_t before = likeliest;
    for (int i = 0; i < 100; ++i) before = sample_below(before + likeliest, seed, 0);
    if (before > likeliest || sample_below(before + likeliest, seed, 0) != before) continue;
    std::vector<float> row;
    for (uint64_t left = before; left > 0; left -= mass_of(row.back(), mass_scale(1)))
      row.push_back(logit_of_mass(left));
    row.push_back(0);
    const auto vocab = static_cast<uint32_t>(row.size());
    const Problem p{vocab, {row}, {SeenIds(1)}, {{1, 1, 0, 1, 0, 0, seed}}};
    const Samples got = run(p);
    CHECK(got.sampled[0].id == static_cast<int32_t>(vocab) - 1);
    check_same(p, got);
    ++cases;
  }
  CHECK(cases > 5);
}

TEST_CASE("what is sampled after a fault, from strips that never were, is still in the vocabulary") {
  const Problem p{40, {random_logits(40, 1, true)}, {SeenIds(2)}, {{1, 1}}};
  for (const float shift : {1e30f, -1e30f, INFINITY, -INFINITY, NAN}) {
    const int32_t id = run(p, {1, true, 0, shift}).sampled[0].id;
    CHECK((id >= 0 && id < 40));
  }
}

// The statistic is Pearson's, of 1000 samples of 8 ids. A chi-squared value with 7 degrees of freedom is
// below 35.3 with probability 1 - 1e-5.
TEST_CASE("the kernel's samples have the distribution of the softmax") {
  constexpr uint32_t samples = 1000;
  const std::vector<float> row = {0, 1, -1, 0.5f, 0.5f, 2, -0.3f, 1.5f};
  Problem p{8, std::vector(samples, row), std::vector(samples, SeenIds{0}), {}};
  for (uint32_t i = 0; i < samples; ++i) p.sampling.push_back({1, 2, 0, 1, 0, 0, 5, i});
  std::vector<double> counts(8), weight(8);
  for (const Sampled& d : run(p).sampled) ++counts[static_cast<size_t>(d.id)];
  double total = 0, statistic = 0;
  for (size_t i = 0; i < 8; ++i) total += weight[i] = std::exp(row[i] / 2);
  for (size_t i = 0; i < 8; ++i) {
    const double expected = weight[i] / total * samples;
    statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  CHECK(statistic < 35.3);
}

}  // namespace
}  // namespace mk
