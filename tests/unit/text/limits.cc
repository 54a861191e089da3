// These tests encode and decode long and hostile texts. They would not end if a step took quadratic time.
#include "runtime/base/json_node.h"
#include "tests/unit/text/fixtures.h"

namespace {

std::string repeat(std::string_view unit, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

constexpr size_t kMegabyte = 1'000'000;

mkrt::Result<mkrt::Pieces> split(std::string_view pattern, std::string_view text) {
  const nlohmann::json spec = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const std::string file = "f.json";
  mkrt::Status status;
  const auto steps = mkrt::read_pre_tokenizer(mkrt::JsonNode(spec, file, status));
  REQUIRE(status.ok());
  return mkrt::pre_tokenize(steps, text, true);
}

}  // namespace

TEST_CASE("a megabyte without a place to cut is encoded and decoded") {
  for (const std::string name : {"llama3.json", "mistral_prepend.json"}) {
    CAPTURE(name);
    const mkrt::Tokenizer tokenizer = load_fixture(name);
    for (const std::string_view unit : {"a", "the", " ", " \n", "<|"}) {
      CAPTURE(unit);
      const std::string text = repeat(unit, kMegabyte);
      const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, text, false));
      CHECK(expect_ok(mkrt::decode(tokenizer, ids, false)) == text);
    }
  }
}

TEST_CASE("a megabyte of combining marks out of order is normalized") {
  const mkrt::Tokenizer tokenizer = load_fixture("qwen2.json");
  const size_t half = kMegabyte / 2;
  const std::string ids_text = "e" + repeat("\u0301", half) + repeat("\u0316", half);
  const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, ids_text, false));
  const std::string ordered = "e" + repeat("\u0316", half) + repeat("\u0301", half);
  // The first acute accent composes with the letter, because marks below the letter do not block it.
  CHECK(expect_ok(mkrt::decode(tokenizer, ids, false)) ==
        "\u00e9" + repeat("\u0316", half) + repeat("\u0301", half - 2));
}

TEST_CASE("a megabyte of tokens that take in the white space beside them is encoded") {
  nlohmann::json document = read_json_fixture("llama3.json");
  nlohmann::json token = document["added_tokens"][0];
  token.update({{"id", 999}, {"content", "\n"}, {"lstrip", false}, {"rstrip", true}});
  document["added_tokens"].push_back(token);
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::read_tokenizer(document.dump(), "f.json"));
  const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, repeat("\n", kMegabyte) + " \t", false));
  CHECK(ids == std::vector<int32_t>(kMegabyte, 999));
}

TEST_CASE("a pattern that backtracks without end is an error") {
  const mkrt::Result<mkrt::Pieces> pieces = split("(a*)*b", repeat("a", 50) + "! b");
  REQUIRE(!pieces.ok());
  CHECK(pieces.error().message ==
        "no match of (a*)*b within the limits from byte 0 of a text of 53: match limit exceeded");
}

TEST_CASE("the steps of a pattern have no limit for a whole text") {
  // PCRE2 skips most places of these two, because it remembers where a run of spaces failed.
  const size_t spaces = 200'000;
  CHECK(expect_ok(split(R"(\s+$)", repeat(" ", spaces) + ".")).ends == std::vector<size_t>{spaces + 1});
  CHECK(expect_ok(split(R"(\s*[\r\n]+)", repeat(std::string(2000, ' ') + "a", spaces))).ends.size() == 1);
  // These two count the digits behind each place.
  CHECK(expect_ok(split(R"((?=(\d{3})+(?!\d)))", repeat("1", 8000))).ends.size() == 2667);
  CHECK(expect_ok(split(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$)))", repeat("1", 30'000))).ends.size() ==
        10'000);
}
