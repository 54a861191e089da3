#include <doctest/doctest.h>

#include "frontend/yaml.h"
#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

namespace {

// Returns the error of a model.yaml beside a Llama config.
std::string model_error(const std::string& text) {
  const TempDir dir;
  dir.write("config.json", llama_config());
  return headline(read_request(dir.write("model.yaml", text)));
}

std::string yaml_error(const std::string& text) {
  return headline(parse_yaml({"a.yaml", text}));
}

}  // namespace

TEST_CASE("a model file's options hold, and its resolved form reads back the same") {
  const TempDir dir;
  dir.write("config.json", llama_config());
  const auto first = read_request(
      dir.write("model.yaml",
                "checkpoint: .\ntarget: sm_80\nlimits: {tokens: 8, context: "
                "32}\nkv: {dtype: f16}\nschedule: {workers: 3, scheduler: "
                "dynamic, placement: {l0.o: table, \"*attend\": ready}, split: {\"l*.o\": 4}}\n"));
  REQUIRE(first.ok());
  CHECK(first.value().target == "sm_80");
  CHECK(first.value().max_tokens == 8);
  CHECK(first.value().context == 32);
  CHECK(first.value().kv_dtype == DType::f16);
  CHECK(first.value().workers == 3);
  CHECK(first.value().scheduler == Scheduler::kDynamic);
  REQUIRE(first.value().placements.size() == 2);
  CHECK(first.value().placements[1].grids == "*attend");
  CHECK(first.value().placements[1].kind == PlacementKind::kReady);
  CHECK(first.value().placements[1].loc.line == 5);
  REQUIRE(first.value().splits.size() == 1);
  CHECK(first.value().splits[0].grids == "l*.o");
  CHECK(first.value().splits[0].split_k == 4);
  const std::string resolved = resolved_yaml(first.value());
  const auto second = read_request(dir.write("resolved.yaml", resolved));
  REQUIRE(second.ok());
  CHECK(resolved_yaml(second.value()) == resolved);
}

TEST_CASE("unknown keys and values out of range in a model file are refused") {
  CHECK(model_error("checkpoint: .\nlimitz: {}\n") ==
        "DIR/model.yaml:2:1: error: unknown key \"limitz\" in the model file, did you mean \"limits\"?");
  CHECK(model_error("checkpoint: .\nlimits: {tokens: 0}\n") ==
        "DIR/model.yaml:2:18: error: tokens is 0, expected 1 to 256");
  CHECK(model_error("checkpoint: .\nschedule: {scheduler: fast}\n") ==
        "DIR/model.yaml:2:23: error: scheduler is \"fast\", expected static, dynamic, auto");
  CHECK(
      model_error("checkpoint: .\nschedule: {placement: {l0.o: heap}}\n") ==
      "DIR/model.yaml:2:30: error: the placement of l0.o is \"heap\", expected table, range, inline, queue, "
      "ready");
  CHECK(model_error("checkpoint: .\nschedule: {split: {l0.o: 0}}\n") ==
        "DIR/model.yaml:2:26: error: the parts of l0.o are 0, expected an int of at least 1");
  CHECK(model_error("checkpoint: .\nlimits: {tokens: many}\n") ==
        "DIR/model.yaml:2:18: error: tokens is \"many\", expected an int");
  CHECK(model_error("checkpoint: .\nlimits: {tokens: 1000}\n") ==
        "DIR/model.yaml:2:18: error: tokens is 1000, expected 1 to 256");
  // The bounds themselves are allowed.
  CHECK(model_error("checkpoint: .\nlimits: {tokens: 256, requests: 64, context: 64}\n") == "");
  CHECK(model_error("checkpoint: .\nlimits: {tokens: 1, requests: 1, context: 1}\n") == "");
  for (const char* wide : {"33", "65"})
    CHECK(model_error(std::string("checkpoint: .\nschedule: {wgmma_from: ") + wide + "}\n") == "");
  for (const char* wide : {"32", "66"})
    CHECK(model_error(std::string("checkpoint: .\nschedule: {wgmma_from: ") + wide + "}\n") ==
          std::string("DIR/model.yaml:2:24: error: wgmma_from is ") + wide + ", expected 33 to 65");
  CHECK(model_error("checkpoint: .\nschedule: {wgmma_from: 33, batch_invariant: true}\n") ==
        "DIR/model.yaml:2:24: error: wgmma_from is given, but batch_invariant asks for the same bits in "
        "steps of fewer "
        "tokens");
  CHECK(model_error("checkpoint: .\nschedule: {wgmma_from: 33, batch_invariant: false}\n") == "");
  CHECK(model_error("checkpoint: .\nschedule: {ring: 4.0}\n") ==
        "DIR/model.yaml:2:18: error: ring is 4.0, expected an int");
  CHECK(model_error("checkpoint: .\nlimits: {tokens: 257}\n") ==
        "DIR/model.yaml:2:18: error: tokens is 257, expected 1 to 256");
  CHECK(model_error("checkpoint: .\nlimits: {context: 0}\n") ==
        "DIR/model.yaml:2:19: error: context is 0, expected 1 to 64, the model's maximum");
  CHECK(model_error("checkpoint: .\nlimits: {context: 65}\n") ==
        "DIR/model.yaml:2:19: error: context is 65, expected 1 to 64, the model's maximum");
  CHECK(model_error("checkpoint: .\nkv: {dtype: f8}\n") ==
        "DIR/model.yaml:2:13: error: dtype is \"f8\", expected weights, bf16, f16, f32 or e4m3");
  CHECK(model_error("target: sm_80\n") ==
        "DIR/model.yaml:1:1: error: missing key \"checkpoint\" in the model file");
}

TEST_CASE("an empty value has the place of the dash or colon before it, and a null its own") {
  const auto document = parse_yaml({"a.yaml", "l:\n  - x\n  -  # none\n\n  - null\nm:\nname: [~]\n"});
  REQUIRE(document.ok());
  const Node& root = document.value().root;
  CHECK(find(root, "l")->items[1].place == Place{3, 3});
  CHECK(find(root, "l")->items[2].place == Place{5, 5});
  CHECK(find(root, "m")->place == Place{6, 2});
  CHECK(find(root, "name")->items[0].place == Place{7, 8});
}

TEST_CASE("hostile YAML is refused") {
  CHECK(yaml_error("a: 1\na: 2\n") == "a.yaml:2:1: error: key \"a\" is given twice");
  CHECK(yaml_error("a: &x [1, *x]\n") == "a.yaml:1:11: error: alias refers to a value that contains it");
  CHECK(yaml_error(std::string(40, '[') + std::string(40, ']')) ==
        "a.yaml:1:33: error: nested deeper than 32 levels");
  CHECK(yaml_error("a: &x {b: 1}\nc:\n  <<: *x\n") == "a.yaml:3:3: error: merge keys are not supported");
  CHECK(yaml_error("\"<<\": 1\n") == "");
  CHECK(yaml_error("a: !!int 1\n") == "a.yaml:1:4: error: tag tag:yaml.org,2002:int is not supported");
  CHECK(yaml_error("[1]: 2\n") == "a.yaml:1:1: error: key is a list, expected a string");
  CHECK(yaml_error("a: 1\n---\nb: 2\n") == "a.yaml:3:1: error: a second document, expected one");
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k ? ", *a" : "*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  CHECK(yaml_error(bomb).ends_with("error: more than 32768 values, aliases expanded"));
}
