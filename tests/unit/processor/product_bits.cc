// These tests compare products with each other, bit for bit: what is beside a row, a strip or a part.
#include <barrier>
#include <thread>

#include "tests/unit/processor/product.h"
#include "tests/unit/worse.h"

namespace mk {
namespace {

// Returns an output of `run` without its guard.
std::vector<float> values_of(const Out& out) {
  return {out.values.begin(), out.values.begin() + static_cast<ptrdiff_t>(out.size)};
}

// Left is what a product leaves, as bits.
struct Left {
  std::vector<float> out, x_bf16, sum_squares;
  bool operator==(const Left&) const = default;
};

// Runs a product with bias, residual and norm outputs. split_k other than 1 splits it.
Left leave(const Matrix& m, const X& x, u32 split_k, u32 max) {
  const auto rows = static_cast<u32>(m.shape.rows);
  const std::vector<float> bias = random_floats(rows, 4), residual = random_floats(size_t{x.rows} * rows, 5),
                           norm = random_floats(rows, 6);
  Out out(residual.size()), halves(residual.size()), squares(x.rows * m.shape.strips);
  Out sums(m.shape.strips * kKSlices * x.rows * kStripRows);
  std::fill_n(halves.data(), halves.size, 0.0f);
  AllArgs a = make_args(m, x, x.rows);
  a.out = global(out.data());
  a.bias = global(bias.data()), a.residual = global(residual.data());
  a.norm_outputs = {global(norm.data()), global(reinterpret_cast<char*>(halves.data())),
                    global(squares.data())};
  a.sums = global(sums.data());
  a.split_k = split_k, a.splits = split_k != 1;
  run(m, a, max);
  return {values_of(out), values_of(halves), values_of(squares)};
}

TEST_CASE("a product in parts has the bits of the whole one, whatever blocks its strips are in") {
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const auto& [rows, cols, tokens] :
           {std::array{16u, 512u, 1u}, {70u, 1100u, 3u}, {40u, 120u, 8u}, {33u, 1u, 9u}, {50u, 600u, 20u}}) {
        CAPTURE(static_cast<int>(format.type));
        CAPTURE(rows);
        const Matrix m = pack_matrix({make_tensor(format.type, rows, cols, 7)});
        const X x(input, tokens, cols);
        const Left whole = leave(m, x, 1, ~0u);
        for (const u32 max : {1u, 2u, 3u}) CHECK(leave(m, x, 1, max) == whole);
        for (const u32 parts : {2u, 4u, 8u})
          for (const u32 max : {1u, 3u, ~0u}) CHECK(leave(m, x, parts, max) == whole);
      }
}

TEST_CASE("gate times up is finished from the parts of both") {
  for (const FormatBodies& format : kFormats) {
    const Matrix m =
        pack_matrix({make_tensor(format.type, 24, 300, 7), make_tensor(format.type, 24, 300, 8)}, 8);
    const X x(Input::kScaled, 5, 300);
    Out whole(5 * 24), split(whole.size), sums(m.shape.strips * kKSlices * 5 * kStripRows);
    AllArgs a = make_args(m, x, 5);
    a.gate = Activation::kSilu, a.out_cols = 24;
    a.out = global(whole.data()), a.sums = global(sums.data());
    run(m, a);
    a.out = global(split.data());
    a.split_k = 4, a.splits = 1;
    run(m, a);
    CHECK(values_of(split) == values_of(whole));
  }
}

// Returns rows [first, end) of x.
X rows_of_x(const X& x, u32 first, u32 end) {
  X part = x;
  const auto cut = [&](auto& of, size_t width) {
    of.erase(of.begin(), of.begin() + static_cast<ptrdiff_t>(first * width));
    const size_t kept = (end - first) * width;
    for (size_t i = kept; i < of.size(); ++i) of[i] = static_cast<std::decay_t<decltype(of[0])>>(0x7fff);
  };
  cut(part.f32s, x.cols), cut(part.halves, x.cols), cut(part.sum_squares, kSumsqPartials);
  std::fill(part.f32s.begin() + static_cast<ptrdiff_t>((end - first) * x.cols), part.f32s.end(), NAN);
  part.rows = end - first;
  return part;
}

std::vector<float> product_of(const Matrix& m, const X& x) {
  Out out(x.rows * m.shape.rows);
  AllArgs a = make_args(m, x, x.rows);
  a.out = global(out.data());
  run(m, a);
  return values_of(out);
}

TEST_CASE("a token's bits do not depend on the tokens beside it, nor on how many they are") {
  for (const FormatBodies& format : kFormats)
    for (const Input input : kInputs)
      for (const u32 rows : {16u, 40u, 70u}) {
        CAPTURE(static_cast<int>(format.type));
        CAPTURE(static_cast<int>(input));
        const Matrix m = pack_matrix({make_tensor(format.type, rows, 270, 7)});
        const X x(input, 40, 270);
        const std::vector<float> together = product_of(m, x);
        for (u32 tokens = 1; tokens <= 20; ++tokens)
          for (const u32 first : {0u, 1u, 11u, 20u}) {
            const std::vector<float> some = product_of(m, rows_of_x(x, first, first + tokens));
            CHECK(std::equal(some.begin(), some.end(), together.begin() + first * rows));
          }
      }
}

TEST_CASE("workers share the strips of a weight, which they have packed together") {
  constexpr u32 kWorkers = 3, kTokens = 5;
  for (const FormatBodies& format : kFormats) {
    const Tensor t = make_tensor(format.type, 125, 270, 7);
    const X x(Input::kF32, kTokens, 270);
    Matrix m = pack_matrix({t});
    const std::vector<float> want = product_of(m, x);
    std::fill(m.packed.begin(), m.packed.end(), 0);
    const MkPack pack{reinterpret_cast<uint64_t>(t.stored.data()),
                      reinterpret_cast<uint64_t>(t.scales.data()),
                      0,
                      0,
                      reinterpret_cast<uint64_t>(m.packed.data()),
                      0,
                      t.rows,
                      t.cols,
                      t.rows,
                      1,
                      0,
                      0,
                      static_cast<uint64_t>(t.type)};
    Out halves(kTokens * t.rows);
    AllArgs a = make_args(m, x, kTokens);
    a.out = global(halves.data()), a.out_bf16 = 1;
    std::barrier<> packed(kWorkers);
    const auto work = [&](u32 i) {
      pack_rows_of(global(&pack), i, kWorkers);
      packed.arrive_and_wait();
      ProductWorker worker(m.shape, kTokens);
      const ProductArgs mine = worker.with_epilogue(a);
      mkd_stream(&worker.w, global(m.packed.data()));
      format.start(&worker.w, &mine);
      for (u32 strip = i; strip < a.strips; strip += kWorkers) format.product(&worker.w, &mine, strip, 1);
    };
    std::vector<std::jthread> threads;
    for (u32 i = 0; i < kWorkers; ++i) threads.emplace_back(work, i);
    threads.clear();
    CHECK(rounds_to(want.data(), halves.halves(), want.size()));
  }
}

TEST_CASE("a row or a token that is no number reaches no other") {
  for (const FormatBodies& format : kFormats)
    for (const u32 tokens : {1u, 2u, 5u, 8u, 13u}) {
      const u32 rows = 50, bad_row = 21, bad_token = tokens / 2;
      Tensor t = make_tensor(format.type, rows, 150, 7);
      X x(Input::kF32, tokens, 150);
      const std::vector<float> want = product_of(pack_matrix({t}), x);
      put_element(t, bad_row * 150 + 77, NAN);
      const std::vector<float> bad_weight = product_of(pack_matrix({t}), x);
      x.f32s[bad_token * 150 + 149] = NAN;
      const std::vector<float> bad = product_of(pack_matrix({t}), x);
      for (u32 i = 0; i < tokens * rows; ++i) {
        CHECK((i % rows == bad_row ? std::isnan(bad_weight[i]) : bad_weight[i] == want[i]));
        CHECK((i % rows == bad_row || i / rows == bad_token ? std::isnan(bad[i]) : bad[i] == want[i]));
      }
    }
}

TEST_CASE("tiny and huge rows have the results of plain ones, times a power of 2") {
  for (const FormatBodies& format : kFormats)
    for (const u32 tokens : {1u, 2u, 9u}) {
      CAPTURE(static_cast<int>(format.type));
      const Matrix m = pack_matrix({make_tensor(format.type, 40, 270, 7)});
      X x(Input::kBf16, tokens, 270);
      const std::vector<float> plain = product_of(m, x);
      for (const int exponent : {-40, 60}) {
        X scaled = x;
        for (size_t i = 0; i < x.halves.size(); ++i)
          scaled.halves[i] = to_bf16(std::ldexp(bf16_to_f32(x.halves[i]), exponent));
        const std::vector<float> out = product_of(m, scaled);
        float max = 0;
        double error = 0;
        for (size_t i = 0; i < plain.size(); ++i) {
          max = std::max(max, std::abs(plain[i]));
          error = mkc::test::worse(error, std::abs(std::ldexp(out[i], -exponent) - plain[i]));
        }
        CHECK(error <= 1e-6f * max);
      }
    }
}

TEST_CASE("no bound holds a worst error of which one is NaN") {
  using mkc::test::worse;
  CHECK(worse(1, 2) == 2);
  CHECK(worse(2, 1) == 2);
  CHECK(worse(1, NAN) == INFINITY);
  CHECK(worse(worse(worse(0, 1), NAN), 1) == INFINITY);
  CHECK(worse(NAN, 1) == INFINITY);
}

TEST_CASE("each number of a format is multiplied exactly") {
  for (const FormatBodies& format : kFormats) {
    const u32 codes = format.type == WeightType::kE4m3 ? 256 : 65536, step = codes == 256 ? 1 : 61;
    Tensor t = make_tensor(format.type, codes / step, 1, 7);
    std::fill(t.scales.begin(), t.scales.end(), 0.25f);
    for (u32 row = 0; row < t.rows; ++row) {
      const u32 code = row * step;
      if (format.type == WeightType::kE4m3) put_element(t, row, 0.25f * e4m3_to_f32(code));
      if (format.type == WeightType::kF16) put_element(t, row, f16_to_f32(code));
      if (format.type == WeightType::kBf16) put_element(t, row, bf16_to_f32(code));
      if (format.type == WeightType::kF32) put_element(t, row, std::bit_cast<float>(code << 16 | code));
    }
    X x(Input::kBf16, 1, 1);
    x.halves[0] = to_bf16(-1);
    const Matrix m = pack_matrix({t});
    const std::vector<float> out = product_of(m, x);
    for (u32 row = 0; row < t.rows; ++row) {
      CAPTURE(row);
      const double want = -t.value[row];
      const bool tiny = std::abs(want) < 0x1p-126;  // AVX-512 BF16 takes subnormal numbers as 0
      CHECK((std::isnan(want) ? std::isnan(out[row]) : double{out[row]} == want || (tiny && out[row] == 0)));
    }
  }
}

}  // namespace
}  // namespace mk
