// Regressions and a bounded number of mutants go through each parser, in the normal build.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "tests/attack/fuzz/mutate.h"
#include "tests/attack/fuzz/parsers.h"

namespace mkc::attack {
namespace {

constexpr uint64_t kMutants = 1500;  // mutants of each parser

TEST_CASE("inputs that once crashed, hung or broke a promise do so no more") {
  for (const Parser& parser : parsers()) {
    const std::string from = fmt::format("tests/attack/fuzz/regressions/{}", parser.name);
    if (!std::filesystem::exists(fmt::format("{}/{}", MKC_SOURCE_DIR, from))) continue;
    for (const std::string& input : files_of(from, "")) parser.run(input);
  }
}

TEST_CASE("no mutant of a valid input ends a parser otherwise than by an error") {
  for (const Parser& parser : parsers()) {
    CAPTURE(parser.name);
    const std::vector<std::string> seeds = parser.seeds();
    REQUIRE(!seeds.empty());
    for (const std::string& seed : seeds) parser.run(seed);
    for (uint64_t i = 0; i < kMutants; ++i) {
      Random random(i + 1);
      parser.run(mutate(seeds[i % seeds.size()], random));
    }
  }
}

TEST_CASE("mutants are the same on every run, and differ from each other") {
  const std::string seed = "{\"a\": [1, 2, \"b\"]}\n";
  Random one(5), same(5), other(6);
  const std::string mutant = mutate(seed, one);
  CHECK(mutant == mutate(seed, same));
  CHECK(mutant != mutate(seed, other));
}

}  // namespace
}  // namespace mkc::attack
