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

mkrt::Result<mkrt::Pieces> split(std::string_view pattern, std::string_view text, mkrt::MatchTime time) {
  const nlohmann::json spec = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  const std::string file = "f.json";
  mkrt::Status status;
  const auto steps = mkrt::read_pre_tokenizer(mkrt::JsonNode(spec, file, status));
  REQUIRE(status.ok());
  return mkrt::pre_tokenize(steps, text, true, time);
}

mkrt::Result<mkrt::Pieces> split(std::string_view pattern, std::string_view text) {
  return split(pattern, text, mkrt::MatchTime(text.size()));
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

TEST_CASE("a text has the time that PCRE2 needs where it remembers runs that failed") {
  // Without that memory the two patterns would take minutes.
  const size_t spaces = 4 * kMegabyte;
  CHECK(expect_ok(split(R"(\s+$)", repeat(" ", spaces) + ".")).ends == std::vector<size_t>{spaces + 1});
  CHECK(expect_ok(split(R"(\s*[\r\n]+)", repeat(std::string(2000, ' ') + "a", spaces))).ends.size() == 1);
}

TEST_CASE("a text without a character that the pattern needs is cut at once") {
  // Each place would take 2^50 steps.
  CHECK(expect_ok(split("(?:[a-z]+ ?)+:", repeat("abc ", 200))).ends == std::vector<size_t>{200});
  CHECK(expect_ok(split(R"((?:.*)*\[)", repeat("a", 31))).ends == std::vector<size_t>{31});
}

TEST_CASE("patterns that look at all digits behind each place cut a short text") {
  CHECK(expect_ok(split(R"((?=(\d{3})+(?!\d)))", repeat("1", 8000))).ends.size() == 2667);
  CHECK(expect_ok(split(R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?:\P{N}|$)))", repeat("1", 30'000))).ends.size() ==
        10'000);
}

TEST_CASE("a text whose pattern takes longer than the text may take is an error") {
  const auto error_of = [](std::string_view pattern, const std::string& text) {
    CAPTURE(pattern);
    const auto pieces = split(pattern, text, mkrt::MatchTime(std::chrono::milliseconds(30)));
    REQUIRE(!pieces.ok());
    return pieces.error().message;
  };
  const std::string over = " is too slow for this text: 0.0 s of processor time are over behind byte ";
  // A match at every third digit looks at all digits behind it.
  const std::string digits = repeat("1", kMegabyte / 10);
  CHECK(
      error_of(R"((?=(?:\d{3})+(?!\d)))", digits).starts_with(R"(the pattern (?=(?:\d{3})+(?!\d)))" + over));
  // No place matches, and each takes fewer steps than a place may take.
  const std::string runs = repeat(repeat("a", 19) + "!", kMegabyte);
  CHECK(error_of("(?:a|a)*b", runs) == "the pattern (?:a|a)*b" + over + "0 of 1000000");
  // One place takes 100,000 steps, and each step looks at all digits behind it.
  CHECK(error_of(R"((?:\d(?=\d*$))*x)", digits).ends_with(over + "0 of 100000"));
}

TEST_CASE("all patterns and pieces of a text share its time") {
  mkrt::MatchTime time(std::chrono::nanoseconds(0));
  CHECK(split("a", "bab", time).ok());  // the clock is not read for each match
  REQUIRE(time.is_over());
  CHECK_FALSE(split("a", "bab", time).ok());
}
