// This harness runs products of packed weights on the emulator.
#pragma once

#include <cmath>

#include "codegen/device/weights.h"
#include "tests/unit/device/coded.h"
#include "tests/unit/device/launch.h"

namespace mk {

struct Case {
  uint32_t rows, cols, tokens;
  bool bf16;                             // bf16 operands, else f32
  WeightType coded = WeightType::kBf16;  // format of the weights of bf16 operands
};

inline WeightType type_of(const Case& c) {
  return c.bf16 ? c.coded : WeightType::kF32;
}
// Weights holds the last two members of a Case.
struct Weights {
  bool bf16;
  WeightType coded;
};
inline std::vector<Weights> matrix_weights() {
  std::vector<Weights> weights{{true, WeightType::kBf16}};
  for (const WeightType type : coded_types()) weights.push_back({true, type});
  return weights;
}
inline std::vector<Weights> all_weights() {
  std::vector<Weights> weights = matrix_weights();
  weights.push_back({false, WeightType::kBf16});
  return weights;
}

// Packs a weight [rows, cols] element by element, as runtime/abi/packing.h defines.
template <class T>
std::vector<char> pack(const PackedShape& shape, const std::vector<T>& weight) {
  std::vector<char> out(shape.bytes, 0);
  for (uint64_t r = 0; r < shape.rows; ++r)
    for (uint64_t c = 0; c < shape.cols; ++c)
      *reinterpret_cast<T*>(&out[packed_offset(shape, r, c)]) = weight[r * shape.cols + c];
  return out;
}

struct Problem {
  PackedShape shape;
  std::vector<char> packed;
  std::vector<double> weight;  // the stored values
  std::vector<float> x, norm, bias, residual;
};

inline Problem make_problem(const Case& c) {
  Problem p;
  p.shape = packed_shape(c.rows, c.cols, type_of(c));
  const std::vector<float> weight = random_floats(size_t{c.rows} * c.cols, 1, 0.1f);
  if (p.shape.format.coded()) {
    p.packed.assign(p.shape.bytes, 0);
    for (size_t i = 0; i < weight.size(); ++i)
      p.weight.push_back(put_coded(p.shape, p.packed.data(), i / c.cols, i % c.cols, weight[i]));
  } else if (c.bf16) {
    std::vector<uint16_t> stored;
    for (float v : weight) stored.push_back(to_bf16(v));
    p.packed = pack(p.shape, stored);
    for (uint16_t v : stored) p.weight.push_back(from_bf16(v));
  } else {
    p.packed = pack(p.shape, weight);
    p.weight.assign(weight.begin(), weight.end());
  }
  p.x = random_floats(size_t{c.tokens} * c.cols, 2);
  p.norm = random_floats(c.cols, 3);
  p.bias = random_floats(c.rows, 4);
  p.residual = random_floats(size_t{c.tokens} * c.rows, 5);
  return p;
}

struct AllArgs : ProductArgs, EpilogueArgs {};

// Returns the arguments of one thread. The warp's shared memory receives the epilogue's arguments.
inline ProductArgs with_epilogue(Worker& w, const AllArgs& a, u32 depth = 0) {
  ProductArgs mine = a;
  mine.epilogue = put_epilogue_args(w, a, depth);
  return mine;
}

inline AllArgs make_args(const Case& c, Problem& p, std::vector<float>& out) {
  AllArgs a{};
  a.x = global(p.x.data());
  a.out = global(out.data());
  a.rows = c.rows;
  a.cols = c.cols;
  a.out_cols = c.rows;
  a.strips = a.all_strips = static_cast<u32>(p.shape.strips);
  a.tiles = p.shape.tiles;
  a.tail_cols = p.shape.tail_cols;
  a.tokens = c.tokens;
  a.x_rows = a.max_tokens = c.tokens;
  a.padding = padding_of(c.cols, type_of(c));
  a.streamed_split_k = a.split_k = 1;
  a.mma64_strips = kMma64Strips;
  a.eps = 1e-5f;
  return a;
}

// Rounded is x times the norm's weights in bf16, with sums of squares of x in `parts` partials.
struct Rounded {
  std::vector<uint16_t> x;
  std::vector<float> sum_squares;
};

inline Rounded round_input(const Case& c, const Problem& p, uint32_t parts) {
  Rounded r{std::vector<uint16_t>(p.x.size()), std::vector<float>(size_t{c.tokens} * parts)};
  for (size_t i = 0; i < p.x.size(); ++i) {
    const size_t token = i / c.cols, col = i % c.cols;
    r.x[i] = to_bf16(p.x[i] * p.norm[col]);
    r.sum_squares[token * parts + col * parts / c.cols] += p.x[i] * p.x[i];
  }
  return r;
}

inline void take_rounded(AllArgs& a, Rounded& r, uint32_t parts) {
  a.x = global(reinterpret_cast<float*>(r.x.data()));
  a.sum_squares = global(r.sum_squares.data());
  a.sumsq_partials = parts;
  a.x_bf16 = 1;
}

// Left holds the outputs of a product with a residual and norm outputs.
struct Left {
  std::vector<float> out, sum_squares;
  std::vector<uint16_t> x_bf16;
  bool operator==(const Left&) const = default;
};

// Returns the outputs of `run` for the given rows. Each row has 5 partial sums of squares.
template <class Run>
Left leave(const Case& c, Problem& p, Rounded& in, Run run) {
  const std::vector<float> next = random_floats(c.rows, 6);
  Left l{std::vector<float>(size_t{c.tokens} * c.rows), std::vector<float>(c.tokens * p.shape.strips),
         std::vector<uint16_t>(size_t{c.tokens} * c.rows)};
  AllArgs a = make_args(c, p, l.out);
  take_rounded(a, in, 5);
  a.residual = global(p.residual.data());
  a.norm_outputs = {global(next.data()), global(reinterpret_cast<char*>(l.x_bf16.data())),
                    global(l.sum_squares.data())};
  run(a);
  return l;
}

inline auto product_of(const Case& c) {
  switch (type_of(c)) {
#define MK_PRODUCT_OF(name, type) \
  case WeightType::type:          \
    return mkb_product_##name;
    MKRT_EACH_WEIGHT_TYPE(MK_PRODUCT_OF)
  }
  return mkb_product_f32;
}

// Runs the product in segments of `max` strips. Blocks end with their segment. `q_len` holds the rows of each
// request where `args` gather the last row of each.
inline void run(const Case& c, Problem& p, const AllArgs& args, uint64_t seed = 1, bool bulk = true,
                u32 max = ~0u, const std::vector<u32>& q_len = {}) {
  const WeightType type = type_of(c);
  const u32 block = block_strips(args.tokens, type, args.mma64_strips);
  Sides s;
  s.load = [&](Worker& w) {
    const auto stream = bulk ? mkd_stream_bulk : mkd_stream_async;
    for (u32 strip = 0; strip < args.strips; strip += min(max, args.strips))
      stream(&w, global(p.packed.data()), &args, type, strip, min(max, args.strips - strip));
  };
  s.consume = [&](Worker& w) {
    ProductArgs a = with_epilogue(w, args);
    if (args.gather_rows) {
      for (u32 b = 0, row = 0; b < q_len.size(); row += q_len[b++])
        if (w.thread == b) mkd_set_element(&w, 0, b, q_len[b]), mkd_set_element(&w, kMaxRequests, b, row);
      mkd_barrier();
      a.q_len = mkd_list(&w, 0), a.first_row = mkd_list(&w, kMaxRequests);
      mkb_product_rows(&w, &a);
    }
    if (a.normed) mkb_product_norm(&w, &a);
    if (a.x_bf16 && a.tokens > kMma8Tokens) mkb_product_squares(&w, &a);
    for (u32 strip = 0, strips; strip < a.strips; strip += strips) {
      strips = min(min(block, max), a.strips - strip);
      product_of(c)(&w, &a, strip, strips);
      mkd_barrier();
    }
  };
  launch(s, 1, seed);
}

// Checks that the first tokens of the case have the same bits in a step of each number of tokens, whose
// segments have at most each of `max` strips. `set` changes the arguments.
template <class Set>
void check_bits_of_fewer(Case c, std::initializer_list<u32> fewer, std::initializer_list<u32> max,
                         const Set& set) {
  CAPTURE(static_cast<int>(type_of(c)));
  Problem p = make_problem(c);
  const auto product = [&](u32 tokens, u32 strips) {
    c.tokens = tokens;
    std::vector<float> out(size_t{tokens} * c.rows, NAN);
    AllArgs a = make_args(c, p, out);
    set(a);
    run(c, p, a, 1, true, strips);
    return out;
  };
  const std::vector<float> all = product(c.tokens, ~0u);
  for (const u32 tokens : fewer)
    for (const u32 strips : max) {
      const std::vector<float> some = product(tokens, strips);
      CHECK(std::equal(some.begin(), some.end(), all.begin()));
    }
}

// Returns a row of x as the product reads it. The norm (Zhang and Sennrich 2019) is computed in double. bf16
// products round the row to bf16.
inline std::vector<double> product_input(const Case& c, const Problem& p, bool norm, uint32_t token) {
  std::vector<double> in(p.x.begin() + token * c.cols, p.x.begin() + (token + 1) * c.cols);
  if (norm) {
    double sum = 0;
    for (double v : in) sum += v * v;
    const double scale = 1 / std::sqrt(sum / c.cols + 1e-5);
    for (uint32_t k = 0; k < c.cols; ++k) in[k] *= scale * p.norm[k];
  }
  if (c.bf16)
    for (double& v : in) v = from_bf16(to_bf16(static_cast<float>(v)));
  return in;
}

inline double dot(const Case& c, const Problem& p, const std::vector<double>& in, uint32_t row) {
  double sum = 0;
  for (uint32_t k = 0; k < c.cols; ++k) sum += in[k] * p.weight[row * c.cols + k];
  return sum;
}

}  // namespace mk
