// These tests run steps of several requests. Each request is compared with float64 and, bit for bit, with
// itself alone. The processor runs every combination of settings. The emulator runs enough for each value.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "runtime/session/pages.h"
#include "tests/e2e/pipeline.h"
#include "tests/reference/distance.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

using reference::Shape;
using reference::Type;
using test::Build;
using test::Model;

// Sequence is fed in several steps and keeps the logits of every row.
struct Sequence {
  std::vector<int32_t> ids;
  std::vector<int32_t> pages;
  size_t in_chunks = 0;  // the first rows, fed as many at a time as a step takes
  size_t fed = 0;
  std::vector<float> logits;  // [fed][vocab]
};

// Feeds all sequences by random steps. A step has some of the sequences, each with a chunk of 1 to `max`
// rows. Pages are handed out in random order as they are needed.
void feed(const Model& model, std::vector<Sequence>& sequences, mkrt::CacheOptions cache, size_t max,
          uint32_t seed) {
  std::mt19937 random(seed);
  const uint32_t page_size = cache.page_size;
  uint64_t needed = 0;
  for (const Sequence& s : sequences) needed += mkrt::pages_for(s.ids.size(), page_size);
  cache.pages = static_cast<uint32_t>(needed + 3);
  std::vector<int32_t> free_pages(cache.pages);
  for (size_t i = 0; i < free_pages.size(); ++i) free_pages[i] = static_cast<int32_t>(i);
  std::shuffle(free_pages.begin(), free_pages.end(), random);
  mkrt::SessionOptions options;
  options.cache = cache;
  test::Opened opened = model.open(options);
  const mkrt::BatchLimits& limits = opened.session.limits();
  std::vector<float> logits(limits.max_tokens * model.vocab());
  for (;;) {
    std::vector<size_t> chosen;
    for (size_t i = 0; i < sequences.size(); ++i)
      if (sequences[i].fed < sequences[i].ids.size() && random() % 3 != 0) chosen.push_back(i);
    std::shuffle(chosen.begin(), chosen.end(), random);
    chosen.resize(std::min<size_t>(chosen.size(), limits.max_requests));
    std::vector<int32_t> tokens, row_begin{0}, kv_len, page_begin{0}, page_index;
    mkrt::StepResult result;
    for (const size_t i : chosen) {
      Sequence& s = sequences[i];
      const size_t room = limits.max_tokens - tokens.size() - (chosen.size() - kv_len.size() - 1);
      const bool chunk = s.fed < s.in_chunks;
      const size_t wanted = chunk ? s.in_chunks - s.fed : size_t{1} + random() % max;
      const size_t rows = std::min({wanted, room, s.ids.size() - s.fed});
      tokens.insert(tokens.end(), s.ids.begin() + static_cast<ptrdiff_t>(s.fed),
                    s.ids.begin() + static_cast<ptrdiff_t>(s.fed + rows));
      row_begin.push_back(static_cast<int32_t>(tokens.size()));
      kv_len.push_back(static_cast<int32_t>(s.fed + rows));
      while (s.pages.size() < mkrt::pages_for(s.fed + rows, page_size)) {
        s.pages.push_back(free_pages.back());
        free_pages.pop_back();
      }
      page_index.insert(page_index.end(), s.pages.begin(), s.pages.end());
      page_begin.push_back(static_cast<int32_t>(page_index.size()));
    }
    const bool done = std::all_of(sequences.begin(), sequences.end(),
                                  [](const Sequence& s) { return s.fed == s.ids.size(); });
    if (done) return;
    if (chosen.empty()) continue;
    const Status status =
        opened.session.step({tokens, row_begin, kv_len, {page_begin, page_index}}, result, logits.data());
    if (!status.ok()) FAIL(status.error().message);
    for (size_t b = 0; b < chosen.size(); ++b) {
      Sequence& s = sequences[chosen[b]];
      const auto begin = static_cast<size_t>(row_begin[b]), end = static_cast<size_t>(row_begin[b + 1]);
      s.logits.insert(s.logits.end(), logits.begin() + static_cast<ptrdiff_t>(begin * model.vocab()),
                      logits.begin() + static_cast<ptrdiff_t>(end * model.vocab()));
      s.fed += end - begin;
      const float* last = logits.data() + (end - 1) * model.vocab();
      CHECK(result.ids[b] == std::max_element(last, last + model.vocab()) - last);
    }
  }
}

