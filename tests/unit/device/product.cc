#include "tests/unit/device/product.h"

#include <cmath>
#include <numbers>

namespace mk {
namespace {

const Case kCases[] = {
    {16, 256, 1, false},  {40, 120, 1, false}, {33, 300, 7, false},  {16, 1000, 16, false},
    {16, 512, 1, true},   {40, 120, 1, true},  {33, 700, 7, true},   {1009 % 64, 1100, 16, true},
    {16, 512, 8, true},   {24, 64, 9, true},   {33, 130, 17, false}, {16, 64, 256, false},
    {33, 600, 17, true},  {20, 130, 64, true}, {33, 600, 65, true},  {16, 64, 256, true},
    {150, 512, 1, true},  {150, 700, 5, true}, {150, 600, 33, true}, {150, 1024, 16, true},
    {150, 600, 32, true}, {90, 130, 25, true}};

// Warpgroups multiply these cases, whose activation rows are whole 16-byte pieces.
constexpr u32 kWide = 33;
const Case kWideCases[] = {{16, 512, 33, true},   {33, 600, 65, true},  {150, 1024, 64, true},
                           {64, 120, 130, true},  {200, 64, 256, true}, {128, 1096, 128, true},
                           {150, 1536, 200, true}};

// Returns the tokens from which a case goes by Wgmma128: `from` where its columns allow it, else 0.
uint32_t wgmma_from_of(const Case& c, uint32_t from) {
  return c.cols % wgmma_cols(weight_format(type_of(c))) == 0 ? from : 0;
}

// Calls check(case, problem, arguments with a residual, output) for each case.
template <class Check>
void for_all_cases(const Check& check) {
  const auto each_type = [&](const Case& c, uint32_t wgmma_from) {
    CAPTURE(wgmma_from);
    CAPTURE(static_cast<int>(c.coded));
    CAPTURE(c.rows);
    CAPTURE(c.cols);
    CAPTURE(c.tokens);
    Problem p = make_problem(c);
    std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
    AllArgs a = make_args(c, p, out);
    a.residual = global(p.residual.data());
    a.wgmma_from = wgmma_from_of(c, wgmma_from);
    check(c, p, a, out);
  };
  const auto each = [&](Case c, uint32_t wgmma_from) {
    each_type(c, wgmma_from);
    for (const WeightType coded : coded_types()) {
      c.coded = coded;
      if (c.bf16) each_type(c, wgmma_from);
    }
  };
  for (const Case& c : kCases) each(c, 0);
  for (const Case& c : kWideCases) each(c, kWide);
}

TEST_CASE("a product with norm, bias and residual agrees with float64 at every token count") {
  for_all_cases([](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    a.norm = global(p.norm.data());
    a.normed = 1;
    a.bias = global(p.bias.data());
    run(c, p, a);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      const std::vector<double> in = product_input(c, p, true, t);
      std::vector<double> want(c.rows);
      for (uint32_t r = 0; r < c.rows; ++r)
        want[r] = dot(c, p, in, r) + p.bias[r] + p.residual[t * c.rows + r];
      // A value near a tie may round to the other bf16 neighbour. This moves one of `cols` terms by a factor
      // of 2^-9.
      CHECK(row_error(&out[t * c.rows], want.data(), c.rows) < (c.bf16 ? 5e-4 : 2e-6));
    }
  });
}

// Returns the products of the bf16 inputs, computed in double and divided by the root mean square.
std::vector<double> scaled_product(const Case& c, const Problem& p, const Rounded& r, uint32_t token) {
  double sum = 0;
  std::vector<double> in(c.cols), out(c.rows);
  for (uint32_t k = 0; k < c.cols; ++k) {
    const double v = p.x[token * c.cols + k];
    sum += v * v;
    in[k] = from_bf16(r.x[token * c.cols + k]);
  }
  for (uint32_t row = 0; row < c.rows; ++row) out[row] = dot(c, p, in, row) / std::sqrt(sum / c.cols + 1e-5);
  return out;
}

TEST_CASE("rows that came rounded are scaled behind the product, and what the next norm takes is left") {
  for_all_cases([](const Case& c, Problem& p, AllArgs a, const std::vector<float>& out) {
    if (!c.bf16) return;
    const uint32_t parts = c.cols > 600 ? c.cols / 2 : 1;  // more partials than a warp keeps in registers
    Rounded in = round_input(c, p, parts);
    const std::vector<float> next = random_floats(c.rows, 6);
    take_rounded(a, in, parts);
    std::vector<uint16_t> x_bf16(out.size());
    std::vector<float> sum_squares(size_t{c.tokens} * a.strips, NAN);
    a.norm_outputs = {global(next.data()), global(reinterpret_cast<char*>(x_bf16.data())),
                      global(sum_squares.data())};
    run(c, p, a);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      std::vector<double> want = scaled_product(c, p, in, t);
      for (uint32_t r = 0; r < c.rows; ++r) want[r] += p.residual[t * c.rows + r];
      const float* row = &out[t * c.rows];
      CHECK(row_error(row, want.data(), c.rows) < 1e-5);
      for (uint32_t r = 0; r < c.rows; ++r) CHECK(x_bf16[t * c.rows + r] == to_bf16(row[r] * next[r]));
      for (uint32_t i = 0; i < a.strips; ++i) {
        double sum = 0;
        for (uint32_t r = i * 16; r < std::min(c.rows, i * 16 + 16); ++r) sum += double{row[r]} * row[r];
        CHECK(sum_squares[t * a.strips + i] == doctest::Approx(sum).epsilon(1e-5));
      }
    }
  });
}

