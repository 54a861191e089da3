#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

#include "runtime/packing.h"
#include "runtime/weights.h"
#include "tests/unit/memory_checkpoint.h"

namespace mkrt {
namespace {

TEST_CASE("one k-step of the layout is the A operand of mma.m16n8k16") {
  // PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": a_i of lane l, g = l / 4, t = l
  // % 4.
  const PackedShape shape = packed_shape(16, 128, 2);  // eight warps of one k-step each
  for (uint64_t lane = 0; lane < 32; ++lane)
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t row = i % 4 < 2 ? lane / 4 : lane / 4 + 8;
      const uint64_t col = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8), t = col % 8 / 2;
      // Columns change places, with activations as well: what a lane has of both lies together.
      const uint64_t from = 4 * t + col / 8 * 2 + col % 2;
      CHECK(packed_offset(shape, row, 16 * 5 + from) == 5 * 512 + lane * 16 + i * 2);
    }
}

TEST_CASE("rope tables hold cosines, then sines") {
  const ManifestRope rope{"rope", 0, 50, {1.0, 0.01}, 2.0};
  std::vector<float> table(200);
  fill_rope(rope, table);
  CHECK(table[0] == 2.0f);
  CHECK(table[2] == 0.0f);
  CHECK(table[49 * 4 + 1] == static_cast<float>(2 * std::cos(0.49)));
  CHECK(table[49 * 4 + 2] == static_cast<float>(2 * std::sin(49.0)));
}

TEST_CASE("a checkpoint that the kernel was not compiled for is refused") {
  Manifest m;
  ManifestWeight w;
  w.rows = 8;
  w.cols = 4;
  w.sources = {"w"};
  m.weights = {w};
  const auto error_with = [&](std::vector<StoredTensor> tensors) {
    Memory memory(tensors);
    memory.checkpoint.directory = "dir";
    const Status status = check_weights(m, memory.checkpoint);
    return status.ok() ? "" : status.error().message;
  };
  CHECK(error_with({{"w", "BF16", {8, 4}, "f", {}}}) == "");
  CHECK(error_with({{"v", "BF16", {8, 4}, "f", {}}}) == "dir: error: tensor \"w\" is missing");
  CHECK(error_with({{"w", "F16", {8, 4}, "f", {}}}) ==
        "f: error: tensor \"w\" is F16 [8, 4], expected BF16 [8, 4]");
  CHECK(error_with({{"w", "BF16", {4, 8}, "f", {}}}) ==
        "f: error: tensor \"w\" is BF16 [4, 8], expected BF16 [8, 4]");
}

}  // namespace
}  // namespace mkrt