std::vector<Sequence> random_sequences(const std::vector<size_t>& lengths, int vocab) {
  std::mt19937 random(7);
  std::vector<Sequence> sequences;
  for (const size_t length : lengths) {
    Sequence& s = sequences.emplace_back();
    for (size_t i = 0; i < length; ++i)
      s.ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(vocab)));
  }
  return sequences;
}

// Returns the relative errors of the rows of all sequences, in rising order.
std::vector<double> row_errors(const reference::Model& model, const std::vector<Sequence>& sequences) {
  std::vector<double> errors;
  for (const Sequence& s : sequences) {
    const auto exact = logits_of(model, s.ids);
    for (size_t row = 0; row < exact.size(); ++row)
      errors.push_back(
          reference::row_distance(s.logits.data() + row * exact[row].size(), exact[row]).relative);
  }
  std::sort(errors.begin(), errors.end());
  return errors;
}

double worst_row(const std::vector<std::vector<double>>& exact, const Sequence& s) {
  double worst = 0;
  for (size_t row = 0; row < exact.size(); ++row) {
    const float* logits = s.logits.data() + row * exact[row].size();
    worst = std::max(worst, reference::row_distance(logits, exact[row]).relative);
  }
  return worst;
}

double worst_row(const reference::Model& model, const Sequence& s) {
  return worst_row(logits_of(model, s.ids), s);
}

bool same_bits(const std::vector<Sequence>& a, const std::vector<Sequence>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i].logits.size() != b[i].logits.size() ||
        std::memcmp(a[i].logits.data(), b[i].logits.data(), a[i].logits.size() * sizeof(float)) != 0)
      return false;
  return true;
}

Shape small(const char* family, Type type) {
  Shape s;
  s.family = family;
  s.type = type;
  s.hidden = 72;
  s.heads = 6;
  s.kv_heads = 2;
  s.head_dim = 24;
  s.ffn = 84;
  s.vocab = 133;
  s.context = 700;
  s.experts = 5;
  return s;
}

constexpr mkrt::CacheForm kForms[] = {mkrt::CacheForm::kNhd, mkrt::CacheForm::kHnd, mkrt::CacheForm::kPacked};

// A step gets the size of pages and the form of the cache as numbers. So each family meets one pair of them
// on the emulator, and the last family the pairs that are left. On the processor each family meets all of
// them.
TEST_CASE("ragged batches match float64 in every family, page size and form of the cache") {
  const char* const families[] = {"llama", "qwen2", "qwen3", "mistral", "qwen3_moe", "mixtral", "gpt_oss"};
  constexpr uint32_t kPairs = 9;
  for (uint32_t n = 0; n < std::size(families); ++n) {
    CAPTURE(families[n]);
    const Shape shape = small(families[n], Type::kF32);
    const reference::Model model = reference::random_model(shape, 31);
    const bool last = n + 1 == std::size(families);
    const Model compiled(model, {.workers = 3, .max_tokens = 40, .max_requests = 6});
    // The lengths lie around the edges of pages and of groups of tokens.
    const std::vector<Sequence> fed = random_sequences({1, 15, 16, 17, 33, 65}, shape.vocab);
    std::vector<std::vector<std::vector<double>>> exact;
    for (const Sequence& s : fed) exact.push_back(logits_of(model, s.ids));
    const uint32_t first = test::on_processor() ? 0 : n, end = test::on_processor() || last ? kPairs : n + 1;
    for (uint32_t pair = first; pair < end; ++pair) {
      const uint32_t page_size = 16u << pair / 3;
      CAPTURE(page_size);
      CAPTURE(pair % 3);
      std::vector<Sequence> sequences = fed;
      feed(compiled, sequences, {page_size, 0, kForms[pair % 3]}, 20, page_size);
      for (size_t i = 0; i < sequences.size(); ++i) CHECK(worst_row(exact[i], sequences[i]) <= 2e-5);
    }
  }
}

