// The prefix cache knows which pages of a cache hold which tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace mkrt {

constexpr int32_t kNoPage = -1;

// Hashes the tokens of a page and the hash of its parent. hash_page() is XXH3-64.
using PageHash = uint64_t (*)(uint64_t parent, std::span<const int32_t> tokens);
uint64_t hash_page(uint64_t parent, std::span<const int32_t> tokens);

// PrefixCache is a tree of full pages. The parent of a page holds the tokens before its own; a page without
// parent holds the first tokens of a request.
//
// A page is looked up by its hash. The tokens themselves and the parent are then compared, so that different
// tokens of equal hashes are told apart. No call but the constructor allocates memory.
class PrefixCache {
 public:
  // Holds pages 0 to pages - 1 of `page_size` tokens each.
  PrefixCache(uint32_t page_size, uint32_t pages, PageHash hash = hash_page);

  // Returns the page that holds these page_size tokens behind those of `parent`, or kNoPage. The parent of
  // first pages is kNoPage.
  int32_t find(int32_t parent, std::span<const int32_t> tokens) const;

  bool holds(int32_t page) const { return entry(page).held; }

  // Adds a page. Requires that find() finds none with these tokens, and that the tree holds the parent but
  // not the page.
  void insert(int32_t page, int32_t parent, std::span<const int32_t> tokens);

  // Removes a page. Requires that the tree holds it, and that it is nobody's parent.
  void erase(int32_t page);

 private:
  struct Entry {
    uint64_t hash = 0;
    int32_t parent = kNoPage;
    int32_t next = kNoPage;  // page of the same bucket
    bool held = false;
  };
  const Entry& entry(int32_t page) const { return entries_[static_cast<size_t>(page)]; }
  uint64_t hash_of(int32_t parent, std::span<const int32_t> tokens) const;
  std::span<int32_t> tokens_of(int32_t page);
  std::span<const int32_t> tokens_of(int32_t page) const;

  uint32_t page_size_;
  PageHash hash_;
  std::vector<Entry> entries_;    // by page
  std::vector<int32_t> tokens_;   // [pages, page_size]
  std::vector<int32_t> buckets_;  // first page of each; a power of two of them
};

}  // namespace mkrt
