#include <bit>
#include <cmath>

#include "device_launch.h"

namespace mk {
namespace {

struct Case {
  uint32_t heads, kv_heads, head_dim, tokens, kv_len;
  bool norm;
  uint32_t window = 0;
};
constexpr uint32_t kContext = 600;

struct Problem {
  std::vector<float> q, k, v, rope, q_norm, k_norm, k_cache, v_cache;
  std::vector<u32> positions;
};

Problem make_problem(const Case& c) {
  Problem p;
  p.q = random_floats(c.tokens * c.heads * c.head_dim, 1);
  p.k = random_floats(c.tokens * c.kv_heads * c.head_dim, 2);
  p.v = random_floats(c.tokens * c.kv_heads * c.head_dim, 3);
  p.q_norm = random_floats(c.head_dim, 4);
  p.k_norm = random_floats(c.head_dim, 5);
  p.k_cache = random_floats(size_t{c.kv_heads} * kContext * c.head_dim, 6);
  p.v_cache = random_floats(size_t{c.kv_heads} * kContext * c.head_dim, 7);
  for (uint32_t pos = 0; pos < kContext; ++pos) {
    for (uint32_t i = 0; i < c.head_dim / 2; ++i)
      p.rope.push_back(static_cast<float>(std::cos(pos * std::pow(1e4, -2.0 * i / c.head_dim))));
    for (uint32_t i = 0; i < c.head_dim / 2; ++i)
      p.rope.push_back(static_cast<float>(std::sin(pos * std::pow(1e4, -2.0 * i / c.head_dim))));
  }
  for (uint32_t t = 0; t < c.tokens; ++t) p.positions.push_back(c.kv_len - c.tokens + t);
  return p;
}

// Norm over the head, then rotation, in double.
std::vector<double> rotated(const Case& c, const float* x, const float* norm, uint32_t pos) {
  std::vector<double> in(x, x + c.head_dim), out(c.head_dim);
  if (c.norm) {
    double sum = 0;
    for (double v : in) sum += v * v;
    for (uint32_t i = 0; i < c.head_dim; ++i) in[i] *= norm[i] / std::sqrt(sum / c.head_dim + 1e-6);
  }
  const uint32_t half = c.head_dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    const double angle = pos * std::pow(1e4, -2.0 * i / c.head_dim);
    out[i] = in[i] * std::cos(angle) - in[half + i] * std::sin(angle);
    out[half + i] = in[half + i] * std::cos(angle) + in[i] * std::sin(angle);
  }
  return out;
}

// Softmax attention of one query row (Vaswani et al. 2017), in double, over a cache already extended.
std::vector<double> reference(const Case& c, const Problem& p, const std::vector<double>& keys,
                              const std::vector<double>& values, uint32_t token, uint32_t head) {
  const uint32_t g = head / (c.heads / c.kv_heads), last = c.kv_len - c.tokens + token;
  const std::vector<double> q =
      rotated(c, &p.q[(token * c.heads + head) * c.head_dim], p.q_norm.data(), p.positions[token]);
  const uint32_t from = c.window == 0 || last < c.window ? 0 : last + 1 - c.window;
  std::vector<double> score(last + 1), out(c.head_dim);
  double greatest = -INFINITY, total = 0;
  for (uint32_t pos = from; pos <= last; ++pos) {
    for (uint32_t i = 0; i < c.head_dim; ++i)
      score[pos] += q[i] * keys[(g * kContext + pos) * c.head_dim + i];
    score[pos] /= std::sqrt(c.head_dim);
    greatest = std::max(greatest, score[pos]);
  }
  for (uint32_t pos = from; pos <= last; ++pos) total += score[pos] = std::exp(score[pos] - greatest);
  for (uint32_t pos = from; pos <= last; ++pos)
    for (uint32_t i = 0; i < c.head_dim; ++i)
      out[i] += score[pos] / total * values[(g * kContext + pos) * c.head_dim + i];
  return out;
}

// A cache in pages that lie in reversed order, with one unused in front.
struct Paged {
  const Case& c;
  uint32_t page_size;
  bool heads_outside;
  std::vector<float> memory;
  std::vector<u32> index;

