// These tests check the whole text of each error of the tokenizer.
#include <filesystem>

#include "tests/unit/text/fixtures.h"

namespace {

// ScratchFile is a file in the build folder that is removed at the end of a test.
class ScratchFile {
 public:
  explicit ScratchFile(const std::string& content) { std::ofstream(path_) << content; }
  ~ScratchFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = std::string(MKC_BINARY_DIR) + "/text_errors_tokenizer.json";
};

// Returns the error of loading a tokenizer with this content, without the path of the file.
std::string load_error(const std::string& content) {
  const ScratchFile file(content);
  const mkrt::Result<mkrt::Tokenizer> tokenizer = mkrt::load_tokenizer(file.path());
  REQUIRE_FALSE(tokenizer.ok());
  const std::string message = tokenizer.error().message;
  REQUIRE(message.starts_with(file.path()));
  return message.substr(file.path().size());
}

// Returns the error of loading llama3.json with one value replaced, at a JSON pointer.
std::string error_with(const std::string& pointer, const std::string& value) {
  nlohmann::json document = read_json_fixture("llama3.json");
  document[nlohmann::json::json_pointer(pointer)] = nlohmann::json::parse(value);
  return load_error(document.dump());
}

}  // namespace

TEST_CASE("a file that cannot be read is named") {
  const mkrt::Result<mkrt::Tokenizer> missing = mkrt::load_tokenizer("/nowhere/tokenizer.json");
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.error().message == "/nowhere/tokenizer.json: error: cannot open: No such file or directory");
  const mkrt::Result<mkrt::Tokenizer> folder = mkrt::load_tokenizer("/");
  REQUIRE_FALSE(folder.ok());
  CHECK(folder.error().message == "/: error: not a regular file");
}

