// Where keys and values lie in device memory: pages of a fixed number of positions, all layers alike.
#pragma once

#include <span>
#include <vector>

#include "runtime/artefact/manifest.h"

namespace mkrt {

// How one page of a layer is laid out, from the outer to the inner dim; elements of a head lie together.
enum class CacheForm : uint8_t {
  kNhd,     // position, head
  kHnd,     // head, position
  kPacked,  // position, head, keys and then values: both caches of a layer lie in one piece of memory
};

// Bytes from one to the next, the same for every cache of a model.
struct CacheStrides {
  uint64_t page = 0, position = 0, head = 0;
  bool operator==(const CacheStrides&) const = default;
};

// The caches of a model in device memory, which belongs to whoever allocated it.
struct CacheSpace {
  uint32_t page_size = 16;  // positions: 16, 32 or 64
  uint32_t pages = 0;
  CacheStrides strides;
  std::vector<uint64_t> base;  // first byte of each cache, in the manifest's order
};

Status check_page_size(uint32_t positions);  // 16, 32 or 64

// Errors: a page size other than 16, 32 or 64, strides that let elements overlap or are not multiples of the
// 16 bytes that the kernel loads at a time (of less where a head's vector is no multiple of that), a number
// of addresses other than the model's caches, caches of different shapes.
Status check_cache(const Manifest& manifest, const CacheSpace& space);

// A scale for each head of each cache, [caches, heads]: of e4m3 caches only, positive and finite.
Status check_scales(const Manifest& manifest, std::span<const float> scales);

// Bytes of keys and values that a request has for each position, over all layers.
uint64_t position_bytes(const Manifest& manifest);

// Strides of a form, and the bytes of all pages of one piece of memory: one cache, or with kPacked one layer.
// Requires a manifest whose caches are alike.
CacheStrides cache_strides(const Manifest& manifest, CacheForm form, uint32_t page_size);
uint64_t cache_piece_bytes(const Manifest& manifest, CacheForm form, uint32_t page_size, uint32_t pages);

// Gives each cache its address in pieces that lie one after the other from `memory` on.
CacheSpace place_caches(const Manifest& manifest, CacheForm form, uint32_t page_size, uint32_t pages,
                        uint64_t memory);

}  // namespace mkrt
