// Host, emulator and GPU sample the same tokens by this arithmetic. The device compiles this header, too, so
// it includes <cstdint>'s names only. docs/sampling.md says what is sampled.
//
// Bits are the same everywhere for two reasons. Probabilities are integers, whose sums do not depend on their
// order. Floats are rounded at the same places: a product that is added to something is an explicit
// __builtin_fmaf. Compilers for GPUs may or may not fuse all other products and sums.
#pragma once

#include <stdint.h>

namespace mkrt {

constexpr uint32_t kMaxTop = 20;          // most tokens whose log-probabilities may be asked for
constexpr uint32_t kMaxVocab = 1u << 18;  // ids are 18 bits
constexpr uint32_t kMassBits = 44;        // the likeliest token has the mass 2^44; all together, at most 2^62
constexpr float kMaxLogit = 3.40282347e+38f;

// MkSampling is one request's sample. The filters apply in the order of the fields. The bounds of penalty and
// temperature keep masked tokens at no mass.
struct MkSampling {
  float repetition_penalty = 1;  // 0.001 to 1000; seen ids' logits above 0 are divided, others multiplied
  float temperature = 0;         // 0 to 1e6; logits are divided by it; 0: greedy, the lowest id on ties
  uint32_t top_k = 0;            // the k greatest logits stay, of equal ones the lowest ids; 0: all stay
  float top_p = 1;               // (0, 1]; the likeliest stay until their share reaches it; 1: all stay
  float min_p = 0;               // [0, 1]; tokens less likely than this times the likeliest are dropped
  uint32_t logprobs = 0;  // 0: none; 1 + n: those of the sampled token and of the n likeliest, n <= kMaxTop
  uint64_t seed = 0;
  uint32_t position = 0;  // number of tokens that the request has sampled before
  uint32_t reserved = 0;
};
static_assert(sizeof(MkSampling) == 40);

// MkBias is what is added to one id's logit: `before` comes before the repetition penalty, and `after` behind
// it.
struct MkBias {
  uint32_t id;
  float before;  // at most kMaxBias in absolute value, or -infinity, which forbids the id
  float after;   // alike
};
static_assert(sizeof(MkBias) == 12);
constexpr float kMaxBias = 1e30f;        // no bias brings a masked logit up to others
constexpr uint32_t kBiasBlockIds = 128;  // biases are looked up by blocks of ids

#define MKRT_SHARED [[gnu::always_inline]] inline

// plain_logit() is a logit as all other functions take it. The result is finite, NaN counts as masked out,
// and minus zero is zero.
MKRT_SHARED float plain_logit(float v) {
  v = v > -kMaxLogit ? (v < kMaxLogit ? v : kMaxLogit) : -kMaxLogit;
  return v == 0 ? 0.0f : v;
}

// is_finite_greatest() tells whether a row's greatest plain logit was a finite number before.
MKRT_SHARED bool is_finite_greatest(float plain) {
  return plain > -kMaxLogit && plain < kMaxLogit;
}

// penalised() follows Keskar et al. 2019, section 4.1, with the case for the sign that is common since.
MKRT_SHARED float penalised(float logit, float penalty) {
  return plain_logit(logit > 0 ? logit / penalty : logit * penalty);
}

// biased() is the logit of an id that has a bias. `penalty` is 1 if the id is not seen.
MKRT_SHARED float biased(float logit, float before, float after, float penalty) {
  return plain_logit(penalised(logit + before, penalty) + after);
}

// mass_scale() is log2(e) / temperature, bounded so that a logit that equals the greatest keeps its mass.
MKRT_SHARED float mass_scale(float temperature) {
  const float scale = 1.44269504f / temperature;
  return scale < 0x1p100f ? scale : 0x1p100f;
}

// mass_of() is round(2^(44 + below * scale)), with a relative error of 2^-22. `below` is the logit minus the
// greatest one, at most 0.
MKRT_SHARED uint64_t mass_of(float below, float scale) {
  if (below * scale < -46) return 0;
  constexpr float to_integer = 0x1.8p23f;  // its addition leaves no bits behind the point
  const float whole = __builtin_fmaf(below, scale, to_integer) - to_integer;
  const float rest = __builtin_fmaf(below, scale, -whole);
  // The polynomial is 2^rest for |rest| <= 1/2: minimax, relative error 2e-9 before rounding, exact at 0.
  float power = 0x1.41fbbcp-13f;
  power = __builtin_fmaf(power, rest, 0x1.5f3e52p-10f);
  power = __builtin_fmaf(power, rest, 0x1.3b2d4cp-7f);
  power = __builtin_fmaf(power, rest, 0x1.c6aee8p-5f);
  power = __builtin_fmaf(power, rest, 0x1.ebfbdcp-3f);
  power = __builtin_fmaf(power, rest, 0x1.62e430p-1f);
  power = __builtin_fmaf(power, rest, 1.0f);
  const uint32_t exponent = static_cast<uint32_t>(static_cast<int32_t>(whole) + 127 + int32_t{kMassBits});
  return static_cast<uint64_t>(__builtin_fmaf(power, __builtin_bit_cast(float, exponent << 23), 0.5f));
}

// log_of_mass() is the natural logarithm of mass / 2^44, with an absolute error of 1e-6. mass must be at
// least 1.
MKRT_SHARED float log_of_mass(uint64_t mass) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, static_cast<float>(mass));
  int32_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  float m = __builtin_bit_cast(float, (bits & 0x7fffffu) | 0x3f800000u);
  if (m > 1.41421356f) m = m / 2, ++exponent;
  // ln m is 2 artanh s, by its series.
  const float s = (m - 1) / (m + 1), square = s * s;
  float series = __builtin_fmaf(square, 2.0f / 9, 2.0f / 7);
  series = __builtin_fmaf(series, square, 2.0f / 5);
  series = __builtin_fmaf(series, square, 2.0f / 3);
  series = __builtin_fmaf(series, square, 2.0f);
  const float ln_m = __builtin_fmaf(series, s, 0.0f);
  return __builtin_fmaf(static_cast<float>(exponent - int32_t{kMassBits}), 0.693147181f, ln_m);
}

