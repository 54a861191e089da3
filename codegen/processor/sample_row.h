// A request may change what its row of logits holds (docs/sampling.md). A strip is a vector.
#pragma once

#include "codegen/processor/worker.h"

namespace mk {

static_assert(kVector == kStripRows);

// lanes_of() has a bit for each lane in which a comparison holds.
template <class Mask>
MK_INLINE u32 lanes_of(Mask mask) {
  typedef bool Bits __attribute__((ext_vector_type(16)));
  return __builtin_bit_cast(uint16_t, __builtin_convertvector(mask, Bits));
}

// plain_logits() is plain_logit() of each lane.
MK_INLINE f32x16 plain_logits(f32x16 v) {
  v = v > -kMaxLogit ? (v < kMaxLogit ? v : all_lanes(kMaxLogit)) : all_lanes(-kMaxLogit);
  return v == 0 ? all_lanes(0) : v;
}
// order_of() has the order of the plain logits. All orders are greater than 1.
template <class U, class V>
MK_INLINE U order_of(V logit) {
  const U bits = __builtin_bit_cast(U, logit);
  return bits >> 31 != 0 ? ~bits : bits | U(0x80000000u);
}
template <class V, class U>
MK_INLINE V logit_of(U order) {
  return __builtin_bit_cast(V, order >> 31 != 0 ? order & U(0x7fffffffu) : ~order);
}

// rank_of() joins an order and its id to one number, in the order of likelihood. Greater logits have greater
// ranks, and of equal logits the lower id has. kAllRanks is lower than any.
constexpr u64 kAllRanks = (u64)1 << 32;
MK_INLINE u64 rank_of(u32 order, u32 id) {
  return (u64)order << 32 | ~id;
}
MK_INLINE u32 id_of(u64 rank) {
  return ~(u32)rank;
}
MK_INLINE f32 logit_of_rank(u64 rank) {
  return logit_of<f32>((u32)(rank >> 32));
}

// Changes are what a request changes in its logits. Null pointers change nothing.
struct Changes {
  const u32* seen = nullptr;
  const u32* allowed = nullptr;
  const MkBias* biases = nullptr;
  const u32* bias_begin = nullptr;
  f32 penalty = 1;
  bool any = false;  // a pointer is set

  Changes() = default;
  explicit Changes(const MkSample& s)
      : seen((const u32*)s.seen),
        allowed((const u32*)s.allowed),
        biases((const MkBias*)s.biases),
        bias_begin((const u32*)s.bias_begin),
        penalty(s.sampling.repetition_penalty),
        any(seen || allowed || biases) {}

  // of_strip() has a strip's bits of a list of ids.
  MK_INLINE static u32 of_strip(const u32* ids, u32 strip) {
    return ids[strip / 2] >> strip % 2 * kStripRows & 0xffffu;
  }
  MK_INLINE u32 seen_of(u32 strip) const { return seen ? of_strip(seen, strip) : 0; }
  MK_INLINE u32 masked_of(u32 strip) const { return allowed ? of_strip(allowed, strip) ^ 0xffffu : 0; }

  // Biased is the biases of a strip: those with the indices from `first` to `end` - 1.
  struct Biased {
    u32 first, end;
  };
  MK_INLINE Biased biased_of(u32 strip) const {
    const u32 id = strip * kStripRows, block = id / kBiasBlockIds;
    u32 first = bias_begin[block], end = bias_begin[block + 1];
    const u32 block_end = end;
    while (first < end) {
      const u32 middle = (first + end) / 2;
      if (biases[middle].id < id)
        first = middle + 1;
      else
        end = middle;
    }
    while (end < block_end && biases[end].id < id + kStripRows) ++end;
    return {first, end};
  }

  // strips() has the strips from `first` on that have changed logits, a bit each.
  MK_INLINE u32 strips(u32 first, u32 count) const {
    u32 changed = 0;
    if (seen)
      for (u32 i = 0; i < count; ++i) changed |= (u32)(of_strip(seen, first + i) != 0) << i;
    if (allowed)
      for (u32 i = 0; i < count; ++i) changed |= (u32)(of_strip(allowed, first + i) != 0xffffu) << i;
    if (biases)
      for (u32 i = 0; i < count; ++i) {
        const Biased of = biased_of(first + i);
        changed |= (u32)(of.first < of.end) << i;
      }
    return changed;
  }

