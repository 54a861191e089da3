#include "runtime/engine/prefix_cache.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/engine/shared_pages.h"

namespace mkrt {
namespace {

using Tokens = std::vector<int32_t>;

constexpr uint32_t kPageSize = 16;

// Returns `pages` pages of tokens, each page filled with one of `values`.
Tokens filled(std::initializer_list<int32_t> values) {
  Tokens tokens;
  for (const int32_t value : values) tokens.insert(tokens.end(), kPageSize, value);
  return tokens;
}

uint64_t same_hash(uint64_t, std::span<const int32_t>) {
  return 7;
}

TEST_CASE("a page is found by its tokens and its parent, also where all hashes collide") {
  for (const PageHash hash : {hash_page, same_hash}) {
    PrefixCache cache(kPageSize, 8, hash);
    CHECK(cache.find(kNoPage, filled({1})) == kNoPage);
    cache.insert(3, kNoPage, filled({1}));
    cache.insert(5, kNoPage, filled({2}));
    cache.insert(0, 3, filled({2}));
    cache.insert(7, 5, filled({1}));
    CHECK(cache.find(kNoPage, filled({1})) == 3);
    CHECK(cache.find(kNoPage, filled({2})) == 5);
    CHECK(cache.find(3, filled({2})) == 0);
    CHECK(cache.find(5, filled({1})) == 7);
    CHECK(cache.find(3, filled({1})) == kNoPage);
    CHECK(cache.find(0, filled({2})) == kNoPage);
    Tokens last = filled({2});
    last.back() = 3;
    CHECK(cache.find(3, last) == kNoPage);
    cache.erase(7);
    CHECK(!cache.holds(7));
    CHECK(cache.holds(5));
    CHECK(cache.find(5, filled({1})) == kNoPage);
    CHECK(cache.find(kNoPage, filled({2})) == 5);
  }
}

TEST_CASE("hashes differ with the tokens and with the parent") {
  CHECK(hash_page(0, filled({1})) != hash_page(0, filled({2})));
  CHECK(hash_page(0, filled({1})) != hash_page(1, filled({1})));
}

TEST_CASE("random insertions and removals match a map, however many hashes collide") {
  for (const PageHash hash : {hash_page, same_hash}) {
    std::mt19937 random(5);
    PrefixCache cache(kPageSize, 40, hash);
    std::map<std::pair<int32_t, int32_t>, int32_t> expected;  // page by parent and value of its tokens
    for (int turn = 0; turn < 20'000; ++turn) {
      const auto page = static_cast<int32_t>(random() % 40), value = static_cast<int32_t>(random() % 4);
      const auto parent = static_cast<int32_t>(random() % 41) - 1;
      const auto found = expected.find({parent, value});
      REQUIRE(cache.find(parent, filled({value})) == (found == expected.end() ? kNoPage : found->second));
      const bool parent_held = parent == kNoPage || cache.holds(parent);
      if (!cache.holds(page) && page != parent && parent_held && found == expected.end()) {
        cache.insert(page, parent, filled({value}));
        expected[{parent, value}] = page;
      } else if (cache.holds(page)) {
        const bool is_parent =
            std::ranges::any_of(expected, [&](const auto& e) { return e.first.first == page; });
        if (is_parent) continue;
        cache.erase(page);
        std::erase_if(expected, [&](const auto& e) { return e.second == page; });
      }
    }
    CHECK(!expected.empty());
  }
}

SharedPages pages_of(uint32_t pages, PageHash hash = hash_page) {
  return SharedPages(PagePool::create(kPageSize, pages).value(), PrefixCache(kPageSize, pages, hash));
}

// Allocates pages for full pages of tokens, and keeps those.
Tokens keep(SharedPages& pages, const Tokens& tokens) {
  Tokens to;
  REQUIRE(pages.allocate(tokens.size() / kPageSize, to).ok());
  for (size_t i = 0; i < to.size(); ++i)
    to[i] =
        pages.keep(to[i], i == 0 ? kNoPage : to[i - 1], std::span(tokens).subspan(i * kPageSize, kPageSize))
            .value();
  return to;
}

Tokens find(const SharedPages& pages, const Tokens& tokens) {
  Tokens found;
  pages.find(tokens, found);
  return found;
}

TEST_CASE("the longest prefix of full pages is found") {
  SharedPages pages = pages_of(8);
  const Tokens kept = keep(pages, filled({1, 2, 3}));
  CHECK(kept == Tokens{0, 1, 2});
  CHECK(find(pages, filled({1, 2, 3, 4})) == Tokens{0, 1, 2});
  CHECK(find(pages, filled({1, 2, 4, 3})) == Tokens{0, 1});
  CHECK(find(pages, filled({2, 2, 3})).empty());
  Tokens part = filled({1, 2});
  part.pop_back();
  CHECK(find(pages, part) == Tokens{0});
}

TEST_CASE("a page is available once its last user has given it back, and keeps its tokens until then") {
  SharedPages pages = pages_of(4);
  const Tokens kept = keep(pages, filled({1, 2}));
  pages.share(std::span(kept).first(1));
  CHECK(pages.available() == 2);
  CHECK(pages.unused(kept) == 0);
  REQUIRE(pages.release(kept).ok());
  CHECK(pages.available() == 3);
  CHECK(pages.unused(kept) == 1);
  REQUIRE(pages.release(std::span(kept).first(1)).ok());
  CHECK(pages.available() == 4);
  CHECK(find(pages, filled({1, 2})) == kept);
  pages.share(kept);
  CHECK(pages.available() == 2);
  Tokens further;
  CHECK(pages.allocate(3, further).error().message == "pages: error: 3 are needed, 2 of 4 are available");
  CHECK(further.empty());
  REQUIRE(pages.allocate(2, further).ok());
  CHECK(find(pages, filled({1, 2})) == kept);
}

TEST_CASE("tokens are lost in the order of their last use, those of the end of a request first") {
  SharedPages pages = pages_of(5);
  const Tokens first = keep(pages, filled({1, 2})), second = keep(pages, filled({3, 4}));
  REQUIRE(pages.release(first).ok());
  REQUIRE(pages.release(second).ok());
  pages.share(first);
  REQUIRE(pages.release(first).ok());
  Tokens taken;
  REQUIRE(pages.allocate(1, taken).ok());  // the fifth page has no tokens
  CHECK(taken == Tokens{4});
  CHECK(find(pages, filled({3, 4})) == second);
  REQUIRE(pages.allocate(1, taken).ok());
  CHECK(find(pages, filled({3, 4})) == Tokens{second[0]});
  REQUIRE(pages.allocate(2, taken).ok());
  CHECK(find(pages, filled({3, 4})).empty());
  CHECK(find(pages, filled({1, 2})) == Tokens{first[0]});
  CHECK(taken == Tokens{4, second[1], first[1], second[0]});
}

TEST_CASE("a user of equal tokens goes on with the page that holds them already") {
  SharedPages pages = pages_of(6);
  const Tokens first = keep(pages, filled({1, 2})), second = keep(pages, filled({1, 2, 3}));
  CHECK(second == Tokens{first[0], first[1], 4});
  CHECK(pages.available() == 3);
  REQUIRE(pages.release(first).ok());
  CHECK(pages.available() == 3);
  REQUIRE(pages.release(second).ok());
  CHECK(pages.available() == 6);
  CHECK(keep(pages, filled({1})) == Tokens{first[0]});
}

TEST_CASE("a page without user cannot be given back") {
  SharedPages pages = pages_of(4);
  const Tokens kept = keep(pages, filled({1}));
  REQUIRE(pages.release(kept).ok());
  for (const int32_t page : {kept[0], 2, 4, -1}) {
    const Status status = pages.release({&page, 1});
    REQUIRE(!status.ok());
    CHECK(status.error().message ==
          "pages: error: page " + std::to_string(page) + " is released, but has no user");
  }
  CHECK(pages.available() == 4);
}

}  // namespace
}  // namespace mkrt
