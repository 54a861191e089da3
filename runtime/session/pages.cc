#include "runtime/session/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace mkrt {
namespace {

constexpr uint32_t kPageWordBits = 64;

}  // namespace

PagePool::PagePool(uint32_t page_size, uint32_t pages)
    : page_size_(page_size),
      pages_(pages),
      available_(pages),
      free_((pages + kPageWordBits - 1) / kPageWordBits, ~0ull) {
  if (pages % kPageWordBits) free_.back() = (1ull << pages % kPageWordBits) - 1;
}

Result<PagePool> PagePool::create(uint32_t page_size, uint64_t pages) {
  if (page_size != 16 && page_size != 32 && page_size != 64)
    return Error{fmt::format("page_size: error: found {}, supported: 16, 32, 64", page_size)};
  constexpr uint64_t kMax = std::numeric_limits<int32_t>::max();
  if (pages < 1 || pages > kMax)
    return Error{fmt::format("pages: error: found {}, expected 1 to {}", pages, kMax)};
  return PagePool(page_size, static_cast<uint32_t>(pages));
}

Status PagePool::allocate(uint64_t count, std::vector<int32_t>& to) {
  if (count > available_)
    return Error{fmt::format("pages: error: {} are needed, {} of {} are free", count, available_, pages_)};
  available_ -= static_cast<uint32_t>(count);
  for (; count > 0; --count) {
    while (free_[lowest_] == 0) ++lowest_;
    uint64_t& word = free_[lowest_];
    to.push_back(static_cast<int32_t>(lowest_ * kPageWordBits + static_cast<size_t>(std::countr_zero(word))));
    word &= word - 1;
  }
  return {};
}

Status PagePool::release(std::span<const int32_t> pages) {
  for (const int32_t page : pages) {
    if (page < 0 || static_cast<uint32_t>(page) >= pages_)
      return Error{fmt::format("pages: error: page {} is released, expected 0 to {}", page, pages_ - 1)};
    const size_t at = static_cast<size_t>(page) / kPageWordBits;
    const uint64_t bit = 1ull << static_cast<size_t>(page) % kPageWordBits;
    if (free_[at] & bit) return Error{fmt::format("pages: error: page {} is released, but is free", page)};
    free_[at] |= bit;
    lowest_ = std::min(lowest_, at);
    ++available_;
  }
  return {};
}

}  // namespace mkrt
