// These tests check a struct of the C interface that has grown by a version.
#include "runtime/c_api/versions.h"

#include <doctest/doctest.h>

// Version 1 ends behind `first`.
struct mkrt_grown {
  uint32_t size;
  uint32_t first;
  uint32_t second;
  uint32_t third;
};

namespace mkrt {
MKRT_VERSIONS(mkrt_grown, 8, 16);

namespace {

TEST_CASE("fields of versions after the caller's are 0, and are not read") {
  const mkrt_grown old{8, 1, 2, 3}, whole{16, 1, 2, 3};
  mkrt_grown taken{9, 9, 9, 9};
  REQUIRE(take(&old, taken));
  CHECK(taken.first == 1);
  CHECK(taken.second == 0);
  CHECK(taken.third == 0);
  REQUIRE(take(&whole, taken));
  CHECK(taken.third == 3);
}

TEST_CASE("what a caller of an earlier version has behind its struct is not written") {
  mkrt_grown to{8, 0, 5, 6};
  REQUIRE(give(mkrt_grown{16, 1, 2, 3}, &to));
  CHECK(to.size == 8);
  CHECK(to.first == 1);
  CHECK(to.second == 5);
  CHECK(to.third == 6);
}

TEST_CASE("lists of an earlier version have its distance from struct to struct") {
  const uint32_t words[] = {8, 1, 8, 2, 8, 3};
  const auto* list = reinterpret_cast<const mkrt_grown*>(words);
  for (uint32_t i = 0; i < 3; ++i) CHECK(element(list, i)->first == i + 1);
}

TEST_CASE("a size between versions, or of a later version, is refused by name") {
  for (const uint32_t size : {0u, 4u, 12u, 20u}) {
    const mkrt_grown wrong{size, 1, 2, 3};
    mkrt_grown taken{};
    CHECK(!take(&wrong, taken));
    CHECK(last_error.status == MKRT_BAD_ARGUMENT);
    CHECK(std::string(last_error.message) ==
          fmt::format("mkrt: error: mkrt_grown.size: found {}, expected 8 or 16, the size of mkrt_grown",
                      size));
    CHECK(taken.first == 0);
  }
}

}  // namespace
}  // namespace mkrt
