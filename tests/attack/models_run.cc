#include "tests/attack/models_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/attack/models_feed.h"
#include "tests/reference/distance.h"

namespace mkc::attack {
namespace {

using reference::Rounding;
using reference::Type;
using Rows = std::vector<std::vector<double>>;

// A row may be three times as far from float64 as an honest engine's worst row. The order of f32 sums may add
// kOrder.
constexpr double kHonest = 3, kOrder = 1e-4;

Rounding rounding_of(Type type) {
  return type == Type::kF32 ? Rounding::kNone : type == Type::kF16 ? Rounding::kF16 : Rounding::kBf16;
}

Rounding product_rounding(const reference::Shape& s) {
  return s.coding != reference::Coding::kNone ? Rounding::kBf16 : rounding_of(s.type);
}

Rounding cache_rounding(const ModelCase& c) {
  if (!c.cache) return rounding_of(c.shape.type);
  if (c.cache == DType::bf16) return Rounding::kBf16;
  return c.cache == DType::f16 ? Rounding::kF16 : Rounding::kNone;
}

// Returns by how much a router's choice must be clear, so that rounding makes no other choice.
double min_margin(const ModelCase& c) {
  if (c.cache == DType::e4m3) return 0.5;
  return product_rounding(c.shape) == Rounding::kNone && cache_rounding(c) == Rounding::kNone ? 1e-3 : 0.1;
}

// `Expected` has what a sequence's rows should be, up to the first that rounding may send to other experts.
struct Expected {
  Rows exact;
  double bound = 0;
};

Expected expect(const ModelCase& c, const reference::Model& model, const std::vector<int32_t>& ids) {
  std::vector<std::vector<reference::Routing>> routings;
  reference::Model plain = model;
  plain.shape.e4m3_cache = false;
  Expected expected;
  expected.exact = logits_of(plain, ids, Rounding::kNone, &routings);
  const auto unclear = [&](const auto& layers) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& r) { return r.margin < min_margin(c); });
  };
  const auto clear = std::find_if(routings.begin(), routings.end(), unclear) - routings.begin();
  expected.exact.resize(static_cast<size_t>(clear));
  const Rows honest = logits_of(model, ids, product_rounding(c.shape), nullptr, cache_rounding(c));
  double worst = 0;
  for (size_t i = 0; i < expected.exact.size(); ++i)
    worst = std::max(worst, reference::row_distance(honest[i].data(), expected.exact[i]).relative);
  expected.bound = kOrder + kHonest * worst;
  return expected;
}

void check_rows(const ModelCase& c, const std::vector<Expected>& expected, const Fed& fed, size_t setting,
                CaseResult& result) {
  const auto vocab = static_cast<size_t>(c.shape.vocab);
  for (size_t i = 0; i < fed.sequences.size(); ++i) {
    for (size_t row = 0; row < expected[i].exact.size(); ++row) {
      const float* logits = fed.sequences[i].logits.data() + row * vocab;
      const double distance = reference::row_distance(logits, expected[i].exact[row]).relative;
      ++result.rows;
      result.worst = std::max(result.worst, distance / expected[i].bound);
      if (distance <= expected[i].bound || result.verdict != Verdict::kRight) continue;
      result.verdict = Verdict::kWrong;
      result.detail = fmt::format("setting {}, sequence {}, row {}: distance {:.3g}, allowed {:.3g}", setting,
                                  i, row, distance, expected[i].bound);
    }
  }
}

// Returns whether rows must have the same bits under both settings (docs/batches.md).
bool same_bits_promised(const ModelCase& c, const std::vector<Fed>& fed) {
  const bool narrow = std::all_of(fed.begin(), fed.end(), [&](const Fed& f) {
    return f.max_rows < static_cast<size_t>(c.wgmma_from.value_or(65));
  });
  return c.shape.type == Type::kF32 || c.batch_invariant || narrow;
}

void check_bits(const ModelCase& c, const std::vector<Fed>& fed, CaseResult& result) {
  const auto vocab = static_cast<size_t>(c.shape.vocab);
  for (size_t i = 0; i < fed[0].sequences.size(); ++i)
    for (size_t row = 0; row < c.lengths[i]; ++row) {
      const float *a = fed[0].sequences[i].logits.data() + row * vocab,
                  *b = fed[1].sequences[i].logits.data() + row * vocab;
      ++result.bit_rows;
      if (std::memcmp(a, b, vocab * sizeof(float)) == 0 || result.verdict != Verdict::kRight) continue;
      result.verdict = Verdict::kBits;
      result.detail = fmt::format("sequence {}, row {}: the settings' logits differ", i, row);
    }
  if (fed[0].tokens == fed[1].tokens || result.verdict != Verdict::kRight) return;
  result.verdict = Verdict::kBits;
  result.detail = "the settings generate different tokens";
}

}  // namespace

const char* verdict_name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kRight:
      return "right";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kWrong:
      return "wrong";
    case Verdict::kBits:
      return "bits";
    case Verdict::kFailed:
      return "failed";
    case Verdict::kCrashed:
      return "crashed";
    case Verdict::kTimedOut:
      return "timed out";
  }
  MKC_BUG("unknown verdict");
}

CaseResult run_case(const ModelCase& c, const std::string& directory) {
  const reference::Model model = reference::random_model(c.shape, c.weights_seed);
  reference::write_checkpoint(model, directory);
  CaseResult result;
  std::vector<Fed> fed;
  for (size_t i = 0; i < c.settings.size(); ++i) {
    Setting setting = c.settings[i];
    auto compiled = compile(c, setting, directory);
    if (!compiled.ok()) {
      result.refusal = compiled.error().message;
      setting.placements.clear();
      setting.splits.clear();
      setting.ring.reset();
      compiled = compile(c, setting, directory);
    }
    if (!compiled.ok()) return {Verdict::kRefused, compiled.error().message, result.refusal};
    auto run = feed(c, setting, compiled.value());
    if (!run.ok())
      return {Verdict::kFailed, fmt::format("setting {}: {}", i, run.error().message), result.refusal};
    fed.push_back(std::move(run.value()));
  }
  std::vector<Expected> expected;
  for (const Sequence& s : fed[0].sequences) expected.push_back(expect(c, model, s.ids));
  for (size_t i = 0; i < fed.size(); ++i) check_rows(c, expected, fed[i], i, result);
  if (same_bits_promised(c, fed)) check_bits(c, fed, result);
  return result;
}

}  // namespace mkc::attack
