// These tests compare the processor's samples with the host's, exactly.
#include "runtime/session/sample.h"

#include <cmath>

#include "tests/unit/processor/worker.h"
#include "tests/unit/random_changes.h"

namespace mk {
namespace {

// Request is one request's row of logits, and what it samples.
struct Request {
  MkSampling sampling;
  std::vector<float> logits;
  SeenIds seen;  // counts only with a penalty
  RandomChanges changes{};

  u32 vocab() const { return static_cast<u32>(logits.size()); }
  bool penalises() const { return sampling.repetition_penalty != 1; }
};

struct RunOptions {
  bool scan = true;  // without it the body must not read the logits
  u32 step = 0;
  float best_shift = 0;  // error of every strip's best logit
  u32 index_shift = 0;   // error of its id
};

struct Result {
  Sampled sampled;
  SeenIds seen;
  bool not_finite = false;  // the token has the mark kNotFinite
};

Result run(const Request& r, const RunOptions& options = {}) {
  const u32 limit = options.step + 1, vocab = r.vocab();
  std::vector<float> value;
  std::vector<u32> index, sampled(1 + limit, ~0u);
  for (u32 first = 0; first < vocab; first += 16) {
    u32 best = first;
    for (u32 id = first; id < std::min(first + 16, vocab); ++id)
      if (plain_logit(r.logits[id]) > plain_logit(r.logits[best])) best = id;
    value.push_back(r.logits[best] + options.best_shift);
    index.push_back(best + options.index_shift);
  }
  MkLogprobs none{NAN, {}, {}, 0};
  std::fill_n(none.top_id, kMaxTop, ~0u);
  std::vector<MkLogprobs> logprobs(limit, none);
  Result result{{}, r.seen};
  MkSample sample{};
  sample.sampling = r.sampling;
  sample.sampled = reinterpret_cast<uint64_t>(sampled.data());
  sample.logprobs = reinterpret_cast<uint64_t>(logprobs.data());
  sample.limit = limit;
  if (r.penalises()) sample.seen = reinterpret_cast<uint64_t>(result.seen.data());
  const std::vector<u32> bias_begin = r.changes.bias_begin(vocab);
  if (!r.changes.allowed.empty()) sample.allowed = reinterpret_cast<uint64_t>(r.changes.allowed.data());
  if (!r.changes.biases.empty()) {
    sample.biases = reinterpret_cast<uint64_t>(r.changes.biases.data());
    sample.bias_begin = reinterpret_cast<uint64_t>(bias_begin.data());
  }
  u32 next = ~0u, launch_request = 0, first_row = 0, rows = 1;
  const SampleArgs a{options.scan ? global(r.logits.data()) : nullptr,
                     global(value.data()),
                     global(index.data()),
                     global(&next),
                     global(&sample),
                     global(&launch_request),
                     shared(&first_row),
                     shared(&rows),
                     1,
                     1,
                     vocab};
  TestWorker worker;
  worker.w.arenas()->step = options.step;
  mkb_sample(&worker.w, &a, 0);
  CHECK(sampled[0] == limit);
  CHECK((sampled[limit] & ~kNotFinite) == next);
  result.not_finite = sampled[limit] >= kNotFinite;
  const MkLogprobs& of = logprobs[options.step];
  result.sampled = {static_cast<int32_t>(next), r.sampling.logprobs ? of.sampled : 0, {}};
  if (r.sampling.logprobs) result.sampled.rank = of.rank;
  for (size_t j = 0; j < kMaxTop && of.top_id[j] != ~0u; ++j)
    result.sampled.top.push_back({static_cast<int32_t>(of.top_id[j]), of.top[j]});
  return result;
}

// Tells whether the greatest logit is finite, where NaN is the least.
bool has_finite_greatest(const Request& r) {
  float greatest = -INFINITY;
  for (const float v : r.logits) greatest = v > greatest ? v : greatest;
  return std::isfinite(greatest);
}

void check(const Request& r, const RunOptions& options = {}) {
  const MkSampling& s = r.sampling;
  CAPTURE(r.vocab());
  CAPTURE(s.repetition_penalty);
  CAPTURE(s.temperature);
  CAPTURE(s.top_k);
  CAPTURE(s.top_p);
  CAPTURE(s.min_p);
  CAPTURE(s.seed);
  const Result got = run(r, options);
  MkSampling at_step = s;
  at_step.position += options.step;
  const SeenIds penalised_ids = r.penalises() ? r.seen : SeenIds{};
  const Sampled want = sample(r.logits, at_step, r.changes.with(penalised_ids));
  CHECK(got.not_finite == !has_finite_greatest(r));
  CHECK(got.sampled.id == want.id);
  CHECK(got.sampled.logprob == want.logprob);
  CHECK(got.sampled.top == want.top);
  CHECK(got.sampled.rank == want.rank);
  SeenIds seen = r.seen;
  if (r.penalises()) see(seen, static_cast<uint32_t>(want.id));
  CHECK(got.seen == seen);
}

// Returns normal logits, of which a tenth is masked. `coarse` rounds to quarters, which makes ties.
std::vector<float> random_logits(u32 vocab, u32 seed, bool coarse) {
  std::vector<float> row = random_floats(vocab, seed, 3);
  std::mt19937 random(seed);
  for (float& v : row) {
    if (coarse) v = std::round(v * 4) / 4;
    if (random() % 10 == 0) v = random() % 2 ? -INFINITY : NAN;
  }
  return row;
}

SeenIds random_seen(u32 vocab, u32 seed) {
  SeenIds seen((vocab + 31) / 32);
  std::mt19937 random(seed);
  for (u32 i = 0; i < vocab / 8 + 1; ++i) see(seen, random() % vocab);
  return seen;
}

// check_filters() checks `seeds` requests of each combination of filters, over rows with and without ties.
void check_filters(u32 vocab, u32 seeds, u32 step = 0, bool changed = false) {
  u32 at = vocab;
  for (const float penalty : {1.0f, 1.3f, 0.7f})
    for (const float temperature : {0.0f, 0.1f, 0.8f, 5.0f})
      for (const u32 top_k : {0u, 1u, 40u})
        for (const float top_p : {1.0f, 0.9f, 0.01f})
          for (const float min_p : {0.0f, 0.05f})
            for (u32 seed = 0; seed < seeds; ++seed) {
              if (temperature == 0 && (top_k > 0 || top_p < 1 || min_p > 0)) continue;
              ++at;
              const MkSampling s{
                  penalty, temperature, top_k, top_p, min_p, at % 23 % (kMaxTop + 2), at * 0x123456789abcull,
                  at % 5};
              Request r{s, random_logits(vocab, at, at % 2), random_seen(vocab, at)};
              if (changed) r.changes = random_changes(vocab, at);
              check(r, {true, step});
            }
}

TEST_CASE("the processor samples what the host samples, under every combination of filters") {
  check_filters(1, 2);
  check_filters(15, 5);
  check_filters(33, 20);
  check_filters(1000, 10);
  check_filters(4097, 2);
}

TEST_CASE("the processor samples what the host samples with biases and allowed ids") {
  check_filters(1, 5, 0, true);
  check_filters(127, 15, 0, true);
  check_filters(128, 15, 2, true);
  check_filters(1000, 10, 0, true);
  check_filters(4097, 2, 0, true);
  for (u32 i = 0; i < 20; ++i)
    check({{i % 2 ? 1 : 1.2f, static_cast<float>(i % 3), 40, 0.95f, 0, 3, i},
           random_logits(152063, i, i % 2),
           random_seen(152063, i),
           random_changes(152063, i)});
}

TEST_CASE("the processor samples what the host samples from large vocabularies") {
  for (const u32 vocab : {151936u, kMaxVocab}) {
    u32 at = 0;
    for (const MkSampling& s : {MkSampling{1, 1, 0, 1, 0, 1 + kMaxTop},
                                {1, 30, 0, 0.95f},
                                {1.2f, 1, 1000, 1, 0.001f, 6},
                                {1.2f, 0, 0, 1, 0, 1 + kMaxTop},
                                {1, 1, 5, 0.5f},
                                {0.9f, 1e6f, 100'000, 0.999f},
                                {1, 0.7f, 20, 0.8f},
                                {1, 1, 12'000, 0.99f}}) {
      ++at;
      Request r{s, random_logits(vocab, at, at % 2), SeenIds((vocab + 31) / 32, 0x80010000u)};
      r.sampling.seed = ~uint64_t{at};
      r.logits[vocab - 1] = 2;
      check(r);
    }
  }
}

TEST_CASE("the processor and the host agree on rows of one value, of infinities and of nothing") {
  for (const float value : {0.0f, -0.0f, 1e30f, INFINITY, -INFINITY, NAN})
    for (const MkSampling& s :
         {MkSampling{1, 0, 0, 1, 0, 4}, {1, 0.7f, 0, 1, 0, 4}, {3, 0.7f, 4500, 0.5f, 1}, {1, 1, 100, 0.3f}}) {
      Request r{s, std::vector<float>(5000, value), SeenIds(157, 0xff00u)};
      r.logits[77] = value * 0.5f;
      check(r);
    }
}

TEST_CASE("filters cut among equal logits at the same id as the host") {
  for (u32 top_k = 0; top_k < 70; ++top_k)
    for (const float top_p : {1.0f, 0.02f * static_cast<float>(top_k) + 0.01f})
      for (uint64_t seed = 0; seed < 20; ++seed) {
        if (top_p > 1) continue;
        Request r{{1, 1, top_k, top_p, 0, 0, seed}, std::vector<float>(64, 1.5f), {}};
        for (size_t i = 0; i < 64; i += 5) r.logits[i] = 2;
        check(r);
      }
}

TEST_CASE("temperatures at the ends sample as the host does") {
  for (const float temperature : {1e-38f, 1e-30f, 1e-6f, 0.01f, 100.0f, 1e6f})
    for (u32 seed = 0; seed < 10; ++seed)
      for (const float size : {1.0f, 1e-30f, 1e30f}) {
        Request r{
            {1, temperature, seed % 2 * 30, 0.9f, 0, 0, seed}, random_logits(999, seed, seed % 3 == 0), {}};
        for (float& v : r.logits) v *= size;
        check(r);
      }
}

TEST_CASE("a greedy sample without log-probabilities reads no logits") {
  for (u32 i = 0; i < 4; ++i)
    check({{1, 0, 7, 0.5f, 0.5f, 0, i}, random_logits(4097, i, i % 2), {}}, {false});
}

TEST_CASE("in later steps of a launch the samples are those of later positions") {
  check_filters(40, 2, 3);
}

TEST_CASE("a request without a limit samples nothing") {
  MkSample sample{};
  u32 next = ~0u, launch_request = 0;
  SampleArgs a{};
  a.next = global(&next), a.samples = global(&sample), a.launch_request = global(&launch_request),
  a.vocab = 40;
  TestWorker worker;
  mkb_sample(&worker.w, &a, 0);
  CHECK(next == ~0u);
}

TEST_CASE("a request samples from its last row of the step") {
  const u32 vocab = 33;
  const std::vector<float> rows = random_floats(6 * vocab, 1);
  for (const bool each_token : {true, false}) {
    std::vector<float> value(6 * 3);
    std::vector<u32> index(6 * 3), sampled(4, ~0u), next(2, ~0u), launch_request{1, 0};
    u32 first_row[] = {0, 2}, count[] = {2, 4};
    std::vector<int32_t> greedy;
    for (u32 row = 0; row < 6; ++row) {
      const float* of = &rows[row * vocab];
      for (u32 strip = 0; strip < 3; ++strip) {
        const float* best = std::max_element(of + strip * 16, of + std::min(vocab, strip * 16 + 16));
        value[row * 3 + strip] = *best, index[row * 3 + strip] = static_cast<u32>(best - of);
      }
      greedy.push_back(static_cast<int32_t>(std::max_element(of, of + vocab) - of));
    }
    MkSample samples[2]{};
    for (u32 i = 0; i < 2; ++i)
      samples[i].limit = 1, samples[i].sampled = reinterpret_cast<uint64_t>(&sampled[2 * i]);
    const SampleArgs a{global(rows.data()),
                       global(value.data()),
                       global(index.data()),
                       global(next.data()),
                       global(&samples[0]),
                       global(launch_request.data()),
                       shared(first_row),
                       shared(count),
                       each_token ? 6u : 2u,
                       6,
                       vocab};
    TestWorker worker;
    for (u32 i = 0; i < 2; ++i) {
      mkb_sample(&worker.w, &a, i);
      const auto want = static_cast<u32>(greedy[each_token ? first_row[i] + count[i] - 1 : i]);
      CHECK(next[i] == want);
      CHECK(sampled[2 * launch_request[i] + 1] == want);
    }
  }
}

// Returns a logit below 0 with the largest mass that is at most `mass`. The greatest logit is 0.
float logit_of_mass(uint64_t mass) {
  float logit = static_cast<float>(std::log(static_cast<double>(mass) * 0x1p-44)) + 1e-5f;
  while (mass_of(logit, mass_scale(1)) > mass) logit = std::nextafter(logit, -100.0f);
  return logit;
}

// The ids before the likeliest have a total mass that the random number equals, or exceeds by one.
TEST_CASE("a sample at exactly the running sum goes to the next id, and one below it does not") {
  constexpr uint64_t likeliest = uint64_t{1} << 44;
  u32 cases = 0;
  for (uint64_t seed = 0; seed < 40; ++seed)
    for (const uint64_t more : {0, 1}) {
      uint64_t before = likeliest;
      for (int i = 0; i < 100; ++i) before = sample_below(before + likeliest, seed, 0) + more;
      if (before > likeliest || sample_below(before + likeliest, seed, 0) + more != before) continue;
      std::vector<float> masses;
      for (uint64_t left = before; left > 0; left -= mass_of(masses.back(), mass_scale(1)))
        masses.push_back(logit_of_mass(left));
      masses.push_back(0);
      // The last of `apart` ids has a mass, so that the masses lie in one strip or in several.
      for (const size_t apart : {1, 16, 1024}) {
        Request r{{1, 1, 0, 1, 0, 0, seed}, std::vector<float>(masses.size() * apart, -INFINITY), {}};
        for (size_t i = 0; i < masses.size(); ++i) r.logits[(i + 1) * apart - 1] = masses[i];
        check(r);
        CHECK(run(r).sampled.id == static_cast<int32_t>((masses.size() - more) * apart) - 1);
        ++cases;
      }
    }
  CHECK(cases > 30);
}

TEST_CASE("what is sampled after a fault, from strips that never were, is still in the vocabulary") {
  for (const float shift : {1e30f, -1e30f, INFINITY, -INFINITY, NAN})
    for (const MkSampling& s : {MkSampling{}, {1, 1}, {1, 1, 5}, {1, 1, 5, 0.5f}, {1, 1, 0, 0.5f, 0.1f, 5}}) {
      const int32_t id = run({s, random_logits(40, 1, true), {}}, {true, 0, shift, 1u << 30}).sampled.id;
      CHECK((id >= 0 && id < 40));
    }
}

}  // namespace
}  // namespace mk
