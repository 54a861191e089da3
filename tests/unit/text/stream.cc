// These tests check properties of decoding on random texts and random ids.
#include <random>

#include "runtime/text/utf8.h"
#include "tests/unit/text/fixtures.h"

namespace {

std::string random_text(std::mt19937& random) {
  constexpr char32_t kBlockEnds[] = {0x7F, 0x7F, 0x7F, 0x24F, 0x6FF, 0x3040, 0xD7FF, 0x1F9FF, 0x10FFFF};
  std::string text;
  for (unsigned length = random() % 40; length > 0; --length) {
    const char32_t end = kBlockEnds[random() % std::size(kBlockEnds)];
    const char32_t code_point = random() % (end + 1);
    if (code_point < 0xD800 || code_point > 0xDFFF) mkrt::append_utf8(code_point, text);
  }
  return text;
}

}  // namespace

TEST_CASE("decoding undoes encoding where nothing normalizes") {
  std::mt19937 random(1);
  for (const std::string name : {"llama3.json", "gpt2.json"}) {
    const mkrt::Tokenizer tokenizer = load_fixture(name);
    for (int i = 0; i < 2000; ++i) {
      const std::string text = random_text(random);
      CAPTURE(text);
      CHECK(expect_ok(mkrt::decode(tokenizer, expect_ok(mkrt::encode(tokenizer, text, false)), false)) ==
            text);
    }
  }
}

TEST_CASE("streamed pieces are whole characters and together the decoded text") {
  std::mt19937 random(2);
  for (const std::string name : {"llama3.json", "added.json", "mistral_prepend.json"}) {
    const mkrt::Tokenizer tokenizer = load_fixture(name);
    for (int i = 0; i < 500; ++i) {
      std::vector<int32_t> ids(random() % 30);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % tokenizer.decoder.tokens.size());
      const bool skip_special = random() % 2 == 0;
      mkrt::StreamDecoder stream(tokenizer.decoder, skip_special);
      std::string streamed;
      for (const int32_t id : ids) {
        const std::string piece = expect_ok(stream.push(id));
        CHECK(!mkrt::find_invalid_utf8(piece));
        streamed += piece;
      }
      streamed += stream.flush();
      CHECK(streamed == expect_ok(mkrt::decode(tokenizer, ids, skip_special)));
    }
  }
}

TEST_CASE("a character of several tokens is put out with its last one") {
  const mkrt::Tokenizer tokenizer = load_fixture("gpt2.json");
  const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, "ไa", false));
  REQUIRE(ids.size() == 4);
  mkrt::StreamDecoder stream(tokenizer.decoder, true);
  CHECK(expect_ok(stream.push(ids[0])) == "");
  CHECK(expect_ok(stream.push(ids[1])) == "");
  CHECK(expect_ok(stream.push(ids[2])) == "ไ");
  CHECK(expect_ok(stream.push(ids[3])) == "a");
  CHECK(expect_ok(stream.push(ids[0])) == "");
  CHECK(stream.flush() == "\uFFFD");
  CHECK(stream.flush() == "");
}

TEST_CASE("a token is a byte where it has exactly the form of one") {
  const std::pair<const char*, const char*> tokens[] = {
      {"<0x4a>", "J"},      {"<0x4A>", "J"},      {"<0x1G>", "<0x1G>"},   {"<0xG1>", "<0xG1>"},
      {"<0x:1>", "<0x:1>"}, {"<0x1g>", "<0x1g>"}, {"<0x4/>", "<0x4/>"},   {"<0x@1>", "<0x@1>"},
      {"<0x`1>", "<0x`1>"}, {"<0X41>", "<0X41>"}, {"<0x041>", "<0x041>"}, {"<0x41)", "<0x41)"},
      {"(0x41>", "(0x41>"}, {"<0x4>", "<0x4>"}};
  nlohmann::json document = read_json_fixture("mistral_prepend.json");
  const nlohmann::json form = document["added_tokens"][0];
  int32_t id = 518;
  for (const auto& [token, text] : tokens) {
    if (document["model"]["vocab"].contains(token)) continue;
    document["added_tokens"].push_back(form);
    document["added_tokens"].back().update({{"id", id++}, {"content", token}, {"special", false}});
  }
  const std::string path = std::string(MKC_BINARY_DIR) + "/text_stream_tokenizer.json";
  std::ofstream(path) << document;
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::load_tokenizer(path));
  id = 518;
  for (const auto& [token, text] : tokens) {
    CAPTURE(token);
    const nlohmann::json& vocabulary = document["model"]["vocab"];
    const std::vector<int32_t> ids{vocabulary.contains(token) ? vocabulary[token].get<int32_t>() : id++};
    CHECK(expect_ok(mkrt::decode(tokenizer, ids, false)) == text);
  }
}
