// Products that are split: tasks of a part leave the sums of its chains in memory, and whoever finishes a
// strip adds up all of them, in the order in which a product does.
#include "codegen/device/product_multiply.h"

namespace mk {

namespace {

// Of a chain, from a token on.
MK_INLINE AS1 f32* sums_of(const ProductArgs& a, u32 strip, u32 chain, u32 token) {
  return a.ends->sums + ((strip * kChains + chain) * a.tokens + token) * kStripRows;
}

template <class W, u32 Tokens, u32 Strips>
MK_INLINE void multiply_some(Worker& w, const ProductArgs& a, const ProductInput& in, u32 part, u32 strip,
                             u32 strips) {
  using Sums = Mma<W, Tokens / kFewTokens>;
  const ChainShare share(w, a, part, strips);
  const auto done = [&](u32 i, const Sums& sums) {
    const u32 of = strip + i * a.column_parts + share.side(w);
    sums.store(w.lane(), sums_of(a, of, share.chain(w), 0), a.tokens);
  };
  if constexpr (Tokens == kFewTokens)
    drain_chain<W, Sums, Strips>(w, a, in, 0, share, done);
  else
    drain_some<W, Sums, Strips>(w, a, in, share, done);
}

template <class W, u32 Strips>
MK_INLINE void multiply_many(Worker& w, const ProductArgs& a, const ProductInput& in, u32 part, u32 strip,
                             u32 strips) {
  const u32 chains = kChains / a.column_parts;
  MK_ROLLED
  for (u32 pass = 0; pass < a.tokens; pass += kManyTokens) {
    if (pass > 0) consumer_barrier();
    renew_thread(w);
    const ManyShare<Strips> share(w, least(a.tokens - pass, kManyTokens), strips);
    const u32 token = pass + share.token;
    drain_chains<W, Strips>(w, a, in, pass, strips, share, part * chains, chains,
                            [&](u32 chain, const Mma<W, 2>* sums) {
                              MK_UNROLL
                              for (u32 s = 0; s < ManyShare<Strips>::most; ++s) {
                                if (s >= share.count) continue;
                                const u32 of = strip + share.first + s * share.apart;
                                sums[s].store(w.lane(), sums_of(a, of, chain, token), a.tokens - token);
                              }
                            });
  }
}

template <class W>
MK_INLINE void multiply_part(Worker& w, const ProductArgs& a, u32 part, u32 strip, u32 strips) {
  const ProductInput in(w, a);
  constexpr u32 half = kBlockStrips / 2;  // as there are two parts at least
  if (a.tokens <= kFewTokens) return multiply_some<W, kFewTokens, half>(w, a, in, part, strip, strips);
  if (!is_many(a.tokens, W::bytes, strips)) {
    if (a.tokens <= kSomeTokens / 2)
      return multiply_some<W, kSomeTokens / 2, half>(w, a, in, part, strip, strips);
    return multiply_some<W, kSomeTokens, 1>(w, a, in, part, strip, strips);
  }
  if (a.many_strips == kManyStrips) return multiply_many<W, kManyStrips>(w, a, in, part, strip, strips);
  multiply_many<W, kBlockStrips>(w, a, in, part, strip, strips);
}

}  // namespace

MK_BODY void mkb_partial_bf16(Worker* w, const ProductArgs* a, u32 part, u32 strip, u32 strips) {
  multiply_part<Bf16>(*w, renewed(*a), part, strip, strips);
}
MK_BODY void mkb_partial_f16(Worker* w, const ProductArgs* a, u32 part, u32 strip, u32 strips) {
  multiply_part<F16>(*w, renewed(*a), part, strip, strips);
}

MK_BODY void mkb_finish(Worker* w, const ProductArgs* a, u32 strip, u32 strips) {
  const ProductInput in(*w, *a);
  if (a->ends->parts != 0) {
    consumer_barrier();  // others may still read those of the strips before
    mkb_product_squares(w, a);
  }
  const u32 entries = strips * a->tokens * kStripRows;
  for (u32 first = 0; first < entries; first += kConsumerThreads) {
    const u32 entry = first + w->thread, row = entry % kStripRows, token = entry / kStripRows % a->tokens,
              of = strip + entry / kStripRows / a->tokens;
    const bool there = entry < entries;
    const Beside beside = load_beside(*a, of, token, row, there);
    const auto sum = [&](u32 r) {
      f32 total = 0;
      MK_UNROLL
      for (u32 chain = 0; chain < kChains; ++chain) total += sums_of(*a, of, chain, token)[r];
      return total;
    };
    const f32 v = there ? finish(*a, of, token, row, in.scale_of(token), beside, sum) : 0;
    leave_next(*a, of, token, row, there, beside.norm, v);
  }
}

}  // namespace mk
