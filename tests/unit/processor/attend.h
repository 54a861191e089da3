// This harness runs attention on a worker of the processor, over caches with scattered pages, and compares it
// with float64 loops.
#pragma once

#include <bit>
#include <cmath>
#include <numeric>

#include "codegen/processor/worker.h"
#include "runtime/base/half.h"
#include "tests/unit/processor/level/bf16_pairs.h"
#include "tests/unit/processor/worker.h"
#include "tests/unit/worse.h"

namespace mk {

// Form is a storage type of the cache with its bodies. `key_error` bounds the relative error of a stored
// number, and row_error() the relative L2 error of an output row. pairs() says that queries and weights
// are rounded to bf16.
struct Form {
  uint32_t bytes;
  uint32_t (*encode)(float);
  float (*decode)(uint32_t);
  uint32_t block_rows;
  void (*append)(Worker*, const AttendArgs*, u32, u32);
  void (*attend)(Worker*, const AttendArgs*, u32, u32, u32, u32, u32);
  double key_error;
  float k_scale = 1, v_scale = 1;
  bool pairs() const { return kBf16Pairs && attend == mkb_attend_bf16; }
  double row_error() const { return pairs() ? 1.0 / 256 : 5e-6; }
};
inline const Form kForms[] = {
    {4, [](float v) { return std::bit_cast<uint32_t>(v); },
     [](uint32_t v) { return std::bit_cast<float>(v); }, kQueryTileRowsF32, mkb_append_f32, mkb_attend_f32,
     1e-6},
    {2, mkrt::f32_to_bf16, mkrt::bf16_to_f32, kQueryTileRows, mkb_append_bf16, mkb_attend_bf16, 1.0 / 256},
    {2, mkrt::f32_to_f16, mkrt::f16_to_f32, kQueryTileRows, mkb_append_f16, mkb_attend_f16, 1.0 / 2048},
    {1, mkrt::f32_to_e4m3, mkrt::e4m3_to_f32, kQueryTileRows, mkb_append_e4m3, mkb_attend_e4m3, 1.0 / 16,
     0.0625f, 0.3f}};

struct Request {
  uint32_t context, rows;  // positions with the step's rows
};
struct Case {
  uint32_t heads, kv_heads, head_dim;
  std::vector<Request> requests;
  uint32_t window = 0;
  bool norm = false, rotated = true, sinks = false;

