// Sampling turns a row of logits into a token (docs/sampling.md). The tokens are those of
// runtime/session/sample.cc; this code does not sort.
//
// A search looks for the element at which a running sum reaches a target. These elements are the k-th
// greatest logit, the last token of the nucleus, and the token sampled. The first two are found by radix
// search. A pass adds up the elements of each digit of 8 bits. The digit in which the target falls is the
// next digit of the element's logit. Sums are of integers, so their order does not matter.
//
// A strip is a vector. Each pass reads the strips of a set, and removes those without elements that count.
#include "codegen/processor/sample_row.h"
#include "codegen/processor/worker.h"

namespace mk {

namespace {

typedef u64 u64x16 __attribute__((ext_vector_type(16)));

constexpr u32 kDigitBits = 8;
constexpr u32 kDigits = 1u << kDigitBits;
constexpr u32 kWordStrips = 64;  // strips of a word of a set
constexpr u32 kWords = kMaxVocab / kStripRows / kWordStrips;
constexpr u32 kBoundBits = 11;  // bits of a bound of the k-th greatest logit
constexpr u32 kBounds = 1u << kBoundBits;

struct SampleScratch {
  u64 sum[kDigits];      // of the elements of each digit, or of each word of `live`
  u64 live[kWords];      // strips whose elements may count, a bit each
  u64 matching[kWords];  // of these, the strips with elements of the digits found so far
  u32 strips[kBounds];   // strips by the first bits of their greatest logit
};
static_assert(sizeof(SampleScratch) <= kScratchBytes && kWords <= kDigits);

// weights_of() is mass_of() of each lane, before it is rounded down. The result is 0.5 where the mass is 0,
// and in lanes that do not count.
template <class Mask>
MK_INLINE f32x16 weights_of(f32x16 below, f32 scale, Mask counts) {
  const f32x16 scales = all_lanes(scale);
  const Mask there = counts & (below * scales >= -46);
  below = there ? below : all_lanes(0);
  constexpr f32 to_integer = 0x1.8p23f;
  const f32x16 shifted = fma(below, scales, all_lanes(to_integer)), whole = shifted - to_integer,
               rest = fma(below, scales, -whole);
  constexpr f32 factor[] = {0x1.5f3e52p-10f, 0x1.3b2d4cp-7f, 0x1.c6aee8p-5f,
                            0x1.ebfbdcp-3f,  0x1.62e430p-1f, 1.0f};
  f32x16 power = all_lanes(0x1.41fbbcp-13f);
  MK_UNROLL
  for (u32 i = 0; i < 6; ++i) power = fma(power, rest, all_lanes(factor[i]));
  const u32x16 exponent = __builtin_bit_cast(u32x16, shifted) - 0x4b400000u + (127 + kMassBits);
  const f32x16 weight = fma(power, __builtin_bit_cast(f32x16, exponent << 23), all_lanes(0.5f));
  return there ? weight : all_lanes(0.5f);
}
// masses_of() rounds weights down. Weights are from 0.5 to 2^45.
MK_INLINE u64x16 masses_of(f32x16 weight) {
  const u32x16 bits = __builtin_bit_cast(u32x16, weight);
  const u64x16 mantissa = __builtin_convertvector((bits & 0x7fffffu) | 0x800000u, u64x16);
  return mantissa << 39 >> __builtin_convertvector(189 - (bits >> 23), u64x16);
}

// Search is what a search adds up.
struct Search {
  const Row& row;
  SampleScratch& s;
  u64 cut;       // ranks below do not count
  f32 greatest;  // greatest logit
  f32 scale;

  MK_INLINE auto counts(u32 strip, u32x16 order) const {
    const u32x16 last = u32x16((u32)(cut >> 32)), id = strip * kStripRows + kLane;
    return (order > last) | ((order == last) & (id <= u32x16(id_of(cut))));
  }
  // weights() is weights_of() the lanes that count. After a fault the row may hold greater logits.
  template <class Mask>
  MK_INLINE f32x16 weights(u32x16 order, Mask counts) const {
    const f32x16 below = logit_of<f32x16>(order) - greatest;
    return weights_of(__builtin_elementwise_min(below, all_lanes(0)), scale, counts);
  }

  // add_up() is one pass over a set of strips. Each element whose order begins with the prefix is added to
  // the sum of its next digit: its mass, or 1.
  MK_INLINE void add_up(u64* set, u32 prefix, u32 shift, bool by_mass) const {
    for (u32 i = 0; i < kDigits; ++i) s.sum[i] = 0;
    for (u32 word = 0; word * kWordStrips < row.strips; ++word)
      for (u64 left = set[word]; left != 0; left &= left - 1) {
        const u32 strip = word * kWordStrips + (u32)__builtin_ctzll(left);
        const u32x16 order = row.orders(strip);
        const auto counting = counts(strip, order) & (order >> shift >> kDigitBits == u32x16(prefix));
        u32 lanes = lanes_of(counting);
        if (lanes == 0) set[word] &= ~(left & -left);
        if (lanes == 0) continue;
        u64 measure[kVector];
        u32 digit[kVector];
        store(measure, by_mass ? masses_of(weights(order, counting)) : u64x16(1));
        store(digit, order >> shift & (kDigits - 1));
        for (; lanes != 0; lanes &= lanes - 1) {
          const u32 i = (u32)__builtin_ctz(lanes);
          s.sum[digit[i]] += measure[i];
        }
      }
  }

