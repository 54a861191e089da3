#include <doctest/doctest.h>

#include "ir/parse.h"
#include "ir/print.h"

namespace mkc {
namespace {

template <class Level>
Level parsed(const std::string& text) {
  Result<Module> module = parse_mkir(text, "a.mkir");
  REQUIRE_MESSAGE(module.ok(), module.error().message);
  REQUIRE(std::holds_alternative<Level>(module.value()));
  return std::get<Level>(module.value());
}

constexpr const char* kOps = R"(mkir ops 1 "a \"small\" model"
file f0 "models/llama.yaml"
file f1 "own model.yaml"
symbol T in [1, 16] loc(f0:3:1)
symbol "two words" in [-1, 9223372036854775807]
input %tokens: i32[T] loc(f0:4:5)
weight %embed: bf16[100, 32] from "model.embed.weight" loc(f1:5:5)
weight %"50% odd": bf16[100, 32] packed(%embed, %embed) group 8
activation %x: f32[T, 32*("two words" - 1) floordiv 2]
activation %x: f32[]
table %rope: f32[64, 4]
rope %rope scale 1.0 inv_freq [1.0, 0.10000000000000001]
op embed(%tokens, %embed) -> %x loc(f0:7:3)
op add(%#3, %#77)
op rms_norm(%x) -> %#4, %x {a = -9223372036854775808, eps = 1.0000000000000001e-05, "min" = -inf} layer 3
)";

TEST_CASE("an op graph prints as it was read") {
  const OpGraph graph = parsed<OpGraph>(kOps);
  CHECK(graph.name == "a \"small\" model");
  CHECK(graph.symbols.items[0].loc == Loc{"models/llama.yaml", 3, 1});
  CHECK(graph.symbols.items[1].bounds == Bounds{-1, INT64_MAX});
  CHECK(graph.ops.items[1].inputs == std::vector{TensorId{3}, TensorId{77}});
  CHECK(graph.ops.items[2].attrs[0].i == INT64_MIN);
  CHECK(graph.ops.items[2].layer == 3);
  std::string printed = print(graph);
  printed.replace(printed.find("%x, %#77"), 2, "%#3");  // a number where a name would do
  CHECK(printed == kOps);
}

}  // namespace
}  // namespace mkc