  uint32_t first_row(size_t request) const {
    uint32_t first = 0;
    for (size_t i = 0; i < request; ++i) first += requests[i].rows;
    return first;
  }
  uint32_t tokens() const { return first_row(requests.size()); }
  uint32_t max_context() const {
    uint32_t max = 0;
    for (const Request& r : requests) max = std::max(max, r.context);
    return max;
  }
  uint32_t first_seen(uint32_t last) const { return window == 0 || last < window ? 0 : last + 1 - window; }
};

// Layout says where things lie that must not change a bit.
struct Layout {
  uint32_t page_size = 16;
  bool heads_outside = false;
  uint32_t block_tokens = kMaxTokens;
  uint32_t partial_positions = kKvTile;
};

// Returns n numbers of a fixed series. It is long enough that no two vectors of a test are equal.
inline std::vector<float> floats(size_t n, size_t from) {
  static const std::vector<float> series = random_floats(100003, 1);
  std::vector<float> out(n);
  for (size_t i = 0, at = from * 1009; i < n; ++i, ++at) out[i] = series[at % series.size()];
  return out;
}

// Problem is the inputs of a step and what the caches hold, [request][position][kv_head][head_dim].
struct Problem {
  std::vector<float> q, k, v, rope, q_norm, k_norm;
  std::vector<float> sinks;  // [heads], or none
  std::vector<std::vector<float>> k_cache, v_cache;
  std::vector<u32> positions;
};

inline Problem make_problem(const Case& c) {
  Problem p;
  p.q = floats(size_t{c.tokens()} * c.heads * c.head_dim, 1);
  p.k = floats(size_t{c.tokens()} * c.kv_heads * c.head_dim, 2);
  p.v = floats(size_t{c.tokens()} * c.kv_heads * c.head_dim, 3);
  p.q_norm = floats(c.head_dim, 4);
  p.k_norm = floats(c.head_dim, 5);
  if (c.sinks) p.sinks = random_floats(c.heads, 8, 4);
  for (uint32_t pos = 0; pos < c.max_context(); ++pos)
    for (uint32_t i = 0; i < c.head_dim; ++i) {
      const double angle = pos * std::pow(1e4, -2.0 * (i % (c.head_dim / 2)) / c.head_dim);
      p.rope.push_back(static_cast<float>(i < c.head_dim / 2 ? std::cos(angle) : std::sin(angle)));
    }
  for (const Request& r : c.requests) {
    const size_t seed = 2 * p.k_cache.size() + 6;
    p.k_cache.push_back(floats(size_t{r.context} * c.kv_heads * c.head_dim, seed));
    p.v_cache.push_back(floats(size_t{r.context} * c.kv_heads * c.head_dim, seed + 1));
    for (uint32_t t = 0; t < r.rows; ++t) p.positions.push_back(r.context - r.rows + t);
  }
  return p;
}

// Returns a head after its norm and its rotation, computed in double.
inline std::vector<double> turned(const Case& c, const float* x, const std::vector<float>& norm,
                                  uint32_t pos) {
  std::vector<double> in(x, x + c.head_dim), out(c.head_dim);
  if (c.norm) {
    double sum = 0;
    for (double v : in) sum += v * v;
    for (uint32_t i = 0; i < c.head_dim; ++i) in[i] *= norm[i] / std::sqrt(sum / c.head_dim + 1e-6);
  }
  if (!c.rotated) return in;
  const uint32_t half = c.head_dim / 2;
  for (uint32_t i = 0; i < half; ++i) {
    const double angle = pos * std::pow(1e4, -2.0 * i / c.head_dim);
    out[i] = in[i] * std::cos(angle) - in[half + i] * std::sin(angle);
    out[half + i] = in[half + i] * std::cos(angle) + in[i] * std::sin(angle);
  }
  return out;
}

// Returns softmax attention of one query row (Vaswani et al. 2017), computed in double. The caches already
// hold the step's keys and values. A sink is a score without a value (Xiao et al. 2023; gpt-oss 2025). The
// query is rounded where the form rounds it, and the bound of an error is for weights.
inline std::vector<double> reference(const Case& c, const Form& form, const Problem& p, size_t request,
                                     uint32_t row, uint32_t head) {
  const uint32_t g = head / (c.heads / c.kv_heads), token = c.first_row(request) + row,
                 last = p.positions[token], from = c.first_seen(last);
  std::vector<double> q = turned(c, &p.q[(size_t{token} * c.heads + head) * c.head_dim], p.q_norm, last);
  if (form.pairs())
    for (double& v : q) v = mkrt::bf16_to_f32(mkrt::f32_to_bf16(static_cast<float>(v)));
  const auto at = [&](const std::vector<float>& cache, uint32_t pos) {
    return &cache[(size_t{pos} * c.kv_heads + g) * c.head_dim];
  };
  std::vector<double> score(last + 1), out(c.head_dim);
  double greatest = -INFINITY, total = 0;
  for (uint32_t pos = from; pos <= last; ++pos) {
    const float* key = at(p.k_cache[request], pos);
    for (uint32_t i = 0; i < c.head_dim; ++i) score[pos] += q[i] * key[i];
    score[pos] /= std::sqrt(c.head_dim);
    greatest = std::max(greatest, score[pos]);
  }
  if (!p.sinks.empty()) greatest = std::max(greatest, double{p.sinks[head]});
  if (!p.sinks.empty()) total = std::exp(double{p.sinks[head]} - greatest);
  for (uint32_t pos = from; pos <= last; ++pos) total += score[pos] = std::exp(score[pos] - greatest);
  for (uint32_t pos = from; pos <= last; ++pos) {
    const float* value = at(p.v_cache[request], pos);
    for (uint32_t i = 0; i < c.head_dim; ++i) out[i] += score[pos] / total * value[i];
  }
  return out;
}

// Paged is a cache whose pages are scattered over all requests. Every byte that the test does not fill is
// 0xff, which is NaN in each type. Positions that no row of the step sees stay so.
struct Paged {
  const Case& c;
  const Form& form;
  const Layout& layout;
  float scale;
  std::vector<u32> begin, index;  // [request] and [page of a request]
  std::vector<uint8_t> memory;