  // cut_at() is the rank of the element with which the running sum reaches its target, from the greatest
  // rank down. The target is a share of the mass, or a number of elements.
  MK_INLINE u64 cut_at(bool by_mass, f32 share, u32 number) const {
    u32 prefix = 0;
    u64 target = number;
    for (u32 shift = 32 - kDigitBits;; shift -= kDigitBits) {
      const bool first = shift == 32 - kDigitBits;
      add_up(first ? s.live : s.matching, prefix, shift, by_mass);
      if (first) {
        u64 all = 0;
        for (u32 i = 0; i < kDigits; ++i) all += s.sum[i];
        if (by_mass) target = share_of(share, all);
        for (u32 i = 0; i < kWords; ++i) s.matching[i] = s.live[i];
      }
      u32 digit = kDigits - 1;
      for (; digit > 0 && target > s.sum[digit]; --digit) target -= s.sum[digit];
      prefix = prefix << kDigitBits | digit;
      if (shift == 0) break;
    }
    return equal_at(prefix, by_mass, target);
  }

  // equal_at() ends a search among the elements of one logit. They have the same mass.
  MK_INLINE u64 equal_at(u32 order, bool by_mass, u64 target) const {
    const f32 below = logit_of<f32>(order) - greatest;
    const u64 mass = by_mass ? mass_of(below < 0 ? below : 0, scale) : 1;
    u64 before = mass == 0 ? 0 : (target - 1) / mass;
    for (u32 word = 0; word * kWordStrips < row.strips; ++word)
      for (u64 left = s.matching[word]; left != 0; left &= left - 1) {
        const u32 strip = word * kWordStrips + (u32)__builtin_ctzll(left);
        const u32x16 orders = row.orders(strip);
        u32 lanes = lanes_of(counts(strip, orders) & (orders == u32x16(order)));
        const u32 equal = (u32)__builtin_popcount(lanes);
        if (before >= equal) {
          before -= equal;
          continue;
        }
        for (; before > 0; --before) lanes &= lanes - 1;
        return rank_of(order, strip * kStripRows + (u32)__builtin_ctz(lanes));
      }
    return cut;
  }

  // masses() is the masses of a strip, without those below `min`, which is 2^44 at most.
  MK_INLINE u64x16 masses(u32 strip, u64 min) const {
    const u32x16 order = row.orders(strip);
    const f32x16 weight = weights(order, counts(strip, order));
    return masses_of(weight < all_lanes((f32)min) ? all_lanes(0.5f) : weight);
  }

