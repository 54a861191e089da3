// These tests compare every family with float64, on random checkpoints of awkward sizes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "tests/e2e/pipeline.h"
#include "tests/reference/distance.h"
#include "tests/reference/model.h"

namespace mkc {
namespace {

using reference::Coding;
using reference::Distance;
using reference::Rounding;
using reference::row_distance;
using reference::Shape;
using reference::Type;
using test::Model;

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
size_t tokens_of_clear_choice(const reference::Model& model, const std::vector<int32_t>& ids) {
  const double min = model.shape.type == Type::kF32 && model.shape.coding == Coding::kNone ? 1e-4 : 0.05;
  std::vector<std::vector<reference::Routing>> routings;
  logits_of(model, ids, Rounding::kNone, &routings);
  const auto unclear = [&](const auto& layers) {
    return std::any_of(layers.begin(), layers.end(), [&](const auto& r) { return r.margin < min; });
  };
  return static_cast<size_t>(std::find_if(routings.begin(), routings.end(), unclear) - routings.begin());
}

// Compares a model with float64 on prompts, which are given by length and by number of tokens to generate.
// `pull` is that of random_model().
void check_model(const Shape& shape, const std::vector<std::pair<size_t, uint32_t>>& prompts,
                 const std::vector<double>& pull = {}, const test::Build& build = {}) {
  CAPTURE(shape.family);
  CAPTURE(reference::type_name(shape.type));
  CAPTURE(shape.hidden);
  const reference::Model model = reference::random_model(shape, 11, pull);
  const Model compiled(model, build);
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
    ids.resize(tokens_of_clear_choice(model, ids));
    if (ids.empty()) continue;
    compared += ids.size();
    const Rows exact = logits_of(model, ids);
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

// Returns sizes that fill no tile: 3 heads, 1 key/value head, head_dim 40, hidden size 100, ffn 84,
// vocabulary 1009.
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
TEST_CASE("gates of GELU match float64") {
  for (const char* act : {"gelu", "gelu_pytorch_tanh"})
    for (const Type type : {Type::kF32, Type::kBf16}) {
      Shape shape = awkward("llama", type);
      shape.act = act;
      shape.layers = 1;
      check_model(shape, {{1, 2}, {33, 1}});
      if (type == Type::kF32) continue;  // such products are never split
      test::Build split;
      split.splits = {{"l*.gate_up", 2, {}}};
      check_model(shape, {{1, 2}, {33, 1}}, {}, split);
    }
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

// Returns awkward sizes with experts: widths 84 and 44, and 5 or 6 experts.
Shape with_experts(const char* family, Type type) {
  Shape s = awkward(family, type);
  s.experts = std::string(family) == "mixtral" ? 5 : 6;
  s.expert_ffn = 44;
  s.vocab = 130;
  return s;
}

TEST_CASE("qwen3_moe matches float64") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    Shape s = with_experts("qwen3_moe", type);
    check_model(s, {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
    s.layers = 3;
    s.dense_layers = {1};
    s.norm_top_k = false;
    s.top_k = 3;
    s.hidden = 300;
    s.expert_ffn = 300;
    check_model(s, {{17, 4}});
  }
}
TEST_CASE("mixtral matches float64") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    Shape s = with_experts("mixtral", type);
    check_model(s, {{1, 3}, {7, 12}, {16, 3}, {33, 3}, {5, 1}});
    s.top_k = 1;
    check_model(s, {{17, 4}, {9, 2}, {12, 1}, {5, 2}});
  }
}

// Returns awkward sizes of gpt-oss: a window that most tokens look beyond, and heads of 40 columns.
Shape gpt_oss(Type type) {
  Shape s = with_experts("gpt_oss", type);
  s.window = 9;
  s.yarn_rope = true;
  s.yarn_truncate = false;
  return s;
}

TEST_CASE("gpt_oss matches float64") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    Shape s = gpt_oss(type);
    check_model(s, {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
    s.layers = 3;
    s.top_k = 4;
    s.hidden = 300;
    s.ffn = 300;
    s.yarn_rope = false;
    check_model(s, {{17, 4}, {70, 2}});
  }
}

TEST_CASE("weights of e4m3 with a scale for each row match float64, in steps of any number of tokens") {
  const auto coded = [](Shape s) {
    s.coding = Coding::kE4m3Rows;
    return s;
  };
  for (const char* family : {"llama", "qwen2", "qwen3", "mistral"})
    check_model(coded(awkward(family, Type::kBf16)), {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
  for (const Type type : {Type::kF32, Type::kF16})  // type of norms, embeddings and scales
    check_model(coded(awkward("llama", type)), {{7, 3}});
  for (const char* family : {"qwen3_moe", "mixtral"})
    check_model(coded(with_experts(family, Type::kBf16)), {{1, 3}, {7, 12}, {33, 3}});
  Shape wide = coded(awkward("llama", Type::kBf16));
  wide.hidden = 576;
  wide.ffn = 1100;  // three tiles
  wide.layers = 1;
  wide.context = 300;
  for (const std::optional<int64_t> wgmma_from : {std::optional<int64_t>(), std::optional<int64_t>(33)})
    check_model(wide, {{8, 2}, {20, 1}, {32, 1}, {64, 1}, {77, 1}, {256, 1}}, {},
                {.max_tokens = 256, .wgmma_from = wgmma_from});
  check_model(wide, {{3, 2}, {70, 1}}, {}, {.max_tokens = 80, .splits = {{"*.o", 2, {}}, {"*.down", 4, {}}}});
}

TEST_CASE("weights of e4m3 with scales of tensors or blocks match float64") {
  for (const Coding coding : {Coding::kE4m3Tensor, Coding::kE4m3Blocks}) {
    CAPTURE(coding_name(coding));
    for (const char* family : {"llama", "qwen3"}) {
      Shape s = awkward(family, Type::kBf16);
      s.coding = coding;
      s.ffn = 600;  // five blocks, of which the last has 88 columns
      check_model(s, {{1, 3}, {7, 12}, {33, 3}});
    }
    Shape experts = with_experts("qwen3_moe", Type::kBf16);
    experts.coding = coding;
    check_model(experts, {{1, 3}, {33, 3}});
  }
}

TEST_CASE("steps of more than 32 tokens round activations to 8-bit floats where that is asked for") {
  if (test::on_processor()) return;  // it has no such instructions
  for (const Coding coding : {Coding::kE4m3Rows, Coding::kE4m3Tensor, Coding::kE4m3Blocks}) {
    CAPTURE(coding_name(coding));
    Shape s = awkward("qwen3", Type::kBf16);
    s.coding = coding;
    s.hidden = 320;
    s.ffn = 600;
    s.context = 200;
    test::Build build{.max_tokens = 130, .activations = Activations::kFp8};
    check_model(s, {{33, 2}, {64, 1}, {130, 1}}, {}, build);
    build.splits = {{"*.o", 2, {}}, {"*.down", 4, {}}};
    check_model(s, {{70, 1}}, {}, build);
    const reference::Model model = reference::random_model(s, 11);
    const std::vector<int32_t> prompt = test::prompt_of(40, static_cast<uint64_t>(s.vocab));
    const auto logits = [&](Activations activations) {
      build.activations = activations;
      return Model(model, build).generate(prompt, 1).logits;
    };
    CHECK(logits(Activations::kFp8) != logits(Activations::kBf16));
  }
}

// Returns the shape with weights of a coding, and sizes that it allows.
Shape with_codes(Shape s, Coding coding, int group = 0, int bits = 4, bool zeros = false) {
  s.coding = coding, s.code_group = group, s.code_bits = bits, s.code_zeros = zeros;
  const int by = reference::Coder{coding, s.type, group, bits, zeros}.multiple();
  const auto fit = [&](int& size) { size = (size + by - 1) / by * by; };
  s.heads = 4, s.kv_heads = 2, s.head_dim = 32;
  fit(s.hidden), fit(s.ffn), fit(s.expert_ffn);
  return s;
}

TEST_CASE("weights of int4 with scales of groups or rows match float64, in steps of any number of tokens") {
  for (const int group : {32, 64, 128, 0}) {
    CAPTURE(group);
    check_model(with_codes(awkward("llama", Type::kBf16), Coding::kPacked, group),
                {{1, 3}, {7, 12}, {33, 3}});
    check_model(with_codes(with_experts("qwen3_moe", Type::kBf16), Coding::kPacked, group),
                {{1, 3}, {33, 3}});
  }
  for (const Type type : {Type::kF32, Type::kF16})  // type of norms, embeddings and scales
    check_model(with_codes(awkward("qwen2", type), Coding::kPacked, 32), {{7, 3}});
  Shape wide = with_codes(awkward("llama", Type::kBf16), Coding::kPacked, 64);
  wide.hidden = 512;  // groups of 64 columns are packed as such where they fill all K slices
  wide.ffn = 1536;
  wide.layers = 1;
  wide.context = 300;
  check_model(wide, {{8, 2}, {20, 1}, {32, 1}, {64, 1}, {77, 1}, {256, 1}}, {}, {.max_tokens = 256});
  check_model(wide, {{3, 2}, {70, 1}}, {}, {.max_tokens = 80, .splits = {{"*.o", 2, {}}, {"*.down", 4, {}}}});
}

TEST_CASE("integers with zero points, and of 8 bits, match float64 in every form on disk") {
  for (const Coding coding : {Coding::kPacked, Coding::kGptq, Coding::kGptqV2, Coding::kAwq})
    for (const int bits : {4, 8})
      for (const bool zeros : {false, true}) {
        if (coding == Coding::kAwq && bits == 8) continue;
        CAPTURE(coding_name(coding));
        CAPTURE(bits);
        CAPTURE(zeros);
        check_model(with_codes(awkward("llama", Type::kBf16), coding, 32, bits, zeros), {{1, 3}, {33, 3}});
        check_model(with_codes(with_experts("qwen3_moe", Type::kBf16), coding, 64, bits, zeros),
                    {{1, 2}, {33, 2}});
      }
  Shape wide = with_codes(awkward("llama", Type::kBf16), Coding::kGptq, 128, 4, true);
  wide.hidden = 512;
  wide.ffn = 1536;
  wide.layers = 1;
  for (const int bits : {4, 8}) {
    wide.code_bits = bits;
    check_model(wide, {{8, 2}, {70, 1}}, {},
                {.max_tokens = 80, .splits = {{"*.o", 2, {}}, {"*.down", 4, {}}}});
  }
}

TEST_CASE("floats of 4 bits match float64") {
  for (const Coding coding : {Coding::kMxfp4, Coding::kNvfp4, Coding::kModelopt}) {
    CAPTURE(coding_name(coding));
    check_model(with_codes(awkward("llama", Type::kBf16), coding), {{1, 3}, {7, 12}, {33, 3}});
    check_model(with_codes(with_experts("mixtral", Type::kBf16), coding), {{1, 2}, {33, 2}});
  }
}

TEST_CASE("stacked experts of 4-bit floats match float64") {
  Shape s = with_codes(gpt_oss(Type::kBf16), Coding::kMxfp4);
  check_model(s, {{1, 3}, {7, 12}, {33, 3}});
  s.hidden = 288;
  s.ffn = 576;
  check_model(s, {{1, 2}, {20, 2}, {77, 2}}, {}, {.max_tokens = 80});
}

TEST_CASE("experts that all tokens go to, or none, match float64") {
  for (const Type type : {Type::kF32, Type::kBf16}) {
    Shape s = with_experts("qwen3_moe", type);
    check_model(s, {{1, 3}, {33, 3}}, {0, -24, 24, -24, 0, -24});
    s.top_k = 1;
    check_model(s, {{1, 3}, {33, 3}}, {0, 0, 24, 0, 0, 0});
    check_model(with_experts("mixtral", type), {{40, 2}}, {0, 0, 24, -24, 0});
  }
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

TEST_CASE("groups of more than 8 query heads match float64, in prompts of several tokens a step") {
  for (const auto& [type, group] :
       {std::pair{Type::kF32, 9}, {Type::kBf16, 9}, {Type::kF16, 12}, {Type::kBf16, 16}, {Type::kF16, 32}}) {
    CAPTURE(group);
    Shape s = awkward("llama", type);
    s.heads = group * 2;
    s.kv_heads = 2;
    s.layers = 1;
    s.vocab = 130;
    check_model(s, {{2, 2}, {21, 2}});
  }
}

TEST_CASE("llama with the frequencies of Llama 3.1 matches float64") {
  Shape s = awkward("llama", Type::kF32);
  s.llama3_rope = true;
  check_model(s, {{40, 4}});
}

}  // namespace
}  // namespace mkc