  Paged(const Case& shape, uint32_t size, bool hnd, const std::vector<float>& from)
      : c(shape), page_size(size), heads_outside(hnd) {
    const uint32_t pages = (kContext + size - 1) / size;
    for (uint32_t i = 0; i < pages; ++i) index.push_back(pages - i);
    memory.assign(size_t{pages + 1} * page_floats(), NAN);
    for (uint32_t pos = 0; pos < kContext; ++pos)
      for (uint32_t g = 0; g < c.kv_heads; ++g)
        for (uint32_t i = 0; i < c.head_dim; ++i) at(g, pos, i) = from[(g * kContext + pos) * c.head_dim + i];
  }
  uint32_t page_floats() const { return page_size * c.kv_heads * c.head_dim; }
  uint32_t position_floats() const { return heads_outside ? c.head_dim : c.kv_heads * c.head_dim; }
  uint32_t head_floats() const { return heads_outside ? page_size * c.head_dim : c.head_dim; }
  float& at(uint32_t g, uint32_t pos, uint32_t i) {
    return memory[size_t{index[pos / page_size]} * page_floats() + pos % page_size * position_floats() +
                  g * head_floats() + i];
  }
  void copy_to(std::vector<float>& to) {
    for (uint32_t pos = 0; pos < kContext; ++pos)
      for (uint32_t g = 0; g < c.kv_heads; ++g)
        for (uint32_t i = 0; i < c.head_dim; ++i) to[(g * kContext + pos) * c.head_dim + i] = at(g, pos, i);
  }
};

// The body's result: attend every piece, then combine.
std::vector<float> run(const Case& c, Problem& p, uint32_t page_size = 16, bool heads_outside = false) {
  // As docs/ir.md has it: the piece of the first position that the first token sees.
  const uint32_t first_token = c.kv_len - c.tokens;
  const uint32_t first_piece =
      c.window == 0 || first_token < c.window ? 0 : (first_token + 1 - c.window) / 256;
  const uint32_t pieces = (c.kv_len + 255) / 256 - first_piece;
  std::vector<float> acc(size_t{pieces} * kMaxTokens * c.heads * c.head_dim, NAN);
  std::vector<float> ml(size_t{pieces} * kMaxTokens * c.heads * 2, NAN);
  std::vector<float> out(size_t{c.tokens} * c.heads * c.head_dim, NAN);
  AttendArgs a{};
  a.q = global(p.q.data());
  a.k = global(p.k.data());
  a.v = global(p.v.data());
  a.positions = global(p.positions.data());
  a.rope = global(p.rope.data());
  if (c.norm) a.q_norm = global(p.q_norm.data()), a.k_norm = global(p.k_norm.data());
  Paged k_cache(c, page_size, heads_outside, p.k_cache), v_cache(c, page_size, heads_outside, p.v_cache);
  const u32 page_begin[] = {0};
  a.cache.k = global(reinterpret_cast<char*>(k_cache.memory.data()));
  a.cache.v = global(reinterpret_cast<char*>(v_cache.memory.data()));
  a.cache.page_stride = k_cache.page_floats() * sizeof(float);
  a.cache.position_stride = k_cache.position_floats() * sizeof(float);
  a.cache.head_stride = k_cache.head_floats() * sizeof(float);
  a.cache.page_begin = global(page_begin);
  a.cache.page_index = global(k_cache.index.data());
  a.cache.page_shift = static_cast<u32>(std::countr_zero(page_size));
  a.part_acc = global(acc.data());
  a.part_ml = global(ml.data());
  a.out = global(out.data());
  a.max_tokens = kMaxTokens, a.window = c.window;
  a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim;
  a.q_eps = a.k_eps = 1e-6f;
  a.scale = static_cast<float>(1.4426950408889634 / std::sqrt(c.head_dim));
  Sides s;
  s.consume = [&](Worker& w) {
    AttendArgs mine = a;  // lists lie in the worker's memory
    mine.first_row = mkd_list(&w, 0), mine.rows = mkd_list(&w, 1), mine.kv_len = mkd_list(&w, 2);
    if (w.thread == 0)
      for (u32 list = 0; list < 3; ++list)
        mkd_set_element(&w, list, 0, list == 0 ? 0 : list == 1 ? c.tokens : c.kv_len);
    mkd_barrier();
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 piece = 0; piece < pieces; ++piece) {
        mkb_attend_f32(&w, &mine, g, 0, piece);
        mkd_barrier();
      }
    for (u32 g = 0; g < c.kv_heads; ++g) mkb_combine(&w, &mine, g, 0);
  };
  launch(s);
  k_cache.copy_to(p.k_cache);
  v_cache.copy_to(p.v_cache);
  return out;
}

