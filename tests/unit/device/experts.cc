// These tests compare the products of experts and the sums of their rows with double loops over tokens and
// choices.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/device/weights.h"
#include "tests/unit/device/coded.h"
#include "tests/unit/device/routed.h"

namespace mk {
namespace {

struct Case {
  u32 tokens, experts, top_k, rows, cols;
  bool bf16, gated, gather;
  std::vector<float> pull;               // logits of each expert are raised by these
  bool x_bf16 = false;                   // x is stored in bf16, multiplied by the norm's weights
  u32 strips = 1;                        // strips of a task
  WeightType coded = WeightType::kBf16;  // format of the weights of bf16 operands
  Activation gate = Activation::kSilu;   // of gated rows
  bool biased = false;

  u32 out_cols() const { return gated ? rows / 2 : rows; }
};

// Problem holds the packed weights of all experts, one expert after the other, and a step's choices.
struct Problem {
  PackedShape shape;
  std::vector<char> packed;
  std::vector<double> weight;  // the stored values, [expert][row][col]
  std::vector<float> x, norm;
  Routed routed;
  std::vector<uint16_t> x_bf16;
  std::vector<float> sum_squares;    // one sum for each row of x
  std::vector<float> bias, up_bias;  // [expert][out_cols]
};

WeightType type_of(const Case& c) {
  return c.bf16 ? c.coded : WeightType::kF32;
}

Problem make_problem(const Case& c) {
  const std::vector<float> weight = random_floats(size_t{c.experts} * c.rows * c.cols, 1, 0.1f);
  Problem p{packed_shape(c.rows, c.cols, type_of(c)), {}, {}, {}, {},
            Routed(c.tokens, c.experts, c.top_k),     {}, {}, {}, {}};
  p.packed.resize(p.shape.bytes * c.experts);
  for (size_t i = 0; i < weight.size(); ++i) {
    const size_t expert = i / (c.rows * c.cols), row = i / c.cols % c.rows, col = i % c.cols;
    char* at = &p.packed[expert * p.shape.bytes + packed_offset(p.shape, row, col)];
    const uint16_t stored = to_bf16(weight[i]);
    if (p.shape.format.coded()) {
      p.weight.push_back(put_coded(p.shape, &p.packed[expert * p.shape.bytes], row, col, weight[i], expert));
      continue;
    }
    if (c.bf16)
      std::memcpy(at, &stored, 2);
    else
      std::memcpy(at, &weight[i], 4);
    p.weight.push_back(c.bf16 ? from_bf16(stored) : weight[i]);
  }
  p.x = random_floats(size_t{c.cols} * (c.gather ? c.tokens : p.routed.rows()), 2);
  p.norm = random_floats(c.cols, 3);
  p.sum_squares.resize(p.x.size() / c.cols);
  for (size_t i = 0; i < p.x.size(); ++i) {
    p.x_bf16.push_back(to_bf16(p.x[i] * (c.gather ? p.norm[i % c.cols] : 1)));
    p.sum_squares[i / c.cols] += p.x[i] * p.x[i];
  }
  p.bias = random_floats(c.experts * c.out_cols(), 7, 5);  // reaches the limits of a gate
  p.up_bias = random_floats(c.experts * c.out_cols(), 8, 5);
  std::vector<float> logits = random_floats(size_t{c.tokens} * c.experts, 6);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] += c.pull.empty() ? 0 : c.pull[i % c.experts];
  p.routed = route(logits, c.tokens, c.experts, c.top_k, true);
  return p;
}

struct AllArgs : ExpertArgs {
  EpilogueArgs epilogue;
};

AllArgs make_args(const Case& c, Problem& p, std::vector<float>& out) {
  AllArgs a{};
  a.product.x = global(p.x.data());
  a.product.norm = c.gather ? global(p.norm.data()) : nullptr;
  a.product.normed = c.gather;
  a.epilogue.out = global(out.data());
  a.epilogue.rows = c.rows;
  a.product.cols = c.cols;
  a.epilogue.out_cols = c.out_cols();
  a.product.strips = static_cast<u32>(p.shape.strips);
  a.product.tiles = p.shape.tiles;
  a.product.tail_cols = p.shape.tail_cols;
  a.product.tokens = a.product.x_rows = a.product.max_tokens = c.tokens;
  a.product.padding = padding_of(c.cols, type_of(c));
  a.epilogue.gate = c.gated ? c.gate : Activation::kNone;
  a.product.gates = 1u << static_cast<u32>(a.epilogue.gate);
  if (c.biased) a.product.biased_experts = c.experts, a.epilogue.bias = global(p.bias.data());
  if (c.biased && c.gated) a.epilogue.up_bias = global(p.up_bias.data());
  a.epilogue.eps = 1e-5f;
  if (c.x_bf16) {
    a.product.x = global(reinterpret_cast<float*>(p.x_bf16.data()));
    a.product.x_bf16 = 1;
    a.product.normed = 0;
    a.epilogue.sum_squares = global(p.sum_squares.data());
    a.epilogue.sumsq_partials = c.gather;
  }
  a.expert = global(p.routed.expert.data());
  a.active_expert_rows = global(p.routed.active_expert_rows.data());
  a.active_expert_begin = global(p.routed.active_expert_begin.data());
  a.token = c.gather ? global(p.routed.token.data()) : nullptr;
  a.rows = p.routed.rows();
  a.strips = c.strips;
  a.gather_rows = c.gather;
  return a;
}

auto expert_of(const Case& c) {
  switch (type_of(c)) {
#define MK_EXPERT_OF(name, type) \
  case WeightType::type:         \
    return mkb_expert_##name;
    MKRT_EACH_WEIGHT_TYPE(MK_EXPERT_OF)
  }
  return mkb_expert_f32;
}

// Runs all tasks of a segment on a worker's consumers.
void multiply(Worker& w, const Case& c, const AllArgs& args, u32 active_experts) {
  ExpertArgs a = args;
  a.product.epilogue = put_epilogue_args(w, args.epilogue);
  mkb_expert_rows(&w, &a, active_experts);
  if (c.gather && !c.x_bf16) mkb_product_norm(&w, &a.product);
  if (c.gather && c.x_bf16 && c.tokens > kMma8Tokens) mkb_product_squares(&w, &a.product);
  for (u32 block = 0; block * a.strips < a.product.strips; ++block)
    for (u32 active_expert = 0; active_expert < active_experts; ++active_expert) {
      expert_of(c)(&w, &a, block, active_expert);
      mkd_barrier();
    }
}

// Runs all tasks on one worker. The loader streams them as two segments.
std::vector<float> run(const Case& c, Problem& p, uint64_t seed = 1) {
  std::vector<float> out(size_t{p.routed.rows()} * c.out_cols(), 0.0f);
  const AllArgs a = make_args(c, p, out);
  const u32 active_experts = p.routed.active_experts, blocks = (a.product.strips + a.strips - 1) / a.strips,
            tasks = blocks * active_experts, half = tasks / 2 + 1;
  Sides s;
  s.load = [&](Worker& w) {
    mkd_stream_experts_bulk(&w, global(p.packed.data()), &a, active_experts, type_of(c), 0, half);
    mkd_stream_experts_bulk(&w, global(p.packed.data()), &a, active_experts, type_of(c), half, tasks - half);
  };
  s.consume = [&](Worker& w) { multiply(w, c, a, active_experts); };
  launch(s, 1, seed);
  return out;
}

// Returns a row of x as the product reads it.
std::vector<double> product_input(const Case& c, const Problem& p, u32 row) {
  const u32 from = c.gather ? p.routed.token[row] : row;
  std::vector<double> in(p.x.begin() + from * c.cols, p.x.begin() + (from + 1) * c.cols);
  double sum = 0;
  for (const double v : in) sum += v * v;
  for (u32 k = 0; k < c.cols; ++k) {
    if (c.x_bf16) in[k] = from_bf16(p.x_bf16[from * c.cols + k]) / (c.gather ? p.norm[k] : 1);
    if (c.gather) in[k] *= p.norm[k] / std::sqrt(sum / c.cols + 1e-5);
    if (c.x_bf16) continue;
    if (c.bf16) in[k] = from_bf16(to_bf16(static_cast<float>(in[k])));
  }
  return in;
}

// Returns what a gate (Shazeer 2020; gpt-oss 2025) makes of a pair.
double gated(Activation gate, double g, double up) {
  if (gate == Activation::kSilu) return g / (1 + std::exp(-g)) * up;
  g = std::min(g, 7.0), up = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (up + 1);
}

void check_product(const Case& c) {
  CAPTURE(c.tokens);
  CAPTURE(c.strips);
  CAPTURE(c.rows);
  CAPTURE(c.bf16);
  CAPTURE(c.gated);
  Problem p = make_problem(c);
  const std::vector<float> out = run(c, p);
  const u32 out_cols = c.out_cols();
  for (u32 row = 0, active_expert = 0; row < p.routed.rows(); ++row) {
    while (row >= p.routed.active_expert_begin[active_expert] + p.routed.active_expert_rows[active_expert])
      ++active_expert;
    const std::vector<double> in = product_input(c, p, row);
    const auto dot = [&](u32 r) {
      const double* w = &p.weight[(size_t{p.routed.expert[active_expert]} * c.rows + r) * c.cols];
      return std::inner_product(in.begin(), in.end(), w, 0.0);
    };
    const size_t of_expert = size_t{p.routed.expert[active_expert]} * out_cols;
    std::vector<double> want(out_cols);
    for (u32 i = 0; i < out_cols; ++i) {
      const double bias = c.biased ? p.bias[of_expert + i] : 0,
                   up_bias = c.biased ? p.up_bias[of_expert + i] : 0;
      want[i] = c.gated ? gated(c.gate, dot(i / 8 * 16 + i % 8) + bias, dot(i / 8 * 16 + 8 + i % 8) + up_bias)
                        : dot(i) + bias;
    }
    CHECK(row_error(&out[row * out_cols], want.data(), out_cols) < (c.bf16 ? c.gather ? 2e-3 : 1e-5 : 3e-6));
  }
}

const std::vector<float> kAllToOne{0, 0, 40, 0, 0}, kSome{40, -40, 40, -40, 0};

TEST_CASE("each row is multiplied with its expert's weights") {
  for (const bool bf16 : {false, true})
    for (const bool silu : {false, true})
      for (const u32 tokens : {1u, 2u, 9u, 40u})
        for (const bool gather : {false, true}) {
          check_product({tokens, 5, 2, 48, 130, bf16, silu, gather, {}});
          check_product({tokens, 5, 1, 32, 40, bf16, silu, gather, kAllToOne});
          check_product({tokens, 5, 2, silu ? 48u : 40u, 600, bf16, silu, gather, kSome});
          if (bf16) check_product({tokens, 5, 2, 48, 130, bf16, silu, gather, kSome, true});
          // The one of a gate and a gather that a number of tokens leaves out, its neighbours have.
          for (const WeightType coded : coded_types()) {
            if (!bf16 || (silu ^ gather) != (tokens == 2 || tokens == 40)) continue;
            check_product({tokens, 5, 2, 48, 600, bf16, silu, gather, kSome, true, 1, coded});
            check_product({tokens, 5, 1, 32, 40, bf16, silu, gather, kAllToOne, false, 1, coded});
          }
        }
}

TEST_CASE("an expert's biases are added before the gate, whose limits many rows reach") {
  for (const u32 tokens : {1u, 8u, 9u, 40u, 70u})
    for (const bool gather : {false, true})
      for (const bool bf16 : {false, true})
        for (const bool biased : {false, true}) {
          Case c{tokens, 5, 2, 48, 130, bf16, true, gather, kSome};
          c.gate = Activation::kSwigluOai, c.biased = biased;
          check_product(c);
          if (!biased) continue;
          c.gate = Activation::kSilu;
          check_product(c);
          c.gated = false, c.rows = 40;
          check_product(c);
        }
}

TEST_CASE("biased experts of codes have the bits of one strip alone, and agree with float64") {
  for (const u32 tokens : {1u, 9u, 40u})
    for (const bool gated : {false, true})
      for (const WeightType coded : {WeightType::kE4m3, WeightType::kMxfp4}) {
        Case c{tokens, 5, 2, 112, 320, true, gated, gated, kSome, true, 1, coded};
        c.gate = Activation::kSwigluOai, c.biased = true;
        Problem p = make_problem(c);
        const std::vector<float> alone = run(c, p);
        check_product(c);
        c.strips = 4;
        CHECK(run(c, p) == alone);
      }
}

TEST_CASE("biases are those of the expert, not of the active expert") {
  Case c{12, 5, 1, 48, 40, true, true, false, kAllToOne};
  c.gate = Activation::kSwigluOai, c.biased = true;
  Problem p = make_problem(c);
  const std::vector<float> want = run(c, p);
  for (u32 i = 0; i < p.bias.size(); ++i)
    if (i / c.out_cols() != 2) p.bias[i] = p.up_bias[i] = NAN;
  CHECK(run(c, p) == want);
}

TEST_CASE("a task's strips are multiplied together, whatever rows its expert has") {
  for (const u32 tokens : {1u, 8u, 9u, 40u, 70u})
    for (const bool gather : {false, true}) {
      Case c{tokens, 5, 1, gather ? 112u : 108u, 300, true, gather, gather, kAllToOne, true};
      if (tokens != 8) c.coded = WeightType::kE4m3;
      Problem p = make_problem(c);
      const std::vector<float> alone = run(c, p);
      for (const u32 strips : {3u, 4u}) {
        c.strips = strips;
        check_product(c);
        CHECK(run(c, p) == alone);
      }
    }
}

TEST_CASE("a row's bits do not depend on the rows beside it") {
  Case c{50, 5, 1, 40, 300, true, false, true, {}};
  Problem mixed = make_problem(c);
  c.pull = kAllToOne;
  Problem together = make_problem(c);
  const std::vector<float> some = run(c, mixed), all = run(c, together);
  u32 active_expert = 0, same = 0;
  while (mixed.routed.expert[active_expert] != 2) ++active_expert;
  for (u32 row = mixed.routed.active_expert_begin[active_expert];
       same < mixed.routed.active_expert_rows[active_expert]; ++row, ++same)
    CHECK(std::equal(&some[row * c.rows], &some[row * c.rows] + c.rows,
                     &all[mixed.routed.token[row] * c.rows]));
  CHECK(same > 3);
  CHECK(run(c, mixed, 77) == some);
}

TEST_CASE("a token's rows are added by their routing weights to the residual, the first choice first") {
  const u32 tokens = 11, top_k = 3, cols = kExpertSumColumns + 40;
  const Routed r = route(random_floats(tokens * 7, 8), tokens, 7, top_k, false);
  const std::vector<float> x = random_floats(r.rows() * cols, 9), residual = random_floats(tokens * cols, 10);
  const std::vector<float> norm = random_floats(cols, 11);
  std::array<double, 2> part{};
  for (const bool add : {true, false}) {
    std::vector<float> out(tokens * cols, NAN), sum_squares(tokens * 2, NAN);
    std::vector<uint16_t> x_bf16(out.size());
    const ExpertSumArgs a{
        global(x.data()),
        global(r.routing_weight.data()),
        global(r.row.data()),
        add ? global(residual.data()) : nullptr,
        global(out.data()),
        {global(norm.data()), global(reinterpret_cast<char*>(x_bf16.data())), global(sum_squares.data())},
        cols,
        r.rows(),
        top_k};
    Sides s;
    s.consume = [&](Worker& w) {
      for (u32 t = 0; t < tokens; ++t)
        for (u32 block = 0; block < 2; ++block) {
          mkb_expert_sum(&w, &a, t, block);
          mkd_barrier();
        }
    };
    launch(s);
    for (u32 t = 0; t < tokens; ++t)
      for (u32 col = 0; col < cols; ++col) {
        if (col == 0) part = {0, 0};
        float sum = 0;
        for (u32 i = 0; i < top_k; ++i)
          sum = std::fma(r.routing_weight[t * top_k + i], x[r.row[t * top_k + i] * cols + col], sum);
        CHECK(out[t * cols + col] == (add ? residual[t * cols + col] + sum : sum));
        CHECK(x_bf16[t * cols + col] == to_bf16(out[t * cols + col] * norm[col]));
        part[col / kExpertSumColumns] += double{out[t * cols + col]} * out[t * cols + col];
        if (col == cols - 1)
          for (u32 i = 0; i < 2; ++i) CHECK(sum_squares[t * 2 + i] == doctest::Approx(part[i]).epsilon(1e-5));
      }
  }
}

TEST_CASE("loader and consumers look up what the route found once it is there") {
  const Case c{6, 5, 2, 48, 130, true, false, true, {}};
  Problem p = make_problem(c);
  const std::vector<float> logits = random_floats(size_t{c.tokens} * c.experts, 6), want = run(c, p);
  Routed late(c.tokens, c.experts, c.top_k);
  std::swap(p.routed, late);
  std::vector<float> out(want.size(), 0.0f);
  const AllArgs a = make_args(c, p, out);
  const RouteArgs routing = p.routed.args(logits, true);
  const AS1 u32* found = global(&p.routed.active_experts);
  Sides s;
  s.load = [&](Worker& w) {
    const u32 active_experts = mkd_loader_look_up(&w, 0, 7, 1, found, c.experts);
    mkd_stream_experts_bulk(&w, global(p.packed.data()), &a, active_experts, type_of(c), 0,
                            active_experts * a.product.strips);
  };
  s.consume = [&](Worker& w) {
    mkb_route(&w, &routing);
    mkd_barrier();
    mkd_notify(&w, 7, 1);
    const u32 active_experts = mkd_look_up(&w, 0, 7, 1, found, c.experts);
    multiply(w, c, a, active_experts);
  };
  launch(s);
  CHECK(out == want);
}

}  // namespace
}  // namespace mk
