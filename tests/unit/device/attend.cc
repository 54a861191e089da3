#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/base/half.h"
#include "tests/unit/device/launch.h"

namespace mk {
namespace {

// Form is a storage type of the cache with its bodies. `key_error` bounds the relative error of a stored
// number. `row_error` bounds the relative L2 error of an output row.
struct Form {
  uint32_t bytes;
  uint32_t (*encode)(float);
  float (*decode)(uint32_t);
  uint32_t block_rows;
  void (*append)(Worker*, const AttendArgs*, u32, u32);
  void (*attend)(Worker*, const AttendArgs*, u32, u32, u32, u32, u32);
  void (*stream)(Worker*, const AttendArgs*, u32, u32, u32);
  double key_error, row_error;
  float k_scale = 1, v_scale = 1;
};
const Form kForms[] = {{4, [](float v) { return std::bit_cast<uint32_t>(v); },
                        [](uint32_t v) { return std::bit_cast<float>(v); }, kQueryTileRowsF32, mkb_append_f32,
                        mkb_attend_f32, mkd_stream_cache_f32, 1e-5, 5e-6},
                       {2, mkrt::f32_to_bf16, mkrt::bf16_to_f32, kQueryTileRows, mkb_append_bf16,
                        mkb_attend_bf16, mkd_stream_cache_bf16, 1.0 / 256, 4e-3},
                       {2, mkrt::f32_to_f16, mkrt::f16_to_f32, kQueryTileRows, mkb_append_f16, mkb_attend_f16,
                        mkd_stream_cache_f16, 1.0 / 2048, 1e-3},
                       {1, mkrt::f32_to_e4m3, mkrt::e4m3_to_f32, kQueryTileRows, mkb_append_e4m3,
                        mkb_attend_e4m3, mkd_stream_cache_e4m3, 1.0 / 16, 1e-3, 0.0625f, 0.3f}};

struct Case {
  uint32_t heads, kv_heads, head_dim, tokens, kv_len;
  bool norm;
  uint32_t window = 0, context = 600;
  bool sinks = false;
};

struct Problem {
  std::vector<float> q, k, v, rope, q_norm, k_norm, k_cache, v_cache;
  std::vector<float> sinks;  // [heads], or none
  std::vector<u32> positions;
};

Problem make_problem(const Case& c) {
  Problem p;
  p.q = random_floats(c.tokens * c.heads * c.head_dim, 1);
  p.k = random_floats(c.tokens * c.kv_heads * c.head_dim, 2);
  p.v = random_floats(c.tokens * c.kv_heads * c.head_dim, 3);
  p.q_norm = random_floats(c.head_dim, 4);
  p.k_norm = random_floats(c.head_dim, 5);
  p.k_cache = random_floats(size_t{c.kv_heads} * c.context * c.head_dim, 6);
  p.v_cache = random_floats(size_t{c.kv_heads} * c.context * c.head_dim, 7);
  for (uint32_t pos = 0; pos < c.context; ++pos) {
    for (uint32_t i = 0; i < c.head_dim / 2; ++i)
      p.rope.push_back(static_cast<float>(std::cos(pos * std::pow(1e4, -2.0 * i / c.head_dim))));
    for (uint32_t i = 0; i < c.head_dim / 2; ++i)
      p.rope.push_back(static_cast<float>(std::sin(pos * std::pow(1e4, -2.0 * i / c.head_dim))));
  }
  for (uint32_t t = 0; t < c.tokens; ++t) p.positions.push_back(c.kv_len - c.tokens + t);
  if (c.sinks) p.sinks = random_floats(c.heads, 8, 4);
  return p;
}

// Returns a head after its norm and its rotation, computed in double.
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

// Returns softmax attention of one query row (Vaswani et al. 2017), computed in double. The cache already
// holds the step's keys and values. A sink is a score without a value (Xiao et al. 2023; gpt-oss 2025).
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
      score[pos] += q[i] * keys[(g * c.context + pos) * c.head_dim + i];
    score[pos] /= std::sqrt(c.head_dim);
    greatest = std::max(greatest, score[pos]);
  }
  if (!p.sinks.empty()) greatest = std::max(greatest, double{p.sinks[head]});
  if (!p.sinks.empty()) total = std::exp(p.sinks[head] - greatest);
  for (uint32_t pos = from; pos <= last; ++pos) total += score[pos] = std::exp(score[pos] - greatest);
  for (uint32_t pos = from; pos <= last; ++pos)
    for (uint32_t i = 0; i < c.head_dim; ++i)
      out[i] += score[pos] / total * values[(g * c.context + pos) * c.head_dim + i];
  return out;
}

