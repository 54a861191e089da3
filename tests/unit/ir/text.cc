#include <doctest/doctest.h>

#include "ir/parse.h"
#include "ir/print.h"
#include "ir/verify.h"

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
  printed.replace(printed.find("%x, %#77"), 2, "%#3");  // the print names what the text numbers
  CHECK(printed == kOps);
}

std::string parse_error(const std::string& text) {
  const Result<Module> module = parse_mkir(text, "a.mkir");
  return module.ok() ? "" : module.error().message;
}

TEST_CASE("what cannot be read is shown with its line and a caret") {
  CHECK(parse_error("mkir ops 1 \"m\"\nactivation %x: f32[8\n") ==
        "a.mkir:2:21: error: expected ']', found end of line\nactivation %x: f32[8\n                    ^");
  CHECK(parse_error("") == "a.mkir:1:1: error: expected 'mkir', found end of text");
  CHECK(parse_error("// a comment\n\n") == "a.mkir:3:1: error: expected 'mkir', found end of text");
  CHECK(parse_error("mkir ops 1 \"m") ==
        "a.mkir:1:12: error: string without its closing '\"' on this line\nmkir ops 1 \"m\n           ^");
  CHECK(parse_error("mkir ops 1 \x01").starts_with("a.mkir:1:12: error: unexpected character \"\\x01\""));
  CHECK(parse_error("mkir ops 1 é").starts_with("a.mkir:1:12: error: unexpected character \"é\"\n"));
  CHECK(parse_error("mkir ops 1 " + std::string(5000, 'a')).find("word of 5000 bytes, at most 4096") !=
        std::string::npos);
}

TEST_CASE("expressions keep their shape, and spaces and comments do not matter") {
  const auto printed = [](const std::string& dim) {
    const std::string text =
        print(parsed<OpGraph>("mkir ops 1 \"m\"\nsymbol T in [1, 2]\nactivation %x:f32[" + dim + "] // x\n"));
    const size_t begin = text.find("f32[") + 4;
    return text.substr(begin, text.rfind(']') - begin);
  };
  for (const char* text : {"T - (T - 1)", "T - T - 1", "2*(T + 1) floordiv 4", "2*((T + 1) floordiv 4)",
                           "min(T, max(3, T ceildiv 2)) mod 4", "2 + 3", "T*(-9223372036854775808)"})
    CHECK(printed(text) == text);
  CHECK(printed(" ( ( T ) )*\t2+1 ") == "T*2 + 1");
}

TEST_CASE("a violation is reported at the object's own place, or with the module's name") {
  OpGraph graph;
  graph.name = "small";
  graph.symbols.add({"T", {0, 4}, {"models/a.yaml", 3, 5}});
  graph.symbols.add({"U", {0, 4}, {}});
  const std::vector<Error> errors = verify(graph);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].message ==
        "models/a.yaml:3:5: error: V3: symbol T: bounds [0, 4], expected 1 <= lower <= upper <= 2147483647");
  CHECK(errors[1].message ==
        "small: error: V3: symbol U: bounds [0, 4], expected 1 <= lower <= upper <= 2147483647");
}

}  // namespace
}  // namespace mkc
