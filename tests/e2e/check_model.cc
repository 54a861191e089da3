#include "tests/e2e/check_model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "tests/reference/distance.h"

namespace mkc::test {
namespace {

using reference::Coding;
using reference::Distance;
using reference::Rounding;
using reference::row_distance;
using reference::Shape;
using reference::Type;

using Rows = std::vector<std::vector<double>>;

// Returns the allowed distance of a row. f32 models may differ by the order of sums, and others by twice the
// worst row of an honest engine.
Distance bound_of(const reference::Model& model, const std::vector<int32_t>& ids, const Rows& exact,
                  Activations activations) {
  const bool coded = model.shape.coding != Coding::kNone;             // codes are multiplied as bf16
  if (model.shape.type == Type::kF32 && !coded) return {2e-5, 1e-3};  // norms of rows are below 50
  const bool f16 = model.shape.type == Type::kF16 && !coded;
  const bool fp8 = activations == Activations::kFp8;
  const Rows honest = logits_of(model, ids, fp8 ? Rounding::kFp8 : f16 ? Rounding::kF16 : Rounding::kBf16);
  Distance worst;
  for (size_t i = 0; i < exact.size(); ++i) {
    const Distance d = row_distance(honest[i].data(), exact[i]);
    worst = {std::max(worst.relative, d.relative), std::max(worst.logit, d.logit)};
  }
  return {2 * worst.relative, 2 * worst.logit};
}

// Returns whether no errors of up to `logit` in each logit can make another token the greatest.
bool is_clear(std::vector<double> row, double logit) {
  std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
  return row[0] - row[1] > 2 * logit;
}

// Returns the number of tokens before the first one for which rounding may change a router's choice. All
// later tokens look back at it.
size_t tokens_of_clear_choice(const reference::Model& model,
                              const std::vector<std::vector<reference::Routing>>& routings) {
  const double min = model.shape.type == Type::kF32 && model.shape.coding == Coding::kNone ? 1e-4 : 0.05;
  const auto unclear = [&](const auto& layers) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& r) { return r.margin < min; });
  };
  return static_cast<size_t>(std::find_if(routings.begin(), routings.end(), unclear) - routings.begin());
}

}  // namespace

void check_model(const Shape& shape, const Prompts& prompts, const std::vector<double>& pull,
                 const Build& build) {
  CAPTURE(shape.family);
  CAPTURE(reference::type_name(shape.type));
  CAPTURE(shape.hidden);
  const reference::Model model = reference::random_model(shape, 11, pull);
  Build code = build;
  // Families run the code that mkc compile makes. Codes matter to products alone, which every kernel calls.
  if (on_processor()) code.quick = shape.coding != Coding::kNone;
  const Model compiled(model, code);
  std::mt19937 random(5);
  size_t compared = 0, clear_rows = 0;  // compared rows, and compared choices
  for (const auto& [length, new_tokens] : prompts) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(shape.vocab)));
    const Model::Output out = compiled.generate(ids, new_tokens);
    REQUIRE(out.tokens.size() == new_tokens);
    ids.insert(ids.end(), out.tokens.begin(), out.tokens.end() - 1);
    REQUIRE(out.logits.size() == ids.size() * compiled.vocab());
    std::vector<std::vector<reference::Routing>> routings;
    Rows exact = logits_of(model, ids, Rounding::kNone, &routings);
    ids.resize(tokens_of_clear_choice(model, routings));
    exact.resize(ids.size());
    if (ids.empty()) continue;
    compared += ids.size();
    const Distance bound = bound_of(model, ids, exact, build.activations);
    double worst = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      const float* logits = out.logits.data() + row * compiled.vocab();
      worst = std::max(worst, row_distance(logits, exact[row]).relative);
      CAPTURE(row);
      const auto chosen = std::max_element(logits, logits + compiled.vocab()) - logits;
      if (is_clear(exact[row], bound.logit)) {
        ++clear_rows;
        CHECK(chosen == std::max_element(exact[row].begin(), exact[row].end()) - exact[row].begin());
      }
      if (row + 1 >= length) CHECK(chosen == out.tokens[row + 1 - length]);
    }
    CHECK(worst <= bound.relative);
    CHECK(worst > 0);
  }
  // Routers leave few rows of 16-bit models to compare. The bound of 8-bit activations leaves no choice
  // clear.
  const bool few = build.activations == Activations::kFp8 || (shape.experts > 0 && shape.type != Type::kF32);
  CHECK((clear_rows > 0 || few));
  CHECK(compared > 0);
}

Shape awkward(const char* family, Type type) {
  Shape s;
  s.family = family;
  s.type = type;
  s.hidden = 100;
  s.heads = 3;
  s.kv_heads = 1;
  s.head_dim = 40;
  s.ffn = 84;
  s.vocab = 1009;
  return s;
}

Shape with_experts(const char* family, Type type) {
  Shape s = awkward(family, type);
  s.experts = std::string(family) == "mixtral" ? 5 : 6;
  s.expert_ffn = 44;
  s.vocab = 130;
  return s;
}

Shape gpt_oss(Type type) {
  Shape s = with_experts("gpt_oss", type);
  s.window = 9;
  s.yarn_rope = true;
  s.yarn_truncate = false;
  return s;
}

}  // namespace mkc::test
