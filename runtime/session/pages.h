// The pages of a cache are free or in use.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace mkrt {

// Returns the number of pages that hold `positions` positions.
constexpr uint64_t pages_for(uint64_t positions, uint32_t page_size) {
  return (positions + page_size - 1) / page_size;
}

// PagePool holds the pages of one cache, each free or handed out. The lowest free page is handed out first,
// so that equal calls give equal pages.
class PagePool {
 public:
  // Returns a pool of free pages with `page_size` positions each. Errors: a size other than 16, 32 and 64; no
  // pages, or more than an int32 counts.
  static Result<PagePool> create(uint32_t page_size, uint64_t pages);

  uint32_t page_size() const { return page_size_; }
  uint32_t pages() const { return pages_; }
  uint32_t available() const { return available_; }  // free pages

  // Appends `count` pages to `to`. Errors: fewer pages are free; nothing has changed then.
  Status allocate(uint64_t count, std::vector<int32_t>& to);

  // Takes pages back. Errors: a page that is not of this pool, not handed out, or given twice. The pages
  // before it are free then.
  Status release(std::span<const int32_t> pages);

 private:
  PagePool(uint32_t page_size, uint32_t pages);

  uint32_t page_size_, pages_, available_;
  std::vector<uint64_t> free_;  // one bit per page
  size_t lowest_ = 0;           // no word before this one has a set bit
};

}  // namespace mkrt