// Paged is a cache whose pages lie in reverse order, behind one unused page. Every byte that the test does
// not fill is 0xff, which is NaN in each type.
struct Paged {
  const Case& c;
  const Form& form;
  float scale;
  uint32_t page_size;
  bool heads_outside;
  std::vector<uint8_t> memory;
  std::vector<u32> index;

  Paged(const Case& shape, const Form& of, float times, uint32_t size, bool hnd,
        const std::vector<float>& from)
      : c(shape), form(of), scale(times), page_size(size), heads_outside(hnd) {
    const uint32_t pages = (c.context + size - 1) / size;
    for (uint32_t i = 0; i < pages; ++i) index.push_back(pages - i);
    memory.assign(size_t{pages + 1} * page_bytes(), 0xff);
    const uint32_t fresh = c.kv_len - c.tokens,
                   first = c.window == 0 || fresh < c.window ? 0 : fresh + 1 - c.window;
    for (uint32_t pos = first; pos < fresh; ++pos)
      for (uint32_t g = 0; g < c.kv_heads; ++g)
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          const uint32_t bits = form.encode(from[(g * c.context + pos) * c.head_dim + i] / scale);
          std::memcpy(at(g, pos, i), &bits, form.bytes);
        }
  }
  uint32_t vector_bytes() const { return c.head_dim * form.bytes; }
  uint32_t page_bytes() const { return page_size * c.kv_heads * vector_bytes(); }
  uint32_t position_bytes() const { return heads_outside ? vector_bytes() : c.kv_heads * vector_bytes(); }
  uint32_t head_bytes() const { return heads_outside ? page_size * vector_bytes() : vector_bytes(); }
  uint8_t* at(uint32_t g, uint32_t pos, uint32_t i) {
    return &memory[size_t{index[pos / page_size]} * page_bytes() + pos % page_size * position_bytes() +
                   g * head_bytes() + i * form.bytes];
  }
  void copy_to(std::vector<float>& to) {
    for (uint32_t pos = 0; pos < c.context; ++pos)
      for (uint32_t g = 0; g < c.kv_heads; ++g)
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          uint32_t bits = 0;
          std::memcpy(&bits, at(g, pos, i), form.bytes);
          to[(g * c.context + pos) * c.head_dim + i] = form.decode(bits) * scale;
        }
  }
};