  // apply() changes the logits of a strip.
  MK_INLINE f32x16 apply(u32 strip, f32x16 raw) const {
    const u32 penalised_ids = seen_of(strip);
    f32x16 v = raw;
    if (penalised_ids != 0) {
      const f32x16 less = raw > 0 ? raw / penalty : raw * penalty;
      v = (u32x16(penalised_ids) >> kLane & 1) != 0 ? less : raw;
    }
    if (biases) {
      const Biased of = biased_of(strip);
      for (u32 i = of.first; i < of.end; ++i) {
        const u32 lane = biases[i].id % kStripRows;
        const f32 penalty_of_id = penalised_ids >> lane & 1 ? penalty : 1;
        v[lane] = biased(raw[lane], biases[i].before, biases[i].after, penalty_of_id);
      }
    }
    if (const u32 masked = masked_of(strip))
      v = (u32x16(masked) >> kLane & 1) != 0 ? all_lanes(-kMaxLogit) : v;
    return v;
  }
};
static_assert(kBiasBlockIds % kStripRows == 0);

// Row is one request's row of logits.
struct Row {
  const f32* logits;
  const f32* best_value;
  const u32* best_index;
  Changes changes;
  u32 vocab, strips;

  // orders() has the orders of a strip's logits, and 0 behind the last one.
  MK_INLINE u32x16 orders(u32 strip) const {
    const u32 first = strip * kStripRows, count = min(kStripRows, vocab - first);
    f32x16 v = load_part<f32x16>(logits + first, count);
    if (changes.any) v = changes.apply(strip, v);
    const u32x16 order = order_of<u32x16>(plain_logits(v));
    return kLane < u32x16(count) ? order : u32x16(0);
  }

  // best_orders() has the greatest order of each of `count` strips. Strips with changed logits are read.
  MK_INLINE u32x16 best_orders(u32 first, u32 count) const {
    u32x16 order = order_of<u32x16>(plain_logits(load_part<f32x16>(best_value + first, count)));
    for (u32 left = changes.strips(first, count); left != 0; left &= left - 1) {
      const u32 i = (u32)__builtin_ctz(left);
      order[i] = __builtin_reduce_max(orders(first + i));
    }
    return order;
  }

  // best_rank() is the greatest rank of a strip below a bound, or 0. Logits are read only if best_value does
  // not count: it is not below the bound, or the strip has changed logits.
  MK_INLINE u64 best_rank(u32 strip, u64 below) const {
    if (changes.strips(strip, 1) == 0) {
      const u64 rank = rank_of(order_of<u32>(plain_logit(best_value[strip])), best_index[strip]);
      if (rank < below) return rank;
    }
    const u32x16 order = orders(strip);
    u64 best = 0;
    for (u32 i = 0; i < min(kStripRows, vocab - strip * kStripRows); ++i) {
      const u64 rank = rank_of(order[i], strip * kStripRows + i);
      if (rank < below && rank > best) best = rank;
    }
    return best;
  }

  // greatest() is the greatest rank below a bound, or 0. The first of strips with equal logits has the lowest
  // ids. greatest() therefore looks only at strips with a greater logit.
  MK_INLINE u64 greatest(u64 below) const {
    u64 best = 0;
    f32 logit = -__builtin_inff();
    for (u32 first = 0; first < strips; first += kVector) {
      const u32 count = min(kVector, strips - first);
      const f32x16 v = plain_logits(load_part<f32x16>(best_value + first, count));
      u32 left = (lanes_of(v > all_lanes(logit)) & ((1u << count) - 1)) | changes.strips(first, count);
      for (; left != 0; left &= left - 1) {
        const u64 rank = best_rank(first + (u32)__builtin_ctz(left), below);
        if (rank > best) best = rank, logit = logit_of_rank(rank);
      }
    }
    return best;
  }
};

}  // namespace mk
