#include "tools/serve/answer_json.h"

#include <fmt/format.h>

#include "runtime/text/utf8.h"

namespace mkc {
namespace {

// Returns a token of the tokenizer, or nothing: a model may have more ids.
const mkrt::DecodedToken* find_token(const mkrt::Tokenizer& tokenizer, int32_t id) {
  const std::vector<mkrt::DecodedToken>& tokens = tokenizer.decoder.tokens;
  const auto index = static_cast<size_t>(id);
  const bool known = index < tokens.size() && tokens[index].kind != mkrt::TokenKind::kNone;
  return known ? &tokens[index] : nullptr;
}

// Returns the bytes of one token.
std::string token_bytes(const mkrt::Tokenizer& tokenizer, int32_t id) {
  const mkrt::DecodedToken* token = find_token(tokenizer, id);
  return token ? token->bytes : fmt::format("<{}>", id);
}

// Returns a token's text with bytes that are no UTF-8 replaced.
std::string token_text(const std::string& bytes) {
  std::string text;
  for (std::string_view rest = bytes; !rest.empty();) {
    const mkrt::Utf8Front front = mkrt::scan_utf8(rest);
    text +=
        front.state == mkrt::Utf8State::kComplete ? rest.substr(0, front.size) : mkrt::kReplacementCharacter;
    rest.remove_prefix(front.size);
  }
  return text;
}

// Returns a token's text, or "bytes:\xNN…" for a part of a character.
std::string token_or_bytes(const std::string& bytes) {
  if (!mkrt::find_invalid_utf8(bytes)) return bytes;
  std::string text = "bytes:";
  for (const char c : bytes) text += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

Json chat_logprob(const mkrt::Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = token_bytes(tokenizer, id);
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"token", token_text(bytes)}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

Json usage_json(const Usage& u) {
  return {{"prompt_tokens", u.prompt_tokens},
          {"completion_tokens", u.completion_tokens},
          {"total_tokens", u.prompt_tokens + u.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", u.cached_tokens}}}};
}

Json head_json(const AnswerHead& head, const char* kind) {
  return {{"id", head.id}, {"object", kind}, {"created", head.created}, {"model", head.model}};
}

const char* chunk_kind(const AnswerHead& head) {
  return head.chat ? "chat.completion.chunk" : "text_completion";
}

void add_end(const ChoicePart& choice, Json& to) {
  to["logprobs"] = choice.logprobs;
  to["finish_reason"] = choice.finish_reason;
  to["stop_reason"] = choice.stop_reason;
}

}  // namespace

Json answer_json(const AnswerHead& head, std::span<const ChoicePart> choices, const Usage& usage) {
  Json list = Json::array();
  for (const ChoicePart& choice : choices) {
    Json object{{"index", choice.index}};
    if (head.chat)
      object["message"] = {{"role", "assistant"}, {"content", choice.text}};
    else
      object["text"] = choice.text;
    add_end(choice, object);
    list.push_back(std::move(object));
  }
  Json answer = head_json(head, head.chat ? "chat.completion" : "text_completion");
  answer["choices"] = std::move(list);
  answer["usage"] = usage_json(usage);
  return answer;
}

Json chunk_json(const AnswerHead& head, const ChoicePart& choice, bool with_usage) {
  Json object{{"index", choice.index}};
  if (head.chat) {
    Json delta = Json::object();
    if (choice.first) delta["role"] = "assistant";
    if (choice.first || !choice.text.empty()) delta["content"] = choice.text;
    object["delta"] = std::move(delta);
  } else {
    object["text"] = choice.text;
  }
  add_end(choice, object);
  Json chunk = head_json(head, chunk_kind(head));
  chunk["choices"] = Json::array({std::move(object)});
  if (with_usage) chunk["usage"] = nullptr;
  return chunk;
}

Json usage_chunk_json(const AnswerHead& head, const Usage& usage) {
  Json chunk = head_json(head, chunk_kind(head));
  chunk["choices"] = Json::array();
  chunk["usage"] = usage_json(usage);
  return chunk;
}

Json chat_logprobs(const mkrt::Tokenizer& tokenizer, std::span<const mkrt::Sampled> samples) {
  Json content = Json::array();
  for (const mkrt::Sampled& sampled : samples) {
    Json token = chat_logprob(tokenizer, sampled.id, sampled.logprob);
    token["top_logprobs"] = Json::array();
    for (const mkrt::TokenLogprob& t : sampled.top)
      token["top_logprobs"].push_back(chat_logprob(tokenizer, t.id, t.logprob));
    content.push_back(std::move(token));
  }
  return {{"content", std::move(content)}};
}

void CompletionLogprobs::add_token(int32_t id, Json logprob, Json top) {
  const std::string bytes = token_bytes(*tokenizer_, id);
  tokens_.push_back(token_or_bytes(bytes));
  logprobs_.push_back(std::move(logprob));
  tops_.push_back(std::move(top));
  offsets_.push_back(offset_);
  for (const char c : text_->add(id)) offset_ += (c & 0xC0) != 0x80;
}

void CompletionLogprobs::add(const mkrt::Sampled& sampled) {
  Json top = Json::object();
  for (const mkrt::TokenLogprob& t : sampled.top)
    top.emplace(token_or_bytes(token_bytes(*tokenizer_, t.id)), t.logprob);
  top.emplace(token_or_bytes(token_bytes(*tokenizer_, sampled.id)), sampled.logprob);
  add_token(sampled.id, sampled.logprob, std::move(top));
}

Json CompletionLogprobs::take() {
  return {{"tokens", std::move(tokens_)},
          {"token_logprobs", std::move(logprobs_)},
          {"top_logprobs", std::move(tops_)},
          {"text_offset", std::move(offsets_)}};
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string sse_event(const std::string& data) {
  return "data: " + data + "\n\n";
}

}  // namespace mkc