  // sample() is the first id at which the running sum of the masses exceeds a random number.
  MK_INLINE u32 sample(const MkSampling& p, u32 position) const {
    const u64 min = min_mass(p.min_p);
    const u32 words = (row.strips + kWordStrips - 1) / kWordStrips;
    u64 all = 0;
    for (u32 word = 0; word < words; ++word) {
      u64x16 sum = 0;
      for (u64 left = s.live[word]; left != 0; left &= left - 1)
        sum += masses(word * kWordStrips + (u32)__builtin_ctzll(left), min);
      s.sum[word] = __builtin_reduce_add(sum);
      all += s.sum[word];
    }
    u64 target = sample_below(all, p.seed, position);
    u32 word = 0;
    for (; word + 1 < words && target >= s.sum[word]; ++word) target -= s.sum[word];
    for (u64 left = s.live[word]; left != 0; left &= left - 1) {
      const u32 strip = word * kWordStrips + (u32)__builtin_ctzll(left);
      u64 mass[kVector];
      store(mass, masses(strip, min));
      for (u32 i = 0; i < kVector; ++i) {
        if (target < mass[i]) return strip * kStripRows + i;
        target -= mass[i];
      }
    }
    return row.vocab - 1;  // the row has changed since, after a fault
  }
};

// bound_of() is an order that k strips reach, or 0. The k greatest logits therefore reach it, too.
MK_INLINE u32 bound_of(const Row& row, SampleScratch& s, u32 k) {
  for (u32 i = 0; i < kBounds; ++i) s.strips[i] = 0;
  for (u32 first = 0; first < row.strips; first += kVector) {
    const u32 count = min(kVector, row.strips - first);
    u32 bound[kVector];
    store(bound, row.best_orders(first, count) >> (32 - kBoundBits));
    for (u32 i = 0; i < count; ++i) ++s.strips[bound[i]];
  }
  u32 bound = kBounds - 1;
  for (; bound > 0 && k > s.strips[bound]; --bound) k -= s.strips[bound];
  return bound << (32 - kBoundBits);
}

// find_live() finds the strips that have logits of a bound or more.
MK_INLINE void find_live(const Row& row, SampleScratch& s, u32 bound) {
  for (u32 i = 0; i < kWords; ++i) s.live[i] = 0;
  for (u32 first = 0; first < row.strips; first += kVector) {
    const u32 count = min(kVector, row.strips - first);
    const u64 lanes = lanes_of(row.best_orders(first, count) >= u32x16(bound)) & ((1u << count) - 1);
    s.live[first / kWordStrips] |= lanes << first % kWordStrips;
  }
}

// choose() is the id sampled. `greatest` is the greatest logit.
MK_INLINE u32 choose(const Row& row, SampleScratch& s, f32 greatest, const MkSampling& p, u32 position) {
  const f32 scale = mass_scale(p.temperature);
  // Logits below the bound have no mass.
  const u32 no_mass = order_of<u32>(plain_logit(greatest - 47 / scale));
  const bool some = p.top_k != 0 && p.top_k < row.vocab;
  const u32 bound = some ? bound_of(row, s, p.top_k) : 0;
  find_live(row, s, bound > no_mass ? bound : no_mass);
  Search search{row, s, kAllRanks, greatest, scale};
  if (some) search.cut = search.cut_at(false, 0, p.top_k);
  if (p.top_p < 1) search.cut = search.cut_at(true, p.top_p, 0);
  return search.sample(p, position);
}

// log_total() is the logarithm of the softmax's sum.
MK_INLINE f32 log_total(const Row& row, f32 greatest) {
  u64x16 sum = 0;
  for (u32 strip = 0; strip < row.strips; ++strip) {
    const u32x16 order = row.orders(strip);
    const f32x16 below = logit_of<f32x16>(order) - greatest;
    sum += masses_of(
        weights_of(__builtin_elementwise_min(below, all_lanes(0)), mass_scale(1), order != u32x16(0)));
  }
  const u64 all = __builtin_reduce_add(sum);
  return log_of_mass(all > 0 ? all : 1);
}

// rank_in() counts the logits that are not below `logit`. The row must have no changes.
MK_INLINE u32 rank_in(const Row& row, f32 logit) {
  const u32x16 wanted = u32x16(order_of<u32>(logit));
  u32 count = 0;
  for (u32 first = 0; first < row.strips; first += kVector) {
    const u32 strips = min(kVector, row.strips - first);
    u32 left = lanes_of(row.best_orders(first, strips) >= wanted) & ((1u << strips) - 1);
    for (; left != 0; left &= left - 1) {
      const u32x16 orders = row.orders(first + (u32)__builtin_ctz(left));
      count += (u32)__builtin_popcount(lanes_of(orders >= wanted));
    }
  }
  return count;
}

}  // namespace

MK_BODY void mkb_sample(Worker* w, const SampleArgs* a, u32 request) {
  const MkSample& sample = plain(a->samples)[plain(a->launch_request)[request]];
  if (sample.limit == 0) return;
  const u32 sampled_before = w->arenas()->step;  // each step of the launch samples one token
  const MkSampling& p = sample.sampling;
  u32* seen = (u32*)sample.seen;
  const u64 row_index =
      a->logit_rows == a->tokens ? plain(a->first_row)[request] + plain(a->rows)[request] - 1 : request;
  const u32 strips = (a->vocab + kStripRows - 1) / kStripRows;
  Row row{plain(a->logits) + row_index * a->vocab,
          plain(a->best_value) + row_index * strips,
          plain(a->best_index) + row_index * strips,
          {},
          a->vocab,
          strips};
  const u64 likeliest = row.greatest(~(u64)0);
  row.changes = Changes(sample);
  const u64 first = row.changes.any ? row.greatest(~(u64)0) : likeliest;
  u32 id = id_of(first);
  if (p.temperature > 0)
    id = choose(row, *(SampleScratch*)scratch_of(*w), logit_of_rank(first), p, p.position + sampled_before);
  id = min(id, a->vocab - 1);  // the row may hold anything after a fault
  row.changes = {};

  u32* sampled = (u32*)sample.sampled;
  sampled[0] = sampled_before + 1;
  sampled[1 + sampled_before] = id | (is_finite_greatest(logit_of_rank(likeliest)) ? 0 : kNotFinite);
  plain(a->next)[request] = id;
  if (seen) seen[id / 32] |= 1u << id % 32;
  if (p.logprobs == 0) return;
  MkLogprobs& logprobs = ((MkLogprobs*)sample.logprobs)[sampled_before];
  const f32 top = logit_of_rank(likeliest), log_all = log_total(row, top);
  logprobs.sampled = plain_logit(row.logits[id]) - top - log_all;
  logprobs.rank = rank_in(row, plain_logit(row.logits[id]));
  u64 rank = likeliest;
  for (u32 i = 0; i + 1 < p.logprobs && rank != 0; ++i) {
    logprobs.top_id[i] = id_of(rank);
    logprobs.top[i] = logit_of_rank(rank) - top - log_all;
    rank = row.greatest(rank);
  }
}

}  // namespace mk