// Runs the bodies and returns their output. Blocks have `block_tokens` rows each. All blocks but the last are
// appended, then each partial of `part` positions is attended, then all are combined.
std::vector<float> run(const Case& c, const Form& form, Problem& p, uint32_t page_size = 16,
                       bool heads_outside = false, uint32_t block_tokens = kMaxTokens,
                       uint32_t part = kKvTile) {
  const uint32_t blocks = (c.tokens + block_tokens - 1) / block_tokens, max_parts = (c.kv_len + 255) / 256;
  const auto rows_of = [&](uint32_t k) { return std::min(block_tokens, c.tokens - k * block_tokens); };
  const auto end_of = [&](uint32_t k) { return c.kv_len - c.tokens + k * block_tokens + rows_of(k); };
  // docs/ir.md defines the partials of a block. The first partial holds the first position that the block's
  // first token sees.
  const auto parts_of = [&](uint32_t k) {
    const uint32_t first_token = end_of(k) - rows_of(k);
    const uint32_t first_seen = c.window == 0 || first_token < c.window ? 0 : first_token + 1 - c.window;
    return (end_of(k) + part - 1) / part - first_seen / part;
  };
  std::vector<float> acc(size_t{max_parts} * c.tokens * c.heads * c.head_dim, NAN);
  std::vector<float> ml(size_t{max_parts} * c.tokens * c.heads * 2, NAN);
  std::vector<float> out(size_t{c.tokens} * c.heads * c.head_dim, NAN);
  AttendArgs a{};
  a.q = global(p.q.data());
  a.k = global(p.k.data());
  a.v = global(p.v.data());
  a.rope = global(p.rope.data());
  a.rotated = 1;
  if (c.norm) a.q_norm = global(p.q_norm.data()), a.k_norm = global(p.k_norm.data());
  Paged k_cache(c, form, form.k_scale, page_size, heads_outside, p.k_cache);
  Paged v_cache(c, form, form.v_scale, page_size, heads_outside, p.v_cache);
  const std::vector<float> k_scales(c.kv_heads, form.k_scale), v_scales(c.kv_heads, form.v_scale);
  const u32 page_begin[] = {0};
  a.cache.k = global(reinterpret_cast<char*>(k_cache.memory.data()));
  a.cache.v = global(reinterpret_cast<char*>(v_cache.memory.data()));
  a.cache.page_stride = k_cache.page_bytes();
  a.cache.position_stride = k_cache.position_bytes();
  a.cache.head_stride = k_cache.head_bytes();
  a.cache.k_scale = global(k_scales.data());
  a.cache.v_scale = global(v_scales.data());
  a.cache.page_begin = global(page_begin);
  a.cache.page_index = global(k_cache.index.data());
  a.cache.page_shift = static_cast<u32>(std::countr_zero(page_size));
  a.partial_acc = global(acc.data());
  a.partial_ml = global(ml.data());
  a.sinks = p.sinks.empty() ? nullptr : global(p.sinks.data());
  a.out = global(out.data());
  a.tokens = c.tokens, a.partial_positions = part, a.window = c.window;
  a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim;
  a.q_eps = a.k_eps = 1e-6f;
  a.scale = static_cast<float>(1.4426950408889634 / std::sqrt(c.head_dim));
  const auto with_lists = [&](Worker& w) {  // the lists lie in the worker's memory
    AttendArgs mine = a;
    mine.first_row = mkd_list(&w, 0), mine.rows = mkd_list(&w, 256), mine.kv_len = mkd_list(&w, 512);
    mine.request = mkd_list(&w, 768), mine.context = mkd_list(&w, 1024), mine.step_rows = mkd_list(&w, 1025);
    return mine;
  };
  Sides s;
  s.load = [&](Worker& w) {
    const AttendArgs mine = with_lists(w);
    if (!mkd_await_lists(&w, 0)) return;
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 k = 0; k < blocks; ++k)
        for (u32 number = 0; number < parts_of(k); ++number) form.stream(&w, &mine, g, k, number);
  };
  s.consume = [&](Worker& w) {
    const AttendArgs mine = with_lists(w);
    if (w.thread == 0) {
      for (u32 k = 0; k < blocks; ++k) {
        mkd_set_element(&w, 0, k, k * block_tokens);
        mkd_set_element(&w, 256, k, rows_of(k));
        mkd_set_element(&w, 512, k, end_of(k));
        mkd_set_element(&w, 768, k, 0);
      }
      mkd_set_element(&w, 1024, 0, c.kv_len);
      mkd_set_element(&w, 1025, 0, c.tokens);
    }
    mkd_barrier();
    mkd_lists_made(&w);
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 k = 0; k + 1 < blocks; ++k) form.append(&w, &mine, g, k);
    mkd_barrier();
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 k = 0; k < blocks; ++k)
        for (u32 number = 0; number < parts_of(k); ++number) {
          for (u32 kv_tile = 0; kv_tile < part / kKvTile; ++kv_tile)
            for (u32 block = 0; block * form.block_rows < rows_of(k) * (c.heads / c.kv_heads); ++block)
              form.attend(&w, &mine, g, k, number, kv_tile, block);
          mkd_barrier();
        }
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 k = 0; k < blocks; ++k) mkb_combine(&w, &mine, g, k);
  };
  launch(s);
  k_cache.copy_to(p.k_cache);
  v_cache.copy_to(p.v_cache);
  return out;
}

