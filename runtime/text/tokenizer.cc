#include "runtime/text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "runtime/base/file_kind.h"
#include "runtime/base/json_node.h"
#include "runtime/text/config_tokens.h"
#include "runtime/text/utf8.h"

namespace mkrt {
namespace {

constexpr size_t kMaxTextBytes = size_t{256} << 20;
constexpr size_t kMaxNormalizedBytes = size_t{1} << 30;  // positions in a piece have 32 bits

Result<nlohmann::json> parse_json(const std::string& path, std::string_view text) {
  if (const std::string kind = foreign_format(std::as_bytes(std::span(text))); !kind.empty())
    return Error{fmt::format("{}: error: is {}", path, kind)};
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const size_t offset = std::min(text.size(), error.byte == 0 ? 0 : error.byte - 1);
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n');
    const size_t line_begin = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
    return Error{fmt::format("{}:{}:{}: error: not valid JSON", path, line, offset - line_begin + 1)};
  } catch (const nlohmann::json::out_of_range&) {
    return Error{path + ": error: not valid JSON: has a number beyond 64-bit floats"};
  }
}

Tokenizer tokenizer_of(const JsonNode& root) {
  Tokenizer tokenizer;
  root.allow_keys({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                   "post_processor", "decoder", "model"});
  root.at("version").one_of({"1.0"});
  // Truncation and padding are those of a training run. transformers applies neither unless a call asks for
  // it.
  tokenizer.model = read_bpe(root.at("model"));
  tokenizer.normalizers = read_normalizers(root.optional("normalizer"));
  if (root.failed()) return tokenizer;
  tokenizer.added = read_added_tokens(root.at("added_tokens"), tokenizer.model, tokenizer.normalizers);
  tokenizer.pre_tokenizer = read_pre_tokenizer(root.optional("pre_tokenizer"));
  tokenizer.post_processor = read_post_processor(root.optional("post_processor"));
  tokenizer.decoder = read_decoder(root.at("decoder"), tokenizer.model, tokenizer.added);
  return tokenizer;
}

Result<Tokenizer> read_document(const nlohmann::json& document, const std::string& path) {
  Status status;
  Tokenizer tokenizer = tokenizer_of(JsonNode(document, path, status));
  if (!status.ok()) return status.error();
  return tokenizer;
}

// Appends the ids of a part of the normalized text that holds no added token.
Status encode_plain(const Tokenizer& tokenizer, std::string_view text, bool at_start_of_text, MatchTime& time,
                    std::vector<int32_t>& ids) {
  const Result<Pieces> pieces = pre_tokenize(tokenizer.pre_tokenizer, text, at_start_of_text, time);
  if (!pieces.ok()) return pieces.error();
  const std::string_view all = pieces.value().text;
  size_t begin = 0;
  for (const size_t end : pieces.value().ends) {
    const Status status = encode_piece(tokenizer.model, all.substr(begin, end - begin), ids);
    if (!status.ok()) return status;
    begin = end;
  }
  return {};
}

// Appends the ids of a part of the text. The part holds none of the added tokens that are searched before
// normalization.
Status encode_unnormalized(const Tokenizer& tokenizer, std::string_view text, bool at_start_of_text,
                           MatchTime& time, std::vector<int32_t>& ids) {
  const NormalizedText result = normalize(tokenizer.normalizers, text);
  const std::string& normalized = result.text;
  if (normalized.size() > kMaxNormalizedBytes)
    return Error{fmt::format("a text of {} bytes after normalizers is too long: at most {}",
                             normalized.size(), kMaxNormalizedBytes)};
  const TokenTree& tree = tokenizer.added.in_normalized_text;
  for (const Segment& segment : split_at_added_tokens(tokenizer.added, tree, normalized)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    const auto offset = static_cast<size_t>(segment.text.data() - normalized.data());
    const bool at_start = at_start_of_text && offset < result.front;
    const Status status = encode_plain(tokenizer, segment.text, at_start, time, ids);
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Result<Tokenizer> load_tokenizer(const std::string& path) {
  const Result<std::string> text = read_text(path, SIZE_MAX);
  if (!text.ok()) return text.error();
  return read_tokenizer(text.value(), path);
}

Result<Tokenizer> load_checkpoint_tokenizer(const std::string& directory) {
  const std::string path = directory + "/tokenizer.json";
  const Result<std::string> text = read_text(path, SIZE_MAX);
  if (!text.ok()) return text.error();
  Result<nlohmann::json> document = parse_json(path, text.value());
  if (!document.ok()) return document.error();
  const Result<bool> splits = add_config_tokens(document.value(), directory);
  if (!splits.ok()) return splits.error();
  Result<Tokenizer> tokenizer = read_document(document.value(), path);
  if (tokenizer.ok()) tokenizer.value().added.split_special = splits.value();
  return tokenizer;
}

Result<Tokenizer> read_tokenizer(std::string_view text, const std::string& path) {
  const Result<nlohmann::json> document = parse_json(path, text);
  if (!document.ok()) return document.error();
  return read_document(document.value(), path);
}

Result<std::vector<int32_t>> encode(const Tokenizer& tokenizer, std::string_view text, bool add_special) {
  if (text.size() > kMaxTextBytes)
    return Error{fmt::format("a text of {} bytes is too long: at most {}", text.size(), kMaxTextBytes)};
  if (std::optional<std::string> fault = utf8_fault(text)) return Error{*std::move(fault)};
  MatchTime time(text.size());
  std::vector<int32_t> ids;
  if (add_special) ids = tokenizer.post_processor.before;
  for (const Segment& segment : split_at_added_tokens(tokenizer.added, tokenizer.added.in_text, text)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    const Status status =
        encode_unnormalized(tokenizer, segment.text, segment.text.data() == text.data(), time, ids);
    if (!status.ok()) return status.error();
  }
  const std::vector<int32_t>& behind = tokenizer.post_processor.behind;
  if (add_special) ids.insert(ids.end(), behind.begin(), behind.end());
  return ids;
}

Result<std::string> decode(const Tokenizer& tokenizer, std::span<const int32_t> ids, bool skip_special) {
  StreamDecoder stream(tokenizer.decoder, skip_special, ByteRuns::kWhole);
  std::string text;
  for (const int32_t id : ids) {
    const Result<std::string> characters = stream.push(id);
    if (!characters.ok()) return characters.error();
    text += characters.value();
  }
  return text += stream.flush();
}

}  // namespace mkrt
