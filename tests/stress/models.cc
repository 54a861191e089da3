// Every family and type of weights runs under race detection: without a report, and with the same bits as
// without detection.
#include <doctest/doctest.h>

#include "tests/stress/tiny_model.h"

namespace mkc::test {
namespace {

// Runs one kernel with and without race detection, and checks that the outcomes are equal.
void check_clean(const TinyModel& model, RunOptions options, std::initializer_list<uint64_t> seeds,
                 bool bulk_copy = true) {
  const Compiled compiled(model);
  const HostKernel kernel =
      compile_for_host(compiled.schedule, {.bulk_copy = bulk_copy, .race = true, .quick = true});
  const Outcome plain = run(compiled, kernel, options);
  CHECK(plain.error == "");
  options.device.race = true;
  for (const uint64_t seed : seeds) {
    CAPTURE(seed);
    options.device.seed = seed;
    CHECK(run(compiled, kernel, options) == plain);
  }
}

RunOptions steps(std::vector<uint32_t> tokens) {
  RunOptions options;
  options.steps = std::move(tokens);
  return options;
}

// One dense family and one with experts load each type by 16-byte copies. Their loader alone differs from
// that of the other families.
TEST_CASE("no family has a race in any type of weights") {
  for (const char* family : {"llama", "qwen2", "qwen3", "mistral", "qwen3_moe", "mixtral", "gpt_oss"})
    for (const auto type : {reference::Type::kBf16, reference::Type::kF16, reference::Type::kF32}) {
      CAPTURE(std::string(family));
      CAPTURE(reference::type_name(type));
      TinyModel model;
      model.shape.family = family;
      model.shape.type = type;
      model.shape.experts = 5;
      model.shape.layers = family == std::string("mixtral") ? 2 : 1;
      const bool bulk_copy = model.shape.family != "qwen2" && model.shape.family != "mixtral";
      check_clean(model, steps({1, 2, 7, 16, 1}), {0, 1, 2}, bulk_copy);
    }
}

TEST_CASE("codes and the scales of their rows are read without a race") {
  for (const char* family : {"llama", "qwen3_moe"}) {
    CAPTURE(std::string(family));
    TinyModel model;
    model.shape.family = family;
    model.shape.experts = 5;
    model.shape.ffn = 600;  // two tiles of a strip
    model.shape.coding = reference::Coding::kE4m3Rows;
    check_clean(model, steps({1, 7, 16, 20, 1}), {0, 1}, model.shape.family == "llama");
  }
}

TEST_CASE("stacked codes of experts, their biases and sinks are read without a race") {
  TinyModel model;
  model.shape.family = "gpt_oss";
  model.shape.experts = 5;
  model.shape.window = 5;
  model.shape.layers = 2;
  model.shape.hidden = 64;
  model.shape.ffn = 576;  // two tiles of a strip
  model.shape.coding = reference::Coding::kMxfp4;
  check_clean(model, steps({1, 7, 16, 20, 1}), {0, 1});
}

TEST_CASE("sizes that fill no tile, odd heads and two layers have no race, whatever the number of workers") {
  for (const uint32_t workers : {1u, 2u, 7u}) {
    CAPTURE(workers);
    TinyModel model;
    model.shape.layers = 2;
    model.shape.hidden = 72;
    model.shape.heads = 3;
    model.shape.kv_heads = 1;
    model.shape.head_dim = 40;
    model.shape.ffn = 600;  // several tiles of a strip
    model.shape.vocab = 101;
    model.workers = workers;
    check_clean(model, steps({7, 33, 1}), {0, workers}, workers != 2);
  }
}

TEST_CASE("a prompt of 300 tokens in steps of 16 crosses from one piece of the context into the next") {
  for (const int window : {0, 40}) {
    CAPTURE(window);
    TinyModel model;
    model.shape.family = window == 0 ? "llama" : "mistral";
    model.shape.window = window;
    model.shape.context = 320;
    model.shape.vocab = 64;
    std::vector<uint32_t> tokens(18, 16);
    tokens.insert(tokens.end(), {12, 1, 1});
    check_clean(model, steps(tokens), {0, 3});
  }
}

}  // namespace
}  // namespace mkc::test
