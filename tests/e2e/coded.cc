// These tests compare models whose weights have codes with float64. The processor runs every combination. The
// emulator runs those that a GPU's code tells apart.
#include <doctest/doctest.h>

#include "tests/e2e/check_model.h"

namespace mkc {
namespace {

using reference::Coding;
using reference::Shape;
using reference::Type;
using test::awkward;
using test::check_model;
using test::gpt_oss;
using test::Model;
using test::with_experts;

TEST_CASE("weights of e4m3 with a scale for each row match float64, in steps of any number of tokens") {
  const auto coded = [](Shape s) {
    s.coding = Coding::kE4m3Rows;
    return s;
  };
  for (const char* family : {"qwen2", "qwen3", "llama", "mistral"}) {
    if (!test::on_processor() && family == std::string("llama")) break;  // other types of llama follow
    check_model(coded(awkward(family, Type::kBf16)), {{1, 3}, {7, 12}, {16, 3}, {33, 3}});
  }
  for (const Type type : {Type::kF32, Type::kF16})  // type of norms, embeddings and scales
    check_model(coded(awkward("llama", type)), {{7, 3}});
  for (const char* family : {"qwen3_moe", "mixtral"})
    check_model(coded(with_experts(family, Type::kBf16)), {{1, 3}, {7, 12}, {33, 3}});
  Shape wide = coded(awkward("llama", Type::kBf16));
  wide.hidden = 576;
  wide.ffn = 1100;  // three tiles
  wide.layers = 1;
  wide.context = 300;
  check_model(wide, {{8, 2}, {20, 1}, {32, 1}, {64, 1}, {77, 1}, {256, 1}}, {}, {.max_tokens = 256});
  check_model(wide, {{33, 1}, {64, 1}}, {}, {.max_tokens = 256, .wgmma_from = 33});  // others are as above
  check_model(wide, {{3, 2}, {70, 1}}, {}, {.max_tokens = 80, .splits = {{"*.o", 2, {}}, {"*.down", 4, {}}}});
}

TEST_CASE("weights of e4m3 with scales of tensors or blocks match float64") {
  for (const Coding coding : {Coding::kE4m3Tensor, Coding::kE4m3Blocks}) {
    CAPTURE(coding_name(coding));
    for (const char* family : {"qwen3", "llama"}) {
      if (!test::on_processor() && family == std::string("llama")) break;  // its products are those of qwen3
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

TEST_CASE("weights with scales of blocks match float64 where warpgroups multiply them") {
  if (test::on_processor()) return;  // it has none
  Shape s = awkward("qwen3", Type::kBf16);
  s.coding = Coding::kE4m3Blocks;
  s.hidden = 512;
  s.ffn = 1536;
  s.layers = 1;
  s.context = 300;
  check_model(s, {{65, 2}, {150, 1}}, {}, {.max_tokens = 150});
  check_model(s, {{33, 1}}, {}, {.max_tokens = 64, .wgmma_from = 33});
  Shape narrow = s;
  narrow.ffn = 640;  // K slices of 80 columns cross blocks
  check_model(narrow, {{70, 1}}, {}, {.max_tokens = 80});
  const reference::Model model = reference::random_model(s, 11);
  const std::vector<int32_t> prompt = test::prompt_of(40, static_cast<uint64_t>(s.vocab));
  const auto logits = [&](uint32_t from) {
    return Model(model, {.max_tokens = 64, .wgmma_from = from}).generate(prompt, 1).logits;
  };
  CHECK(logits(33) != logits(65));
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
    test::Build build{.max_tokens = 130, .activations = Activations::kFp8, .without = {"wgmma"}};
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

// Returns a layer whose E4M3 products warpgroups can multiply.
Shape coded_for_warpgroups() {
  Shape s = awkward("qwen3", Type::kBf16);
  s.hidden = 512;
  s.ffn = 592;
  s.layers = 1;
  s.context = 200;
  s.coding = Coding::kE4m3Rows;
  return s;
}

TEST_CASE("warpgroups multiply codes that quantize grids leave, where 8-bit activations are asked for") {
  if (test::on_processor()) return;
  const Shape s = coded_for_warpgroups();
  test::Build build{.race = true, .max_tokens = 130, .activations = Activations::kFp8};
  check_model(s, {{33, 2}, {130, 1}}, {}, build);
  Shape blocks = s;
  blocks.coding = Coding::kE4m3Blocks;
  blocks.ffn = 512;
  build.race = false;
  build.splits = {{"*.o", 2, {}}};  // the other products have codes
  check_model(blocks, {{70, 1}}, {}, build);
  const reference::Model model = reference::random_model(s, 11);
  build.activations = Activations::kBf16;
  const Model bf16(model, build);
  build.activations = Activations::kFp8;
  const Model codes(model, build);
  for (const uint64_t tokens : {32u, 33u}) {
    const std::vector<int32_t> prompt = test::prompt_of(tokens, static_cast<uint64_t>(s.vocab));
    CHECK((codes.generate(prompt, 1).logits == bf16.generate(prompt, 1).logits) == (tokens < 33));
  }
}

TEST_CASE(
    "with 8-bit activations a row has the bits of steps that have as many rows as docs/batches.md says") {
  if (test::on_processor()) return;
  const Shape s = coded_for_warpgroups();
  const reference::Model weights = reference::random_model(s, 11);
  const auto vocab = static_cast<uint64_t>(s.vocab);
  const std::vector<int32_t> ids = test::prompt_of(80, vocab);
  for (const bool warpgroups : {true, false}) {
    CAPTURE(warpgroups);
    test::Build build{.max_tokens = 80, .activations = Activations::kFp8};
    if (!warpgroups) build.without = {"wgmma"};
    const Model model(weights, build);
    const auto first_rows = [&](size_t tokens) {
      std::vector<float> logits = model.generate({ids.begin(), ids.begin() + tokens}, 1).logits;
      logits.resize(20 * vocab);
      return logits;
    };
    const auto few = first_rows(32), some = first_rows(33), many = first_rows(65);
    CHECK(first_rows(20) == few);
    CHECK(first_rows(64) == some);
    CHECK(first_rows(80) == many);
    CHECK(few != some);
    CHECK((some == many) == !warpgroups);
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
    if (!test::on_processor() && group != 32 && group != 128) continue;  // 64 is packed as 32, and 0 as 128
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

TEST_CASE("layers whose gate and up projections differ in format match float64") {
  for (Shape s : {with_experts("qwen3_moe", Type::kBf16), awkward("llama", Type::kBf16)}) {
    s.coding = Coding::kE4m3Rows;
    s.plain_gates = true;
    for (const bool dynamic : {false, true})
      check_model(s, {{1, 3}, {7, 12}, {33, 3}}, {},
                  {.scheduler = dynamic ? Scheduler::kDynamic : Scheduler::kStatic});
  }
}

// Integers are bits, zero points and a form on disk. Models have such matrices, and such experts.
struct Integers {
  int bits;
  bool zeros;
  Coding matrices, experts;
};

void check_integers(const Integers& of) {
  CAPTURE(of.bits);
  CAPTURE(of.zeros);
  CAPTURE(coding_name(of.matrices));
  CAPTURE(coding_name(of.experts));
  check_model(with_codes(awkward("llama", Type::kBf16), of.matrices, 32, of.bits, of.zeros),
              {{1, 3}, {33, 3}});
  check_model(with_codes(with_experts("qwen3_moe", Type::kBf16), of.experts, 64, of.bits, of.zeros),
              {{1, 2}, {33, 2}});
}

// The host reads every form to the same codes. So a form meets each number of bits on the processor, and one
// of them on the emulator.
TEST_CASE("integers with zero points, and of 8 bits, match float64 in every form on disk") {
  using enum Coding;
  if (!test::on_processor())
    for (const Integers& of : {Integers{4, false, kPacked, kGptqV2}, Integers{4, true, kGptq, kAwq},
                               Integers{8, false, kGptqV2, kPacked}, Integers{8, true, kPacked, kGptq}})
      check_integers(of);
  else
    for (const Coding coding : {kPacked, kGptq, kGptqV2, kAwq})
      for (const int bits : {4, 8})
        for (const bool zeros : {false, true})
          if (coding != kAwq || bits == 4) check_integers({bits, zeros, coding, coding});
}

TEST_CASE("integers of groups match float64 in products of several tiles and in parts") {
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
    if (!test::on_processor() && coding == Coding::kModelopt) continue;  // another form of kNvfp4 on disk
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

}  // namespace
}  // namespace mkc
