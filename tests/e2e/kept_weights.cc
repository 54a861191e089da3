// These tests compare models whose weights were packed with the same models on kept weights.
#include <doctest/doctest.h>

#include "tests/e2e/pipeline.h"
#include "tests/reference/model.h"
#include "tests/unit/temp_dir.h"

namespace mkc {
namespace {

using reference::Shape;
using reference::Type;
using test::Model;

struct Generated {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
  mkrt::WeightsReport weights;
};

Generated generate(const Model& model, const mkrt::KeptFolder& kept) {
  mkrt::SessionOptions options;
  options.kept_weights = kept;
  test::Opened opened = model.open(options);
  Generated out;
  out.weights = opened.session.weights();
  mkrt::GenerateOptions generation;
  generation.max_new_tokens = 6;
  generation.logits = &out.logits;
  const auto tokens = mkrt::generate(opened.session, test::prompt_of(9, model.vocab()), generation);
  REQUIRE_MESSAGE(tokens.ok(), tokens.error().message);
  out.tokens = tokens.value();
  return out;
}

void check_kept(const Shape& shape) {
  CAPTURE(shape.family);
  CAPTURE(reference::type_name(shape.type));
  CAPTURE(coding_name(shape.coding));
  const mkrt::test::TempDir dir;
  reference::write_checkpoint(reference::random_model(shape, 7), dir.path, 2);
  const Model model(dir.path);
  const mkrt::KeptFolder folder{dir.path + "/kept", {}, 0};
  const Generated without = generate(model, {}), packed = generate(model, folder),
                  mapped = generate(model, folder);
  CHECK(!without.weights.mapped);
  CHECK(!packed.weights.mapped);
  CHECK(mapped.weights.mapped);
  for (const Generated* g : {&packed, &mapped}) {
    CHECK(g->weights.warnings.empty());
    CHECK(g->tokens == without.tokens);
    CHECK(g->logits == without.logits);
  }
}

// Returns sizes that leave rows and columns of padding.
Shape awkward(Type type) {
  Shape shape;
  shape.type = type;
  shape.hidden = 100;
  shape.heads = 3;
  shape.kv_heads = 1;
  shape.head_dim = 40;
  shape.ffn = 84;
  shape.vocab = 109;
  return shape;
}

TEST_CASE("kept weights give the bits of packed ones, in every type") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) check_kept(awkward(type));
  Shape coded = awkward(Type::kBf16);
  coded.coding = reference::Coding::kE4m3Rows;
  check_kept(coded);
  Shape experts = awkward(Type::kBf16);
  experts.family = "qwen3_moe";
  experts.experts = 6;
  check_kept(experts);
}

}  // namespace
}  // namespace mkc
