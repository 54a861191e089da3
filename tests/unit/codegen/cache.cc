#include "codegen/cache.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <optional>

#include "runtime/base/file.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using Dir = mkrt::test::TempDir;

TEST_CASE("the cache gives back what was kept, and nothing that was damaged") {
  const Dir dir;
  Cache cache{dir.path + "/kept"};
  const Kept cubin{{std::byte{1}, std::byte{2}, std::byte{3}}, "said"};
  CHECK(!find_cached(cache, "k.cubin"));
  keep_cached(cache, "k.cubin", cubin);
  const std::optional<Kept> found = find_cached(cache, "k.cubin");
  REQUIRE(found);
  CHECK(found->bytes == cubin.bytes);
  CHECK(found->summary == "said");

  const mkrt::Result<std::string> text = mkrt::read_text(cache.folder + "/k.cubin", 1000);
  REQUIRE(text.ok());
  for (size_t i = 0; i < text.value().size(); ++i) {
    std::string damaged = text.value();
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    dir.write("kept/k.cubin", damaged);
    const std::optional<Kept> again = find_cached(cache, "k.cubin");
    CHECK((!again || (again->bytes == cubin.bytes && again->summary == cubin.summary)));
  }
  dir.write("kept/k.cubin", text.value().substr(0, 20));
  CHECK(!find_cached(cache, "k.cubin"));
}

TEST_CASE("the cache forgets the least recently used beyond its size") {
  const Dir dir;
  Cache cache{dir.path, 2500};
  Kept cubin;
  cubin.bytes.resize(1000);
  keep_cached(cache, "a.cubin", cubin);
  keep_cached(cache, "b.o", cubin);
  std::filesystem::last_write_time(dir.path + "/a.cubin", std::filesystem::file_time_type::min());
  REQUIRE(find_cached(cache, "a.cubin"));  // a hit makes this entry the younger one
  std::filesystem::last_write_time(dir.path + "/b.o", std::filesystem::file_time_type::min());
  keep_cached(cache, "c.cubin", cubin);
  CHECK(find_cached(cache, "a.cubin"));
  CHECK(!find_cached(cache, "b.o"));
  CHECK(find_cached(cache, "c.cubin"));
}

TEST_CASE("a cache that cannot be written is no error") {
  keep_cached({"/proc/none"}, "k.cubin", {});
  CHECK(!find_cached({"/proc/none"}, "k.cubin"));
  CHECK(!find_cached({""}, "k.cubin"));
}

TEST_CASE("what has no key is neither kept nor found") {
  const Dir dir;
  const Cache cache{dir.path};
  keep_cached(cache, "", {{std::byte{1}}, "said"});
  CHECK(std::filesystem::is_empty(dir.path));
  CHECK(!find_cached(cache, ""));
}

}  // namespace
}  // namespace mkc