TEST_CASE("contexts of one position and of several pieces run in one step, with and without a window") {
  for (const int window : {0, 40, 300}) {
    CAPTURE(window);
    Shape shape = small("mistral", Type::kF32);
    shape.window = window;
    shape.layers = 1;
    const reference::Model model = reference::random_model(shape, 37);
    const Model compiled(model, {.workers = 5, .max_tokens = 130, .max_requests = 8});
    std::vector<Sequence> sequences = random_sequences({520, 1, 257, 256, 30}, shape.vocab);
    feed(compiled, sequences, {16, 0, mkrt::CacheForm::kHnd}, 128, 3);
    for (const Sequence& s : sequences) CHECK(worst_row(model, s) <= 2e-5);
    for (const Scheduler scheduler : {Scheduler::kStatic, Scheduler::kDynamic}) {
      // A scheduler does not look at windows.
      if (!test::on_processor() && (scheduler == Scheduler::kStatic) != (window == 40)) continue;
      CAPTURE(scheduler_name(scheduler));
      Build build{3, true, false, 130, 8};
      build.scheduler = scheduler;
      std::vector<Sequence> again = random_sequences({520, 1, 257, 256, 30}, shape.vocab);
      feed(Model(model, build), again, {16, 0, mkrt::CacheForm::kHnd}, 128, 3);
      for (size_t i = 0; i < again.size(); ++i) CHECK(again[i].logits == sequences[i].logits);
    }
  }
}

TEST_CASE("a window of some layers lets the others see everything") {
  for (const char* family : {"qwen2", "qwen3"}) {
    CAPTURE(family);
    Shape shape = small(family, Type::kF32);
    shape.window = 20;
    shape.window_from = 1;
    const reference::Model model = reference::random_model(shape, 59);
    const Model compiled(model, Build{3, true, false, 40, 4});
    std::vector<Sequence> sequences = random_sequences({70, 19, 20, 21}, shape.vocab);
    feed(compiled, sequences, {16, 0, mkrt::CacheForm::kNhd}, 30, 13);
    for (const Sequence& s : sequences) CHECK(worst_row(model, s) <= 2e-5);
  }
}

// A value near a tie may round to another e4m3 number than in the reference. The row's error then exceeds
// that of its arithmetic.
TEST_CASE(
    "caches of 8-bit floats hold what rounding leaves of keys and values, in every form and page size") {
  int variant = 0;
  for (const char* family : {"llama", "qwen3", "mistral"}) {
    CAPTURE(family);
    Shape shape = small(family, Type::kF32);
    shape.e4m3_cache = true;
    shape.window = variant == 2 ? 50 : 0;
    reference::Model model = reference::random_model(shape, 53);
    Build build{3, true, false, 40, 4};
    build.kv_dtype = DType::e4m3;
    std::vector<Sequence> sequences = random_sequences({1, 17, 55}, shape.vocab);
    feed(Model(model, build), sequences, {16u << variant, 0, kForms[variant]}, 30, 11);
    ++variant;
    const std::vector<double> errors = row_errors(model, sequences);
    CHECK(errors[errors.size() * 8 / 10] <= 4e-3);
    CHECK(errors.back() <= 2e-2);
    model.shape.e4m3_cache = false;  // a reference without the rounding must differ
    CHECK(row_errors(model, sequences)[errors.size() / 10] > 5e-2);
  }
}

TEST_CASE("a request's bits are those it gets alone, whatever runs beside it") {
  struct Variant {
    const char* family;
    Type type;
  };
  for (const Variant v :
       {Variant{"qwen3", Type::kF32}, Variant{"qwen3", Type::kBf16}, Variant{"qwen3", Type::kF16},
        Variant{"qwen3_moe", Type::kF32}, Variant{"qwen3_moe", Type::kBf16}}) {
    // Products of f16 are those of bf16, and experts multiply f32 as dense layers do.
    const bool same = v.type == Type::kF16 || (v.type == Type::kF32 && v.family != std::string("qwen3"));
    if (!test::on_processor() && same) continue;
    CAPTURE(reference::type_name(v.type));
    const Shape shape = small(v.family, v.type);
    const reference::Model model = reference::random_model(shape, 41);
    // On the emulator, long contexts of experts are those of the dense model.
    const bool short_only = !test::on_processor() && shape.family == "qwen3_moe";
    const std::vector<size_t> lengths{3, 20, 9, short_only ? 31u : 258u};
    Build build{3, true, false, 48, 4};
    const Model compiled(model, build);
    std::vector<Sequence> alone = random_sequences(lengths, shape.vocab);
    for (Sequence& s : alone) {
      std::vector<Sequence> one{s};
      // Rows go token by token, but the first 240 of the long sequence go in chunks. The last rows of this
      // sequence cross the edge of a KV tile.
      if (s.ids.size() > 240) one[0].in_chunks = 240;
      feed(compiled, one, {16, 0, mkrt::CacheForm::kNhd}, 1, 1);
      s.logits = one[0].logits;
    }
    for (const uint32_t seed : {1u, 2u}) {
      std::vector<Sequence> together = random_sequences(lengths, shape.vocab);
      feed(compiled, together, {seed == 1 ? 64u : 16u, 0, kForms[seed]}, 30, seed);
      CHECK(same_bits(together, alone));
    }
    build.workers = 7;
    std::vector<Sequence> together = random_sequences(lengths, shape.vocab);
    feed(Model(model, build), together, {32, 0, mkrt::CacheForm::kNhd}, 9, 5);
    CHECK(same_bits(together, alone));
  }
}

