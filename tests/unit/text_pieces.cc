// Pre-tokenizers on their own, against the reference library, and what they refuse.
#include "runtime/json_node.h"
#include "runtime/text/regex_dialect.h"
#include "tests/unit/text_fixtures.h"

namespace {

std::vector<std::string> pieces_of(const mkrt::Pieces& pieces) {
  std::vector<std::string> result;
  size_t begin = 0;
  for (const size_t end : pieces.ends) {
    result.push_back(pieces.text.substr(begin, end - begin));
    begin = end;
  }
  return result;
}

std::string dialect_error(std::string_view pattern) {
  const mkrt::Result<std::string> translated = mkrt::to_pcre2(pattern);
  REQUIRE_MESSAGE(!translated.ok(), "expected an error for ", std::string(pattern));
  return translated.error().message;
}

}  // namespace

TEST_CASE("pre-tokenizers cut texts as those of the reference library do") {
  const std::string file = "pre_tokenizers.json";
  for (const nlohmann::json& test : read_json_fixture(file)) {
    CAPTURE(test.dump());
    mkrt::Status status;
    const auto steps = mkrt::read_pre_tokenizer(mkrt::JsonNode(test["pre_tokenizer"], file, status));
    REQUIRE_MESSAGE(status.ok(), status.error().message);
    const mkrt::Pieces pieces = expect_ok(mkrt::pre_tokenize(steps, test["text"].get<std::string>(), true));
    CHECK(nlohmann::json(pieces_of(pieces)) == test["pieces"]);
  }
}

TEST_CASE("a pattern keeps its meaning or is refused") {
  CHECK(expect_ok(mkrt::to_pcre2(R"([^\s\p{L}]+|\S\])")) == R"([^\p{White_Space}\p{L}]+|\P{White_Space}\])");
  CHECK(
      dialect_error(R"(a\w+)") ==
      R"(unsupported \w at byte 1 of the pattern: supported escapes: \p{} \P{} \s \S \d \D \r \n \t \f and punctuation)");
  CHECK(dialect_error("(?m:a)") ==
        "unsupported (? at byte 0 of the pattern: supported groups: ( (?: (?i: (?= (?! (?<= (?<! (?>");
  CHECK(dialect_error("[a-z&&[^x]]") ==
        "unsupported && at byte 4 of the pattern: no intersection of classes");
  CHECK(dialect_error("[[a]b]") == "unsupported [ at byte 1 of the pattern: no class inside a class");
  CHECK(dialect_error("a{2}+") ==
        "unsupported }+ at byte 3 of the pattern: it is possessive in one dialect only");
  CHECK(dialect_error("a\\") == "unsupported \\ at byte 1 of the pattern: nothing follows it");
  CHECK(dialect_error("\\p{L") == "unsupported \\p{ at byte 0 of the pattern: it has no }");
}
