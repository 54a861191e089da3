#include <doctest/doctest.h>

#include "tests/unit/frontend/fixtures.h"

using namespace mkc;
using namespace mkc::test;

TEST_CASE("the family and the model file of docs/families.md give the ops shown there") {
  const TempDir dir;
  dir.write("family.yaml", example("family"));
  dir.write("config.json", example("config"));
  const auto request = read_request(dir.write("model.yaml", example("model")));
  REQUIRE_MESSAGE(request.ok(), (request.ok() ? "" : request.error().message));
  const auto graph = build_op_graph(request.value(), {});
  REQUIRE_MESSAGE(graph.ok(), (graph.ok() ? "" : graph.error().message));
  CHECK(listing(graph.value()) == example("ops"));
}

TEST_CASE("a folder of family files goes before the built-in ones") {
  const TempDir dir;
  dir.write("config.json", llama_config());
  const TempDir models;
  models.write("mine.yaml", edited(example("family"), "[TinyForCausalLM]", "[LlamaForCausalLM]"));
  ModelOptions options;
  options.models_dir = models.path;
  const auto request = read_request(dir.path, options);
  CHECK(headline(request) ==
        "DIR/config.json:3:3: error: model_type is \"llama\", but LlamaForCausalLM is of "
        "the tiny family");
}
