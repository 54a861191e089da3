// Reads JSON into a Document.
#pragma once

#include "frontend/node.h"

namespace mkc {

// Errors, each at its place: syntax, duplicate keys, nesting beyond kMaxDepth, more than kMaxNodes values.
Result<Document> parse_json(Source source);

}  // namespace mkc
