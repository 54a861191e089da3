// These tests check texts, log-probabilities and chunks of answers.
#include <doctest/doctest.h>

#include "tools/serve/answer_json.h"
#include "tools/serve/choice_text.h"

using namespace mkc;

namespace {

// Returns a tokenizer whose tokens are these bytes, by id. Id 0 is special.
mkrt::Tokenizer tokenizer_of(const std::vector<std::string>& tokens) {
  mkrt::Tokenizer tokenizer;
  tokenizer.decoder.tokens.push_back({mkrt::TokenKind::kBytes, true, "<end>"});
  for (const std::string& bytes : tokens)
    tokenizer.decoder.tokens.push_back({mkrt::TokenKind::kBytes, false, bytes});
  return tokenizer;
}

// Returns a tokenizer of byte tokens <0x..>. Id 0 is special.
mkrt::Tokenizer byte_tokens_of(const std::vector<std::string>& tokens) {
  mkrt::Tokenizer tokenizer = tokenizer_of(tokens);
  for (size_t id = 1; id < tokenizer.decoder.tokens.size(); ++id)
    tokenizer.decoder.tokens[id].kind = mkrt::TokenKind::kRunOfBytes;
  return tokenizer;
}

}  // namespace

TEST_CASE("a choice's text has whole characters only") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"\xF0\x9F", "\x98\x80", "a"});
  ChoiceText text(TokenText(tokenizer), {});
  const auto push = [&](int32_t id) { return text.push(std::span(&id, 1)); };
  CHECK(push(3) == "a");
  CHECK(push(1) == "");
  CHECK(push(2) == "\xF0\x9F\x98\x80");
  CHECK(push(0) == "");
  CHECK(push(1) == "");
  CHECK(text.finish() == "\xEF\xBF\xBD");
  CHECK(text.taken() == 5);
}

TEST_CASE("a stop string ends a text within a launch's tokens, and the tokens behind do not count") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"one ", "tw", "o three"});
  ApiRequest api;
  api.stop = {"two"};
  ChoiceText text(TokenText(tokenizer, api.skip_special_tokens), api);
  const std::vector<int32_t> ids = {1, 2, 3, 1, 1};
  CHECK(text.push(ids) == "one ");
  CHECK(text.taken() == 3);
  CHECK(text.finish() == "");
  api.include_stop_str_in_output = true;
  ChoiceText with(TokenText(tokenizer), api);
  CHECK(with.push(ids) == "one two");
}

TEST_CASE("a stop string of byte tokens ends a text at once") {
  const mkrt::Tokenizer tokenizer = byte_tokens_of({"\n", "\xC3", "\xA9"});
  ApiRequest api;
  api.stop = {"\n\n"};
  ChoiceText text(TokenText(tokenizer), api);
  const auto push = [&](int32_t id) { return text.push(std::span(&id, 1)); };
  CHECK(push(1) == "");
  CHECK(push(2) == "");
  CHECK(push(3) == "\n\xC3\xA9");
  CHECK(push(1) == "");
  CHECK(text.matched() == nullptr);
  CHECK(push(1) == "");
  REQUIRE(text.matched() != nullptr);
  CHECK(*text.matched() == "\n\n");
  CHECK(text.taken() == 5);
}

TEST_CASE("special tokens are shown where they are asked for") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"a"});
  ApiRequest api;
  api.skip_special_tokens = false;
  ChoiceText text(TokenText(tokenizer, api.skip_special_tokens), api);
  const std::vector<int32_t> ids = {1, 0};
  CHECK(text.push(ids) == "a<end>");
}

TEST_CASE("an id without a token comes behind the characters before it") {
  mkrt::Tokenizer bytes = tokenizer_of({"\xC3", "a"});
  CHECK(text_of(TokenText(bytes), std::vector{1, 9, 2}) == "\xEF\xBF\xBD<9>a");
  mkrt::Tokenizer runs = tokenizer_of({"\xC3", "\xA9", " a"});
  for (const size_t id : {1, 2}) runs.decoder.tokens[id].kind = mkrt::TokenKind::kRunOfBytes;
  runs.decoder.tokens[3].kind = mkrt::TokenKind::kText;
  runs.decoder.strip = " ", runs.decoder.strip_count = 1;
  CHECK(text_of(TokenText(runs), std::vector{1, 2, 9, 3}) == "\xC3\xA9<9> a");
  CHECK(text_of(TokenText(runs), std::vector{9, 3}) == "<9> a");
}

TEST_CASE("a choice's text goes on with the prompt's text") {
  mkrt::Tokenizer tokenizer = tokenizer_of({"\xC3", "\xA9", " had", " apple"});
  for (mkrt::DecodedToken& token : tokenizer.decoder.tokens)
    if (token.bytes.size() > 1) token.kind = mkrt::TokenKind::kText;
  tokenizer.decoder.strip = " ";
  tokenizer.decoder.strip_count = 1;
  const auto behind = [&](std::vector<int32_t> prompt, std::vector<int32_t> ids, const ApiRequest& api = {}) {
    ChoiceText text(text_after(tokenizer, prompt), api);
    const std::string whole = text.push(ids);
    return whole + text.finish();
  };
  CHECK(behind({3}, {4}) == " apple");
  CHECK(behind({0}, {4}) == "apple");
  CHECK(behind({3, 1}, {2, 4}) == "\xC3\xA9 apple");
  ApiRequest api;
  api.stop = {" apple"};
  CHECK(behind({3}, {3, 4}, api) == " had");
}