  Paged(const Case& shape, const Form& of, const Layout& where, float times,
        const std::vector<std::vector<float>>& from)
      : c(shape), form(of), layout(where), scale(times) {
    u32 pages = 0;
    for (const Request& r : c.requests)
      begin.push_back(pages), pages += (r.context + layout.page_size - 1) / layout.page_size;
    index.resize(pages);
    std::iota(index.begin(), index.end(), 1);  // page 0 is nobody's
    std::shuffle(index.begin(), index.end(), std::mt19937(7));
    memory.assign(size_t{pages + 1} * page_bytes(), 0xff);
    each([&](size_t request, uint32_t pos, size_t i, uint8_t* at) {
      if (pos >= c.requests[request].context - c.requests[request].rows) return;
      const uint32_t bits = form.encode(from[request][i] / scale);
      std::memcpy(at, &bits, form.bytes);
    });
  }
  uint32_t vector_bytes() const { return c.head_dim * form.bytes; }
  uint32_t page_bytes() const { return layout.page_size * c.kv_heads * vector_bytes(); }
  uint32_t position_bytes() const { return (layout.heads_outside ? 1 : c.kv_heads) * vector_bytes(); }
  uint32_t head_bytes() const { return (layout.heads_outside ? layout.page_size : 1) * vector_bytes(); }
  // Calls use(request, position, index in the problem's cache, address) for each number that a row sees.
  template <class Use>
  void each(Use use) {
    for (size_t request = 0; request < c.requests.size(); ++request) {
      const auto [context, rows] = c.requests[request];
      for (uint32_t pos = c.first_seen(context - rows); pos < context; ++pos)
        for (uint32_t g = 0; g < c.kv_heads; ++g) {
          uint8_t* at = &memory[size_t{index[begin[request] + pos / layout.page_size]} * page_bytes() +
                                pos % layout.page_size * position_bytes() + g * head_bytes()];
          for (size_t d = 0; d < c.head_dim; ++d, at += form.bytes)
            use(request, pos, (size_t{pos} * c.kv_heads + g) * c.head_dim + d, at);
        }
    }
  }
  void copy_to(std::vector<std::vector<float>>& to) {
    each([&](size_t request, uint32_t, size_t i, const uint8_t* at) {
      uint32_t bits = 0;
      std::memcpy(&bits, at, form.bytes);
      to[request][i] = form.decode(bits) * scale;
    });
  }
};

// Lists are the row blocks of a step (docs/ir.md). A request's last row block is not appended.
struct Lists {
  std::vector<u32> request, first_row, rows, kv_len, partials, context, step_rows;
  std::vector<bool> last;

  Lists(const Case& c, const Layout& layout) {
    for (size_t i = 0; i < c.requests.size(); ++i) {
      const auto [positions, count] = c.requests[i];
      context.push_back(positions), step_rows.push_back(count);
      for (uint32_t t = 0; t < count; t += layout.block_tokens) {
        const uint32_t taken = std::min(layout.block_tokens, count - t), end = positions - count + t + taken;
        request.push_back(static_cast<u32>(i)), first_row.push_back(c.first_row(i) + t);
        rows.push_back(taken), kv_len.push_back(end), last.push_back(t + taken == count);
        const uint32_t from = c.first_seen(end - taken) / layout.partial_positions;
        partials.push_back((end + layout.partial_positions - 1) / layout.partial_positions - from);
      }
    }
  }
};

// Runs the bodies as a step does and returns their output. The scratch holds NaN before each task.
inline std::vector<float> run(const Case& c, const Form& form, Problem& p, const Layout& layout = {},
                              bool out_bf16 = false) {
  const Lists lists(c, layout);
  Paged k_cache(c, form, layout, form.k_scale, p.k_cache), v_cache(c, form, layout, form.v_scale, p.v_cache);
  const std::vector<float> k_scales(c.kv_heads, form.k_scale), v_scales(c.kv_heads, form.v_scale);
  const size_t rows = size_t{c.tokens()} * c.heads, partials = (c.max_context() + 255) / 256;
  std::vector<float> acc(partials * rows * c.head_dim, NAN), ml(partials * rows * 2, NAN);
  std::vector<float> out(rows * c.head_dim, NAN);
  AttendArgs a{};
  a.q = global(p.q.data()), a.k = global(p.k.data()), a.v = global(p.v.data());
  a.rope = global(p.rope.data());
  if (c.norm) a.q_norm = global(p.q_norm.data()), a.k_norm = global(p.k_norm.data());
  a.cache.k = global(reinterpret_cast<char*>(k_cache.memory.data()));
  a.cache.v = global(reinterpret_cast<char*>(v_cache.memory.data()));
  a.cache.k_scale = global(k_scales.data()), a.cache.v_scale = global(v_scales.data());
  a.cache.page_stride = k_cache.page_bytes();
  a.cache.position_stride = k_cache.position_bytes(), a.cache.head_stride = k_cache.head_bytes();
  a.cache.page_begin = global(k_cache.begin.data()), a.cache.page_index = global(k_cache.index.data());
  a.cache.page_shift = static_cast<u32>(std::countr_zero(layout.page_size));
  a.partial_acc = global(acc.data()), a.partial_ml = global(ml.data()), a.out = global(out.data());
  a.sinks = p.sinks.empty() ? nullptr : global(p.sinks.data());
  a.request = shared(lists.request.data()), a.first_row = shared(lists.first_row.data()),
  a.rows = shared(lists.rows.data());
  a.kv_len = shared(lists.kv_len.data()), a.context = shared(lists.context.data()),
  a.step_rows = shared(lists.step_rows.data());
  a.tokens = c.tokens(), a.partial_positions = layout.partial_positions, a.window = c.window;
  a.out_bf16 = out_bf16, a.rotated = c.rotated;
  a.heads = c.heads, a.kv_heads = c.kv_heads, a.head_dim = c.head_dim;
  a.q_eps = a.k_eps = 1e-6f;
  a.scale = static_cast<float>(1.4426950408889634 / std::sqrt(c.head_dim));

  TestWorker worker(kRowsOffset - kThreadOffset);
  Worker& w = worker.w;
  const auto task = [&](auto body, auto... number) {
    const auto shared_begin = reinterpret_cast<uintptr_t>(w.shared);
    std::memset(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(w.scratch())), 0xff, kScratchBytes);
    std::memset(reinterpret_cast<void*>(shared_begin + kUnpackedOffset), 0xff, kUnpackedBytes);
    body(&w, &a, number...);
  };
  const auto blocks = static_cast<u32>(lists.rows.size());
  for (u32 k = 0; k < blocks; ++k)
    for (u32 g = 0; g < c.kv_heads; ++g)
      if (!lists.last[k]) task(form.append, g, k);
  for (u32 k = 0; k < blocks; ++k)
    for (u32 g = 0; g < c.kv_heads; ++g)
      for (u32 partial = 0; partial < lists.partials[k]; ++partial)
        for (u32 kv_tile = 0; kv_tile < layout.partial_positions / kKvTile; ++kv_tile)
          for (u32 block = 0; block * form.block_rows < lists.rows[k] * (c.heads / c.kv_heads); ++block)
            task(form.attend, g, k, partial, kv_tile, block);
  for (u32 k = 0; k < blocks; ++k)
    for (u32 g = 0; g < c.kv_heads; ++g) task(mkb_combine, g, k);
  k_cache.copy_to(p.k_cache);
  v_cache.copy_to(p.v_cache);
  return out;
}

