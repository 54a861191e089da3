// Route decides which experts each token of a step goes to, and which tokens each expert gets.
#include "codegen/device/bodies.h"

namespace mk {

namespace {

constexpr u32 kNone = 0xffffffffu;
constexpr u32 kLaneLogits = kMaxExperts / kWarpLanes;
constexpr f32 kLog2E = 1.4426950408889634f;

// Tokens go to warps in turn: token t is the t / 8-th of warp t % 8.
constexpr u32 kRounds = kMaxTokens / kConsumerWarps;

struct Scratch {
  AS3 u32* chosen;  // [expert][warp]: bit i: the i-th token of the warp goes there
  AS3 u32* count;   // [expert]: its tokens, plus kOneActive if it has some
  AS3 u32* begin;   // [expert]: sum of `count` before it in its group of 32; later, where its tokens begin
  AS3 u32* group;   // [group of 32 experts]: the sum of their `count`
  MK_INLINE explicit Scratch(const Worker& w)
      : chosen((AS3 u32*)w.scratch()),
        count(chosen + kMaxExperts * kConsumerWarps),
        begin(count + kMaxExperts),
        group(begin + kMaxExperts) {}
};
constexpr u32 kOneActive = 1 << 16;
static_assert(kRounds <= 32 && kMaxTokens * kMaxTopK < kOneActive && kMaxExperts < (1 << 16));
static_assert((kMaxExperts * (kConsumerWarps + 2) + kMaxExperts / kWarpLanes) * 4 <= kScratchBytes);
static_assert(kWarpLanes * (kOneActive + kMaxTokens) <= 1 << 24 && kMaxTopK <= kWarpLanes);

// Logits are one token's logits in a warp: value[i] of a lane is that of expert i * 32 + lane. NaN counts as
// the least logit, so that the choices are experts.
struct Logits {
  f32 value[kLaneLogits];
  f32 nan = 0;   // a logit of the lane that is NaN, or 0
  u32 open = 0;  // bit i: expert i * 32 + lane exists and is not chosen
  MK_INLINE Logits(AS1 const f32* logits, u32 experts, u32 lane) {
    MK_UNROLL
    for (u32 i = 0; i < kLaneLogits; ++i) {
      const u32 e = i * kWarpLanes + lane;
      const f32 v = e < experts ? logits[e] : 0;
      value[i] = v == v ? v : -__builtin_inff();
      nan = v == v ? nan : v;
      if (e < experts) open |= 1u << i;
    }
  }