const Case kCases[] = {
    {3, 1, 40, 1, 1, false},      {3, 1, 40, 7, 7, true},          {4, 2, 128, 1, 257, true},
    {4, 2, 32, 16, 260, false},   {8, 2, 64, 3, 512, false},       {2, 2, 256, 2, 600, true},
    {4, 2, 32, 1, 600, false, 1}, {4, 2, 32, 5, 600, true, 100},   {4, 2, 32, 16, 300, false, 40},
    {4, 2, 32, 3, 20, false, 64}, {4, 2, 32, 16, 560, false, 257}, {18, 2, 64, 2, 21, false},
    {24, 2, 128, 3, 260, true},   {64, 2, 64, 2, 34, false, 17}};
// A single token, chunks of prompts, several partials, windows, and groups of heads, with sinks.
const Case kSinkCases[] = {
    {6, 2, 40, 1, 1, false, 0, 600, true},      {16, 2, 64, 1, 600, false, 0, 600, true},
    {4, 2, 32, 16, 260, true, 0, 600, true},    {3, 1, 128, 7, 7, false, 0, 600, true},
    {4, 2, 32, 16, 560, false, 257, 600, true}, {18, 2, 64, 5, 600, false, 1, 600, true},
    {64, 2, 64, 2, 34, false, 17, 600, true}};

std::vector<Case> all_cases() {
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.insert(cases.end(), std::begin(kSinkCases), std::end(kSinkCases));
  return cases;
}

TEST_CASE("attention over cache and new tokens agrees with float64, in every form of the cache") {
  for (const Form& form : kForms)
    for (const Case& c : all_cases()) {
      CAPTURE(&form - kForms);
      CAPTURE(c.kv_len);
      CAPTURE(c.head_dim);
      Problem p = make_problem(c), other = p;
      const std::vector<float> out = run(c, form, p);
      CHECK(run(c, form, other, 32, true) == out);  // the bits do not depend on the order of pages and heads
      for (const u32 block_tokens : {1u, 3u})       // the bits do not depend on the size of row blocks
        if (block_tokens < c.tokens)
          CHECK(run(c, form, other = make_problem(c), 16, false, block_tokens) == out);
      const size_t bytes = p.k_cache.size() * sizeof(float);
      CHECK(std::memcmp(other.k_cache.data(), p.k_cache.data(), bytes) == 0);
      CHECK(std::memcmp(other.v_cache.data(), p.v_cache.data(), bytes) == 0);
      for (uint32_t t = 0; t < c.tokens; ++t)
        for (uint32_t g = 0; g < c.kv_heads; ++g) {
          const size_t from = (t * c.kv_heads + g) * c.head_dim;
          const size_t to = (size_t{g} * c.context + p.positions[t]) * c.head_dim;
          const std::vector<double> key = rotated(c, &p.k[from], p.k_norm.data(), p.positions[t]);
          for (uint32_t i = 0; i < c.head_dim; ++i) {
            CHECK(std::abs(p.k_cache[to + i] - key[i]) <=
                  form.key_error * std::abs(key[i]) + 1e-3 * form.k_scale);
            CHECK(std::abs(p.v_cache[to + i] - p.v[from + i]) <=
                  form.key_error * std::abs(p.v[from + i]) + 1e-3 * form.v_scale);
          }
        }
      // The rounding of a query adds the same to all of its scores, which cancels. A sink has no such part.
      const double bound = form.row_error * (c.sinks ? 2 : 1);
      const std::vector<double> keys(p.k_cache.begin(), p.k_cache.end()),
          values(p.v_cache.begin(), p.v_cache.end());
      for (uint32_t t = 0; t < c.tokens; ++t)
        for (uint32_t h = 0; h < c.heads; ++h) {
          const std::vector<double> want = reference(c, p, keys, values, t, h);
          CHECK(row_error(&out[(t * c.heads + h) * c.head_dim], want.data(), c.head_dim) < bound);
        }
    }
}

