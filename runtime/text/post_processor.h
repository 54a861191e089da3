// Post-processors add the special tokens that a model expects around a text.
#pragma once

#include <cstdint>
#include <vector>

namespace mkrt {

class JsonNode;

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> behind;
};

// Reads the post-processor section of tokenizer.json. The template for one text is read, and that for a pair
// of texts is not needed. ByteLevel changes no ids.
PostProcessor read_post_processor(const JsonNode& node);

}  // namespace mkrt
