// These tests compare ids and texts with those of the reference library.
#include "tests/unit/text/fixtures.h"

TEST_CASE("texts become the ids of the reference library, and ids its texts") {
  for (const std::string name :
       {"llama3", "qwen2", "gpt2", "smollm2", "added", "mistral_prepend", "mistral_metaspace"}) {
    CAPTURE(name);
    const mkrt::Tokenizer tokenizer = load_fixture(name + ".json");
    for (const nlohmann::json& vector : read_json_fixture(name + ".vectors.json")) {
      const std::string text = vector["text"];
      CAPTURE(text);
      const std::vector<int32_t> ids = expect_ok(mkrt::encode(tokenizer, text, false));
      const std::vector<int32_t> ids_special = expect_ok(mkrt::encode(tokenizer, text, true));
      CHECK(nlohmann::json(ids) == vector["ids"]);
      CHECK(nlohmann::json(ids_special) == vector["ids_special"]);
      CHECK(nlohmann::json(expect_ok(mkrt::decode(tokenizer, ids_special, false))) == vector["decoded"]);
      CHECK(nlohmann::json(expect_ok(mkrt::decode(tokenizer, ids_special, true))) == vector["decoded_skip"]);
    }
  }
}

TEST_CASE("bytes that are no UTF-8 are replaced as the reference library replaces them") {
  const mkrt::Tokenizer tokenizer = load_fixture("gpt2.json");
  for (const nlohmann::json& vector : read_json_fixture("byte_decoding.json")) {
    CAPTURE(vector.dump());
    const std::vector<int32_t> ids = vector["ids"];
    CHECK(nlohmann::json(expect_ok(mkrt::decode(tokenizer, ids, false))) == vector["decoded"]);
  }
}
