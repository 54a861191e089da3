#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "runtime/packing.h"
#include "runtime/weights.h"

namespace mkrt {
namespace {

// A checkpoint in memory: tensors of random bits.
struct Memory {
  Checkpoint checkpoint;
  std::vector<std::vector<std::byte>> storage;

  explicit Memory(const std::vector<StoredTensor>& tensors) {
    std::mt19937 random(3);
    for (StoredTensor t : tensors) {
      uint64_t bytes = t.dtype == "F32" ? 4 : 2;
      for (int64_t size : t.shape) bytes *= static_cast<uint64_t>(size);
      std::vector<std::byte>& data = storage.emplace_back(bytes);
      for (std::byte& b : data) b = static_cast<std::byte>(random());
      t.bytes = data;
      checkpoint.tensors.push_back(t);
    }
  }
};

// Every element of the packed weight is where packed_offset says, and all else is zero.
void check_packed(const ManifestWeight& w, const Memory& memory) {
  const PackedShape shape = packed_shape(w.rows, w.cols, element_bytes(w.element));
  std::vector<std::byte> out(shape.bytes, std::byte{0xee}), expected(shape.bytes, std::byte{0});
  pack_weight(w, memory.checkpoint, out);
  const uint64_t sources = w.sources.size();
  for (uint64_t row = 0; row < w.rows; ++row) {
    const uint64_t group = sources == 1 ? w.rows : w.group;
    const uint64_t source = row / group % sources, in_source = row / (group * sources) * group + row % group;
    const std::byte* from = memory.storage[source].data() + in_source * w.cols * shape.elem_bytes;
    for (uint64_t col = 0; col < w.cols; ++col)
      std::memcpy(expected.data() + packed_offset(shape, row, col), from + col * shape.elem_bytes,
                  shape.elem_bytes);
  }
  CHECK(out == expected);
}

TEST_CASE("packing puts every element where the layout says and pads with zeros") {
  for (const Element element : {Element::kBf16, Element::kF16, Element::kF32})
    for (const int64_t rows : {1, 16, 40})
      for (const int64_t cols : {1, 2, 7, 64, 100, 128, 513, 1024}) {
        const Memory memory({{"w", element == Element::kF32 ? "F32" : "F16", {rows, cols}, "", {}}});
        ManifestWeight w;
        w.element = element;
        w.rows = static_cast<uint64_t>(rows);
        w.cols = static_cast<uint64_t>(cols);
        w.sources = {"w"};
        check_packed(w, memory);
      }
}

TEST_CASE("gate and up rows are packed in turns of eight") {
  const Memory memory({{"gate", "BF16", {24, 70}, "", {}}, {"up", "BF16", {24, 70}, "", {}}});
  ManifestWeight w;
  w.rows = 48;
  w.cols = 70;
  w.group = 8;
  w.sources = {"gate", "up"};
  check_packed(w, memory);
}

TEST_CASE("a stack is one packed matrix behind the other, each of its own sources") {
  const Memory memory({{"gate0", "BF16", {24, 70}, "", {}},
                       {"gate1", "BF16", {24, 70}, "", {}},
                       {"up0", "BF16", {24, 70}, "", {}},
                       {"up1", "BF16", {24, 70}, "", {}}});
  ManifestWeight w;
  w.rows = 48;
  w.cols = 70;
  w.group = 8;
  w.stack = 2;
  w.sources = {"gate0", "up0", "gate1", "up1"};
  const uint64_t bytes = packed_shape(48, 70, 2).bytes;
  std::vector<std::byte> out(2 * bytes, std::byte{0xee}), expected(bytes);
  pack_weight(w, memory.checkpoint, out);
  w.stack = 1;
  for (const size_t i : {0u, 1u}) {
    w.sources = i == 0 ? std::vector<std::string>{"gate0", "up0"} : std::vector<std::string>{"gate1", "up1"};
    pack_weight(w, memory.checkpoint, expected);
    CHECK(std::memcmp(out.data() + i * bytes, expected.data(), bytes) == 0);
  }
}

TEST_CASE("one k-step of the layout is the A operand of mma.m16n8k16") {
  // PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type": a_i of lane l, g = l / 4, t = l
  // % 4.
  const PackedShape shape = packed_shape(16, 128, 2);  // eight warps of one k-step each
  for (uint64_t lane = 0; lane < 32; ++lane)
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t row = i % 4 < 2 ? lane / 4 : lane / 4 + 8;
      const uint64_t col = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8);
      CHECK(packed_offset(shape, row, 16 * 5 + col) == 5 * 512 + lane * 16 + i * 2);
    }
}

TEST_CASE("norms become f32") {
  const Memory memory({{"n", "F16", {100}, "", {}}});
  ManifestWeight w;
  w.layout = WeightLayout::kVector;
  w.element = Element::kF32;
  w.rows = 1;
  w.cols = 100;
  w.sources = {"n"};
  std::vector<std::byte> out(400);
  pack_weight(w, memory.checkpoint, out);
  for (size_t i = 0; i < 100; ++i) {
    uint16_t bits;
    float value;
    std::memcpy(&bits, memory.storage[0].data() + 2 * i, 2);
    std::memcpy(&value, out.data() + 4 * i, 4);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    CHECK(static_cast<double>(value) == (bits >> 15 ? -magnitude : magnitude));
  }
}

TEST_CASE("rope tables hold cosines, then sines") {
  const ManifestRope rope{0, 50, {1.0, 0.01}, 2.0};
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