  struct Best {
    f32 value;
    u32 expert;
  };
  // take() takes the greatest open logit of the warp, that of the lowest expert on ties. All lanes get it.
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

// choose() finds a token's choices and their routing weights, of a softmax over all experts. The weights are
// NaN if some logit is. The caller is one warp. `row` holds the chosen experts until mkb_route() overwrites
// them.
MK_INLINE void choose(const RouteArgs& a, const Scratch& s, u32 token, u32 lane) {
  Logits logits(a.logits + token * a.experts, a.experts, lane);
  f32 all = 0, chosen = 0, greatest = 0, mine = 0;  // `mine` and `expert` of lane i are of choice i
  u32 expert = 0;
  for (u32 i = 0; i < a.top_k; ++i) {
    const Logits::Best best = logits.take(lane);
    if (i == 0) {
      greatest = best.value;
      all = logits.nan;
      MK_UNROLL
      for (u32 j = 0; j < kLaneLogits; ++j)
        if (j * kWarpLanes + lane < a.experts) all += mk_exp2((logits.value[j] - greatest) * kLog2E);
      all = mk_warp_sum(all);
    }
    const f32 weight = mk_exp2((best.value - greatest) * kLog2E);
    chosen += weight;
    if (lane == i) mine = weight, expert = best.expert;
    if (lane == 0)
      s.chosen[best.expert * kConsumerWarps + token % kConsumerWarps] |= 1u << token / kConsumerWarps;
  }
  if (lane >= a.top_k) return;
  a.row[token * a.top_k + lane] = expert;
  a.routing_weight[token * a.top_k + lane] = mine * mk_rcp(a.norm_topk && all == all ? chosen : all);
}

// count_tokens() counts all tokens of an expert. count_before() counts those before `token`.
MK_INLINE u32 count_tokens(const Scratch& s, u32 expert) {
  u32 count = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i)
    count += (u32)__builtin_popcount(s.chosen[expert * kConsumerWarps + i]);
  return count;
}
MK_INLINE u32 count_before(const Scratch& s, u32 expert, u32 token) {
  const u32 round = token / kConsumerWarps, earlier = (1u << round) - 1, now = 1u << round;
  u32 count = 0;
  for (u32 i = 0; i < kConsumerWarps; ++i) {
    const u32 rounds = i < token % kConsumerWarps ? earlier | now : earlier;
    count += (u32)__builtin_popcount(s.chosen[expert * kConsumerWarps + i] & rounds);
  }
  return count;
}

// count_group() counts the tokens of a group's experts: those before each expert, and all. The caller is one
// warp. Shuffles take floats; all counts are whole numbers below 2^24, so floats are exact.
MK_INLINE void count_group(const RouteArgs& a, const Scratch& s, u32 group, u32 lane) {
  const u32 expert = group * kWarpLanes + lane, tokens = expert < a.experts ? count_tokens(s, expert) : 0,
            count = tokens == 0 ? 0 : kOneActive + tokens;
  f32 before = 0, all = (f32)count;  // sums over the lanes that share lane / (2 * mask)
  MK_UNROLL
  for (u32 mask = 1; mask < kWarpLanes; mask *= 2) {
    const f32 others = mk_shuffle_xor(all, mask);
    if ((lane & mask) != 0) before += others;
    all += others;
  }
  s.count[expert] = count;
  s.begin[expert] = (u32)before;
  if (lane == 0) s.group[group] = (u32)all;
}

// number_expert() numbers an expert among the active ones, behind the active experts before it. The caller is
// one thread for each expert.
MK_INLINE void number_expert(const RouteArgs& a, const Scratch& s, u32 expert) {
  u32 before = s.begin[expert];
  for (u32 group = 0; group < expert / kWarpLanes; ++group) before += s.group[group];
  const u32 active_expert = before / kOneActive, begin = before % kOneActive,
            rows = s.count[expert] % kOneActive;
  s.begin[expert] = begin;
  if (rows != 0) {
    a.expert[active_expert] = expert;
    a.active_expert_rows[active_expert] = rows;
    a.active_expert_begin[active_expert] = begin;
  }
  if (expert + 1 == a.experts) *a.active_experts = active_expert + (rows != 0);
}

}  // namespace

MK_BODY void mkb_route(Worker* w, const RouteArgs* a) {
  const Scratch s(*w);
  for (u32 i = w->thread; i < a->experts * kConsumerWarps; i += kConsumerThreads) s.chosen[i] = 0;
  consumer_barrier();
  for (u32 token = w->warp(); token < a->tokens; token += kConsumerWarps) choose(*a, s, token, w->lane());
  consumer_barrier();
  for (u32 group = w->warp(); group * kWarpLanes < a->experts; group += kConsumerWarps)
    count_group(*a, s, group, w->lane());
  consumer_barrier();
  for (u32 e = w->thread; e < a->experts; e += kConsumerThreads) number_expert(*a, s, e);
  consumer_barrier();
  const u32 pairs = a->tokens * a->top_k;
  for (u32 pair = w->thread; pair < pairs; pair += kConsumerThreads) {
    // Workers that ran ahead after a fault may have overwritten the choices.
    const u32 token = pair / a->top_k, expert = min(a->row[pair], a->experts - 1);
    const u32 row = min(s.begin[expert] + count_before(s, expert, token), pairs - 1);
    a->token[row] = token;
    a->row[pair] = row;
  }
}

}  // namespace mk
