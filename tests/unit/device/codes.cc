// These tests compare products with single weights: each code of each format, times random scales, exactly.
#include <bit>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/unit/device/product.h"

namespace mk {
namespace {

constexpr uint32_t kRows = 32, kCols = 512;

// Numbers holds what torch (E4M3) and ml_dtypes (the others) say that codes are.
struct Numbers {
  std::vector<uint32_t> e4m3, e2m1, e8m0;
  Numbers() {
    const auto read = [](const char* file) {
      std::ifstream in(std::string(MKC_SOURCE_DIR "/tests/oracle/") + file);
      return nlohmann::json::parse(in);
    };
    e4m3 = read("e4m3/vectors.json")["numbers"].get<std::vector<uint32_t>>();
    const nlohmann::json others = read("codes/vectors.json");
    others["e2m1"].get_to(e2m1), others["e8m0"].get_to(e8m0);
  }

  float number(const mkrt::WeightFormat& format, uint32_t code, uint32_t zero) const {
    if (format.code == mkrt::CodeType::kInteger)
      return static_cast<float>(static_cast<int>(code) - static_cast<int>(zero));
    return std::bit_cast<float>(format.code == mkrt::CodeType::kE2m1 ? e2m1[code] : e4m3[code]);
  }
};

// Scales are random in their whole range, as far as products with codes are finite.
class Scales {
 public:
  explicit Scales(const Numbers& numbers) : numbers_(numbers) {}

  float of_row(const mkrt::WeightFormat& format) {
    return format.grouped() ? std::ldexp(1.0f, exponent_(dice_) / 4) : of_f32();
  }
  // Stores a scale of a group and returns it.
  float put(mkrt::ScaleType type, char* to) {
    if (type == mkrt::ScaleType::kE8m0 || type == mkrt::ScaleType::kE4m3) {
      const bool e8m0 = type == mkrt::ScaleType::kE8m0;
      const uint32_t code = e8m0 ? 127 + exponent_(dice_) : 1 + dice_() % 0x7e;
      *to = static_cast<char>(code);
      return std::bit_cast<float>((e8m0 ? numbers_.e8m0 : numbers_.e4m3)[code]);
    }
    return mkrt::ScaleType::kF16 == type ? put_scale_of(type, std::ldexp(of_f32(), -8), to)
                                         : put_scale_of(type, of_f32(), to);
  }

 private:
  float of_f32() { return std::ldexp(mantissa_(dice_), exponent_(dice_) / 8); }

  const Numbers& numbers_;
  std::mt19937 dice_{7};
  std::uniform_int_distribution<int> exponent_{-100, 100};
  std::uniform_real_distribution<float> mantissa_{1, 2};
};

struct Coded {
  Problem problem;
  std::vector<float> weights;  // [kRows, kCols]
};

// Returns a matrix with all codes that are numbers. Neighbours differ, in rows and in columns.
Coded all_codes(WeightType type, const Numbers& numbers) {
  Coded m;
  m.weights.resize(kRows * kCols);
  m.problem.shape = packed_shape(kRows, kCols, type);
  const PackedShape& s = m.problem.shape;
  m.problem.packed.assign(s.bytes, 0);
  char* packed = m.problem.packed.data();
  Scales scales(numbers);
  std::vector<float> of_groups(kCols, 1);  // by column, of the rows that share them
  for (uint32_t row = 0; row < kRows; ++row) {
    const float of_row = s.format.scale_bytes != 0 ? scales.of_row(s.format) : 1;
    put_row_scale(s, packed, row, of_row);
    for (uint32_t col = 0; col < kCols; ++col) {
      if (s.format.grouped() && row % s.format.group_rows == 0)
        of_groups[col] = col % s.format.group_cols == 0
                             ? scales.put(s.format.group_scale, packed + group_scale_offset(s, row, col))
                             : of_groups[col - 1];
      const uint32_t zero = s.format.grouped() ? zero_of(s.format, row, col / s.format.group_cols) : 0;
      if (s.format.zeros) packed[group_zero_offset(s, row, col)] = static_cast<char>(zero);
      uint32_t code = (row * 37 + col * 5) % (1u << s.format.bits);
      if (!std::isfinite(numbers.number(s.format, code, zero))) code = 1;
      const mkrt::Place place = packed_place(s, row, col);
      packed[place.byte] = static_cast<char>(packed[place.byte] | code << place.bit);
      m.weights[row * kCols + col] = numbers.number(s.format, code, zero) * of_groups[col] * of_row;
    }
  }
  return m;
}

// Multiplies with rows of which each has a single 1, from column `first` on. Returns whether all products are
// the weights.
bool columns_are_exact(Coded& m, WeightType type, uint32_t tokens, uint32_t first) {
  const Case c{kRows, kCols, tokens, true, type};
  m.problem.x.assign(size_t{tokens} * kCols, 0);
  const auto col = [&](uint32_t token) { return (first + token) % kCols; };
  for (uint32_t token = 0; token < tokens; ++token) m.problem.x[token * kCols + col(token)] = 1;
  std::vector<float> out(size_t{tokens} * kRows, NAN);
  run(c, m.problem, make_args(c, m.problem, out));
  for (uint32_t token = 0; token < tokens; ++token)
    for (uint32_t row = 0; row < kRows; ++row)
      if (out[token * kRows + row] != m.weights[row * kCols + col(token)]) return false;
  return true;
}

TEST_CASE("each code of each format, times its scales, is the number that numpy has for it") {
  const Numbers numbers;
  REQUIRE(numbers.e2m1.size() == 16);
  REQUIRE(numbers.e8m0.size() == 256);
  for (const WeightType type : coded_types()) {
    CAPTURE(weight_format(type).name);
    Coded m = all_codes(type, numbers);
    for (uint32_t first = 0; first < kCols; first += 64) {
      CAPTURE(first);
      CHECK(columns_are_exact(m, type, 64, first));
    }
    for (const uint32_t tokens : {1u, 4u, 8u, 12u, 16u, 24u, 32u, 40u, 128u}) {
      CAPTURE(tokens);
      CHECK(columns_are_exact(m, type, tokens, 100 + 3 * tokens));
    }
  }
}

}  // namespace
}  // namespace mk