// Multiplies the scales of each 64 columns of rows of a block with factors of many sizes.
void spread_scales(Problem& p, const std::vector<float>& factors) {
  const std::vector<char> before = p.packed;
  const size_t cols = p.shape.cols;
  for (size_t i = 0; i < p.weight.size(); ++i) {
    const float by = factors[(i / cols / 4 * 3 + i % cols / 64) % factors.size()];
    const uint64_t at = group_scale_offset(p.shape, i / cols, i % cols);
    float scale = 0;
    std::memcpy(&scale, &before[at], sizeof(scale));
    scale *= by;
    std::memcpy(&p.packed[at], &scale, sizeof(scale));
    p.weight[i] *= by;
  }
}

TEST_CASE("scales of blocks may be of any size between 2^-63 and 2^63, or 0, where warpgroups multiply") {
  const std::vector<float> any{0x1p50f, 1, 0x1p-40f, 0x1p-50f, 1, 0x1p-20f, 0x1p20f},
      zeros{0, 1, 1, 0, 0x1p-70f, 0x1.8p-3f, 1, 1, 0}, none{0};
  for (const std::vector<float>& factors : {any, zeros, none})
    for (const uint32_t cols : {512u, 2048u}) {
      const Case c{150, cols, 140, true, WeightType::kE4m3Block};
      Problem p = make_problem(c);
      spread_scales(p, factors);
      std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
      AllArgs a = make_args(c, p, out);
      a.wgmma_from = kWide;
      run(c, p, a);
      for (uint32_t t = 0; t < c.tokens; t += 9) {
        const std::vector<double> in = product_input(c, p, false, t);
        for (uint32_t r = 0; r < c.rows; ++r) {
          double squares = 0;  // of the terms
          for (uint32_t k = 0; k < c.cols; ++k) squares += std::pow(in[k] * p.weight[r * c.cols + k], 2);
          CHECK(std::abs(out[t * c.rows + r] - dot(c, p, in, r)) <= 4e-6 * std::sqrt(squares));
        }
      }
    }
}

TEST_CASE("gate times up is rounded where only products read it") {
  for (const uint32_t tokens : {1u, 5u, 20u, 60u, 70u, 81u}) {
    const Case c{48, 200, tokens, true, tokens % 2 == 0 ? WeightType::kE4m3 : WeightType::kBf16};
    Problem p = make_problem(c);
    Rounded in = round_input(c, p, 3);
    std::vector<float> exact(size_t{tokens} * c.rows / 2, NAN);
    AllArgs a = make_args(c, p, exact);
    take_rounded(a, in, 3);
    a.gate = Activation::kSilu;
    a.out_cols = c.rows / 2;
    run(c, p, a);
    std::vector<uint16_t> x_bf16(exact.size());
    a.out = global(reinterpret_cast<float*>(x_bf16.data()));
    a.out_bf16 = 1;
    run(c, p, a);
    for (uint32_t t = 0; t < tokens; ++t) {
      const std::vector<double> products = scaled_product(c, p, in, t);
      std::vector<double> want(a.out_cols);
      for (uint32_t i = 0; i < a.out_cols; ++i) {
        const double gate = products[i / 8 * 16 + i % 8], up = products[i / 8 * 16 + 8 + i % 8];
        want[i] = gate / (1 + std::exp(-gate)) * up;
      }
      CHECK(row_error(&exact[t * a.out_cols], want.data(), a.out_cols) < 1e-5);
    }
    for (size_t i = 0; i < exact.size(); ++i) CHECK(x_bf16[i] == to_bf16(exact[i]));
  }
}

