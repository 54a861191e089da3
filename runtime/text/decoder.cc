#include "runtime/text/decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "runtime/base/json_node.h"
#include "runtime/text/added_tokens.h"
#include "runtime/text/bpe.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/normalizer.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

// --- reading -------------------------------------------------------------------------------------

// Returns the bytes of a token of the byte-level alphabet. Other tokens, such as added ones, stand for
// themselves.
DecodedToken decode_byte_level(std::string_view token) {
  std::optional<std::string> bytes = bytes_of_alphabet(token);
  return {TokenKind::kBytes, false, bytes ? *std::move(bytes) : std::string(token)};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Returns the byte of a token <0x..>.
std::optional<char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const int high = hex_digit(token[3]);
  const int low = hex_digit(token[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<char>(high * 16 + low);
}

DecodedToken decode_sentence_piece(std::string_view token, const std::vector<ReplaceText>& replacements) {
  std::string text(token);
  for (const ReplaceText& replacement : replacements) text = replace_all(replacement, text);
  if (const std::optional<char> byte = byte_of_token(text)) return {TokenKind::kRunOfBytes, false, {*byte}};
  return {TokenKind::kText, false, std::move(text)};
}

using DecodeToken = std::function<DecodedToken(std::string_view)>;

std::vector<DecodedToken> decode_vocabulary(const Bpe& model, const AddedTokens& added,
                                            const DecodeToken& decode) {
  std::vector<DecodedToken> tokens;
  const auto put = [&](int32_t id, std::string_view text) -> DecodedToken& {
    const auto index = static_cast<size_t>(id);
    if (index >= tokens.size()) tokens.resize(index + 1);
    return tokens[index] = decode(text);
  };
  for (const auto& [text, id] : model.ids) put(id, text);
  for (const AddedToken& token : added.tokens) put(token.id, token.content).special = token.special;
  return tokens;
}

void read_strip(const JsonNode& node, Decoder& decoder) {
  node.allow_keys({"type", "content", "start", "stop"});
  decoder.strip = node.at("content").string();
  decoder.strip_count = node.at("start").integer(INT32_MAX);
  if (node.at("stop").integer(INT32_MAX) != 0) node.at("stop").fail_unsupported("0");
  if (decoder.strip.empty()) node.at("content").fail_expected("a character");
}

// Reads the steps Replace …, ByteFallback, Fuse, and an optional Strip. Returns the Replace steps.
std::vector<ReplaceText> read_sentence_piece(const JsonNode& node, const std::vector<JsonNode>& steps,
                                             Decoder& decoder) {
  constexpr std::string_view kSupported = "ByteLevel, or a Sequence of Replace …, ByteFallback, Fuse, Strip";
  std::vector<ReplaceText> replacements;
  size_t at = 0;
  const auto is_next = [&](std::string_view type) {
    return at < steps.size() && steps[at].at("type").string() == type;
  };
  for (; is_next("Replace"); ++at) replacements.push_back(read_replace(steps[at]));
  for (const std::string_view type : {"ByteFallback", "Fuse"}) {
    if (is_next(type))
      steps[at++].allow_keys({"type"});
    else if (at < steps.size())
      steps[at].at("type").fail_unsupported(kSupported);
    else
      node.fail(fmt::format("{} is missing, supported: {}", type, kSupported));
  }
  if (is_next("Strip")) read_strip(steps[at++], decoder);
  if (at < steps.size()) steps[at].at("type").fail_unsupported(kSupported);
  return replacements;
}

}  // namespace

Decoder read_decoder(const JsonNode& node, const Bpe& model, const AddedTokens& added) {
  Decoder decoder;
  const std::vector<JsonNode> steps = node.sequence("decoders");
  if (steps.size() == 1 && steps[0].at("type").string() == "ByteLevel") {
    steps[0].allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    decoder.tokens = decode_vocabulary(model, added, decode_byte_level);
  } else {
    const std::vector<ReplaceText> replacements = read_sentence_piece(node, steps, decoder);
    check_growth(node, replacements);
    if (node.failed()) return decoder;  // what is to be replaced may be empty
    decoder.tokens = decode_vocabulary(
        model, added, [&](std::string_view token) { return decode_sentence_piece(token, replacements); });
  }
  return decoder;
}

StreamDecoder::StreamDecoder(const Decoder& decoder, bool skip_special, ByteRuns runs)
    : decoder_(&decoder), skip_special_(skip_special), runs_(runs), strips_left_(decoder.strip_count) {}

Result<std::string> StreamDecoder::push(int32_t id) {
  const std::vector<DecodedToken>& tokens = decoder_->tokens;
  // A negative id is too large as an unsigned number.
  if (static_cast<size_t>(id) >= tokens.size())
    return Error{fmt::format("token id {} is out of range: the tokenizer has ids 0 to {}", id,
                             static_cast<int64_t>(tokens.size()) - 1)};
  const DecodedToken& token = tokens[static_cast<size_t>(id)];
  if (token.special && skip_special_) return std::string();
  switch (token.kind) {
    case TokenKind::kNone:
      return Error{fmt::format("token id {} belongs to no token", id)};
    case TokenKind::kBytes:
      pending_ += token.bytes;
      return take_whole_characters();
    case TokenKind::kRunOfBytes:
      pending_ += token.bytes;
      pending_is_run_ = true;
      return strip_front(take_from_run());
    case TokenKind::kText:
      return strip_front(end_run() + token.bytes);
  }
}

std::string StreamDecoder::flush() {
  std::string text = interrupt();
  *this = StreamDecoder(*decoder_, skip_special_, runs_);
  return text;
}

void StreamDecoder::leave_out_prompt() {
  if (pending_is_run_) pending_ = strip_front(std::move(pending_));
  prompt_bytes_ = pending_.size();
}

std::string StreamDecoder::interrupt() {
  // A byte-level text can leave only the begin of one character.
  std::string text = pending_is_run_                    ? strip_front(end_run())
                     : pending_.size() <= prompt_bytes_ ? std::string()
                                                        : std::string(kReplacementCharacter);
  pending_.clear();
  prompt_bytes_ = 0;
  strips_left_ = 0;
  return text;
}

// Moves the whole characters out of `pending_`. Bytes that cannot become a character are replaced.
std::string StreamDecoder::take_whole_characters() {
  std::string text;
  std::string_view rest = pending_;
  while (!rest.empty()) {
    const Utf8Front front = scan_utf8(rest);
    if (front.state == Utf8State::kIncomplete) break;
    if (front.size > prompt_bytes_)
      text += front.state == Utf8State::kComplete ? rest.substr(0, front.size) : kReplacementCharacter;
    prompt_bytes_ -= std::min(prompt_bytes_, front.size);
    rest.remove_prefix(front.size);
  }
  pending_ = std::string(rest);
  return text;
}

// Returns what a run puts out now.
std::string StreamDecoder::take_from_run() {
  if (runs_ == ByteRuns::kWhole) return {};
  if (scan_utf8(pending_).state == Utf8State::kBroken) run_is_invalid_ = true;
  return run_is_invalid_ ? replace_bytes() : take_whole_characters();
}

std::string StreamDecoder::end_run() {
  run_is_invalid_ = false;
  return find_invalid_utf8(pending_) ? replace_bytes() : take_whole_characters();
}

// Takes all bytes of `pending_` and returns U+FFFD for each, but for those of the prompt.
std::string StreamDecoder::replace_bytes() {
  std::string text;
  for (size_t i = prompt_bytes_; i < pending_.size(); ++i) text += kReplacementCharacter;
  pending_.clear();
  prompt_bytes_ = 0;
  return text;
}

std::string StreamDecoder::strip_front(std::string text) {
  while (strips_left_ > 0 && !text.empty()) {
    if (!text.starts_with(decoder_->strip)) {
      strips_left_ = 0;
      break;
    }
    text.erase(0, decoder_->strip.size());
    --strips_left_;
  }
  return text;
}

}  // namespace mkrt