TEST_CASE("broken JSON is located by line and column") {
  CHECK(load_error("") == ":1:1: error: not valid JSON");
  CHECK(load_error("x") == ":1:1: error: not valid JSON");
  CHECK(load_error("\nx") == ":2:1: error: not valid JSON");
  CHECK(load_error("\n\n x") == ":3:2: error: not valid JSON");
  CHECK(load_error("{\n  \"version\": 1.0.0\n}") == ":2:17: error: not valid JSON");
  CHECK(load_error("{\"version\": \"1.0") == ":1:17: error: not valid JSON");
  CHECK(load_error("{\"version\": \"\xff\"}") == ":1:14: error: not valid JSON");
  CHECK(load_error(std::string(100'000, '[')) == ":1:100001: error: not valid JSON");
  CHECK(load_error("[]") == ": error: found an array, expected an object");
  CHECK(load_error("{}") == ": error: key \"version\" is missing");
}

TEST_CASE("truncation and padding of a training run are no error, and change no ids") {
  nlohmann::json document = read_json_fixture("llama3.json");
  document["truncation"] = {
      {"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  document["padding"] = {
      {"strategy", {{"Fixed", 9}}}, {"direction", "Left"}, {"pad_to_multiple_of", nullptr}, {"pad_id", 0},
      {"pad_type_id", 0},           {"pad_token", "!"}};
  const ScratchFile file(document.dump());
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::load_tokenizer(file.path()));
  for (const std::string text : {"a", "The little fox had three red apples."})
    CHECK(expect_ok(mkrt::encode(tokenizer, text, true)) ==
          expect_ok(mkrt::encode(load_fixture("llama3.json"), text, true)));
}

TEST_CASE("what a file holds and we do not support is an error with its path") {
  CHECK(error_with("/extra", "1") ==
        ": error: unknown key \"extra\", known: version, truncation, padding, added_tokens, normalizer, "
        "pre_tokenizer, "
        "post_processor, decoder, model");
  CHECK(error_with("/version", "\"2.0\"") == ": error: version: found \"2.0\", supported: 1.0");
  CHECK(error_with("/normalizer", R"({"type": "NFKC"})") ==
        ": error: normalizer.type: found \"NFKC\", supported: NFC, Prepend, Replace, Sequence");
  CHECK(error_with("/normalizer", R"({"type": "Replace", "pattern": {"Regex": "a"}, "content": ""})") ==
        ": error: normalizer.pattern: unknown key \"Regex\", known: String");
  CHECK(
      error_with("/pre_tokenizer/pretokenizers/0/type", "\"UnicodeScripts\"") ==
      ": error: pre_tokenizer.pretokenizers[0].type: found \"UnicodeScripts\", supported: BertPreTokenizer, "
      "ByteLevel, CharDelimiterSplit, Digits, Metaspace, Punctuation, Split, Whitespace, WhitespaceSplit");
  CHECK(error_with("/pre_tokenizer/pretokenizers/1",
                   R"({"type": "Metaspace", "replacement": "_", "add_prefix_space": false})") ==
        ": error: pre_tokenizer.pretokenizers[1].add_prefix_space: false does not go with the prepend_scheme "
        "\"always\"");
  CHECK(error_with("/pre_tokenizer/pretokenizers/0/behavior", "\"isolated\"") ==
        ": error: pre_tokenizer.pretokenizers[0].behavior: found \"isolated\", supported: Isolated, Removed, "
        "MergedWithPrevious, MergedWithNext, Contiguous");
  CHECK(error_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\"(a\"") ==
        ": error: pre_tokenizer.pretokenizers[0].pattern.Regex: bad pattern (a: missing closing parenthesis "
        "at byte 2");
  CHECK(
      error_with("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"("a{,2}")") ==
      ": error: pre_tokenizer.pretokenizers[0].pattern.Regex: unsupported {, at byte 1 of the pattern: write "
      "the lower bound");
  CHECK(
      error_with("/pre_tokenizer/pretokenizers/1",
                 R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "split": true})") ==
      ": error: pre_tokenizer.pretokenizers[1].prepend_scheme: \"first\" is supported in the first "
      "pre-tokenizer only");
  CHECK(error_with("/post_processor/processors/0/type", "\"BertProcessing\"") ==
        ": error: post_processor.processors[0].type: found \"BertProcessing\", supported: ByteLevel, "
        "TemplateProcessing");
  CHECK(
      error_with("/post_processor/processors/0", R"({"type": "TemplateProcessing", "special_tokens": {},
                   "single": [{"Sequence": {"id": "A", "type_id": 0}}], "pair": []})") ==
      ": error: post_processor.processors[1].type: found a second TemplateProcessing, expected at most one");
  CHECK(error_with("/post_processor/processors/1/single", "[]") ==
        ": error: post_processor.processors[1].single: expected the sequence A once");
  CHECK(error_with("/post_processor/processors/1/special_tokens", "{}") ==
        ": error: post_processor.processors[1].special_tokens: key \"<|begin_of_text|>\" is missing");
  CHECK(error_with("/decoder", "null") ==
        ": error: decoder: ByteFallback is missing, supported: ByteLevel, or a Sequence of Replace …, "
        "ByteFallback, "
        "Fuse, Strip");
  CHECK(error_with("/decoder/type", "\"WordPiece\"") ==
        ": error: decoder.type: found \"WordPiece\", supported: ByteLevel, or a Sequence of Replace …, "
        "ByteFallback, "
        "Fuse, Strip");
  CHECK(error_with("/model/type", "\"Unigram\"") == ": error: model.type: found \"Unigram\", supported: BPE");
  CHECK(error_with("/model/dropout", "0.5") == ": error: model.dropout: found 0.5, supported: null, 0");
  CHECK(error_with("/model/end_of_word_suffix", "\"</w>\"") ==
        ": error: model.end_of_word_suffix: found \"</w>\", supported: null, \"\"");
}

TEST_CASE("replacements that never end, or that would fill the memory, are errors") {
  const auto decoder = [](const std::string& steps) {
    return R"({"type": "Sequence", "decoders": [)" + steps +
           R"({"type": "ByteFallback"}, {"type": "Fuse"}]})";
  };
  const std::string doubling = R"({"type": "Replace", "pattern": {"String": "a"}, "content": "aa"})";
  std::string steps;
  for (int i = 0; i < 80; ++i) steps += doubling + ", ";
  CHECK(error_with("/decoder",
                   decoder(R"({"type": "Replace", "pattern": {"Strang": "a"}, "content": "b"}, )")) ==
        ": error: decoder.decoders[0].pattern: unknown key \"Strang\", known: String");
  CHECK(error_with("/decoder",
                   decoder(R"({"type": "Replace", "pattern": {"String": ""}, "content": "b"}, )")) ==
        ": error: decoder.decoders[0].pattern.String: found \"\", expected at least one character");
  CHECK(error_with("/decoder", decoder(steps)) ==
        ": error: decoder: replacements may make a text 1.21e+24 times as long, expected at most 64 times");
  CHECK(
      error_with("/normalizer",
                 R"({"type": "Sequence", "normalizers": [)" + steps + R"({"type": "NFC"}]})") ==
      ": error: normalizer: replacements may make a text 1.21e+24 times as long, expected at most 64 times");
}

TEST_CASE("a vocabulary that contradicts itself is an error") {
  CHECK(error_with("/model/vocab", "[]") == ": error: model.vocab: found an array, expected an object");
  CHECK(error_with("/model/vocab/a", "-1") ==
        ": error: model.vocab.a: found -1, expected an integer from 0 to 4194303");
  CHECK(error_with("/model/vocab/a", "1.5") ==
        ": error: model.vocab.a: found 1.5, expected an integer from 0 to 4194303");
  CHECK(error_with("/model/vocab/new", "3") == ": error: model.vocab.new: id 3 belongs to another token");
  CHECK(error_with("/model/merges/0", "[\"a\", \"☃\"]") ==
        ": error: model.merges[0]: \"☃\" is not in model.vocab");
  CHECK(error_with("/model/merges/0", "[\"a\", 1]") ==
        ": error: model.merges[0]: found an array, expected [\"a\", \"b\"] or \"a b\"");
  CHECK(error_with("/model/merges/0", "\"a b c\"") ==
        ": error: model.merges[0]: found \"a b c\", expected [\"a\", \"b\"] or \"a b\"");
  CHECK(error_with("/model/unk_token", "\"<unk>\"") ==
        ": error: model.unk_token: \"<unk>\" is not in model.vocab");
  CHECK(error_with("/added_tokens/1/id", "0") ==
        ": error: added_tokens[1]: id 0 of \"<|endoftext|>\" belongs to another token");
  CHECK(error_with("/added_tokens/1/content", "\"a\"") ==
        ": error: added_tokens[1]: \"a\" has id 484, but 64 in model.vocab");
  CHECK(error_with("/added_tokens/1/content", "\"<|end|>\"") ==
        ": error: added_tokens[3]: \"<|end|>\" is added twice");
  CHECK(error_with("/added_tokens/1/special", "1") ==
        ": error: added_tokens[1].special: found 1, expected true or false");
}

TEST_CASE("an added token of which normalizers leave nothing is an error") {
  nlohmann::json document = read_json_fixture("llama3.json");
  document["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", "<|end|>"}}}, {"content", ""}};
  CHECK(mkrt::read_tokenizer(document.dump(), "f.json").ok());
  document["added_tokens"][3]["normalized"] = true;
  CHECK(load_error(document.dump()) ==
        ": error: added_tokens[3].content: normalizers leave nothing of it, expected at least one character");
}

