// Keys and values lie in device memory in pages of a fixed number of positions, alike in all layers.
#pragma once

#include <span>
#include <vector>

#include "runtime/artefact/manifest.h"

namespace mkrt {

// CacheForm is the order of the dims in one page of a layer, from the outer to the inner one. Elements of a
// head are contiguous.
enum class CacheForm : uint8_t {
  kNhd,     // position, head
  kHnd,     // head, position
  kPacked,  // position, head, keys then values: a layer's two caches share one piece of memory
};

// The strides are bytes from one page, position or head to the next. All caches of a model have equal
// strides.
struct CacheStrides {
  uint64_t page = 0, position = 0, head = 0;
  bool operator==(const CacheStrides&) const = default;
};

// CacheSpace describes a model's caches in device memory. The memory belongs to whoever allocated it.
struct CacheSpace {
  uint32_t page_size = 16;  // positions: 16, 32 or 64
  uint32_t pages = 0;
  CacheStrides strides;
  std::vector<uint64_t> base;  // first byte of each cache, in the manifest's order
};

Status check_page_size(uint32_t positions);  // 16, 32 or 64

// Checks a cache for the kernel. Errors:
// - a page size other than 16, 32 or 64, or a number of pages that no positive int32 holds
// - strides that let elements overlap
// - an address of 0, or strides or addresses that are not multiples of the kernel's loads of 16 bytes
// - a number of addresses other than the model's caches
// - caches of different shapes
//
// Multiples of fewer bytes suffice where the vector of a head is no multiple of 16 bytes.
Status check_cache(const Manifest& manifest, const CacheSpace& space);

// Checks the scales [caches, heads] of a model's caches. Scales must be positive and finite, and only e4m3
// caches may have them.
Status check_scales(const Manifest& manifest, std::span<const float> scales);

// Returns the bytes of keys and values that a request has for each position, over all layers.
uint64_t position_bytes(const Manifest& manifest);

// Returns the form that suits the manifest's target best. A processor reads the positions of a head one after
// the other, and its own prefetches follow only what lies together.
CacheForm best_form(const Manifest& manifest);

// cache_strides() returns the strides of a form. cache_piece_bytes() returns the bytes of all pages of one
// piece of memory: a cache, or with kPacked a layer. Both functions require a manifest whose caches are
// alike.
CacheStrides cache_strides(const Manifest& manifest, CacheForm form, uint32_t page_size);
uint64_t cache_piece_bytes(const Manifest& manifest, CacheForm form, uint32_t page_size, uint32_t pages);

// Returns caches whose pieces of memory lie one after the other from `memory` on.
CacheSpace place_caches(const Manifest& manifest, CacheForm form, uint32_t page_size, uint32_t pages,
                        uint64_t memory);

}  // namespace mkrt
