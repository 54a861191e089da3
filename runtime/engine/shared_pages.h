// Several requests may read one page of a cache.
#pragma once

#include <optional>

#include "runtime/engine/prefix_cache.h"
#include "runtime/session/pages.h"

namespace mkrt {

// SharedPages hands out the pages of a pool and counts the users of each. With a prefix cache, a page that
// has lost its last user keeps its tokens until another request needs a page. The page that was used least
// recently then loses them.
//
// A page loses its tokens before its parent does: whoever uses a page uses its parents, too, and gives them
// back later.
class SharedPages {
 public:
  SharedPages(PagePool pool, std::optional<PrefixCache> cache);

  uint32_t page_size() const { return pool_.page_size(); }
  uint32_t pages() const { return pool_.pages(); }
  // Returns how many pages nobody uses, with and without tokens.
  uint32_t available() const { return pool_.available() + unused_; }
  bool caches() const { return cache_.has_value(); }

  // Appends `count` pages with one user each: free ones, lowest first, then those whose tokens were used
  // least recently. Errors: fewer pages are available; nothing has changed then.
  Status allocate(uint64_t count, std::vector<int32_t>& to);

  // Appends the pages that hold the longest prefix of `tokens`, in order. Their users stay as they are.
  void find(std::span<const int32_t> tokens, std::vector<int32_t>& to) const;

  // Returns how many of these pages have no user.
  uint32_t unused(std::span<const int32_t> pages) const;

  // Adds a user to pages that hold tokens.
  void share(std::span<const int32_t> pages);

  // Keeps the tokens of a full page behind those of `parent` (kNoPage: none). Returns the page that its user
  // has from now on. That is another page where one holds these tokens already; `page` is then free.
  //
  // Requires a prefix cache, a page that has one user and holds no tokens, and that its user uses `parent`.
  // Errors: those of the pool, by a bug only.
  Result<int32_t> keep(int32_t page, int32_t parent, std::span<const int32_t> tokens);

  // Takes a user from each page; the last page is the first to lose its tokens. Errors: a page that is not of
  // the pool, or has no user.
  Status release(std::span<const int32_t> pages);

 private:
  // A page without user that holds tokens is in a list, the least recently used one first.
  struct Link {
    int32_t before = kNoPage, after = kNoPage;
  };
  Link& link(int32_t page) { return links_[static_cast<size_t>(page)]; }
  void append(int32_t page);
  void unlink(int32_t page);

  PagePool pool_;
  std::optional<PrefixCache> cache_;
  std::vector<uint32_t> users_;  // by page
  std::vector<Link> links_;      // by page; the last entry closes the list to a ring
  uint32_t unused_ = 0;          // pages of the list
};

}  // namespace mkrt
