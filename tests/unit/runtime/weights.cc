#include "runtime/session/weights.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/abi/packing.h"
#include "runtime/base/half.h"
#include "runtime/session/faulty_weights.h"
#include "runtime/session/session.h"
#include "tests/unit/runtime/fake_device.h"
#include "tests/unit/runtime/memory_checkpoint.h"
#include "tests/unit/temp_dir.h"

namespace mkrt {
namespace {

TEST_CASE("one k-step of the layout is the A operand of mma.m16n8k16") {
  // The fragment is that of the PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type". There
  // lane l holds a_i, with g = l / 4 and t = l % 4.
  const PackedShape shape = packed_shape(16, 128, WeightType::kBf16);  // eight warps have one k-step each
  for (uint64_t lane = 0; lane < 32; ++lane)
    for (uint64_t i = 0; i < 8; ++i) {
      const uint64_t row = i % 4 < 2 ? lane / 4 : lane / 4 + 8;
      const uint64_t col = lane % 4 * 2 + i % 2 + (i < 4 ? 0 : 8), t = col % 8 / 2;
      // Weights and activations have permuted columns, so that each lane's elements are adjacent.
      const uint64_t from = 4 * t + col / 8 * 2 + col % 2;
      CHECK(packed_offset(shape, row, 16 * 5 + from) == 5 * 512 + lane * 16 + i * 2);
    }
}

TEST_CASE("random weights have the spread that keeps activations in range, in every type") {
  const WeightSource source = random_weights(1), other = random_weights(2);
  const auto spread = [](const ManifestWeight& weight, const WeightSource& from) {
    const size_t width = weight.layout == WeightLayout::kVector ? 4 : element_bytes(weight.element),
                 count = 1 << 16;
    std::vector<std::byte> bytes(count * width);
    REQUIRE(from(weight, bytes).ok());
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[i * width], width);
      const double x = width == 4                         ? std::bit_cast<float>(bits)
                       : weight.element == Element::kE4m3 ? mkrt::e4m3_to_f32(bits)
                       : weight.element == Element::kF16  ? mkrt::f16_to_f32(bits)
                                                          : mkrt::bf16_to_f32(bits);
      sum += x, squares += x * x;
    }
    return std::pair(sum / count, std::sqrt(squares / count - sum / count * (sum / count)));
  };
  ManifestWeight matrix;
  matrix.cols = 64;
  for (const Element element : {Element::kF32, Element::kBf16, Element::kF16, Element::kE4m3}) {
    CAPTURE(static_cast<int>(element));
    matrix.element = element;
    CHECK(spread(matrix, source).first == doctest::Approx(0).epsilon(0.002));
    CHECK(spread(matrix, source).second == doctest::Approx(0.125).epsilon(0.02));
  }
  ManifestWeight vector = matrix;
  vector.layout = WeightLayout::kVector;
  CHECK(spread(vector, source).first == doctest::Approx(1).epsilon(0.002));
  CHECK(spread(vector, source).second == doctest::Approx(0.1).epsilon(0.02));
  CHECK(spread(matrix, source) != spread(matrix, other));
  // Random weights repeat one block of 2^20 elements. The last repetition is cut off.
  matrix.element = Element::kBf16;
  std::vector<uint16_t> values((2 << 20) + 5);
  REQUIRE(source(matrix, std::as_writable_bytes(std::span(values))).ok());
  CHECK(std::equal(values.begin(), values.end() - (1 << 20), values.begin() + (1 << 20)));
  CHECK(values.back() == values[4]);
  CHECK(values[0] != values[1 << 19]);
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

TEST_CASE("codes need a scale for each row of every source") {
  Manifest m;
  ManifestWeight w;
  w.element = Element::kE4m3;
  w.rows = 16;
  w.cols = 4;
  w.group = 8;
  w.sources = {"a", "b"};
  m.weights = {w};
  const auto error_with = [&](const StoredTensor& scales) {
    Memory memory({{"a", "F8_E4M3", {8, 4}, "f", {}},
                   {"a_scale", "F32", {8}, "f", {}},
                   {"b", "F8_E4M3", {8, 4}, "f", {}},
                   scales});
    memory.checkpoint.directory = "dir";
    const Status status = check_weights(m, memory.checkpoint);
    return status.ok() ? "" : status.error().message;
  };
  const std::string expected =
      ", expected BF16, F16, F32 or F8_E8M0 [8, 1], [1] or [1, 1], a scale for each row, for all, or for "
      "each block "
      "of 128 x 128";
  CHECK(error_with({"b_scale", "BF16", {8, 1}, "f", {}}) == "");
  CHECK(error_with({"c", "BF16", {8, 1}, "f", {}}) ==
        "f: error: missing tensor \"b_scale\" beside \"b\"" + expected);
  CHECK(error_with({"b_scale", "F32", {1}, "g", {}}) == "");
  CHECK(error_with({"b_scale", "F32", {2}, "g", {}}) == "g: error: tensor \"b_scale\" is F32 [2]" + expected);
  CHECK(error_with({"b_scale", "F32", {8, 2}, "g", {}}) ==
        "g: error: tensor \"b_scale\" is F32 [8, 2]" + expected);
  CHECK(error_with({"b_scale", "F8_E4M3", {8, 1}, "g", {}}) ==
        "g: error: tensor \"b_scale\" is F8_E4M3 [8, 1]" + expected);
}

TEST_CASE("scales of groups are f16 times a power of 2 for each row, and else an error") {
  const auto scales_of = [&](const std::vector<float>& values) {
    const auto groups = static_cast<int64_t>(values.size());
    const std::vector<std::byte> codes(values.size() * 16);
    Checkpoint checkpoint{"dir", {}, {}};
    checkpoint.tensors = {{"s_packed", "I32", {1, 4 * groups}, "f", codes},
                          {"s_scale", "F32", {1, groups}, "f", std::as_bytes(std::span(values))}};
    const auto reader = MatrixReader::open(checkpoint, "s", WeightType::kInt4Group32, 1, 32 * values.size());
    REQUIRE(reader.ok());
    return reader.value().scales(0, 1);
  };
  // f16 has 11 bits and the least exponent -14. bf16 has 8 bits and other exponents.
  for (const std::vector<float>& exact : {std::vector<float>{0x1.ffcp0f, 0x1p-14f},
                                          {0x1.fep-30f, 0x1p-20f},
                                          {0x1.02p40f, 0x1p20f},
                                          {0.0f, 0.0f},
                                          {-0x1p-24f},
                                          {0x1.fep-120f, 0x1p-126f},
                                          {0x1.ffcp-127f, 0x1p-149f, 0.0f},
                                          {-0x1p-149f}}) {
    const auto packed = scales_of(exact);
    REQUIRE(packed.ok());
    CHECK(std::isnormal(packed.value().rows[0]));
    for (size_t i = 0; i < exact.size(); ++i) {
      const float group = packed.value().groups[i];
      CHECK(mkrt::f16_to_f32(mkrt::f32_to_f16(group)) == group);
      CHECK(group * packed.value().rows[0] == exact[i]);
    }
  }
  CHECK(
      scales_of({0x1.fffp0f}).error().message.starts_with("f: error: tensor \"s_scale\" has the scale 1.99"));
  CHECK(scales_of({0x1.02p40f, 1})
            .error()
            .message.starts_with("f: error: tensor \"s_scale\" has the scale 1 beside"));
  CHECK(
      scales_of({1, -0x1.02p40f, 4}).error().message ==
      "f: error: tensor \"s_scale\" has the scale 1 beside -1108101600000, expected scales of a row that f16 "
      "holds after division by a power of 2");
  CHECK(scales_of({0, 0x1.fffp-127f})
            .error()
            .message.starts_with("f: error: tensor \"s_scale\" has the scale 1.17535"));
  CHECK(scales_of({1, INFINITY}).error().message ==
        "f: error: tensor \"s_scale\" has the scale inf of row 0, expected a finite number");
}

TEST_CASE("numbers of the packed layout that docs/packing.md gives") {
  const PackedShape coded = packed_shape(16, 600, WeightType::kE4m3);
  CHECK(packed_offset(coded, 3, 230) == 8938);
  CHECK(scale_offset(coded, 3, 2) == 9100);
  const PackedShape nibbles = packed_shape(16, 512, WeightType::kInt4);
  CHECK(nibbles.strip_bytes == 4864);
  CHECK(packed_place(nibbles, 9, 70).byte == 629);
  CHECK(packed_place(nibbles, 9, 70).bit == 4);
  CHECK(group_scale_offset(nibbles, 9, 70) == 1138);
  CHECK(packed_offset(packed_shape(20, 200, WeightType::kBf16), 19, 150) == 13016);
  CHECK(packed_offset(packed_shape(16, 600, WeightType::kBf16), 3, 230) == 17624);
  CHECK(packed_offset(packed_shape(16, 100, WeightType::kF32), 3, 21) == 1252);
}

TEST_CASE("elements that are not a number or infinite are counted in each tensor once") {
  // Each tensor is one row of zeros, except for the bits of some elements.
  struct Element {
    size_t at;
    uint32_t bits;
  };
  struct Case {
    const char* dtype;
    std::vector<Element> elements;
    uint64_t nans, infinities, first;
    int64_t size = 10'000;  // elements in all
  };
  constexpr int64_t kLarge = 9'000'000;  // threads share such tensors
  const Case cases[] = {
      {"F32", {{1, 0x7f800000}, {2, 0xff800000}, {3, 0x7f7fffff}, {4, 0x80000000}}, 0, 2, 1},
      {"F32", {{5, 0x7f800001}, {9, 0xffffffff}}, 2, 0, 5},
      {"F32", {{5, 0x7f800001}, {4, 0xff800000}, {9998, 0x7f800000}}, 1, 2, 4},
      {"F32", {{0, 0x7f7fffff}, {1, 0xff7fffff}}, 0, 0, 0},
      {"F16", {{0, 0x7c00}, {1, 0xfc00}, {2, 0x7bff}, {3, 0x8000}}, 0, 2, 0},
      {"F16", {{0, 0x7c01}}, 1, 0, 0},
      {"BF16", {{0, 0x7f80}, {1, 0xff80}, {2, 0x7f7f}, {3, 0x8000}}, 0, 2, 0},
      {"BF16", {{4095, 0xff81}, {4096, 0x7fc0}, {9999, 0x7fff}}, 3, 0, 4095},
      {"BF16", {{9998, 0x7fff}}, 1, 0, 9998},
      {"F8_E4M3", {{0, 0x7e}, {1, 0xfe}, {2, 0x80}}, 0, 0, 0},
      {"F8_E4M3", {{7, 0x7f}, {9999, 0xff}}, 2, 0, 7},
      {"BF16", {{8'999'999, 0x7fc0}, {4'194'304, 0x7f80}, {5, 0xff80}}, 1, 2, 5, kLarge},
      {"F32", {{6'000'000, 0x7f800001}}, 1, 0, 6'000'000, kLarge},
      {"I32", {{0, 0xffffffff}}, 0, 0, 0}};
  std::vector<StoredTensor> tensors;
  Manifest m;
  for (const Case& c : cases) {
    const std::string name = fmt::format("w{:02}", tensors.size());
    tensors.push_back({name, c.dtype, {c.size}, "f of " + name, {}});
    ManifestWeight weight;
    weight.sources = {"w00", name, name};  // tied weights share a source, and every tensor is checked
    m.weights.push_back(weight);
  }
  Memory memory(tensors);
  std::vector<std::string> expected, found;
  for (size_t i = 0; i < tensors.size(); ++i) {
    std::fill(memory.storage[i].begin(), memory.storage[i].end(), std::byte{0});
    const size_t width = memory.storage[i].size() / static_cast<size_t>(cases[i].size);
    for (const Element& e : cases[i].elements) std::memcpy(&memory.storage[i][e.at * width], &e.bits, width);
    if (cases[i].nans + cases[i].infinities != 0)
      expected.push_back(fmt::format("w{:02} f of w{:02} {} {} {}", i, i, cases[i].nans, cases[i].infinities,
                                     cases[i].first));
  }
  for (const FaultyTensor& t : find_faulty(m, memory.checkpoint))
    found.push_back(fmt::format("{} {} {} {} {}", t.name, t.file, t.nans, t.infinities, t.first));
  CHECK(found == expected);
}

TEST_CASE("a scale of a cache that is no positive number is refused by tensor and element") {
  Manifest m;
  m.caches = {{"l0.k_cache", Element::kE4m3, 2, 4, "k_scale"},
              {"l0.v_cache", Element::kE4m3, 2, 4, "v_scale"}};
  const auto scales_of = [&](const std::vector<float>& values) {
    const auto count = static_cast<int64_t>(values.size());
    return cache_scales(m, {"dir", {{"v_scale", "F32", {count}, "f", std::as_bytes(std::span(values))}}, {}});
  };
  CHECK(scales_of({0.5f, 2}).value() == std::vector<float>{1, 1, 0.5f, 2});
  for (const auto& [bad, text] : std::vector<std::pair<float, std::string>>{
           {NAN, "nan"}, {INFINITY, "inf"}, {-INFINITY, "-inf"}, {0.0f, "0"}, {-1.0f, "-1"}}) {
    CHECK(scales_of({1, bad}).error().message ==
          "f: error: tensor \"v_scale\" has the scale " + text + " at element 1, expected a positive number");
    CHECK(scales_of({bad}).error().message.find("at element 0") != std::string::npos);
  }
  m.caches[1].element = Element::kBf16;  // has no scales
  CHECK(scales_of({1, NAN}).value() == std::vector<float>{1, 1});
}

TEST_CASE("the warning of a tensor says how many values are not a number and how many are infinite") {
  CHECK(warning_of({"w", "f", 2, 0, 5}) ==
        "f: warning: tensor \"w\" holds 2 values that are not a number, the first at element 5");
  CHECK(warning_of({"w", "f", 0, 3, 5}) ==
        "f: warning: tensor \"w\" holds 3 values that are infinite, the first at element 5");
  CHECK(warning_of({"w", "f", 2, 3, 5}) ==
        "f: warning: tensor \"w\" holds 2 values that are not a number and 3 values that are infinite, the "
        "first at element 5");
}

TEST_CASE("weights that no file keeps must fit in the container's memory, as they are packed") {
  Manifest m = test::manifest();
  m.weights.resize(1);
  m.weights[0].name = "v.vector", m.weights[0].sources = {"v"};
  m.weights[0].layout = WeightLayout::kVector, m.weights[0].element = Element::kF32;
  m.weights[0].rows = 1, m.weights[0].cols = 4;
  m.weights[0].bytes = m.weight_bytes = 16;
  const test::TempDir dir;
  const std::string header = R"({"v":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  const uint64_t size = header.size();
  dir.write("model.safetensors",
            std::string(reinterpret_cast<const char*>(&size), sizeof(size)) + header + std::string(16, '?'));
  const Checkpoint checkpoint = open_checkpoint(dir.path).value();
  const KeptFolder none, full{dir.path + "/kept", 1, 0}, kept{dir.path + "/kept", uint64_t{1} << 30, 0};
  const auto start_within = [&](uint64_t limit, const KeptFolder& folder) {
    test::FakeDevice device;
    device.shares = true, device.container = {limit, "/memory.max", 0, ""};
    const SessionOptions options{.kept_weights = folder};
    return dir.without_path(
        test::error_of(Session::open(test::made_artefact(m), checkpoint, m.config_hash, device, options)));
  };
  const uint64_t bytes = m.weight_bytes + m.workspace_bytes;
  const std::string error =
      "fake: error: 16 bytes of packed weights and 1024 of workspace do not fit in the 1039 of /memory.max";
  CHECK(start_within(bytes, none) == "");
  CHECK(start_within(bytes - 1, none) == error);
  // The folder has no room for a file, and the error says so.
  CHECK(start_within(bytes, full) == "");
  const std::string found = start_within(bytes - 1, full);
  CHECK(found.starts_with(error + "\n"));
  CHECK(found.ends_with("more than the limit of 1 bytes for kept weights; the packed weights are not kept"));
  CHECK(start_within(bytes - 1, kept) == "");
}

}  // namespace
}  // namespace mkrt
