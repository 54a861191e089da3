// These tests compare every family with float64, on random checkpoints of awkward sizes. The processor runs
// every combination. The emulator runs those that a GPU's code tells apart.
#include <doctest/doctest.h>

#include "tests/e2e/check_model.h"

namespace mkc {
namespace {

using reference::Shape;
using reference::Type;
using test::awkward;
using test::check_model;
using test::gpt_oss;
using test::with_experts;

// Checks each type of weights, and several tiles of it. The bodies of a type do not depend on the family, so
// on the emulator each family is wide in one type, and llama alone has f16 in narrow rows.
void check_family(const char* family, Type wide_type) {
  const bool all = test::on_processor();
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    if (all || type != Type::kF16 || family == std::string("llama"))
      check_model(awkward(family, type), {{1, 3}, {7, all ? 32 : 12}, {16, 3}, {33, 3}});
    if (!all && type != wide_type) continue;
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
  check_family("llama", Type::kF32);
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
  check_family("qwen2", Type::kF16);
}
TEST_CASE("qwen3 matches float64") {
  check_family("qwen3", Type::kBf16);
}
TEST_CASE("mistral matches float64") {
  check_family("mistral", Type::kBf16);
}

TEST_CASE("qwen3_moe matches float64") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    Shape s = with_experts("qwen3_moe", type);
    check_model(s, {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
    if (!test::on_processor() && type != Type::kBf16) continue;  // routing does not depend on the type
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
    if (!test::on_processor() && type != Type::kF32) continue;
    s.top_k = 1;
    check_model(s, {{17, 4}, {9, 2}, {12, 1}, {5, 2}});
  }
}

TEST_CASE("gpt_oss matches float64") {
  for (const Type type : {Type::kF32, Type::kBf16, Type::kF16}) {
    Shape s = gpt_oss(type);
    check_model(s, {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
    if (!test::on_processor() && type != Type::kBf16) continue;
    s.layers = 3;
    s.top_k = 4;
    s.hidden = 300;
    s.ffn = 300;
    s.yarn_rope = false;
    check_model(s, {{17, 4}, {70, 2}});
  }
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
