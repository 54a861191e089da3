#include "tests/softgpu/banks.h"

#include <doctest/doctest.h>

namespace softgpu {
namespace {

constexpr uint32_t kAll = ~0u;

template <class At>
Addresses addresses(const At& at) {
  Addresses a;
  for (uint32_t lane = 0; lane < 32; ++lane) a.at[lane] = at(lane);
  return a;
}

TEST_CASE("a wavefront serves each bank once, and all who want the same word") {
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 4; }), kAll, 4) == 1);
  CHECK(wavefronts(addresses([](uint32_t) { return 64; }), kAll, 4) == 1);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 2; }), kAll, 2) == 1);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 8; }), kAll, 4) == 2);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 128; }), kAll, 4) == 32);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 128; }), 0xf, 4) == 4);
}

TEST_CASE("wide accesses are served to halves and quarters of a warp") {
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 8; }), kAll, 8) == 2);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 16; }), kAll, 16) == 4);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 16; }), 0xff, 16) == 1);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 32; }), kAll, 16) == 8);
  CHECK(wavefronts(addresses([](uint32_t l) { return l * 128; }), kAll, 16) == 32);
}

}  // namespace
}  // namespace softgpu
