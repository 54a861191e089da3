// Route: which experts each token of a step goes to, and which tokens each expert gets.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kNone = 0xffffffffu;
constexpr u32 kLaneLogits = kMaxExperts / kWarpLanes;
constexpr f32 kLog2E = 1.4426950408889634f;

struct Scratch {
  AS3 u32* count;        // [expert]: its pairs
  AS3 uint16_t* choice;  // [pair]: its expert
  MK_INLINE explicit Scratch(const Worker& w)
      : count((AS3 u32*)w.scratch()), choice((AS3 uint16_t*)(count + kMaxExperts)) {}
};
static_assert(kMaxExperts * 4 + kMaxTokens * kMaxTopK * 2 <= kScratchBytes);

// One token's logits in a warp: expert i * 32 + lane. What is no number counts as the least.
struct Logits {
  f32 value[kLaneLogits];
  u32 open = 0;  // bit i: expert i * 32 + lane exists and is not chosen
  MK_INLINE Logits(AS1 const f32* logits, u32 experts, u32 lane) {
    MK_UNROLL
    for (u32 i = 0; i < kLaneLogits; ++i) {
      const u32 e = i * kWarpLanes + lane;
      const f32 v = e < experts ? logits[e] : 0;
      value[i] = v == v ? v : -__builtin_inff();
      if (e < experts) open |= 1u << i;
    }
  }

  struct Best {
    f32 value;
    u32 expert;
  };
  // Takes the greatest open logit of the warp, the lowest expert on ties. All lanes get it.
  MK_INLINE Best take(u32 lane) {
    f32 best = -__builtin_inff();
    u32 at = kNone;
    MK_UNROLL
    for (u32 i = 0; i < kLaneLogits; ++i)
      if ((open >> i & 1) != 0 && (at == kNone || value[i] > best)) best = value[i], at = i;
    const f32 greatest = mk_warp_max(best);
    const f32 mine = at != kNone && best == greatest ? -(f32)(at * kWarpLanes + lane) : -(f32)kMaxExperts;
    const u32 expert = (u32)-mk_warp_max(mine);
    if (expert % kWarpLanes == lane) open &= ~(1u << expert / kWarpLanes);
    return {greatest, expert};
  }
};

// One warp: the token's choices and shares, of a softmax over all experts.
MK_INLINE void choose(const RouteArgs& a, const Scratch& s, u32 token, u32 lane) {
  Logits logits(a.logits + token * a.experts, a.experts, lane);
  f32 all = 0, chosen = 0, greatest = 0;
  for (u32 i = 0; i < a.top_k; ++i) {
    const Logits::Best best = logits.take(lane);
    if (i == 0) {
      greatest = best.value;
      MK_UNROLL
      for (u32 j = 0; j < kLaneLogits; ++j)
        if (j * kWarpLanes + lane < a.experts) all += mk_exp2((logits.value[j] - greatest) * kLog2E);
      all = mk_warp_sum(all);
    }
    const f32 weight = mk_exp2((best.value - greatest) * kLog2E);
    chosen += weight;
    if (lane == 0) {
      s.choice[token * a.top_k + i] = (uint16_t)best.expert;
      a.share[token * a.top_k + i] = weight;
    }
  }
  const f32 scale = mk_rcp(a.norm_topk ? chosen : all);
  if (lane == 0)
    for (u32 i = 0; i < a.top_k; ++i) a.share[token * a.top_k + i] *= scale;
}

// One thread for an expert: its slot, behind those of the experts before it, and its tokens.
MK_INLINE void fill_slot(const RouteArgs& a, const Scratch& s, u32 expert) {
  if (s.count[expert] == 0) return;
  u32 slot = 0, place = 0;
  for (u32 e = 0; e < expert; ++e) slot += s.count[e] != 0;
  a.expert[slot] = expert;
  a.count[slot] = s.count[expert];
  const u32 first = (slot % a.top_k * a.depth + slot / a.top_k) * a.tokens;
  for (u32 pair = 0; pair < a.tokens * a.top_k; ++pair)
    if (s.choice[pair] == expert) {
      const u32 row = first + place++;
      a.token[row] = pair / a.top_k;
      a.row[pair] = row;
    }
}

}  // namespace

MK_BODY void mkb_route(Worker* w, const RouteArgs* a) {
  const Scratch s(*w);
  for (u32 token = w->warp(); token < a->tokens; token += kConsumerWarps) choose(*a, s, token, w->lane());
  consumer_barrier();
  for (u32 e = w->thread; e < a->experts; e += kConsumerThreads) {
    u32 count = 0;
    for (u32 pair = 0; pair < a->tokens * a->top_k; ++pair) count += s.choice[pair] == e;
    s.count[e] = count;
  }
  consumer_barrier();
  u32 slots = 0;
  for (u32 e = 0; e < a->experts; ++e) slots += s.count[e] != 0;
  for (u32 e = w->thread; e < a->experts; e += kConsumerThreads) fill_slot(*a, s, e);
  for (u32 slot = slots + w->thread; slot < a->experts; slot += kConsumerThreads)
    a->expert[slot] = a->count[slot] = 0;
}

}  // namespace mk
