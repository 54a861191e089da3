// The kernel's draws against the host's, exactly.
#include <cmath>

#include "device_launch.h"
#include "runtime/draw.h"

namespace mk {
namespace {

// Requests that share a vocabulary, each with a row of its own.
struct Problem {
  uint32_t vocab;
  std::vector<std::vector<float>> logits;
  std::vector<SeenIds> seen;
  std::vector<MkSampling> sampling;

  uint32_t strips() const { return (vocab + 15) / 16; }
  uint32_t words() const { return (vocab + 31) / 32; }
};

// The greatest of each strip of 16, the lowest index on ties.
void add_best(const std::vector<float>& row, std::vector<float>& value, std::vector<u32>& index) {
  for (size_t first = 0; first < row.size(); first += 16) {
    const auto begin = row.begin() + static_cast<ptrdiff_t>(first);
    const auto best =
        std::max_element(begin, begin + static_cast<ptrdiff_t>(std::min<size_t>(16, row.size() - first)));
    value.push_back(*best);
    index.push_back(static_cast<u32>(best - row.begin()));
  }
}

struct Draws {
  std::vector<Drawn> drawn;
  std::vector<SeenIds> seen;
};

// Rows lie in reverse order of the requests. `scan`: whether the logits may be read at all.
Draws run(const Problem& p, uint64_t seed = 1, bool scan = true) {
  const size_t n = p.sampling.size();
  std::vector<float> logits, value;
  std::vector<u32> index, seen, next(n, ~0u), top_id(n * kMaxTop, ~0u);
  std::vector<float> logprob(n, NAN), top_logprob(n * kMaxTop, NAN);
  for (size_t i = n; i-- > 0;) {
    logits.insert(logits.end(), p.logits[i].begin(), p.logits[i].end());
    add_best(p.logits[i], value, index);
  }
  for (const SeenIds& s : p.seen) seen.insert(seen.end(), s.begin(), s.end());
  const DrawArgs a{scan ? global(logits.data()) : nullptr,
                   global(value.data()),
                   global(index.data()),
                   global(p.sampling.data()),
                   global(seen.data()),
                   global(next.data()),
                   global(logprob.data()),
                   global(top_id.data()),
                   global(top_logprob.data()),
                   p.vocab};
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 i = mk_worker(); i < n; i += 2) {
      mkb_draw(&w, &a, i, static_cast<u32>(n) - 1 - i);
      mkd_barrier();
    }
  };
  launch(s, 2, seed);
  Draws out;
  for (size_t i = 0; i < n; ++i) {
    Drawn d{static_cast<int32_t>(next[i]), p.sampling[i].logprobs ? logprob[i] : 0, {}};
    for (size_t j = i * kMaxTop; j < (i + 1) * kMaxTop && top_id[j] != ~0u; ++j)
      d.top.push_back({static_cast<int32_t>(top_id[j]), top_logprob[j]});
    out.drawn.push_back(d);
    out.seen.emplace_back(seen.begin() + static_cast<ptrdiff_t>(i * p.words()),
                          seen.begin() + static_cast<ptrdiff_t>((i + 1) * p.words()));
  }
  return out;
}

// Normal logits; `coarse`: on a grid of quarters, so that there are ties; a tenth is masked.
std::vector<float> random_logits(uint32_t vocab, uint32_t seed, bool coarse) {
  std::vector<float> row = random_floats(vocab, seed, 3);
  std::mt19937 rng(seed);
  for (float& v : row) {
    if (coarse) v = std::round(v * 4) / 4;
    if (rng() % 10 == 0) v = -INFINITY;
  }
  return row;
}

// Every combination of filters, over rows with and without ties.
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

void check_same(const Problem& p, const Draws& got) {
  for (size_t i = 0; i < p.sampling.size(); ++i) {
    CAPTURE(i);
    const Drawn want = draw(p.logits[i], p.sampling[i], p.seen[i]);
    CHECK(got.drawn[i].id == want.id);
    CHECK(got.drawn[i].logprob == want.logprob);
    CHECK(got.drawn[i].top == want.top);
    SeenIds seen = p.seen[i];
    see(seen, static_cast<uint32_t>(want.id));
    CHECK(got.seen[i] == seen);
  }
}

TEST_CASE("the kernel draws what the host draws, under every combination of filters") {
  for (const uint32_t vocab : {1u, 15u, 4097u, 9000u}) {
    CAPTURE(vocab);
    const Problem p = all_filters(vocab);
    check_same(p, run(p));
  }
}

}  // namespace
}  // namespace mk
