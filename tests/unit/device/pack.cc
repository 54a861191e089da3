// These tests load weights of a checkpoint, which the packing kernel packs on the emulated device.
#include "tests/unit/pack.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "codegen/device/bodies.h"
#include "runtime/abi/packing.h"
#include "runtime/base/half.h"
#include "runtime/device/device.h"
#include "runtime/session/weights.h"
#include "tests/unit/runtime/memory_checkpoint.h"

namespace mkrt {
namespace {

void pack_kernel(const MkPack* pack, uint32_t workers, uint32_t threads) {
  mk::pack_rows_of((AS1 const MkPack*)reinterpret_cast<uintptr_t>(pack), workers, threads);
}

// Returns the bytes that a loader writes for a weight. The memory holds 0xee before.
std::vector<std::byte> loaded(const ManifestWeight& w, const Checkpoint& checkpoint, uint64_t bytes,
                              uint64_t piece_bytes) {
  const std::unique_ptr<Device> device = open_emulator({nullptr, {}, pack_kernel}, {});
  std::vector<std::byte> out(bytes, std::byte{0xee});
  const uint64_t at = device->allocate(bytes).value();
  REQUIRE(device->write(at, out).ok());
  REQUIRE(WeightLoader(*device, checkpoint, piece_bytes).load(w, at).ok());
  REQUIRE(device->read(out, at).ok());
  return out;
}

float scale_of(const StoredTensor& scales, uint64_t row) {
  uint32_t bits = 0;
  const size_t bytes = scales.dtype == "F32" ? 4 : 2;
  std::memcpy(&bits, scales.bytes.data() + row * bytes, bytes);
  if (scales.dtype == "F16") return f16_to_f32(bits);
  return std::bit_cast<float>(bytes == 4 ? bits : bits << 16);
}

// Checks the packed weight byte for byte. Elements lie at packed_offset(), each row's scale lies at
// scale_offset(), and all other bytes are zero.
void check_packed(ManifestWeight w, const Memory& memory) {
  const PackedShape shape = packed_shape(w.rows, w.cols, *find_weight_type(w.element));
  const uint64_t elem_bytes = shape.format.bits / 8;
  std::vector<std::byte> expected(shape.bytes, std::byte{0});
  w.bytes = shape.bytes;
  const uint64_t sources = w.sources.size();
  for (uint64_t row = 0; row < w.rows; ++row) {
    const uint64_t group = sources == 1 ? w.rows : w.group;
    const uint64_t source = row / group % sources, in_source = row / (group * sources) * group + row % group;
    const std::string& name = w.sources[source];
    const std::byte* from = memory.checkpoint.find(name)->bytes.data() + in_source * w.cols * elem_bytes;
    for (uint64_t col = 0; col < w.cols; ++col)
      std::memcpy(expected.data() + packed_offset(shape, row, col), from + col * elem_bytes, elem_bytes);
    for (uint64_t k_slice = 0; k_slice < kKSlices && shape.format.scale_bytes != 0; ++k_slice) {
      const float scale = scale_of(*memory.checkpoint.find(name + "_scale"), in_source);
      std::memcpy(expected.data() + scale_offset(shape, row, k_slice), &scale, sizeof(scale));
    }
  }
  for (const uint64_t piece : {uint64_t{1}, 3 * w.cols * elem_bytes, uint64_t{1} << 20})
    CHECK(loaded(w, memory.checkpoint, shape.bytes, piece) == expected);
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

TEST_CASE("codes are packed with the scales of their rows behind each K slice") {
  for (const char* type : {"F32", "BF16"})
    for (const int64_t rows : {1, 16, 40})
      for (const int64_t cols : {1, 2, 7, 64, 100, 128, 513, 1024, 1500}) {
        const std::vector<int64_t> column{rows, 1};
        const Memory memory({{"w", "F8_E4M3", {rows, cols}, "", {}}, {"w_scale", type, column, "", {}}});
        ManifestWeight w;
        w.element = Element::kE4m3;
        w.rows = static_cast<uint64_t>(rows);
        w.cols = static_cast<uint64_t>(cols);
        w.sources = {"w"};
        check_packed(w, memory);
      }
  const Memory pair({{"gate", "F8_E4M3", {24, 70}, "", {}},
                     {"gate_scale", "F32", {24}, "", {}},
                     {"up", "F8_E4M3", {24, 70}, "", {}},
                     {"up_scale", "F32", {24}, "", {}}});
  ManifestWeight w;
  w.element = Element::kE4m3;
  w.rows = 48;
  w.cols = 70;
  w.group = 8;
  w.sources = {"gate", "up"};
  check_packed(w, pair);
}

// Returns the bytes of a weight of grouped format, by the layout's places of codes and scales.
std::vector<std::byte> grouped_bytes(const ManifestWeight& w, const Memory& memory, uint64_t scale_rows,
                                     uint64_t scale_cols) {
  const PackedShape shape = packed_shape(w.rows, w.cols, *find_weight_type(w.element));
  const WeightFormat& format = shape.format;
  const StoredTensor& codes = *memory.checkpoint.find(format.bits == 4 ? "w_packed" : "w");
  const StoredTensor& scales = *memory.checkpoint.find(format.bits == 4 ? "w_scale" : "w_scale_inv");
  const float one = 1;
  std::vector<std::byte> expected(shape.bytes, std::byte{0});
  for (uint64_t row = 0; row < w.rows; ++row) {
    for (uint64_t col = 0; col < w.cols; ++col) {
      const uint64_t bit = (row * w.cols + col) * format.bits;
      const auto code =
          (std::to_integer<uint32_t>(codes.bytes[bit / 8]) >> bit % 8) & ((1u << format.bits) - 1);
      const Place place = packed_place(shape, row, col);
      expected[place.byte] |= static_cast<std::byte>(code << place.bit);
      const float scale =
          scale_of(scales, row / scale_rows * ((w.cols + scale_cols - 1) / scale_cols) + col / scale_cols);
      const auto half = static_cast<uint16_t>(f32_to_f16(scale));
      std::byte* to = &expected[group_scale_offset(shape, row, col)];
      if (format.bits == 4)
        std::memcpy(to, &half, sizeof(half));
      else
        std::memcpy(to, &scale, sizeof(scale));
    }
    for (uint64_t k_slice = 0; k_slice < kKSlices && format.scale_bytes != 0; ++k_slice)
      std::memcpy(&expected[scale_offset(shape, row, k_slice)], &one, sizeof(one));
  }
  return expected;
}

TEST_CASE("codes of 4 bits are packed with the scales of their groups") {
  for (const Element element : {Element::kInt4, Element::kInt4Group32})
    for (const int64_t rows : {1, 16, 40})
      for (const int64_t cols : {64, 512, 1536})
        for (const int64_t group : {64, 128, 0}) {
          if (group != 0 && cols % group != 0) continue;
          const int64_t across = group == 0 ? 1 : cols / group;
          const Memory memory(
              {{"w_packed", "I32", {rows, cols / 8}, "", {}}, {"w_scale", "F16", {rows, across}, "", {}}});
          ManifestWeight w;
          w.element = element;
          w.rows = static_cast<uint64_t>(rows);
          w.cols = static_cast<uint64_t>(cols);
          w.sources = {"w"};
          const std::vector<std::byte> expected =
              grouped_bytes(w, memory, 1, static_cast<uint64_t>(group == 0 ? cols : group));
          w.bytes = expected.size();
          CAPTURE(cols);
          CAPTURE(group);
          CHECK(loaded(w, memory.checkpoint, w.bytes, 1000) == expected);
        }
}

// A matrix of a single block has one scale, and is read as one with a scale for the tensor.
TEST_CASE("codes of 8 bits are packed with the scales of their blocks") {
  for (const int64_t rows : {1, 130, 256})
    for (const int64_t cols : {7, 128, 600}) {
      if (rows <= 128 && cols <= 128) continue;
      const Memory memory({{"w", "F8_E4M3", {rows, cols}, "", {}},
                           {"w_scale_inv", "F32", {(rows + 127) / 128, (cols + 127) / 128}, "", {}}});
      ManifestWeight w;
      w.element = Element::kE4m3Block;
      w.rows = static_cast<uint64_t>(rows);
      w.cols = static_cast<uint64_t>(cols);
      w.sources = {"w"};
      const std::vector<std::byte> expected = grouped_bytes(w, memory, 128, 128);
      w.bytes = expected.size();
      CAPTURE(rows);
      CAPTURE(cols);
      CHECK(loaded(w, memory.checkpoint, w.bytes, 1000) == expected);
    }
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
  const uint64_t bytes = packed_shape(48, 70, WeightType::kBf16).bytes;
  w.bytes = 2 * bytes;
  const std::vector<std::byte> out = loaded(w, memory.checkpoint, w.bytes, 1000);
  w.stack = 1;
  w.bytes = bytes;
  for (const size_t i : {0u, 1u}) {
    w.sources = i == 0 ? std::vector<std::string>{"gate0", "up0"} : std::vector<std::string>{"gate1", "up1"};
    const std::vector<std::byte> expected = loaded(w, memory.checkpoint, bytes, 1000);
    CHECK(std::memcmp(out.data() + i * bytes, expected.data(), bytes) == 0);
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
  const std::vector<std::byte> out = loaded(w, memory.checkpoint, 400, 1);
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

}  // namespace
}  // namespace mkrt
