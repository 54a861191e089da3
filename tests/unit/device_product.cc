#include <cmath>

#include "device_launch.h"

namespace mk {
namespace {

struct Case {
  uint32_t rows, cols, tokens;
  bool bf16;
};

// Packs rows [rows, cols] element by element as runtime/packing.h defines.
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
  std::vector<double> weight;  // as stored
  std::vector<float> x, norm, bias, residual;
};

Problem make_problem(const Case& c) {
  Problem p;
  p.shape = packed_shape(c.rows, c.cols, c.bf16 ? 2 : 4);
  const std::vector<float> weight = random_floats(size_t{c.rows} * c.cols, 1, 0.1f);
  if (c.bf16) {
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

ProductArgs make_args(const Case& c, Problem& p, std::vector<float>& out) {
  ProductArgs a{};
  a.x = global(p.x.data());
  a.out = global(out.data());
  a.rows = c.rows;
  a.cols = c.cols;
  a.out_cols = c.rows;
  a.strips = static_cast<u32>(p.shape.strips);
  a.tiles = p.shape.tiles;
  a.tail_cols = static_cast<u32>(p.shape.padded_cols - (p.shape.tiles - 1) * p.shape.tile_cols);
  a.tokens = c.tokens;
  a.x_rows = c.tokens;
  a.padding = padding_of(c.cols);
  a.eps = 1e-5f;
  return a;
}

// x times the norm's weights in bf16, and the sums of squares of x in `parts` parts.
struct Rounded {
  std::vector<uint16_t> x;
  std::vector<float> squares;
};

Rounded round_input(const Case& c, const Problem& p, uint32_t parts) {
  Rounded r{std::vector<uint16_t>(p.x.size()), std::vector<float>(size_t{c.tokens} * parts)};
  for (size_t i = 0; i < p.x.size(); ++i) {
    const size_t token = i / c.cols, col = i % c.cols;
    r.x[i] = to_bf16(p.x[i] * p.norm[col]);
    r.squares[token * parts + col * parts / c.cols] += p.x[i] * p.x[i];
  }
  return r;
}

void take_rounded(ProductArgs& a, Rounded& r, uint32_t parts) {
  a.x = global(reinterpret_cast<float*>(r.x.data()));
  a.squares = global(r.squares.data());
  a.parts = parts;
  a.rounded = a.scaled = 1;
}

// In segments of `most` strips, whose blocks end with them. `q_len`: of the requests whose last rows are
// picked, where args pick rows.
void run(const Case& c, Problem& p, ProductArgs a, uint64_t seed = 1, bool bulk = true, u32 most = ~0u,
         const std::vector<u32>& q_len = {}) {
  const u32 elem_bytes = p.shape.elem_bytes, tail_bytes = a.tail_cols * kStripRows * elem_bytes;
  const u32 block = a.wide_from && a.tokens >= a.wide_from ? kWideStrips : block_strips(elem_bytes);
  Sides s;
  s.load = [&](Worker& w) {
    const auto stream = bulk ? mkd_stream_bulk : mkd_stream_async;
    for (u32 strip = 0; strip < a.strips; strip += least(most, a.strips))
      stream(&w, global(p.packed.data()), strip, least(most, a.strips - strip), a.tiles, tail_bytes, a.tokens,
             elem_bytes, a.wide_from);
  };
  s.consume = [&](Worker& w) {
    if (a.picks) {
      for (u32 b = 0, row = 0; b < q_len.size(); row += q_len[b++])
        if (w.thread == b) mkd_set_element(&w, 0, b, q_len[b]), mkd_set_element(&w, kMaxRequests, b, row);
      mkd_barrier();
      a.q_len = mkd_list(&w, 0), a.first_row = mkd_list(&w, kMaxRequests);
      mkb_product_rows(&w, &a);
    }
    if (a.normed) mkb_product_norm(&w, &a);
    if (a.rounded && a.tokens > kFewTokens) mkb_product_squares(&w, &a);
    for (u32 strip = 0, strips; strip < a.strips; strip += strips) {
      strips = least(least(block, most), a.strips - strip);
      c.bf16 ? mkb_product_bf16(&w, &a, strip, strips) : mkb_product_f32(&w, &a, strip, strips);
      mkd_barrier();
    }
  };
  launch(s, 1, seed);
}

// Normalised as in Zhang and Sennrich 2019, in double; rounded to the weights' type where the product takes
// it.
std::vector<double> product_input(const Case& c, const Problem& p, bool norm, uint32_t token) {
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

double dot(const Case& c, const Problem& p, const std::vector<double>& in, uint32_t row) {
  double sum = 0;
  for (uint32_t k = 0; k < c.cols; ++k) sum += in[k] * p.weight[row * c.cols + k];
  return sum;
}

const Case kCases[] = {
    {16, 256, 1, false}, {40, 120, 1, false}, {33, 300, 7, false},  {16, 1000, 16, false},
    {16, 512, 1, true},  {40, 120, 1, true},  {33, 700, 7, true},   {1009 % 64, 1100, 16, true},
    {16, 512, 8, true},  {24, 64, 9, true},   {33, 130, 17, false}, {16, 64, 256, false},
    {33, 600, 17, true}, {20, 130, 64, true}, {33, 600, 65, true},  {16, 64, 256, true},
    {150, 512, 1, true}, {150, 700, 5, true}, {150, 600, 33, true}};

// By warpgroups; rows are of whole 16-byte pieces.
constexpr u32 kWide = 9;
const Case kWideCases[] = {{16, 512, 9, true},   {33, 600, 65, true},  {150, 1024, 64, true},
                           {64, 120, 130, true}, {200, 64, 256, true}, {128, 1096, 128, true}};

TEST_CASE("a product with norm, bias and residual agrees with float64 at every token count") {
  const auto check = [](const Case& c, bool wide) {
    CAPTURE(wide);
    CAPTURE(c.rows);
    CAPTURE(c.cols);
    CAPTURE(c.tokens);
    Problem p = make_problem(c);
    std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
    ProductArgs a = make_args(c, p, out);
    a.norm = global(p.norm.data());
    a.normed = 1;
    a.bias = global(p.bias.data());
    a.residual = global(p.residual.data());
    a.wide_from = wide ? kWide : 0;
    run(c, p, a);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      const std::vector<double> in = product_input(c, p, true, t);
      std::vector<double> want(c.rows);
      for (uint32_t r = 0; r < c.rows; ++r)
        want[r] = dot(c, p, in, r) + p.bias[r] + p.residual[t * c.rows + r];
      // A rounding to bf16 near a tie may fall the other way: 2^-9 of one of `cols` terms.
      CHECK(row_error(&out[t * c.rows], want.data(), c.rows) < (c.bf16 ? 5e-4 : 2e-6));
    }
  };
  for (const Case& c : kCases) check(c, false);
  for (const Case& c : kWideCases) check(c, true);
}

// The products of x times the norm, in double, divided by the root mean square.
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
  const auto check = [](const Case& c, bool wide) {
    CAPTURE(wide);
    CAPTURE(c.rows);
    CAPTURE(c.cols);
    CAPTURE(c.tokens);
    Problem p = make_problem(c);
    const uint32_t parts = c.cols > 600 ? c.cols / 2 : 1;  // more than a warp keeps beside its strips
    Rounded in = round_input(c, p, parts);
    std::vector<float> out(size_t{c.tokens} * c.rows, NAN);
    const std::vector<float> next = random_floats(c.rows, 6);
    ProductArgs a = make_args(c, p, out);
    take_rounded(a, in, parts);
    a.residual = global(p.residual.data());
    a.wide_from = wide ? kWide : 0;
    std::vector<uint16_t> rounded(out.size());
    std::vector<float> squares(size_t{c.tokens} * a.strips, NAN);
    a.next = {global(next.data()), global(reinterpret_cast<char*>(rounded.data())), global(squares.data())};
    run(c, p, a);
    for (uint32_t t = 0; t < c.tokens; ++t) {
      std::vector<double> want = scaled_product(c, p, in, t);
      for (uint32_t r = 0; r < c.rows; ++r) want[r] += p.residual[t * c.rows + r];
      const float* row = &out[t * c.rows];
      CHECK(row_error(row, want.data(), c.rows) < 1e-5);
      for (uint32_t r = 0; r < c.rows; ++r) CHECK(rounded[t * c.rows + r] == to_bf16(row[r] * next[r]));
      for (uint32_t i = 0; i < a.strips; ++i) {
        double sum = 0;
        for (uint32_t r = i * 16; r < std::min(c.rows, i * 16 + 16); ++r) sum += double{row[r]} * row[r];
        CHECK(squares[t * a.strips + i] == doctest::Approx(sum).epsilon(1e-5));
      }
    }
  };
  for (const Case& c : kCases)
    if (c.bf16) check(c, false);
  for (const Case& c : kWideCases) check(c, true);
}

TEST_CASE("gate times up is rounded where only products read it") {
  for (const uint32_t tokens : {1u, 5u, 20u}) {
    const Case c{48, 200, tokens, true};
    Problem p = make_problem(c);
    Rounded in = round_input(c, p, 3);
    std::vector<float> exact(size_t{tokens} * c.rows / 2, NAN);
    ProductArgs a = make_args(c, p, exact);
    take_rounded(a, in, 3);
    a.silu_mul = 1;
    a.out_cols = c.rows / 2;
    run(c, p, a);
    std::vector<uint16_t> rounded(exact.size());
    a.out = global(reinterpret_cast<float*>(rounded.data()));
    a.out_rounded = 1;
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
    for (size_t i = 0; i < exact.size(); ++i) CHECK(rounded[i] == to_bf16(exact[i]));
  }
}

TEST_CASE("a strip's bits do not depend on the block it is in, nor on who loads it") {
  for (const bool bf16 : {false, true})
    for (const uint32_t tokens : {1u, 5u, 8u, 16u, 30u, 33u, 256u})
      for (const uint32_t cols : {512u, 700u}) {
        const Case c{150, tokens > 64 ? 64 : cols, tokens, bf16};
        CAPTURE(bf16);
        CAPTURE(tokens);
        CAPTURE(cols);
        Problem p = make_problem(c);
        std::vector<float> alone(size_t{c.tokens} * c.rows, NAN), blocks(alone.size(), NAN);
        run(c, p, make_args(c, p, alone), 1, true, 1);
        for (const bool bulk : {true, false}) {
          run(c, p, make_args(c, p, blocks), 1, bulk);
          CHECK(blocks == alone);
        }
      }
}

TEST_CASE("gate and up rows of a strip give silu(gate) * up") {
  const Case c{48, 200, 5, true};
  Problem p = make_problem(c);
  std::vector<float> out(size_t{c.tokens} * c.rows / 2, NAN);
  ProductArgs a = make_args(c, p, out);
  a.silu_mul = 1;
  a.out_cols = c.rows / 2;
  run(c, p, a);
  for (uint32_t t = 0; t < c.tokens; ++t) {
    const std::vector<double> in = product_input(c, p, false, t);
    std::vector<double> want(a.out_cols);
    for (uint32_t i = 0; i < a.out_cols; ++i) {
      const double gate = dot(c, p, in, i / 8 * 16 + i % 8), up = dot(c, p, in, i / 8 * 16 + 8 + i % 8);
      want[i] = gate / (1 + std::exp(-gate)) * up;
    }
    CHECK(row_error(&out[t * a.out_cols], want.data(), a.out_cols) < 1e-5);
  }
}

// `nans`: rows of the weight whose products are no numbers.
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
  ProductArgs a = make_args(c, p, out);
  std::vector<float> best(size_t{c.tokens} * a.strips);
  std::vector<u32> index(best.size());
  a.best_value = global(best.data());
  a.best_index = global(index.data());
  run(c, p, a);
  for (uint32_t t = 0; t < c.tokens; ++t)
    for (uint32_t i = 0; i < a.strips; ++i) {
      const float* row = &out[t * c.rows];
      uint32_t greatest = i * 16;  // of what draw() takes the logits for
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

TEST_CASE("a token's bits do not depend on how many others a matrix product has") {
  Case c{40, 700, 150, true};
  Problem p = make_problem(c);
  std::vector<float> all(size_t{c.tokens} * c.rows);
  run(c, p, make_args(c, p, all));
  for (const uint32_t tokens : {2u, 8u, 9u, 16u, 17u, 64u, 65u}) {
    c.tokens = tokens;
    std::vector<float> some(size_t{tokens} * c.rows);
    run(c, p, make_args(c, p, some));
    CHECK(std::equal(some.begin(), some.end(), all.begin()));
  }
}

TEST_CASE("nor do they of rows that came rounded, nor those of what the next norm takes") {
  Case c{40, 700, 80, true};
  Problem p = make_problem(c);
  Rounded in = round_input(c, p, 5);
  const std::vector<float> next = random_floats(c.rows, 6);
  struct Left {
    std::vector<float> out, squares;
    std::vector<uint16_t> rounded;
  };
  const auto left = [&](uint32_t tokens) {
    c.tokens = tokens;
    Left l{std::vector<float>(tokens * c.rows), std::vector<float>(tokens * p.shape.strips),
           std::vector<uint16_t>(tokens * c.rows)};
    ProductArgs a = make_args(c, p, l.out);
    take_rounded(a, in, 5);
    a.residual = global(p.residual.data());
    a.next = {global(next.data()), global(reinterpret_cast<char*>(l.rounded.data())),
              global(l.squares.data())};
    run(c, p, a);
    return l;
  };
  const Left all = left(80);
  for (const uint32_t tokens : {2u, 3u, 8u, 9u, 17u, 64u}) {
    const Left some = left(tokens);
    CHECK(std::equal(some.out.begin(), some.out.end(), all.out.begin()));
    CHECK(std::equal(some.squares.begin(), some.squares.end(), all.squares.begin()));
    CHECK(std::equal(some.rounded.begin(), some.rounded.end(), all.rounded.begin()));
  }
}

TEST_CASE("rows that are picked have the bits that they have among all") {
  const std::vector<u32> q_len{3, 1, 40, 1, 1, 9, 2, 20, 1, 5};
  for (const bool bf16 : {false, true}) {
    const Case c{40, 700, 83, bf16};
    Problem p = make_problem(c);
    std::vector<float> all(size_t{c.tokens} * c.rows), picked(q_len.size() * c.rows);
    ProductArgs a = make_args(c, p, all);
    a.norm = global(p.norm.data());
    a.normed = 1;
    run(c, p, a);
    a.out = global(picked.data());
    a.tokens = static_cast<u32>(q_len.size());
    a.picks = 1;
    run(c, p, a, 1, true, ~0u, q_len);
    for (size_t b = 0, row = 0; b < q_len.size(); ++b) {
      row += q_len[b];
      CHECK(std::equal(&picked[b * c.rows], &picked[(b + 1) * c.rows], &all[(row - 1) * c.rows]));
    }
    // As many as there are: all of them.
    std::vector<float> again(all.size());
    a.out = global(again.data());
    a.tokens = c.tokens;
    run(c, p, a, 1, true, ~0u, q_len);
    CHECK(again == all);
  }
}

TEST_CASE("bits do not depend on when copies complete") {
  const Case c{33, 1100, 7, true};
  Problem p = make_problem(c);
  std::vector<float> first(size_t{c.tokens} * c.rows), second(first.size());
  run(c, p, make_args(c, p, first), 1);
  run(c, p, make_args(c, p, second), 99);
  CHECK(first == second);
}

TEST_CASE("embedding rows are read from the packed table, and left as the next norm takes them") {
  const Case c{50, 136, 1, true};
  Problem p = make_problem(c);
  std::vector<u32> tokens = {49, 0, 17};
  std::vector<float> out(tokens.size() * c.cols);
  std::vector<uint16_t> rounded(out.size());
  std::vector<float> squares(tokens.size());
  const NextArgs next{global(p.norm.data()), global(reinterpret_cast<char*>(rounded.data())),
                      global(squares.data())};
  const EmbedArgs a{global(tokens.data()), global(p.packed.data()), global(out.data()), next, c.rows, c.cols};
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 t = 0; t < tokens.size(); ++t) {
      mkb_embed_bf16(&w, &a, t);
      mkd_barrier();
    }
  };
  launch(s);
  for (size_t t = 0; t < tokens.size(); ++t) {
    double sum = 0;
    for (uint32_t k = 0; k < c.cols; ++k) {
      const float v = out[t * c.cols + k];
      CHECK(v == p.weight[tokens[t] * c.cols + k]);
      CHECK(rounded[t * c.cols + k] == to_bf16(v * p.norm[k]));
      sum += double{v} * v;
    }
    CHECK(squares[t] == doctest::Approx(sum).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace mk