TEST_CASE("a row's bits do not depend on whether a task goes through a piece or a span") {
  for (const Form& form : kForms)
    for (const Case& c : {Case{4, 2, 32, 5, 300, false},
                          {8, 1, 40, 7, 2051, true, 0, 2400},
                          {6, 2, 40, 7, 2051, false, 0, 2400, true},
                          {2, 2, 64, 3, 2400, false, 0, 2400}}) {
      CAPTURE(&form - kForms);
      CAPTURE(c.kv_len);
      Problem kv_tiles = make_problem(c), spans = kv_tiles;
      const std::vector<float> out = run(c, form, kv_tiles);
      CHECK(run(c, form, spans, 16, false, kMaxTokens, kKvChunk) == out);
      CHECK(run(c, form, spans = make_problem(c), 16, false, 2, kKvChunk) == out);
    }
}

TEST_CASE("a row's bits do not depend on how the prompt was cut into steps, nor on its place among others") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 9u}) {
      CAPTURE(&form - kForms);
      CAPTURE(window);
      const Case whole{6, 2, 40, 11, 263, false, window};
      const uint32_t q_width = 6 * 40, kv_width = 2 * 40;
      Problem p = make_problem(whole), fed = p;
      const std::vector<float> together = run(whole, form, p);
      for (uint32_t t = 0, rows = 1; t < whole.tokens; t += rows, rows = 3 - rows) {
        rows = std::min(rows, whole.tokens - t);
        const Case some{6, 2, 40, rows, 252 + t + rows, false, window};
        Problem part = fed;
        part.q.assign(p.q.begin() + t * q_width, p.q.begin() + (t + rows) * q_width);
        part.k.assign(p.k.begin() + t * kv_width, p.k.begin() + (t + rows) * kv_width);
        part.v.assign(p.v.begin() + t * kv_width, p.v.begin() + (t + rows) * kv_width);
        part.positions.assign(p.positions.begin() + t, p.positions.begin() + t + rows);
        const std::vector<float> alone = run(some, form, part);
        fed.k_cache = part.k_cache;
        fed.v_cache = part.v_cache;
        CHECK(std::equal(alone.begin(), alone.end(), together.begin() + t * q_width));
      }
    }
}

TEST_CASE("a great sink leaves 0 of a row, and a small one leaves its bits") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 9u}) {
      CAPTURE(&form - kForms);
      CAPTURE(window);
      Case c{6, 2, 40, 7, 300, false, window};
      Problem p = make_problem(c), other = p;
      const std::vector<float> plain = run(c, form, p);
      for (const float far : {100.0f, 1e4f, 1e30f, 1e38f}) {
        other = make_problem(c);
        other.sinks = {far, -far, 0, -INFINITY, far, -far};
        const std::vector<float> out = run(c, form, other);
        for (size_t i = 0; i < out.size(); ++i) {
          const float sink = other.sinks[i / c.head_dim % c.heads];
          if (sink > 0) CHECK(std::abs(out[i]) < 1e-35f);
          if (sink < 0) CHECK(out[i] == plain[i]);
        }
      }
    }
}

TEST_CASE("what a row does not see does not reach it, even where it is no number") {
  for (const Form& form : kForms)
    for (const uint32_t window : {0u, 2u}) {
      CAPTURE(&form - kForms);
      CAPTURE(window);
      const Case c{4, 2, 32, 8, 261, false, window};
      const uint32_t width = 2 * 32, bad = 4;
      Problem p = make_problem(c), spoilt = p;
      for (uint32_t i = 0; i < width; ++i) spoilt.v[bad * width + i] = i % 2 == 0 ? NAN : INFINITY;
      const std::vector<float> want = run(c, form, p), got = run(c, form, spoilt);
      for (uint32_t t = 0; t < c.tokens; ++t) {
        CAPTURE(t);
        const bool sees = t >= bad && (window == 0 || t < bad + window);
        const size_t from = t * size_t{4 * 32};
        if (sees)
          CHECK(std::isnan(got[from]));
        else
          CHECK(std::equal(want.begin() + from, want.begin() + from + 4 * 32, got.begin() + from));
      }
    }
}

}  // namespace
}  // namespace mk
