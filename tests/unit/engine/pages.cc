#include "runtime/session/pages.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

namespace mkrt {
namespace {

PagePool pool_of(uint64_t pages) {
  return PagePool::create(16, pages).value();
}

std::vector<int32_t> take(PagePool& pool, uint64_t count) {
  std::vector<int32_t> pages;
  REQUIRE(pool.allocate(count, pages).ok());
  return pages;
}

TEST_CASE("the lowest free pages go first") {
  PagePool pool = pool_of(200);
  CHECK(take(pool, 3) == std::vector<int32_t>{0, 1, 2});
  CHECK(take(pool, 197).back() == 199);
  CHECK(pool.available() == 0);
  REQUIRE(pool.release(std::vector<int32_t>{130, 7, 64}).ok());
  CHECK(pool.available() == 3);
  CHECK(take(pool, 2) == std::vector<int32_t>{7, 64});
  CHECK(take(pool, 1) == std::vector<int32_t>{130});
}

TEST_CASE("allocating appends, and changes nothing where too few pages are free") {
  PagePool pool = pool_of(5);
  std::vector<int32_t> pages = {42};
  REQUIRE(pool.allocate(2, pages).ok());
  CHECK(pages == std::vector<int32_t>{42, 0, 1});
  const Status status = pool.allocate(4, pages);
  REQUIRE(!status.ok());
  CHECK(status.error().message == "pages: error: 4 are needed, 3 of 5 are free");
  CHECK(pages.size() == 3);
  CHECK(pool.available() == 3);
}

TEST_CASE("no page is handed out twice, and the free ones are those never taken or given back") {
  for (const uint64_t count : {1, 63, 64, 65, 300}) {
    PagePool pool = pool_of(count);
    std::set<int32_t> all, taken;
    for (uint64_t page = 0; page < count; ++page) all.insert(static_cast<int32_t>(page));
    std::mt19937 random(static_cast<uint32_t>(count));
    for (int turn = 0; turn < 2000; ++turn) {
      if (random() % 2 && taken.size() < count) {
        const uint64_t wanted = 1 + random() % std::min<uint64_t>(9, count - taken.size());
        std::vector<int32_t> expected;
        std::set_difference(all.begin(), all.end(), taken.begin(), taken.end(), std::back_inserter(expected));
        expected.resize(wanted);
        CHECK(take(pool, wanted) == expected);
        taken.insert(expected.begin(), expected.end());
      } else if (!taken.empty()) {
        auto page = taken.begin();
        std::advance(page, random() % taken.size());
        REQUIRE(pool.release(std::span(&*page, 1)).ok());
        taken.erase(page);
      }
      REQUIRE(pool.available() == count - taken.size());
    }
  }
}

TEST_CASE("a pool of another page size or without pages is refused") {
  const auto error = [](uint32_t page_size, uint64_t pages) {
    return PagePool::create(page_size, pages).error().message;
  };
  CHECK(error(8, 1) == "page_size: error: found 8, supported: 16, 32, 64");
  CHECK(error(16, 0) == "pages: error: found 0, expected 1 to 2147483647");
  CHECK(error(64, 1ull << 31) == "pages: error: found 2147483648, expected 1 to 2147483647");
}

TEST_CASE("a page that is not handed out cannot be given back") {
  PagePool pool = pool_of(4);
  const std::vector<int32_t> pages = take(pool, 2);
  const auto error = [&](std::vector<int32_t> given) { return pool.release(given).error().message; };
  CHECK(error({2}) == "pages: error: page 2 is released, but is free");
  CHECK(error({4}) == "pages: error: page 4 is released, expected 0 to 3");
  CHECK(error({-1}) == "pages: error: page -1 is released, expected 0 to 3");
  CHECK(error({1, 1}) == "pages: error: page 1 is released, but is free");
  CHECK(pool.available() == 3);
}

}  // namespace
}  // namespace mkrt
