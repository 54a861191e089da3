// These tests check properties of decoding on random texts and random ids.
#include <random>
#include <span>

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

// Returns a stream's text: the whole characters of a run of byte tokens up to the first invalid byte, and
// U+FFFD for each byte from there.
std::string streamed_text(const mkrt::Decoder& decoder, std::span<const int32_t> ids, bool skip_special) {
  std::string text, run;
  const auto end_run = [&] {
    const size_t valid = mkrt::find_invalid_utf8(run).value_or(run.size());
    text += run.substr(0, valid);
    for (size_t i = valid; i < run.size(); ++i) text += mkrt::kReplacementCharacter;
    run.clear();
  };
  for (const int32_t id : ids) {
    const mkrt::DecodedToken& token = decoder.tokens[static_cast<size_t>(id)];
    if (token.special && skip_special) continue;
    if (token.kind != mkrt::TokenKind::kRunOfBytes) end_run();
    (token.kind == mkrt::TokenKind::kRunOfBytes ? run : text) += token.bytes;
  }
  end_run();
  for (int32_t n = 0; n < decoder.strip_count && text.starts_with(decoder.strip); ++n)
    text.erase(0, decoder.strip.size());
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
    const bool has_runs = name == "mistral_prepend.json";
    for (int i = 0; i < 500; ++i) {
      std::vector<int32_t> ids(random() % 30);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % tokenizer.decoder.tokens.size());
      const bool skip_special = random() % 2 == 0;
      mkrt::StreamDecoder stream(tokenizer.decoder, skip_special);
      std::string streamed;
      for (size_t k = 0; k < ids.size(); ++k) {
        const std::string piece = expect_ok(stream.push(ids[k]));
        CHECK(!mkrt::find_invalid_utf8(piece));
        streamed += piece;
        // A text without an incomplete or invalid character is streamed up to its last token.
        const std::string so_far =
            expect_ok(mkrt::decode(tokenizer, std::span(ids).first(k + 1), skip_special));
        if (so_far.find(mkrt::kReplacementCharacter) == so_far.npos) CHECK(streamed == so_far);
      }
      streamed += stream.flush();
      if (has_runs)
        CHECK(streamed == streamed_text(tokenizer.decoder, ids, skip_special));
      else
        CHECK(streamed == expect_ok(mkrt::decode(tokenizer, ids, skip_special)));
    }
  }
}

TEST_CASE("a character of byte tokens is put out with its last byte") {
  const mkrt::Tokenizer tokenizer = load_fixture("mistral_prepend.json");
  mkrt::StreamDecoder stream(tokenizer.decoder, true);
  const auto check = [&](const std::vector<std::pair<std::string, std::string>>& pushed,
                         const std::string& last, const std::string& decoded) {
    std::vector<int32_t> ids;
    for (const auto& [token, text] : pushed) {
      CAPTURE(token);
      ids.push_back(tokenizer.model.ids.at(token));
      CHECK(expect_ok(stream.push(ids.back())) == text);
    }
    CHECK(stream.flush() == last);
    CHECK(expect_ok(mkrt::decode(tokenizer, ids, true)) == decoded);
  };
  check({{"<0x0A>", "\n"}, {"<0x0A>", "\n"}}, "", "\n\n");
  check({{"<0x41>", "A"}, {"<0xE2>", ""}, {"<0x82>", ""}, {"<0xAC>", "€"}, {"<0x42>", "B"}}, "", "A€B");
  check({{"<0x20>", ""}, {"<0x20>", " "}}, "", " ");  // the decoder removes the first space
  // An invalid byte makes all later bytes of its run U+FFFD, and in decode() all bytes of the run.
  check({{"<0x41>", "A"}, {"<0xFF>", "\uFFFD"}, {"<0x42>", "\uFFFD"}, {"e", "e"}, {"<0x42>", "B"}}, "",
        "\uFFFD\uFFFD\uFFFDeB");
  check({{"<0x41>", "A"}, {"<0xE2>", ""}, {"<0x82>", ""}, {"<0x42>", "\uFFFD\uFFFD\uFFFD"}}, "",
        "\uFFFD\uFFFD\uFFFD\uFFFD");
  check({{"<0x41>", "A"}, {"<0xE2>", ""}, {"<0x82>", ""}, {"e", "\uFFFD\uFFFDe"}}, "", "\uFFFD\uFFFD\uFFFDe");
  check({{"<0x41>", "A"}, {"<0xE2>", ""}, {"<0x82>", ""}}, "\uFFFD\uFFFD", "\uFFFD\uFFFD\uFFFD");
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

TEST_CASE("text behind a prompt goes on with the prompt's text") {
  std::mt19937 random(3);
  for (const std::string name : {"llama3.json", "mistral_prepend.json"}) {
    const mkrt::Tokenizer tokenizer = load_fixture(name);
    for (int i = 0; i < 300; ++i) {
      // Texts of whole characters may be cut within a character, and then have tokens for its bytes.
      const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, random_text(random), true));
      const size_t cut = random() % (ids.size() + 1);
      mkrt::StreamDecoder behind(tokenizer.decoder, true);
      std::string before, after;  // the prompt's bytes, and the text behind it
      for (size_t k = 0; k < ids.size(); ++k) {
        const std::string text = expect_ok(behind.push(ids[k]));
        if (k >= cut) after += text;
        if (k + 1 == cut) behind.leave_out_prompt();
        const mkrt::DecodedToken& token = tokenizer.decoder.tokens[static_cast<size_t>(ids[k])];
        if (k < cut && !token.special) before += token.bytes;
      }
      after += behind.flush();
      if (tokenizer.decoder.strip_count > 0 && before.starts_with(tokenizer.decoder.strip))
        before.erase(0, 1);
      const std::string whole = expect_ok(mkrt::decode(tokenizer, ids, true));
      CAPTURE(whole);
      // A character that the cut divides is text behind the prompt.
      CHECK(whole == before.substr(0, mkrt::find_invalid_utf8(before).value_or(before.size())) + after);
    }
  }
}

TEST_CASE("a prompt's own bytes are no text behind it") {
  const mkrt::Tokenizer tokenizer = load_fixture("gpt2.json");
  const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, "ไa", false));
  mkrt::StreamDecoder stream(tokenizer.decoder, true);
  const auto begin = [&] {
    CHECK(expect_ok(stream.push(ids[0])) == "");
    stream.leave_out_prompt();
  };
  begin();
  CHECK(expect_ok(stream.push(ids[3])) == "a");
  CHECK(stream.flush() == "");
  begin();
  CHECK(stream.flush() == "");
  begin();
  CHECK(expect_ok(stream.push(ids[1])) == "");
  CHECK(stream.flush() == "\uFFFD");

  // A run of bytes may be whole in the prompt, and be broken by a later byte.
  const mkrt::Tokenizer runs = load_fixture("mistral_prepend.json");
  const std::vector<int32_t> run = expect_ok(mkrt::encode(runs, "😀", false));
  REQUIRE(run.size() >= 4);
  mkrt::StreamDecoder bytes(runs.decoder, true);
  for (const std::string expected : {"", "\uFFFD"}) {
    for (const int32_t id : run) (void)expect_ok(bytes.push(id));
    bytes.leave_out_prompt();
    if (!expected.empty()) CHECK(expect_ok(bytes.push(run.back())) == expected);
    CHECK(bytes.flush() == "");
  }
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
