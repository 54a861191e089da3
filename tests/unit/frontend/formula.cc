// These tests evaluate the expressions of family files. They compare values and error texts with expected
// ones.
#include "frontend/formula.h"

#include <doctest/doctest.h>

#include "frontend/json.h"
#include "tests/unit/frontend/fixtures.h"

namespace mkc {
namespace {

const char* const kConfig =
    R"({"n": 12, "odd": 7, "zero": 0, "x": 2.5, "yes": true, "name": "silu", "list": [3, 5, 8], "none": null, "in": {"deep": 4}})";

Document document(const char* path, const std::string& text) {
  Result<Document> read = parse_json({path, text});
  REQUIRE_MESSAGE(read.ok(), read.error().message);
  return read.value();
}

// Returns the value as an error would show it, or the error without its path and source line.
std::string value_of(const std::string& formula) {
  const Document family{{"f.yaml", ""}, {}}, config = document("c.json", kConfig);
  const Scope scope{&family, &config, {{"size_of", int_node(6)}, {"flag", bool_node(false)}}};
  Node text = string_node(formula);
  text.place = {1, 1};
  const Result<Formula> parsed = parse_formula(family, text);
  if (!parsed.ok()) return test::headline(parsed);
  const Result<Node> value = evaluate(parsed.value(), scope);
  return value.ok() ? describe(value.value()) : test::headline(value);
}

TEST_CASE("operators of formulas bind and compute as their header says") {
  const std::pair<const char*, const char*> cases[] = {{"7", "7"},
                                                       {"2.5", "2.5"},
                                                       {"'a b'", "\"a b\""},
                                                       {"''", "\"\""},
                                                       {"true", "true"},
                                                       {"false", "false"},
                                                       {"null", "null"},
                                                       {" 1 + 2 ", "3"},
                                                       {"7 - 2 - 1", "4"},
                                                       {"2 + 3 * 4", "14"},
                                                       {"(2 + 3) * 4", "20"},
                                                       {"12 / 4 / 3", "1"},
                                                       {"17 % 5", "2"},
                                                       {"-3 + 5", "2"},
                                                       {"2 * -3", "-6"},
                                                       {"--3", "3"},
                                                       {"1.5 + 1", "2.5"},
                                                       {"1 - 0.5", "0.5"},
                                                       {"0.5 * 3", "1.5"},
                                                       {"1 / 2.0", "0.5"},
                                                       {"sqrt(16)", "4"},
                                                       {"sqrt (2.25)", "1.5"},
                                                       {"size(config.list)", "3"},
                                                       {"'none' in config", "true"},
                                                       {"'nothing' in config", "false"},
                                                       {"'deep' in config.in", "true"},
                                                       {"config.list[0] + config.list[2]", "11"},
                                                       {"config.list[size(config.list) - 1]", "8"},
                                                       {"1 < 2", "true"},
                                                       {"2 < 2", "false"},
                                                       {"2 <= 2", "true"},
                                                       {"3 <= 2", "false"},
                                                       {"3 > 2", "true"},
                                                       {"2 > 2", "false"},
                                                       {"2 >= 2", "true"},
                                                       {"1 >= 2", "false"},
                                                       {"2 == 2.0", "true"},
                                                       {"2 == 3", "false"},
                                                       {"2 != 3", "true"},
                                                       {"2 != 2", "false"},
                                                       {"'a' == 'a'", "true"},
                                                       {"'a' == 'b'", "false"},
                                                       {"null == null", "true"},
                                                       {"null == 0", "false"},
                                                       {"true == true", "true"},
                                                       {"true == false", "false"},
                                                       {"5 in config.list", "true"},
                                                       {"4 in config.list", "false"},
                                                       {"true and false", "false"},
                                                       {"true and true", "true"},
                                                       {"false or true", "true"},
                                                       {"false or false", "false"},
                                                       {"false and config.n", "false"},
                                                       {"true or config.n", "true"},
                                                       {"true or true and false", "true"},
                                                       {"not true", "false"},
                                                       {"not 1 == 2", "true"},
                                                       {"not false and false", "false"},
                                                       {"config.n", "12"},
                                                       {"config.none", "null"},
                                                       {"config.gone", "null"},
                                                       {"config.in.deep", "4"},
                                                       {"config.in.gone", "null"},
                                                       {"config.n.deep", "null"},
                                                       {"config.gone ?? 3", "3"},
                                                       {"config.n ?? 3", "12"},

                                                       {"size_of * 2", "12"},
                                                       {"flag", "false"},
                                                       {"1 if flag else 2", "2"},
                                                       {"1 if not flag else 2", "1"},
                                                       {"1 if flag else 2 if flag else 3", "3"},
                                                       {"1 / 0 if flag else 5", "5"},
                                                       {"5 if not flag else 1 / 0", "5"},
                                                       {"9223372036854775807", "9223372036854775807"},
                                                       {"9223372036854775806 + 1", "9223372036854775807"}};
  for (const auto& [formula, value] : cases) {
    CAPTURE(formula);
    CHECK(value_of(formula) == value);
  }
}

TEST_CASE("what a formula cannot mean is an error at its place") {
  struct Case {
    const char *formula, *error;
  };
  const Case cases[] = {{"", "1: error: expected a value"},
                        {"1 +", "4: error: expected a value"},
                        {"*", "1: error: expected a value"},
                        {"1 2", "3: error: expected an operator or the end"},
                        {"(1", "3: error: expected )"},
                        {"(1]", "3: error: expected )"},
                        {"sqrt 4)", "6: error: expected ("},
                        {"size 4)", "6: error: expected ("},
                        {"sqrt(4", "7: error: expected )"},
                        {"config.list[1", "14: error: expected ]"},
                        {"'a", "1: error: expected a closing '"},
                        {"1x", "1: error: expected a number"},
                        {"1 if true", "10: error: expected else"},
                        {"1 if true 2", "11: error: expected else"},
                        {"1 / 0", "3: error: division by zero"},
                        {"1 % 0", "3: error: division by zero"},
                        {"1.5 / 0", "5: error: division by zero"},
                        {"7 / 2", "3: error: 7 / 2 leaves a remainder"},
                        {"config.n / 5", "10: error: 12 / 5 leaves a remainder"},
                        {"1.5 % 2", "5: error: remainder of a float"},
                        {"9223372036854775807 + 1", "21: error: integer overflow"},
                        {"-9223372036854775807 - 2", "22: error: integer overflow"},
                        {"9223372036854775807 * 2", "21: error: integer overflow"},
                        {"(-9223372036854775807 - 1) / -1", "28: error: integer overflow"},
                        {"(-9223372036854775807 - 1) % -1", "28: error: integer overflow"},
                        {"size_off", "1: error: unknown name \"size_off\", did you mean \"size_of\"?"},
                        {"1 and true", "1: error: value is 1, expected a bool"},
                        {"not 1", "5: error: value is 1, expected a bool"},
                        {"1 + true", "5: error: value is true, expected a number"},
                        {"-'a'", "2: error: value is \"a\", expected a number"},
                        {"sqrt(true)", "6: error: value is true, expected a number"},
                        {"size(3)", "6: error: value is 3, expected a list"},
                        {"1 in 2", "6: error: value is 2, expected a list"},
                        {"1 if 2 else 3", "6: error: value is 2, expected a bool"}};
  for (const auto& [formula, error] : cases) {
    CAPTURE(formula);
    CHECK(value_of(formula) == std::string("f.yaml:1:") + error + " in \"" + formula + "\"");
  }
  // An error that a key of the config causes names the key and its place in the config.
  CHECK(value_of("config.n / config.odd") == "c.json:1:2: error: n is 12, expected a multiple of odd 7");
  CHECK(value_of("config.name + 1") == "c.json:1:55: error: name is \"silu\", expected a number");
  CHECK(value_of("1 + config.gone ?? 3") == "c.json: error: missing key \"gone\", needed by f.yaml:1:5");
  CHECK(value_of("config.gone + 1") == "c.json: error: missing key \"gone\", needed by f.yaml:1:1");
  CHECK(value_of("config.list[3]") == "c.json:1:71: error: list has 3 elements, none of index 3");
  CHECK(value_of("config.list[-1]") == "c.json:1:71: error: list has 3 elements, none of index -1");
  CHECK(value_of("config.list[config.x]") == "c.json:1:32: error: x is 2.5, expected an int");
}

TEST_CASE("formulas nest up to 64 levels") {
  CHECK(value_of(std::string(64, '(') + "1" + std::string(64, ')')) == "1");
  CHECK(value_of(std::string(65, '(') + "1" + std::string(65, ')'))
            .starts_with("f.yaml:1:66: error: nested deeper than 64 levels"));
  CHECK(value_of(std::string(64, '-') + "1") == "1");
  std::string flat = "0";
  for (int i = 0; i < 100; ++i) flat += " + (1)";
  CHECK(value_of(flat) == "100");
  // Operands are evaluated within their operators, so that long chains nest, too.
  for (int i = 100; i < 511; ++i) flat += " + 1";
  CHECK(value_of(flat) == "511");
  CHECK(value_of(flat + " + 1 + 1") ==
        "f.yaml:1:1: error: found an expression of 1027 operators and operands, expected at most 1024");
}

TEST_CASE("a scalar that is no string is a formula, a list and a map are none") {
  const Document family{{"f.yaml", ""}, {}};
  CHECK(parse_formula(family, int_node(3)).value().nodes.size() == 1);
  Node list;
  for (const Node::Kind kind : {Node::Kind::kList, Node::Kind::kMap}) {
    list.kind = kind;
    list.place = {2, 3};
    CHECK(test::headline(parse_formula(family, list)) == std::string("f.yaml:2:3: error: found a ") +
                                                             (kind == Node::Kind::kList ? "list" : "map") +
                                                             ", expected an expression");
  }
  const Scope scope{&family, &family, {}};
  Node text = string_node("2");
  CHECK(evaluate_int(parse_formula(family, text).value(), scope).value() == 2);
  CHECK(test::headline(evaluate_bool(parse_formula(family, text).value(), scope))
            .ends_with("value is 2, expected a bool in \"2\""));
  text = string_node("true");
  CHECK(evaluate_bool(parse_formula(family, text).value(), scope).value());
  CHECK(test::headline(evaluate_int(parse_formula(family, text).value(), scope))
            .ends_with("value is true, expected an int in \"true\""));
}

}  // namespace
}  // namespace mkc
