// Route decides which experts each token of a step goes to, and which tokens each expert gets.
#include "codegen/processor/worker.h"

namespace mk {

namespace {

constexpr f32 kLog2E = 1.4426950408889634f;
constexpr u32 kExpertVectors = kMaxExperts / kVector;

// RouteScratch is what a task keeps. Other workers may overwrite its outputs after a fault. The task
// therefore reads its own choices, which are always in bounds.
struct RouteScratch {
  uint16_t chosen[kMaxTokens * kMaxTopK];  // [token][top_k]: experts
  u32 rows[kMaxExperts];                   // tokens of each expert
  u32 next[kMaxExperts];                   // the row of the next token of each expert
};
static_assert(sizeof(RouteScratch) <= kScratchBytes);

// Logits are one token's logits. NaN counts as the least logit, so that the choices are experts. A key is 0
// if its expert is chosen already, or does not exist. The order of other keys is that of the logits, and
// minus zero equals zero.
struct Logits {
  f32x16 value[kExpertVectors];
  u32x16 key[kExpertVectors];
  u32 vectors;
  f32x16 nans = all_lanes(0);  // NaN in a lane with a logit that is NaN, or 0

  MK_INLINE Logits(const f32* logits, u32 experts) : vectors((experts + kVector - 1) / kVector) {
    const f32x16 infinity = all_lanes(__builtin_inff());
    for (u32 i = 0; i < vectors; ++i) {
      const u32 count = min(kVector, experts - i * kVector);
      const f32x16 v = load_part<f32x16>(logits + i * kVector, count);
      const f32x16 number = v == v ? v : -infinity;
      nans = v == v ? nans : v;
      const u32x16 bits = __builtin_bit_cast(u32x16, number + 0.0f);  // minus zero becomes zero
      const u32x16 order = bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
      value[i] = kLane < u32x16(count) ? number : -infinity;
      key[i] = kLane < u32x16(count) ? order : 0;
    }
  }

  struct Best {
    f32 value;
    u32 expert;
  };
  // take() takes the greatest logit that is left, that of the lowest expert on ties.
  MK_INLINE Best take() {
    u32x16 best = key[0], at = 0;
    for (u32 i = 1; i < vectors; ++i) {
      at = key[i] > best ? u32x16(i) : at;
      best = __builtin_elementwise_max(best, key[i]);
    }
    const u32 greatest = __builtin_reduce_max(best);
    const u32 expert =
        __builtin_reduce_min(best == greatest ? at * kVector + kLane : u32x16(kMaxExperts - 1));
    const u32x16 chosen = u32x16(expert % kVector);
    key[expert / kVector] = kLane == chosen ? u32x16(0) : key[expert / kVector];
    const u32 bits = greatest >> 31 ? greatest & 0x7fffffffu : ~greatest;
    return {as_f32(bits), expert};
  }

  // total() is the sum of the weights of all experts.
  MK_INLINE f32 total(f32 greatest) const {
    f32x16 sum = all_lanes(0);
    for (u32 i = 0; i < vectors; ++i) sum += exp2_of<f32x16, u32x16>((value[i] - greatest) * kLog2E);
    return sum_of(sum);
  }
};

// choose() finds a token's choices and their routing weights, of a softmax over all experts. The weights are
// NaN if some logit is.
MK_INLINE void choose(const RouteArgs& a, RouteScratch& s, u32 token) {
  Logits logits(plain(a.logits) + token * a.experts, a.experts);
  f32* routing_weight = plain(a.routing_weight) + token * a.top_k;
  f32 chosen = 0, greatest = 0;
  f32 weight[kMaxTopK];
  for (u32 i = 0; i < a.top_k; ++i) {
    const Logits::Best best = logits.take();
    if (i == 0) greatest = best.value;
    weight[i] = exp2_of<f32, u32>((best.value - greatest) * kLog2E);
    chosen += weight[i];
    s.chosen[token * a.top_k + i] = (uint16_t)best.expert;
    ++s.rows[best.expert];
  }
  const f32 all = (a.norm_topk ? chosen : logits.total(greatest)) + sum_of(logits.nans);
  for (u32 i = 0; i < a.top_k; ++i) routing_weight[i] = weight[i] / all;
}

}  // namespace

MK_BODY void mkb_route(Worker* w, const RouteArgs* a) {
  RouteScratch& s = *(RouteScratch*)scratch_of(*w);
  for (u32 e = 0; e < a->experts; ++e) s.rows[e] = 0;
  for (u32 token = 0; token < a->tokens; ++token) choose(*a, s, token);
  u32 active_experts = 0, begin = 0;
  for (u32 e = 0; e < a->experts; ++e) {
    s.next[e] = begin;
    if (s.rows[e] == 0) continue;
    plain(a->expert)[active_experts] = e;
    plain(a->active_expert_rows)[active_experts] = s.rows[e];
    plain(a->active_expert_begin)[active_experts] = begin;
    ++active_experts;
    begin += s.rows[e];
  }
  *plain(a->active_experts) = active_experts;
  for (u32 token = 0; token < a->tokens; ++token)
    for (u32 i = token * a->top_k; i < (token + 1) * a->top_k; ++i) {
      const u32 row = s.next[s.chosen[i]]++;
      plain(a->token)[row] = token;
      plain(a->row)[i] = row;
    }
}

}  // namespace mk
