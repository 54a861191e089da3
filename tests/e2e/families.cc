// Every family against float64 on random checkpoints of awkward sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using reference::Rounding;
using reference::Shape;
using reference::Type;
using test::Model;

using Rows = std::vector<std::vector<double>>;

// How far a row is from the reference: its L2 distance relative to the reference's norm, and its worst logit.
struct Distance {
  double relative = 0;
  double logit = 0;
};

template <class T>
Distance distance(const T* row, const std::vector<double>& expected) {
  double error = 0, norm = 0, logit = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = static_cast<double>(row[i]) - expected[i];
    error += d * d;
    norm += expected[i] * expected[i];
    logit = std::max(logit, std::abs(d));
  }
  return {std::sqrt(error / norm), logit};
}

// What a row may differ by: the order of f32 sums, or twice the worst row of an honest engine.
Distance bound_of(const reference::Model& model, const std::vector<int32_t>& ids, const Rows& exact) {
  if (model.shape.type == Type::kF32) return {2e-5, 1e-3};  // norms are below 50
  const Rows honest =
      logits_of(model, ids, model.shape.type == Type::kF16 ? Rounding::kF16 : Rounding::kBf16);
  Distance worst;
  for (size_t i = 0; i < exact.size(); ++i) {
    const Distance d = distance(honest[i].data(), exact[i]);
    worst = {std::max(worst.relative, d.relative), std::max(worst.logit, d.logit)};
  }
  return {2 * worst.relative, 2 * worst.logit};
}

// Whether no errors of up to `logit` in each logit can make another token the greatest.
bool is_clear(std::vector<double> row, double logit) {
  std::nth_element(row.begin(), row.begin() + 1, row.end(), std::greater<>());
  return row[0] - row[1] > 2 * logit;
}

// Prompts by their length, with the number of tokens to generate after each.
void check_model(const Shape& shape, const std::vector<std::pair<size_t, uint32_t>>& prompts) {
  CAPTURE(shape.family);
  CAPTURE(reference::type_name(shape.type));
  CAPTURE(shape.hidden);
  const mkrt::test::TempDir dir;
  const reference::Model model = reference::random_model(shape, 11);
  reference::write_checkpoint(model, dir.path);
  const Model compiled(dir.path);
  std::mt19937 random(5);
  size_t clear_rows = 0;  // choices that were compared
  for (const auto& [length, new_tokens] : prompts) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < length; ++i)
      ids.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(shape.vocab)));
    const Model::Output out = compiled.generate(ids, new_tokens);
    REQUIRE(out.tokens.size() == new_tokens);
    ids.insert(ids.end(), out.tokens.begin(), out.tokens.end() - 1);
    REQUIRE(out.logits.size() == ids.size() * compiled.vocab());
    const Rows exact = logits_of(model, ids);
    const Distance bound = bound_of(model, ids, exact);
    double worst = 0;
    for (size_t row = 0; row < ids.size(); ++row) {
      const float* logits = out.logits.data() + row * compiled.vocab();
      worst = std::max(worst, distance(logits, exact[row]).relative);
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
  CHECK(clear_rows > 0);
}

// Sizes that fill no tile: 3 heads of one key/value head, head_dim 40, hidden 100, ffn 84, vocabulary 1009.
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

void check_family(const char* family) {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    check_model(awkward(family, type), {{1, 3}, {7, 32}, {16, 3}, {33, 3}});
    Shape wide = awkward(family, type);
    wide.hidden = 576;  // more than one tile of f32 columns, and a ragged one of 2-byte columns
    wide.heads = 6;
    wide.kv_heads = 2;
    wide.head_dim = 128;
    wide.ffn = 600;
    wide.layers = 1;
    wide.tied = true;
    check_model(wide, {{17, 4}});
  }
}

TEST_CASE("llama matches float64") {
  check_family("llama");
}
TEST_CASE("qwen2 matches float64") {
  check_family("qwen2");
}
TEST_CASE("qwen3 matches float64") {
  check_family("qwen3");
}
TEST_CASE("mistral matches float64") {
  check_family("mistral");
}

TEST_CASE("mistral with a sliding window matches float64 across pieces of the context") {
  Shape s = awkward("mistral", Type::kF32);
  s.layers = 1;
  s.vocab = 100;
  s.context = 700;
  s.window = 24;
  check_model(s, {{1, 30}, {300, 6}, {600, 2}});
  s.window = 300;
  check_model(s, {{570, 4}});
}

TEST_CASE("llama with the frequencies of Llama 3.1 matches float64") {
  Shape s = awkward("llama", Type::kF32);
  s.llama3_rope = true;
  check_model(s, {{40, 4}});
}

}  // namespace
}  // namespace mkc
