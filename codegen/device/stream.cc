// The loader brings the weights of products. Strips of packed weights go through the ring in the order in
// which the consumers take them (runtime/abi/packing.h).
#include "codegen/device/bodies.h"
#include "codegen/device/loaders.h"

namespace mk {
namespace {

// StreamedStrips is a block of strips [first, first + count) of a packed weight. `tiles` are the tiles of a
// strip, of `full_bytes` bytes each, and `tail_bytes` the bytes of its last tile with scales. The block
// passes through the ring `passes` times. `part` is the part of the K slices that passes, of `split_k` parts.
struct StreamedStrips {
  u32 first, count, tiles, full_bytes, tail_bytes, passes = 1, part = 0, split_k = 1;
  u64 policy = 0;  // policy of L2 (mk_l2_policy)
  MK_INLINE u32 tile_bytes(u32 tile) const { return tile + 1 == tiles ? tail_bytes : full_bytes; }
  MK_INLINE u64 bytes() const { return (u64)(tiles - 1) * full_bytes + tail_bytes; }  // bytes of a strip
  MK_INLINE u32 k_slice_bytes(u32 tile) const { return tile_bytes(tile) / kKSlices; }
};

MK_INLINE u32 passes_of(u32 tokens, u32 group) {
  return (tokens + group - 1) / group;
}

// fill_stage() fills the next stage with `bytes` bytes, once it is free. copy(stage_index) issues the copies.
// The result is false once the launch is over.
template <class Loader, class Copy>
MK_INLINE bool fill_stage(Worker& w, u32 bytes, const Copy& copy) {
  if (!wait_free_stage(w)) return false;
  const u32 stage_index = w.stages_acquired % w.stages;
  Loader::begin(w, stage_index, bytes);
  copy(stage_index);
  Loader::end(w, stage_index);
  ++w.stages_acquired;
  return true;
}

// load_stage() fills a stage with `count` pieces of `bytes` bytes each, which lie `stride` bytes apart.
template <class Loader>
MK_INLINE bool load_stage(Worker& w, AS1 const char* from, u32 bytes, u32 count, u64 stride, u64 policy) {
  return fill_stage<Loader>(w, count * bytes, [&](u32 stage_index) {
    for (u32 i = 0; i < count; ++i, from += stride)
      Loader::copy(w, stage_index, i * bytes, from, bytes, policy);
  });
}

// stream_tiles() streams every tile of the strips, pass by pass. A stage holds one tile. A stage of a split
// product holds the part's bytes of one tile from each of `split_k` strips. The result is false once the
// launch is over.
template <class Loader>
MK_INLINE bool stream_tiles(Worker& w, AS1 const char* weights, const StreamedStrips& strips) {
  bool goes_on = true;
  for (u32 pass = 0; goes_on && pass < strips.passes; ++pass)
    for (u32 tile = 0; goes_on && tile < strips.tiles; ++tile) {
      const u32 bytes = strips.tile_bytes(tile) / strips.split_k;
      AS1 const char* from =
          weights + strips.first * strips.bytes() + (u64)tile * strips.full_bytes + strips.part * bytes;
      for (u32 strip = 0; goes_on && strip < strips.count; strip += strips.split_k) {
        goes_on = load_stage<Loader>(w, from, bytes, min(strips.split_k, strips.count - strip),
                                     strips.bytes(), strips.policy);
        from += strips.split_k * strips.bytes();
      }
    }
  return goes_on;
}

// lend_stage() leaves a stage to the consumers once it is free. The result is false once the launch is over.
MK_INLINE bool lend_stage(Worker& w) {
  if (!wait_free_stage(w)) return false;
  if (w.lane() == 0) mk_mbar_arrive(w.full(w.stages_acquired % w.stages));
  ++w.stages_acquired;
  return true;
}

// load_tile_slices() fills a stage with a K slice's tile slices of `together` tiles from `tile` on, of all
// strips.
template <class Loader>
MK_INLINE bool load_tile_slices(Worker& w, AS1 const char* weights, const StreamedStrips& strips, u32 k_slice,
                                u32 tile, u32 together) {
  const u32 last = strips.k_slice_bytes(tile + together - 1);
  const u32 all = strips.count * ((together - 1) * strips.full_bytes / kKSlices + last);
  return fill_stage<Loader>(w, all, [&](u32 stage_index) {
    for (u32 i = tile, at = 0; i < tile + together; ++i) {
      const u32 bytes = strips.k_slice_bytes(i);
      AS1 const char* from =
          weights + strips.first * strips.bytes() + (u64)i * strips.full_bytes + k_slice * bytes;
      for (u32 strip = 0; strip < strips.count; ++strip, at += bytes, from += strips.bytes())
        Loader::copy(w, stage_index, at, from, bytes, strips.policy);
    }
  });
}

// stream_k_slices() streams strips for Mma64 and Wgmma128, K slice by K slice. A stage has the
// tile slices of as many tiles as there is room for. `lends` is set for Wgmma128: a stage has one tile slice
// of each strip, and a stage for activations follows.
template <class Loader>
MK_INLINE bool stream_k_slices(Worker& w, AS1 const char* weights, const StreamedStrips& strips, bool lends) {
  const u32 k_slices = kKSlices / strips.split_k, max = lends ? 1 : mma64_tiles(strips.count);
  bool goes_on = true;
  for (u32 turn = 0; goes_on && turn < strips.passes * k_slices; ++turn) {
    const u32 k_slice = strips.part * k_slices + turn % k_slices;
    for (u32 tile = 0, together; goes_on && tile < strips.tiles; tile += together) {
      together = min(strips.tiles - tile, max);
      goes_on =
          load_tile_slices<Loader>(w, weights, strips, k_slice, tile, together) && (!lends || lend_stage(w));
    }
  }
  return goes_on;
}

// stream_product() streams strips block after block, in blocks of at most `max` strips. `expert` tells
// whether the tokens are rows of an expert.
template <class Loader>
MK_INLINE void stream_product(Worker& w, AS1 const char* weights, StreamedStrips strips, u32 max, u32 tokens,
                              WeightType type, u32 wgmma_from, bool expert) {
  const u32 end = strips.first + strips.count;
  for (bool goes_on = true; goes_on && strips.first < end; strips.first += strips.count) {
    strips.count = min(end - strips.first, max);
    const ProductVariant variant = product_variant(tokens, type, expert ? kExpert : strips.count, wgmma_from);
    strips.passes = passes_of(tokens, group_tokens(variant));
    strips.policy = Loader::policy(strips.passes == 1);
    goes_on = variant >= ProductVariant::kMma64
                  ? stream_k_slices<Loader>(w, weights, strips, variant == ProductVariant::kWgmma128)
                  : stream_tiles<Loader>(w, weights, strips);
  }
}

// stream_tasks() streams tasks [first, first + count) of a product. The tasks of a split product are all
// strips of one part, then all strips of the next part.
template <class Loader>
MK_INLINE void stream_tasks(Worker& w, AS1 const char* weights, const ProductArgs& a, WeightType type,
                            u32 first, u32 count) {
  const WeightFormat format = weight_format(type);
  const u32 full_bytes = full_tile_bytes(format), tail_bytes = last_tile_bytes(format, a.tail_cols),
            tokens = same_in_lanes(a.tokens);
  const u32 max = block_strips(tokens, type, a.mma64_strips);
  for (u32 task = first, together; task < first + count; task += together) {
    const u32 part = a.streamed_split_k == 1 ? 0 : task / a.strips, strip = task - part * a.strips;
    together = min(first + count - task, a.streamed_split_k == 1 ? count : a.strips - strip);
    stream_product<Loader>(w, weights,
                           {strip, together, a.tiles, full_bytes, tail_bytes, 1, part, a.streamed_split_k},
                           max, tokens, type, a.streamed_split_k == 1 ? a.wgmma_from : 0, false);
  }
}

// stream_experts() streams tasks [first, first + count) of a grid over blocks of strips and active experts.
// Each task multiplies an active expert's rows with a block of its strips. The lookup of route's results must
// come before, because this function reads them.
template <class Loader>
MK_INLINE void stream_experts(Worker& w, AS1 const char* weights, const ExpertArgs& a, u32 active_experts,
                              WeightType type, u32 first, u32 count) {
  const ProductArgs& p = a.product;
  const WeightFormat format = weight_format(type);
  const u32 full_bytes = full_tile_bytes(format), tail_bytes = last_tile_bytes(format, p.tail_cols);
  const u64 expert_bytes = p.strips * ((u64)(p.tiles - 1) * full_bytes + tail_bytes);
  for (u32 task = first; task < first + count && !mk_warp_any(w.gave_up()); ++task) {
    const u32 active_expert = task % active_experts,
              rows = same_in_lanes(a.active_expert_rows[active_expert]),
              strip = task / active_experts * a.strips;
    const u32 strips = min(a.strips, p.strips - strip);
    stream_product<Loader>(w, weights + a.expert[active_expert] * expert_bytes,
                           {strip, strips, p.tiles, full_bytes, tail_bytes}, format.block_strips, rows, type,
                           0, true);
  }
}

}  // namespace

// mkd_stream_bulk() and mkd_stream_experts_bulk() bring strips of a packed weight through the ring by the
// copy engine. The loader waits for free stages only.
MK_BODY void mkd_stream_bulk(Worker* w, AS1 const char* weights, const ProductArgs* a, WeightType type,
                             u32 first, u32 count) {
  stream_tasks<Bulk>(*w, weights, *a, type, first, count);
}
MK_BODY void mkd_stream_experts_bulk(Worker* w, AS1 const char* weights, const ExpertArgs* a,
                                     u32 active_experts, WeightType type, u32 first, u32 count) {
  stream_experts<Bulk>(*w, weights, *a, active_experts, type, first, count);
}

// mkd_stream_async() and mkd_stream_experts_async() serve targets without a copy engine.
MK_BODY void mkd_stream_async(Worker* w, AS1 const char* weights, const ProductArgs* a, WeightType type,
                              u32 first, u32 count) {
  stream_tasks<Async>(*w, weights, *a, type, first, count);
}
MK_BODY void mkd_stream_experts_async(Worker* w, AS1 const char* weights, const ExpertArgs* a,
                                      u32 active_experts, WeightType type, u32 first, u32 count) {
  stream_experts<Async>(*w, weights, *a, active_experts, type, first, count);
}

}  // namespace mk