const Case kCases[] = {
    {3, 1, 40, 1, 1, false},      {3, 1, 40, 7, 7, true},         {4, 2, 128, 1, 257, true},
    {4, 2, 32, 16, 260, false},   {8, 2, 64, 3, 512, false},      {2, 2, 256, 2, 600, true},
    {4, 2, 32, 1, 600, false, 1}, {4, 2, 32, 5, 600, true, 100},  {4, 2, 32, 16, 300, false, 40},
    {4, 2, 32, 3, 20, false, 64}, {4, 2, 32, 16, 560, false, 257}};

TEST_CASE("attention over cache and new tokens agrees with float64") {
  for (const Case& c : kCases) {
    CAPTURE(c.kv_len);
    CAPTURE(c.head_dim);
    Problem p = make_problem(c);
    std::vector<double> keys(p.k_cache.begin(), p.k_cache.end()), values(p.v_cache.begin(), p.v_cache.end());
    for (uint32_t t = 0; t < c.tokens; ++t)
      for (uint32_t g = 0; g < c.kv_heads; ++g) {
        const size_t from = (t * c.kv_heads + g) * c.head_dim;
        const size_t to = (size_t{g} * kContext + p.positions[t]) * c.head_dim;
        const std::vector<double> key = rotated(c, &p.k[from], p.k_norm.data(), p.positions[t]);
        for (uint32_t i = 0; i < c.head_dim; ++i) keys[to + i] = key[i], values[to + i] = p.v[from + i];
      }
    Problem other = p;
    const std::vector<float> out = run(c, p);
    CHECK(run(c, other, 32, true) == out);  // the bits do not depend on where pages lie
    for (uint32_t t = 0; t < c.tokens; ++t)
      for (uint32_t h = 0; h < c.heads; ++h) {
        const std::vector<double> want = reference(c, p, keys, values, t, h);
        CHECK(row_error(&out[(t * c.heads + h) * c.head_dim], want.data(), c.head_dim) < 5e-6);
      }
    for (size_t i = 0; i < keys.size(); ++i) CHECK(p.k_cache[i] == doctest::Approx(keys[i]).epsilon(1e-5));
  }
}

TEST_CASE("a row's bits do not depend on how the prompt was cut into steps") {
  const Case whole{4, 2, 32, 16, 260, false};
  Problem p = make_problem(whole);
  Problem step = p;
  const std::vector<float> together = run(whole, p);
  for (uint32_t t = 0; t < whole.tokens; ++t) {
    const Case one{4, 2, 32, 1, 245 + t, false};
    const uint32_t q_width = 4 * 32, kv_width = 2 * 32;
    Problem single = step;
    single.q.assign(p.q.begin() + t * q_width, p.q.begin() + (t + 1) * q_width);
    single.k.assign(p.k.begin() + t * kv_width, p.k.begin() + (t + 1) * kv_width);
    single.v.assign(p.v.begin() + t * kv_width, p.v.begin() + (t + 1) * kv_width);
    single.positions = {244 + t};
    const std::vector<float> alone = run(one, single);
    step.k_cache = single.k_cache;
    step.v_cache = single.v_cache;
    CHECK(std::equal(alone.begin(), alone.end(), together.begin() + t * q_width));
  }
}

}  // namespace
}  // namespace mk
