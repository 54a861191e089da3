#include "tests/attack/models_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/attack/models_expect.h"
#include "tests/reference/distance.h"

namespace mkc::attack {
namespace {

void check_rows(const ModelCase& c, const Expected& expected, const Fed& fed, size_t number,
                CaseResult& result) {
  const auto vocab = static_cast<size_t>(c.shape.vocab);
  for (size_t i = 0; i < fed.sequences.size(); ++i) {
    for (size_t row = 0; row < expected.exact[i].size(); ++row) {
      const float* logits = fed.sequences[i].logits.data() + row * vocab;
      const double distance = reference::row_distance(logits, expected.exact[i][row]).relative;
      ++result.rows;
      const double bound = expected.bounds[i][row];
      result.worst = std::max(result.worst, distance / bound);
      if (distance <= bound || result.verdict != Verdict::kRight) continue;
      result.verdict = Verdict::kWrong;
      result.detail = fmt::format("run {}, sequence {}, row {}: distance {:.3g}, allowed {:.3g}", number, i,
                                  row, distance, bound);
    }
  }
}

bool has_wrong_row(const ModelCase& c, const Expected& expected, const std::vector<Fed>& fed) {
  CaseResult result;
  for (const Fed& of : fed) check_rows(c, expected, of, 0, result);
  return result.verdict == Verdict::kWrong;
}

// Returns whether rows of steps that have up to so many must have the same bits in all runs
// (docs/batches.md).
bool same_bits_promised(const ModelCase& c, size_t max_rows) {
  if (c.device == DeviceKind::kProcessor) return true;  // docs/processor.md
  return c.shape.type == reference::Type::kF32 || c.batch_invariant ||
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
  const reference::Model model = model_of(c);
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
  Expected expected = expect(c, model);
  result.second_bound = has_wrong_row(c, expected, fed);
  if (result.second_bound) widen_bounds(c, model, expected);
  for (size_t i = 0; i < fed.size(); ++i) check_rows(c, expected, fed[i], i, result);
  for (size_t i = 1; i < fed.size(); ++i) check_bits(c, fed[0], fed[i], i, result);
  return result;
}

}  // namespace mkc::attack
