// These tests compare e4m3 conversions with torch: the emulator's primitives, and the code of targets without
// e4m3 instructions.
#include "codegen/device/e4m3.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/base/half.h"

namespace mk {
namespace {

struct Vectors {
  std::vector<uint32_t> numbers, floats, codes;
  Vectors() {
    std::ifstream file(MKC_SOURCE_DIR "/tests/oracle/e4m3/vectors.json");
    const nlohmann::json json = nlohmann::json::parse(file);
    json["numbers"].get_to(numbers), json["floats"].get_to(floats), json["codes"].get_to(codes);
  }
};

float from_f16(u32 bits) {
  return mkrt::f16_to_f32(bits);
}

TEST_CASE("each of the 256 codes is the number that torch has for it, in either half of a word") {
  const Vectors v;
  REQUIRE(v.numbers.size() == 256);
  for (u32 code = 0; code < 256; ++code) {
    const auto number = std::bit_cast<float>(v.numbers[code]);
    CAPTURE(code);
    for (const u32 word : {mk_unpack_e4m3(code << 8 | 0x38), soft_unpack_e4m3(code << 8 | 0x38)}) {
      CHECK(from_f16(word & 0xffff) == 1);
      const float got = from_f16(word >> 16);
      CHECK((std::isnan(number) ? std::isnan(got) : std::bit_cast<u32>(got) == v.numbers[code]));
    }
  }
}

TEST_CASE("floats become the codes that torch gives them") {
  const Vectors v;
  REQUIRE(v.floats.size() == v.codes.size());
  REQUIRE(v.floats.size() > 900);
  for (size_t i = 0; i < v.floats.size(); ++i) {
    const auto x = std::bit_cast<float>(v.floats[i]);
    CAPTURE(x);
    CHECK(mk_pack_e4m3(x, -1) == (0xb800 | v.codes[i]));
    CHECK(soft_pack_e4m3(x, -1) == (0xb800 | v.codes[i]));
  }
}

TEST_CASE("a NaN of either sign becomes the NaN without a sign") {
  for (const u32 bits : {0x7fc00000u, 0xffc00000u, 0x7f800001u})
    for (const u32 word :
         {mk_pack_e4m3(as_f32(bits), as_f32(bits)), soft_pack_e4m3(as_f32(bits), as_f32(bits))})
      CHECK(word == 0x7f7f);
}

TEST_CASE("infinity becomes 448 of its sign, as do all numbers beyond") {
  for (const float x : {INFINITY, 3e38f, 465.0f}) {
    CHECK(mk_pack_e4m3(x, -x) == 0xfe7e);
    CHECK(soft_pack_e4m3(x, -x) == 0xfe7e);
    CHECK(mkrt::f32_to_e4m3(x) == 0x7e);
    CHECK(from_f16(mk_unpack_e4m3(0x7e) & 0xffff) == 448);
  }
}

}  // namespace
}  // namespace mk
