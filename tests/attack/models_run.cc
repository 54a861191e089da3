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
  return c.cache == DType::f32 ? Rounding::kNone : Rounding::kF16;
}

// Returns by how much a router's choice must be clear, so that rounding makes no other choice.
double min_margin(const ModelCase& c) {
  if (c.cache == DType::e4m3) return 0.5;
  return product_rounding(c.shape) == Rounding::kNone && cache_rounding(c) == Rounding::kNone ? 1e-3 : 0.1;
}

// `Expected` has what the sequences' rows should be, up to the first that rounding may send to other experts.
struct Expected {
  std::vector<Rows> exact;  // by sequence
  double bound = kOrder;    // of all rows' distances
};

void expect(const ModelCase& c, const reference::Model& model, const std::vector<int32_t>& ids,
            Expected& expected) {
  std::vector<std::vector<reference::Routing>> routings;
  reference::Model plain = model;
  plain.shape.e4m3_cache = false;
  Rows& exact = expected.exact.emplace_back(logits_of(plain, ids, Rounding::kNone, &routings));
  const auto unclear = [&](const auto& layers) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& r) { return r.margin < min_margin(c); });
  };
  const auto clear = std::find_if(routings.begin(), routings.end(), unclear) - routings.begin();
  exact.resize(static_cast<size_t>(clear));
  const Rows honest = logits_of(model, ids, product_rounding(c.shape), nullptr, cache_rounding(c));
  for (size_t i = 0; i < exact.size(); ++i) {
    const double distance = reference::row_distance(honest[i].data(), exact[i]).relative;
    expected.bound = std::max(expected.bound, kOrder + kHonest * distance);
  }
}

void check_rows(const ModelCase& c, const Expected& expected, const Fed& fed, size_t number,
                CaseResult& result) {
  const auto vocab = static_cast<size_t>(c.shape.vocab);
  for (size_t i = 0; i < fed.sequences.size(); ++i) {
    for (size_t row = 0; row < expected.exact[i].size(); ++row) {
      const float* logits = fed.sequences[i].logits.data() + row * vocab;
      const double distance = reference::row_distance(logits, expected.exact[i][row]).relative;
      ++result.rows;
      result.worst = std::max(result.worst, distance / expected.bound);
      if (distance <= expected.bound || result.verdict != Verdict::kRight) continue;
      result.verdict = Verdict::kWrong;
      result.detail = fmt::format("run {}, sequence {}, row {}: distance {:.3g}, allowed {:.3g}", number, i,
                                  row, distance, expected.bound);
    }
  }
}

// Returns whether rows of steps that have up to so many must have the same bits in all runs
// (docs/batches.md).
bool same_bits_promised(const ModelCase& c, size_t max_rows) {
  if (c.device == DeviceKind::kProcessor) return true;  // docs/processor.md
  return c.shape.type == Type::kF32 || c.batch_invariant ||
         max_rows < static_cast<size_t>(c.wgmma_from.value_or(65));
}

// Compares a run with the first one, bit by bit.
void check_bits(const ModelCase& c, const Fed& first, const Fed& other, size_t number, CaseResult& result) {
  if (!same_bits_promised(c, std::max(first.max_rows, other.max_rows))) return;
  const auto vocab = static_cast<size_t>(c.shape.vocab);
  for (size_t i = 0; i < first.sequences.size(); ++i)
    for (size_t row = 0; row < c.lengths[i]; ++row) {
      const float *a = first.sequences[i].logits.data() + row * vocab,
                  *b = other.sequences[i].logits.data() + row * vocab;
      ++result.bit_rows;
      if (std::memcmp(a, b, vocab * sizeof(float)) == 0 || result.verdict != Verdict::kRight) continue;
      result.verdict = Verdict::kBits;
      result.detail = fmt::format("sequence {}, row {}: logits of the runs 0 and {} differ", i, row, number);
    }
  if (!same_bits_promised(c, std::max(first.prompt_rows, other.prompt_rows))) return;
  if (first.tokens == other.tokens || result.verdict != Verdict::kRight) return;
  result.verdict = Verdict::kBits;
  result.detail = fmt::format("the runs 0 and {} generate different tokens", number);
}

// Compiles a setting; one that is refused is compiled again without placements, splits and ring.
Result<Compiled> compile_allowed(const ModelCase& c, Setting& setting, const std::string& directory,
                                 CaseResult& result) {
  auto compiled = compile(c, setting, directory);
  if (compiled.ok()) return compiled;
  result.refusal = compiled.error().message;
  setting.placements.clear();
  setting.splits.clear();
  setting.ring.reset();
  return compile(c, setting, directory);
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
    auto compiled = compile_allowed(c, setting, directory, result);
    if (!compiled.ok()) return {Verdict::kRefused, compiled.error().message, result.refusal};
    ++result.compiled;
    for (const Run& run : setting.runs) {
      auto outcome = feed(c, setting, run, compiled.value());
      if (!outcome.ok())
        return {Verdict::kFailed, fmt::format("setting {}: {}", i, outcome.error().message), result.refusal};
      fed.push_back(std::move(outcome.value()));
    }
  }
  result.runs = fed.size();
  Expected expected;
  for (const Sequence& s : fed[0].sequences) expect(c, model, s.ids, expected);
  for (size_t i = 0; i < fed.size(); ++i) check_rows(c, expected, fed[i], i, result);
  for (size_t i = 1; i < fed.size(); ++i) check_bits(c, fed[0], fed[i], i, result);
  return result;
}

}  // namespace mkc::attack
