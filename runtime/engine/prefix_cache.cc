#include "runtime/engine/prefix_cache.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>

namespace mkrt {

uint64_t hash_page(uint64_t parent, std::span<const int32_t> tokens) {
  return XXH3_64bits_withSeed(tokens.data(), tokens.size_bytes(), parent);
}

PrefixCache::PrefixCache(uint32_t page_size, uint32_t pages, PageHash hash)
    : page_size_(page_size),
      hash_(hash),
      entries_(pages),
      tokens_(size_t{pages} * page_size),
      buckets_(std::bit_ceil(size_t{pages}), kNoPage) {}

int32_t PrefixCache::find(int32_t parent, std::span<const int32_t> tokens) const {
  const uint64_t hash = hash_of(parent, tokens);
  int32_t page = buckets_[hash & (buckets_.size() - 1)];
  while (page != kNoPage && !(entry(page).hash == hash && entry(page).parent == parent &&
                              std::ranges::equal(tokens_of(page), tokens)))
    page = entry(page).next;
  return page;
}

void PrefixCache::insert(int32_t page, int32_t parent, std::span<const int32_t> tokens) {
  const uint64_t hash = hash_of(parent, tokens);
  int32_t& first = buckets_[hash & (buckets_.size() - 1)];
  entries_[static_cast<size_t>(page)] = {hash, parent, first, true};
  std::ranges::copy(tokens, tokens_of(page).begin());
  first = page;
}

void PrefixCache::erase(int32_t page) {
  Entry& erased = entries_[static_cast<size_t>(page)];
  int32_t* link = &buckets_[erased.hash & (buckets_.size() - 1)];
  while (*link != page) link = &entries_[static_cast<size_t>(*link)].next;
  *link = erased.next;
  erased = {};
}

uint64_t PrefixCache::hash_of(int32_t parent, std::span<const int32_t> tokens) const {
  return hash_(parent == kNoPage ? 0 : entry(parent).hash, tokens);
}

std::span<int32_t> PrefixCache::tokens_of(int32_t page) {
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_size_, page_size_);
}

std::span<const int32_t> PrefixCache::tokens_of(int32_t page) const {
  return std::span(tokens_).subspan(static_cast<size_t>(page) * page_size_, page_size_);
}

}  // namespace mkrt