// share_of() is ceil(share * mass), at least 1. share must be at least 0 and below 1.
MKRT_SHARED uint64_t share_of(float share, uint64_t mass) {
  const unsigned __int128 product =
      static_cast<unsigned __int128>(static_cast<uint64_t>(share * 0x1p64f)) * mass;
  const uint64_t up = static_cast<uint64_t>(product >> 64) + (static_cast<uint64_t>(product) != 0);
  return up > 0 ? up : 1;
}

// min_mass() is the least mass that min_p keeps: ceil(min_p * 2^44).
MKRT_SHARED uint64_t min_mass(float min_p) {
  const float exact = min_p * 0x1p44f;
  const uint64_t down = static_cast<uint64_t>(exact);
  return down + (static_cast<float>(down) < exact);
}

struct PhiloxWords {
  uint32_t word[4];
};

// philox() is Philox4x32-10 (Salmon, Moraes, Dror, Shaw 2011, section 3.3).
MKRT_SHARED PhiloxWords philox(PhiloxWords counter, uint32_t key0, uint32_t key1) {
  for (uint32_t round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xd2511f53u} * counter.word[0], b = uint64_t{0xcd9e8d57u} * counter.word[2];
    counter = {{static_cast<uint32_t>(b >> 32) ^ counter.word[1] ^ key0, static_cast<uint32_t>(b),
                static_cast<uint32_t>(a >> 32) ^ counter.word[3] ^ key1, static_cast<uint32_t>(a)}};
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
  return counter;
}

// sample_below() is a sample below `mass`: 64 random bits, the same for a seed and position, times the mass.
MKRT_SHARED uint64_t sample_below(uint64_t mass, uint64_t seed, uint32_t position) {
  const PhiloxWords r =
      philox({{position, 0, 0, 0}}, static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
  const uint64_t bits = uint64_t{r.word[1]} << 32 | r.word[0];
  return static_cast<uint64_t>(static_cast<unsigned __int128>(bits) * mass >> 64);
}

}  // namespace mkrt
