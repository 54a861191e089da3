#include "runtime/text/post_processor.h"

#include <optional>
#include <string>

#include "runtime/base/json_node.h"
#include "runtime/text/bpe.h"

namespace mkrt {
namespace {

// Reads {"SpecialToken": {"id": NAME, "type_id": …}}, and returns the ids of NAME under special_tokens.
std::vector<int32_t> read_special_token(const JsonNode& node, const JsonNode& special_tokens) {
  node.allow_keys({"id", "type_id"});
  const JsonNode special_token = special_tokens.at(node.at("id").string());
  special_token.allow_keys({"id", "ids", "tokens"});
  std::vector<int32_t> ids;
  for (const JsonNode& id : special_token.at("ids").items()) ids.push_back(id.integer(kMaxTokenId));
  return ids;
}

PostProcessor read_template(const JsonNode& node) {
  node.allow_keys({"type", "single", "pair", "special_tokens"});
  const JsonNode special_tokens = node.at("special_tokens");
  PostProcessor result;
  int sequences = 0;
  for (const JsonNode& piece : node.at("single").items()) {
    piece.allow_keys({"SpecialToken", "Sequence"});
    const JsonNode sequence = piece.optional("Sequence");
    if (!sequence.is_null()) {
      sequence.allow_keys({"id", "type_id"});
      sequence.at("id").one_of({"A"});
      ++sequences;
      continue;
    }
    const std::vector<int32_t> ids = read_special_token(piece.at("SpecialToken"), special_tokens);
    std::vector<int32_t>& side = sequences == 0 ? result.before : result.behind;
    side.insert(side.end(), ids.begin(), ids.end());
  }
  if (sequences != 1) node.at("single").fail("expected the sequence A once");
  return result;
}

}  // namespace

PostProcessor read_post_processor(const JsonNode& node) {
  std::optional<PostProcessor> found;
  for (const JsonNode& step : node.sequence("processors")) {
    if (step.at("type").one_of({"ByteLevel", "TemplateProcessing"}) == "ByteLevel") {
      step.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      continue;
    }
    // The package tokenizers takes what an earlier template adds for a text of its own.
    if (found) step.at("type").fail("found a second TemplateProcessing, expected at most one");
    found = read_template(step);
  }
  return found.value_or(PostProcessor());
}

}  // namespace mkrt
