#include "runtime/text/post_processor.h"

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
  PostProcessor all;
  for (const JsonNode& step : node.sequence("processors")) {
    if (step.at("type").one_of({"ByteLevel", "TemplateProcessing"}) == "ByteLevel") {
      step.allow_keys({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      continue;
    }
    // A later template goes around the ids of earlier ones.
    const PostProcessor outer = read_template(step);
    all.before.insert(all.before.begin(), outer.before.begin(), outer.before.end());
    all.behind.insert(all.behind.end(), outer.behind.begin(), outer.behind.end());
  }
  return all;
}

}  // namespace mkrt
