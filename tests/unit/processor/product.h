// This harness runs products of packed weights on a worker of the processor.
#pragma once

#include <cmath>
#include <numeric>
#include <span>

#include "codegen/processor/product_rows.h"
#include "runtime/base/half.h"
#include "tests/unit/pack.h"
#include "tests/unit/processor/worker.h"

namespace mk {

extern "C" {
void mkd_stream(Worker*, AS1 const char* weights);
#define MK_DECLARE_PRODUCT_START(name, type) void mkb_product_start_##name(Worker*, const ProductArgs*);
MKRT_EACH_WEIGHT_TYPE(MK_DECLARE_PRODUCT_START)
}

// FormatBodies are the bodies of a weight format.
struct FormatBodies {
  WeightType type;
  void (*start)(Worker*, const ProductArgs*);
  void (*product)(Worker*, const ProductArgs*, u32, u32);
  void (*expert)(Worker*, const ExpertArgs*, u32, u32);
};
#define MK_BODIES_OF(name, type) \
  {WeightType::type, mkb_product_start_##name, mkb_product_##name, mkb_expert_##name},
constexpr FormatBodies kAllFormats[] = {MKRT_EACH_WEIGHT_TYPE(MK_BODIES_OF)};
inline std::vector<FormatBodies> formats(bool grouped) {
  std::vector<FormatBodies> some;
  for (const FormatBodies& bodies : kAllFormats)
    if (weight_format(bodies.type).grouped() == grouped) some.push_back(bodies);
  return some;
}
inline const std::vector<FormatBodies> kFormats = formats(false), kGroupedFormats = formats(true);
inline const FormatBodies& bodies_of(WeightType type) {
  return kAllFormats[static_cast<size_t>(type)];
}

// Tensor is a weight of a checkpoint. Elements are stored in their format; scales belong to rows.
struct Tensor {
  WeightType type;
  uint64_t rows, cols;
  std::vector<char> stored;
  std::vector<float> scales;
  std::vector<double> value;  // the stored numbers times their scales

  uint64_t element_bytes() const { return weight_format(type).bits / 8; }
};

inline void put_element(Tensor& t, uint64_t i, float v) {
  uint32_t bits = 0;
  double value = 0;
  const float scale = t.scales[i / t.cols];
  switch (t.type) {
    case WeightType::kF32:
      bits = std::bit_cast<uint32_t>(v), value = double{v};
      break;
    case WeightType::kF16:
      bits = f32_to_f16(v), value = double{f16_to_f32(bits)};
      break;
    case WeightType::kBf16:
      bits = f32_to_bf16(v), value = double{bf16_to_f32(bits)};
      break;
    case WeightType::kE4m3:
      bits = f32_to_e4m3(v / scale), value = double{e4m3_to_f32(bits)} * scale;
      break;
    default:
      FAIL("formats with groups have tests of their own");
  }
  std::memcpy(&t.stored[i * t.element_bytes()], &bits, t.element_bytes());
  t.value[i] = value;
}

// Returns a tensor of random numbers. Scales are no powers of 2 and differ between rows.
inline Tensor make_tensor(WeightType type, uint64_t rows, uint64_t cols, uint32_t seed) {
  Tensor t{type, rows, cols, {}, {}, {}};
  t.stored.resize(rows * cols * t.element_bytes());
  t.value.resize(rows * cols);
  for (uint64_t row = 0; row < rows; ++row)
    t.scales.push_back(type == WeightType::kE4m3 ? 0.0011f * static_cast<float>(1 + (row + seed) % 5) : 1);
  const std::vector<float> values = random_floats(rows * cols, seed, 0.1f);
  for (size_t i = 0; i < values.size(); ++i) put_element(t, i, values[i]);
  return t;
}

// Matrix is a packed weight and its numbers, [row][col].
struct Matrix {
  PackedShape shape;
  WeightType type;
  std::vector<char> packed;
  std::vector<double> value;

  const double* row(uint64_t r) const { return &value[r * shape.cols]; }
};

// Packs rows of a tensor as source `source` of `sources`, `piece` rows at a time and each in three parts.
inline void pack_source(const Tensor& t, char* to, uint64_t source, uint64_t sources, uint64_t group,
                        uint64_t piece) {
  for (uint64_t first = 0; first < t.rows; first += piece) {
    const uint64_t rows = std::min(piece, t.rows - first);
    const MkPack pack{reinterpret_cast<uint64_t>(t.stored.data() + first * t.cols * t.element_bytes()),
                      reinterpret_cast<uint64_t>(t.scales.data() + first),
                      0,
                      0,
                      reinterpret_cast<uint64_t>(to),
                      first,
                      rows,
                      t.cols,
                      t.rows * sources,
                      sources,
                      source,
                      group,
                      static_cast<uint64_t>(t.type)};
    for (const u32 part : {1u, 0u, 2u}) pack_rows_of(global(&pack), part, 3);
  }
}

// Packs tensors, `group` rows of each in turn. Rows of the last strip that the weight does not have are NaN.
inline Matrix pack_matrix(const std::vector<Tensor>& sources, uint64_t group = 0, uint64_t piece = 37) {
  const Tensor& first = sources[0];
  const uint64_t rows = first.rows * sources.size(), cols = first.cols;
  Matrix m{packed_shape(rows, cols, first.type), first.type, {}, {}};
  m.packed.resize(m.shape.bytes);
  Tensor nans = make_tensor(first.type, m.shape.strips * kStripRows, cols, 1);
  std::fill(nans.stored.begin(), nans.stored.end(), static_cast<char>(0xff));
  std::fill(nans.scales.begin(), nans.scales.end(), NAN);
  pack_source(nans, m.packed.data(), 0, 1, 0, ~uint64_t{0} / 4);
  for (size_t i = 0; i < sources.size(); ++i)
    pack_source(sources[i], m.packed.data(), i, sources.size(), group, piece);
  const uint64_t turn = sources.size() == 1 ? rows : group;
  for (uint64_t from = 0; from < first.rows; from += turn)
    for (const Tensor& t : sources)
      m.value.insert(m.value.end(), t.value.begin() + static_cast<ptrdiff_t>(from * cols),
                     t.value.begin() + static_cast<ptrdiff_t>((from + turn) * cols));
  return m;
}

// Kinds of x: f32; f32 with a norm; bf16; bf16 of a norm whose factor comes behind the product.
enum class Input { kF32, kNormed, kBf16, kScaled };
constexpr Input kInputs[] = {Input::kF32, Input::kNormed, Input::kBf16, Input::kScaled};
constexpr uint32_t kSumsqPartials = 3;
constexpr float kEps = 1e-5f;

// Rounding is what a product does to a row of f32: nothing, or bf16, or integers of 16 bits with a scale for
// each group of columns.
enum class Rounding { kNone, kBf16, kIntegers };

inline void round_to_integers(std::vector<double>& row, uint32_t group) {
  for (size_t begin = 0; begin < row.size(); begin += group) {
    const std::span<double> of(row.data() + begin, std::min<size_t>(group, row.size() - begin));
    float max = 0;
    for (const double v : of) max = std::max(max, std::abs(static_cast<float>(v)));
    const float by = 32767 / max, unit = max / 32767;
    for (double& v : of) v = max == 0 ? 0 : double{std::nearbyint(static_cast<float>(v) * by)} * double{unit};
  }
}

// X is the rows that a product reads. NaN follows the last row, and the norm's last weight.
struct X {
  Input kind;
  uint32_t rows, cols;
  std::vector<float> f32s, norm, sum_squares;
  std::vector<uint16_t> halves;

  X(Input k, uint32_t r, uint32_t c) : kind(k), rows(r), cols(c), sum_squares(r * kSumsqPartials) {
    f32s = random_floats(size_t{r} * c, 2), norm = random_floats(c, 3);
    for (size_t i = 0; i < f32s.size(); ++i) {
      halves.push_back(to_bf16(kind == Input::kScaled ? f32s[i] * norm[i % c] : f32s[i]));
      sum_squares[i / c * kSumsqPartials + i % c % kSumsqPartials] += f32s[i] * f32s[i];
    }
    for (std::vector<float>* of : {&f32s, &norm}) of->insert(of->end(), 32, NAN);
    halves.insert(halves.end(), 32, 0x7fff);
  }
  bool bf16() const { return kind == Input::kBf16 || kind == Input::kScaled; }
  // Returns a row as it is multiplied, in double. `group` is the columns that share a scale in kIntegers.
  std::vector<double> row(uint32_t r, Rounding rounding, uint32_t group) const {
    std::vector<double> in(cols);
    double sum = 0;
    for (uint32_t k = 0; k < cols; ++k) sum += std::pow(double{f32s[size_t{r} * cols + k]}, 2);
    const double scale = 1 / std::sqrt(sum / cols + double{kEps});
    for (uint32_t k = 0; k < cols; ++k) {
      const size_t i = size_t{r} * cols + k;
      in[k] = double{bf16() ? from_bf16(halves[i]) : f32s[i]};
      if (kind == Input::kNormed) in[k] *= scale * double{norm[k]};
      if (rounding == Rounding::kBf16) in[k] = double{from_bf16(to_bf16(static_cast<float>(in[k])))};
    }
    if (rounding == Rounding::kIntegers) round_to_integers(in, group);
    if (kind == Input::kScaled)
      for (double& v : in) v *= scale;
    return in;
  }
};

// Value is a number computed in double, and the sum of the magnitudes that it was added from.
struct Value {
  double value = 0, magnitude = 0;
};
inline Value operator+(Value a, double b) {
  return {a.value + b, a.magnitude + std::abs(b)};
}

// Returns the products of one row of x with all rows of a weight.
inline std::vector<Value> products(const Matrix& m, const std::vector<double>& in) {
  std::vector<Value> out(m.shape.rows);
  for (uint64_t r = 0; r < m.shape.rows; ++r)
    for (uint64_t k = 0; k < m.shape.cols; ++k) out[r] = out[r] + in[k] * m.value[r * m.shape.cols + k];
  return out;
}

// kSumError bounds the error of f32 sums, relative to the sum of magnitudes. A value near a tie rounds to
// either bf16 neighbour, where x was computed in f32.
constexpr double kSumError = 2e-6, kTieError = 1.0 / 256, kIntegerTieError = 1e-4;

// Returns the greatest error of `out`, in units of the allowed one. want(token, products) gives the values
// of a token's row. x_rows are rows of x by token. Products that multiply bf16 may round all f32 rows to it,
// and those of integers and of E2M1 may round rows to integers.
template <class Want>
double worst_error(const Matrix& m, const X& x, const std::vector<u32>& x_rows, const float* out,
                   const Want& want) {
  double best = INFINITY;
  const WeightFormat& format = m.shape.format;
  for (const Rounding rounding : {Rounding::kNone, Rounding::kBf16, Rounding::kIntegers}) {
    const bool integers = rounding == Rounding::kIntegers;
    if (rounding == Rounding::kBf16 && (format.operand != WeightType::kBf16 || x.bf16())) continue;
    if (integers && (!format.grouped() || format.code == CodeType::kFloat)) continue;
    const double tie = integers ? kIntegerTieError : kTieError;
    const double allowed = rounding != Rounding::kNone && x.kind == Input::kNormed ? tie : kSumError;
    double worst = 0;
    const float* got = out;
    for (u32 token = 0; token < x_rows.size(); ++token)
      for (const Value& v : want(token, products(m, x.row(x_rows[token], rounding, format.group_cols)))) {
        const double error = std::abs(double{*got++} - v.value) / (v.magnitude * allowed);
        if (!(error <= worst)) worst = std::isnan(error) ? INFINITY : error;
      }
    best = std::min(best, worst);
  }
  return best;
}

inline std::vector<u32> all_rows(u32 tokens) {
  std::vector<u32> rows(tokens);
  std::iota(rows.begin(), rows.end(), 0u);
  return rows;
}

// Tells whether values, rounded to bf16, are `halves`.
inline bool rounds_to(const float* values, const uint16_t* halves, size_t count) {
  return std::equal(values, values + count, halves,
                    [](float v, uint16_t half) { return to_bf16(v) == half; });
}

// Out is an output of `size` elements, which are NaN before. A guard behind it must stay.
struct Out {
  static constexpr float kMark = 12345;
  size_t size;
  std::vector<float> values;
  explicit Out(size_t n) : size(n), values(n + 32, kMark) { std::fill_n(values.begin(), n, NAN); }
  ~Out() { CHECK(std::count(values.begin() + static_cast<ptrdiff_t>(size), values.end(), kMark) == 32); }
  Out(const Out&) = delete;
  Out& operator=(const Out&) = delete;
  float* data() { return values.data(); }
  uint16_t* halves() { return reinterpret_cast<uint16_t*>(values.data()); }
};

// AllArgs are the arguments of a product. `q_len` has the rows of each request, for gathering.
struct AllArgs : ProductArgs, EpilogueArgs {
  std::vector<u32> q_len;
};

inline AllArgs make_args(const Matrix& m, const X& x, u32 tokens) {
  AllArgs a{};
  a.x = x.bf16() ? global(reinterpret_cast<const float*>(x.halves.data())) : global(x.f32s.data());
  a.x_bf16 = x.bf16();
  a.normed = x.kind == Input::kNormed;
  a.norm = a.normed ? global(x.norm.data()) : nullptr;
  a.sum_squares = global(x.sum_squares.data());
  a.sumsq_partials = x.kind == Input::kScaled ? kSumsqPartials : 0;
  a.rows = a.out_cols = static_cast<u32>(m.shape.rows);
  a.cols = x.cols;
  a.strips = a.all_strips = static_cast<u32>(m.shape.strips);
  a.tiles = m.shape.tiles, a.tail_cols = m.shape.tail_cols;
  a.tokens = tokens, a.x_rows = x.rows;
  a.streamed_split_k = a.split_k = 1;
  a.padding = padding_of(x.cols, m.type);
  a.gates = 1;
  a.eps = kEps;
  return a;
}

// ProductWorker is a worker with memory for rows, as codegen/processor_memory.cc sizes it, and for a guard.
struct ProductWorker : TestWorker {
  static constexpr size_t kGuard = 256;
  size_t end;
  ProductWorker(const PackedShape& shape, u32 tokens)
      : TestWorker(kRowsOffset - kThreadOffset + bytes(shape, tokens) + kGuard),
        end(static_cast<size_t>(reinterpret_cast<uintptr_t>(w.shared) -
                                reinterpret_cast<uintptr_t>(memory.data())) +
            kRowsOffset + bytes(shape, tokens)) {}
  ~ProductWorker() {
    CHECK(std::all_of(memory.begin() + static_cast<ptrdiff_t>(end), memory.end(),
                      [](char byte) { return byte == 0x5a; }));
  }
  ProductWorker(const ProductWorker&) = delete;
  ProductWorker& operator=(const ProductWorker&) = delete;
  static size_t bytes(const PackedShape& shape, u32 tokens) {
    return rows_bytes(tokens, static_cast<uint32_t>(shape.padded_cols));
  }
  // Returns the arguments of a task, with the epilogue's in the worker's memory.
  ProductArgs with_epilogue(const AllArgs& a, u32 depth = 0) {
    ProductArgs mine = a;
    mine.epilogue = mkd_epilogue_args(&w, depth);
    const EpilogueArgs& epilogue = a;
    std::memcpy(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(mine.epilogue)), &epilogue,
                sizeof epilogue);
    return mine;
  }
};

// Runs a product in blocks of `max` strips. A product with several parts is reduced behind.
inline void run(const Matrix& m, const AllArgs& a, u32 max = ~0u) {
  ProductWorker worker(m.shape, a.tokens);
  Worker* const w = &worker.w;
  AllArgs multiplied = a;
  if (a.splits) multiplied.sumsq_partials = 0;  // the reduction applies the sums of squares
  ProductArgs mine = worker.with_epilogue(multiplied);
  std::vector<u32> first_row(a.q_len.size());
  std::exclusive_scan(a.q_len.begin(), a.q_len.end(), first_row.begin(), 0u);
  mine.q_len = shared(a.q_len.data()), mine.first_row = shared(first_row.data());
  mkd_stream(w, global(m.packed.data()));
  bodies_of(m.type).start(w, &mine);
  const u32 tasks = a.strips * a.split_k;
  for (u32 task = 0, count; task < tasks; task += count) {
    count = std::min({max, tasks - task, a.strips - task % a.strips});
    bodies_of(m.type).product(w, &mine, task, count);
  }
  if (!a.splits) return;
  const ProductArgs finish = worker.with_epilogue(a, 1);
  for (u32 strip = 0, count; strip < a.strips; strip += count) {
    count = std::min(max, a.strips - strip);
    mkb_split_k_reduce(w, &finish, strip, count);
  }
}

}  // namespace mk
