// Ids are compared with those of transformers, where files beside tokenizer.json name tokens
// (tests/oracle/make_config_token_vectors.py).
#include "tests/unit/temp_dir.h"
#include "tests/unit/text/fixtures.h"

namespace {

using mkrt::test::TempDir;
using nlohmann::json;

TEST_CASE("tokens that other files name are added as transformers adds them") {
  std::ifstream stream(tokenizer_fixture("config_tokens.json"));
  const auto vectors = nlohmann::ordered_json::parse(stream);  // ids follow the order of keys
  const json tokenizer = read_json_fixture(vectors["tokenizer"]);
  CHECK(vectors["rows"].size() == 50);
  for (const auto& row : vectors["rows"]) {
    const std::string text = row.dump();
    CAPTURE(text);
    json document = tokenizer;
    if (!row["added"].get<bool>()) {
      json& tokens = document["added_tokens"];
      for (auto token = tokens.begin(); token != tokens.end();)
        token = (*token)["content"] == "</s>" ? tokens.erase(token) : token + 1;
    }
    const TempDir checkpoint;
    checkpoint.write("tokenizer.json", document.dump());
    checkpoint.write("tokenizer_config.json", row["config"].dump());
    if (!row["map"].is_null()) checkpoint.write("special_tokens_map.json", row["map"].dump());
    const mkrt::Tokenizer loaded = expect_ok(mkrt::load_checkpoint_tokenizer(checkpoint.path));
    const auto ids = expect_ok(mkrt::encode(loaded, vectors["text"].get<std::string>(), false));
    CHECK(ids == row["ids"].get<std::vector<int32_t>>());
    CHECK(expect_ok(mkrt::decode(loaded, ids, true)) == row["decoded"].get<std::string>());
  }
}

TEST_CASE(
    "tokens behind the model's vocabulary are left out, and ids that a vocabulary with holes has are passed "
    "over") {
  const TempDir checkpoint;
  const auto ids_of = [&](const json& tokenizer, const char* config) {
    checkpoint.write("tokenizer.json", tokenizer.dump());
    checkpoint.write("tokenizer_config.json", R"({"pad_token": "[PAD]"})");
    checkpoint.write("config.json", config);
    const mkrt::Tokenizer loaded = expect_ok(mkrt::load_checkpoint_tokenizer(checkpoint.path));
    return expect_ok(mkrt::encode(loaded, "[PAD]", false));
  };
  json tokenizer = read_json_fixture("mistral_prepend.json");
  CHECK(ids_of(tokenizer, R"({"vocab_size": 519})") == std::vector<int32_t>{518});
  CHECK(ids_of(tokenizer, R"({"vocab_size": 518})").size() > 1);
  tokenizer["model"]["vocab"]["far"] = 519;
  CHECK(ids_of(tokenizer, "{}") == std::vector<int32_t>{520});
}

TEST_CASE("files of other kinds beside tokenizer.json add nothing, or are errors") {
  const TempDir checkpoint;
  checkpoint.write("tokenizer.json", read_json_fixture("mistral_prepend.json").dump());
  const auto error_with = [&](const char* config) {
    checkpoint.write("tokenizer_config.json", config);
    const auto loaded = mkrt::load_checkpoint_tokenizer(checkpoint.path);
    return loaded.ok() ? "" : checkpoint.without_path(loaded.error().message);
  };
  for (const char* config :
       {"[]", "5", R"({"eos_token": 5, "bos_token": ""})",
        R"({"added_tokens_decoder": [1, {"content": 3}], "extra_special_tokens": "x"})",
        R"({"added_tokens_decoder": {"x": 3, "99999999999999999999": {"content": "q"}}})"})
    CHECK(error_with(config) == "");
  CHECK(error_with("{").starts_with("tokenizer_config.json: error: not JSON: "));
  CHECK(error_with(R"({"split_special_tokens": "true"})") ==
        "tokenizer_config.json: error: split_special_tokens: found string, expected true or false");
  const std::string deep = std::string(400'000, '[') + std::string(400'000, ']');
  for (const std::string& token : {"\"content\": " + deep, "\"content\": \"x\", \"id\": " + deep}) {
    checkpoint.write("tokenizer.json", "{\"added_tokens\": [{" + token + "}], \"model\": {\"vocab\": {}}}");
    CHECK(error_with("{}").starts_with("tokenizer.json: error: "));
  }
  checkpoint.write("tokenizer.json", R"({"added_tokens": 3, "model": []})");
  CHECK(error_with("{}").starts_with("tokenizer.json: error: "));
}

}  // namespace