// Compares each row of a step with the reference.
inline void check_rows(const Case& c, const Form& form, const Problem& p, const std::vector<float>& out) {
  for (size_t request = 0; request < c.requests.size(); ++request)
    for (uint32_t row = 0; row < c.requests[request].rows; ++row)
      for (uint32_t head = 0; head < c.heads; ++head) {
        const size_t at = (size_t{c.first_row(request) + row} * c.heads + head) * c.head_dim;
        const std::vector<double> want = reference(c, form, p, request, row, head);
        CHECK(row_error(&out[at], want.data(), c.head_dim) < form.row_error());
      }
}

// Compares what the step has stored in the caches with keys and values computed in double.
inline void check_cache(const Case& c, const Form& form, const Problem& p) {
  for (size_t request = 0; request < c.requests.size(); ++request)
    for (uint32_t row = 0; row < c.requests[request].rows; ++row)
      for (uint32_t g = 0; g < c.kv_heads; ++g) {
        const uint32_t token = c.first_row(request) + row, position = p.positions[token];
        const size_t from = (size_t{token} * c.kv_heads + g) * c.head_dim,
                     to = (size_t{position} * c.kv_heads + g) * c.head_dim;
        const std::vector<double> key = turned(c, &p.k[from], p.k_norm, position);
        double worst = 0;  // error relative to its bound
        for (uint32_t i = 0; i < c.head_dim; ++i) {
          const double v = p.v[from + i], k_bound = form.key_error * std::abs(key[i]) + 1e-3 * form.k_scale,
                       v_bound = form.key_error * std::abs(v) + 1e-3 * form.v_scale;
          worst = mkc::test::worse(worst, std::abs(p.k_cache[request][to + i] - key[i]) / k_bound);
          worst = mkc::test::worse(worst, std::abs(p.v_cache[request][to + i] - v) / v_bound);
        }
        CHECK(worst <= 1);
      }
}

// Runs a step and checks rows and caches. Page size, order of heads, row blocks and partials may not change a
// bit.
inline void check_step(const Case& c, const Form& form) {
  CAPTURE(&form - kForms);
  CAPTURE(c.heads);
  CAPTURE(c.head_dim);
  const Problem made = make_problem(c);
  Problem p = made, other = made;
  const std::vector<float> out = run(c, form, p);
  check_rows(c, form, p, out);
  check_cache(c, form, p);
  const uint32_t partial = c.window == 0 ? kKvChunk : kKvTile;
  CHECK(run(c, form, other, {64, true, 1, partial}) == out);
  CHECK(other.k_cache == p.k_cache);
  CHECK(other.v_cache == p.v_cache);
  if (c.tokens() > c.requests.size()) CHECK(run(c, form, other = made, {16, true, 4, partial}) == out);
}

}  // namespace mk