TEST_CASE("a prompt that is not UTF-8 is an error with the offset") {
  const mkrt::Tokenizer tokenizer = load_fixture("llama3.json");
  const auto encode_error = [&](std::string_view text) {
    const auto ids = mkrt::encode(tokenizer, text, true);
    REQUIRE_FALSE(ids.ok());
    return ids.error().message;
  };
  CHECK(encode_error("\xff") == "the text is not valid UTF-8: byte 0xff at offset 0");
  CHECK(encode_error("é\xc3") == "the text is not valid UTF-8: byte 0xc3 at offset 2");
  CHECK(encode_error("ab\xed\xa0\x80") == "the text is not valid UTF-8: byte 0xed at offset 2");
  CHECK(encode_error("\xc0\x80") == "the text is not valid UTF-8: byte 0xc0 at offset 0");
  CHECK(encode_error("\xf4\x90\x80\x80") == "the text is not valid UTF-8: byte 0xf4 at offset 0");
}

TEST_CASE("a character without a token is an error") {
  nlohmann::json document = read_json_fixture("gpt2.json");
  document["pre_tokenizer"] = nullptr;
  const ScratchFile file(document.dump());
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::load_tokenizer(file.path()));
  const auto ids = mkrt::encode(tokenizer, "a☃", true);
  REQUIRE_FALSE(ids.ok());
  CHECK(ids.error().message == "the vocabulary has no token for the character U+2603");
}

TEST_CASE("an id without a token is an error") {
  nlohmann::json document = read_json_fixture("gpt2.json");
  document["added_tokens"].push_back(document["added_tokens"][0]);
  document["added_tokens"][1].update({{"id", 1000}, {"content", "<far>"}});
  const ScratchFile file(document.dump());
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::load_tokenizer(file.path()));
  const auto decode_error = [&](int32_t id) {
    const auto text = mkrt::decode(tokenizer, std::vector<int32_t>{1, id}, false);
    REQUIRE_FALSE(text.ok());
    return text.error().message;
  };
  CHECK(decode_error(1001) == "token id 1001 is out of range: the tokenizer has ids 0 to 1000");
  CHECK(decode_error(-1) == "token id -1 is out of range: the tokenizer has ids 0 to 1000");
  CHECK(decode_error(999) == "token id 999 belongs to no token");
}

TEST_CASE("a token of a byte has two hexadecimal digits of whatever case, others stand for themselves") {
  nlohmann::json document = read_json_fixture("mistral_metaspace.json");
  nlohmann::json& vocab = document["model"]["vocab"];
  const auto rename = [&](const char* from, const char* to) {
    const int32_t id = vocab.at(from);
    vocab.erase(from);
    vocab[to] = id;
    return id;
  };
  const std::vector<int32_t> bytes{rename("<0xEF>", "<0xef>"), rename("<0xAC>", "<0xac>"),
                                   rename("<0x9A>", "<0x9a>")};
  const std::vector<int32_t> others{rename("<0x01>", "<0xg1>"), rename("<0x02>", "<0x`2>"),
                                    rename("<0x03>", "<0x/3>"), rename("<0x04>", "<0x:4>"),
                                    rename("<0x05>", "<0x@5>"), rename("<0x06>", "<0xG6>")};
  const ScratchFile file(document.dump());
  const mkrt::Tokenizer tokenizer = expect_ok(mkrt::load_tokenizer(file.path()));
  CHECK(expect_ok(mkrt::decode(tokenizer, bytes, false)) == "\xef\xac\x9a");
  CHECK(expect_ok(mkrt::decode(tokenizer, others, false)) == "<0xg1><0x`2><0x/3><0x:4><0x@5><0xG6>");
}