TEST_CASE("steps of more than 64 rows or as asked go by warpgroups, unless bits are to be the same in all") {
  if (test::on_processor()) return;  // it has no warpgroups
  for (const Type type : {Type::kBf16, Type::kF16}) {
    CAPTURE(reference::type_name(type));
    const Shape shape = small("qwen3", type);
    const reference::Model model = reference::random_model(shape, 61);
    const std::vector<size_t> lengths{150, 3, 70};
    const mkrt::CacheOptions cache{16, 0, mkrt::CacheForm::kNhd};
    const auto fed = [&](Build build, size_t max) {
      std::vector<Sequence> sequences = random_sequences(lengths, shape.vocab);
      feed(Model(model, build), sequences, cache, max, 7);
      return sequences;
    };
    Build build{3, true, false, 160, 4};
    const std::vector<Sequence> wide = fed(build, 150);
    build.batch_invariant = true;
    const std::vector<Sequence> invariant = fed(build, 150);
    const std::vector<double> errors = row_errors(model, wide), others = row_errors(model, invariant);
    CHECK(errors.back() <= 2e-2);
    CHECK(errors[errors.size() / 2] <= 1.2 * others[others.size() / 2]);
    CHECK(same_bits(invariant, fed(build, 5)));
    CHECK(!same_bits(invariant, wide));
    build.batch_invariant = false;
    CHECK(same_bits(invariant, fed(build, 40)));
    build.wgmma_from = 33;
    const std::vector<Sequence> early = fed(build, 40);
    CHECK(!same_bits(invariant, early));
    CHECK(row_errors(model, early)[errors.size() / 2] <= 1.2 * others[others.size() / 2]);
  }
}

TEST_CASE("the emulator's race mode finds nothing in ragged steps") {
  const Shape shape = small("llama", Type::kBf16);
  const reference::Model model = reference::random_model(shape, 47);
  const Model compiled(model, Build{3, true, true, 24, 5});
  std::vector<Sequence> sequences = random_sequences({5, 33, 1, 260, 12}, shape.vocab);
  feed(compiled, sequences, {16, 0, mkrt::CacheForm::kPacked}, 24, 9);
  std::vector<Sequence> long_ones = random_sequences({90, 40}, shape.vocab);
  feed(Model(model, Build{3, true, true, 130, 2}), long_ones, {16, 0, mkrt::CacheForm::kPacked}, 130, 9);
}

TEST_CASE("a kernel for each grid gives the bits of the one kernel, and has no races") {
  struct Variant {
    const char* family;
    Type type;
    bool bulk_copy, race;
  };
  for (const Variant v :
       {Variant{"llama", Type::kF32, true, false}, Variant{"qwen3", Type::kBf16, false, false},
        Variant{"qwen3_moe", Type::kBf16, true, true}}) {
    CAPTURE(v.family);
    const Shape shape = small(v.family, v.type);
    const reference::Model model = reference::random_model(shape, 53);
    const size_t longest = v.type == Type::kF32 ? 260 : 40;  // two KV tiles, or one
    std::vector<Sequence> one = random_sequences({5, 33, 1, longest, 12}, shape.vocab), many = one;
    Build build{3, v.bulk_copy, false, 24, 5};
    feed(Model(model, build), one, {16, 0, mkrt::CacheForm::kNhd}, 24, 9);
    build.race = v.race;
    build.mode = Mode::kKernels;
    feed(Model(model, build), many, {16, 0, mkrt::CacheForm::kNhd}, 24, 9);
    CHECK(same_bits(one, many));
  }
}

}  // namespace
}  // namespace mkc