// Applies a gate: SiLU (Elfwing et al. 2017), or GELU by erf or tanh (Hendrycks and Gimpel 2016).
double gate_of(Activation gate, double v) {
  if (gate == Activation::kGelu) return v / 2 * (1 + std::erf(v / std::sqrt(2.0)));
  if (gate == Activation::kGeluTanh)
    return v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  return v / (1 + std::exp(-v));
}

void check_gate(Activation kind, uint32_t gates) {
  const Case c{48, 200, 5, true};
  Problem p = make_problem(c);
  std::vector<float> out(size_t{c.tokens} * c.rows / 2, NAN);
  AllArgs a = make_args(c, p, out);
  a.gate = kind, a.gates = gates;
  a.out_cols = c.rows / 2;
  run(c, p, a);
  for (uint32_t t = 0; t < c.tokens; ++t) {
    const std::vector<double> in = product_input(c, p, false, t);
    std::vector<double> want(a.out_cols);
    for (uint32_t i = 0; i < a.out_cols; ++i) {
      const double gate = dot(c, p, in, i / 8 * 16 + i % 8), up = dot(c, p, in, i / 8 * 16 + 8 + i % 8);
      want[i] = gate_of(kind, gate) * up;
    }
    CHECK(row_error(&out[t * a.out_cols], want.data(), a.out_cols) < 1e-5);
  }
}

TEST_CASE("gate and up rows of a strip give gate(g) * u") {
  constexpr uint32_t kAll = 0b1111;
  for (const Activation gate : {Activation::kSilu, Activation::kGelu, Activation::kGeluTanh})
    for (const uint32_t gates : {1u << static_cast<uint32_t>(gate), kAll}) check_gate(gate, gates);
}

// Checks the best logit of each strip. `nans` lists weight rows whose products are NaN.
void check_best(const Case& c, const std::vector<uint32_t>& nans = {}) {
  Problem p = make_problem(c);
  for (uint32_t k = 0; k < c.cols; ++k) p.weight[70 * c.cols + k] = p.weight[20 * c.cols + k];
  for (const uint32_t row : nans) p.weight[row * c.cols] = NAN;
  if (c.bf16) {
    std::vector<uint16_t> stored;
    for (double v : p.weight) stored.push_back(to_bf16(static_cast<float>(v)));
    p.packed = pack(p.shape, stored);
  } else {
    p.packed = pack(p.shape, std::vector<float>(p.weight.begin(), p.weight.end()));
  }
  std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
  AllArgs a = make_args(c, p, out);
  std::vector<float> best(size_t{c.tokens} * a.strips);
  std::vector<u32> index(best.size());
  a.best_value = global(best.data());
  a.best_index = global(index.data());
  run(c, p, a);
  for (uint32_t t = 0; t < c.tokens; ++t)
    for (uint32_t i = 0; i < a.strips; ++i) {
      const float* row = &out[t * c.rows];
      uint32_t greatest = i * 16;  // plain_logit() orders logits, as in sampling
      for (uint32_t id = greatest; id < std::min(c.rows, i * 16 + 16); ++id)
        if (plain_logit(row[id]) > plain_logit(row[greatest])) greatest = id;
      CHECK(index[t * a.strips + i] == greatest);
      CHECK(plain_logit(best[t * a.strips + i]) == plain_logit(row[greatest]));
    }
}

TEST_CASE("each strip's best candidate is the first of its greatest logits") {
  check_best({100, 64, 3, false});
  check_best({100, 64, 37, false});
  check_best({150, 64, 1, false});
  check_best({150, 64, 8, true});
  check_best({150, 64, 70, true});
}

TEST_CASE("a logit that is not a number is never a strip's best but where all are") {
  check_best({100, 64, 3, false},
             {16, 33, 47, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79});
  check_best({100, 64, 9, true},
             {16, 33, 47, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79});
}

}  // namespace
}  // namespace mk
