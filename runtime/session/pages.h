// Pages of a cache and who has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// How many pages of `page_size` positions hold that many positions.
constexpr uint64_t pages_for(uint64_t positions, uint32_t page_size) {
  return (positions + page_size - 1) / page_size;
}

// The pages of one cache, each free or handed out. The lowest free page goes first, so that the same calls
// give the same pages.
class PagePool {
 public:
  // `page_size`: positions in a page. Errors: a size other than 16, 32 and 64; no pages, or more than an
  // int32 counts.
  static Result<PagePool> create(uint32_t page_size, uint64_t pages);

  uint32_t page_size() const { return page_size_; }
  uint32_t pages() const { return pages_; }
  uint32_t available() const { return available_; }  // free pages

  // Appends `count` pages to `to`. Errors: fewer are free; nothing has changed then.
  Status allocate(uint64_t count, std::vector<int32_t>& to);

  // Takes pages back. Errors: one that is not of this pool, or not handed out, or given twice; those before
  // it are free then.
  Status release(std::span<const int32_t> pages);

 private:
  PagePool(uint32_t page_size, uint32_t pages);

  uint32_t page_size_, pages_, available_;
  std::vector<uint64_t> free_;  // a bit a page
  size_t lowest_ = 0;           // no word before this one has a bit
};

}  // namespace mkrt