TEST_CASE("log-probabilities have a token's text and bytes") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"\xC3", "h\xC3\xA9"});
  const std::vector<mkrt::Sampled> samples = {{1, -0.5f, {{1, -0.5f}, {2, -1.0f}}}, {2, -2.0f, {}}};
  CHECK(json_text(chat_logprobs(tokenizer, samples)) ==
        "{\"content\":[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-0.5,\"bytes\":[195],\"top_logprobs\":["
        "{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-0.5,\"bytes\":[195]},"
        "{\"token\":\"h\xC3\xA9\",\"logprob\":-1.0,\"bytes\":[104,195,169]}]},"
        "{\"token\":\"h\xC3\xA9\",\"logprob\":-2.0,\"bytes\":[104,195,169],\"top_logprobs\":[]}]}");
  TokenText text(tokenizer);
  CompletionLogprobs list(tokenizer, text, 4);
  for (const mkrt::Sampled& sampled : samples) list.add(sampled);
  CHECK(list.offset() == 7);
  CHECK(json_text(list.take()) ==
        "{\"tokens\":[\"bytes:\\\\xc3\",\"h\xC3\xA9\"],\"token_logprobs\":[-0.5,-2.0],"
        "\"top_logprobs\":[{\"bytes:\\\\xc3\":-0.5,\"h\xC3\xA9\":-1.0},{\"h\xC3\xA9\":-2.0}],\"text_offset\":"
        "[4,4]}");
}

TEST_CASE("offsets of byte tokens count the characters that are complete before them") {
  const mkrt::Tokenizer tokenizer = byte_tokens_of({"\xC3", "\xA9", "\n"});
  TokenText text(tokenizer);
  CompletionLogprobs list(tokenizer, text, 0);
  for (const int32_t id : {3, 1, 2, 3}) list.add({id, -0.5f, {}});
  CHECK(json_text(list.take()["text_offset"]) == "[0,1,1,2]");
  CHECK(list.offset() == 3);
}

TEST_CASE("offsets of tokens count the characters that are complete before them") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"\xC3", "\xA9", "\xF0\x9F", "\x98", "\x80", "x"});
  TokenText text(tokenizer);
  size_t offset = 0;
  std::string offsets;
  for (const std::vector<int32_t>& chunk : {std::vector{1}, {2, 3, 4}, {5, 6, 6}}) {
    CompletionLogprobs list(tokenizer, text, offset);
    for (const int32_t id : chunk) list.add({id, -0.5f, {}});
    offset = list.offset();
    offsets += json_text(list.take()["text_offset"]);
  }
  CHECK(offsets == "[0][0,1,1][1,2,3]");
  CHECK(offset == 4);
}

TEST_CASE(
    "the first token of an echoed prompt has no log-probability, and hidden tokens take no characters") {
  const mkrt::Tokenizer tokenizer = tokenizer_of({"a", "bc"});
  TokenText hiding(tokenizer), showing(tokenizer, false);
  CompletionLogprobs hidden(tokenizer, hiding, 0), shown(tokenizer, showing, 0);
  for (CompletionLogprobs* list : {&hidden, &shown}) {
    list->add_first(0);
    list->add({2, -0.5f, {{1, -0.25f}}});
    list->add({1, -1.5f, {}});
  }
  const std::string values = R"({"tokens":["<end>","bc","a"],"token_logprobs":[null,-0.5,-1.5],)"
                             R"("top_logprobs":[null,{"a":-0.25,"bc":-0.5},{"a":-1.5}],"text_offset":)";
  CHECK(json_text(hidden.take()) == values + "[0,0,2]}");
  CHECK(json_text(shown.take()) == values + "[0,5,7]}");
}

TEST_CASE("chunks of a stream have the form that clients read") {
  const AnswerHead chat{.chat = true, .id = "chatcmpl-1", .created = 5, .model = "m"};
  CHECK(
      sse_event(json_text(chunk_json(chat, {.index = 1, .text = "a", .first = true}, true))) ==
      R"(data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":1,)"
      R"("delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null,"stop_reason":null}],)"
      "\"usage\":null}\n\n");
  CHECK(
      json_text(chunk_json(chat, {.finish_reason = "stop", .stop_reason = 7}, false)) ==
      R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":5,"model":"m","choices":[{"index":0,)"
      R"("delta":{},"logprobs":null,"finish_reason":"stop","stop_reason":7}]})");
  CHECK(
      json_text(usage_chunk_json({.id = "cmpl-1", .created = 5, .model = "m"}, {3, 4, 2})) ==
      R"({"id":"cmpl-1","object":"text_completion","created":5,"model":"m","choices":[],"usage":{"prompt_tokens":3,)"
      R"("completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}}})");
}
