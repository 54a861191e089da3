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

TEST_CASE("the cache forgets the least recently used beyond its size, and no file of others") {
  const Dir dir;
  Cache cache{dir.path, 2500};
  Kept code;
  code.bytes.resize(1000);
  const auto name = [](char digit, const char* ending) { return std::string(32, digit) + ending; };
  const auto age = [&](const std::string& file) {
    std::filesystem::last_write_time(dir.path + "/" + file, std::filesystem::file_time_type::min());
  };
  dir.write("mine.o", std::string(3000, 'x'));
  age("mine.o");
  keep_cached(cache, name('a', ".cubin"), code);
  keep_cached(cache, name('b', ".o"), code);
  age(name('a', ".cubin"));
  REQUIRE(find_cached(cache, name('a', ".cubin")));  // a hit makes this entry the younger one
  age(name('b', ".o"));
  keep_cached(cache, name('c', ".so"), code);
  CHECK(find_cached(cache, name('a', ".cubin")));
  CHECK(!find_cached(cache, name('b', ".o")));
  age(name('c', ".so"));
  keep_cached(cache, name('d', ".cubin"), code);
  CHECK(find_cached(cache, name('a', ".cubin")));
  CHECK(!find_cached(cache, name('c', ".so")));
  CHECK(std::filesystem::exists(dir.path + "/mine.o"));
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
