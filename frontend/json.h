// parse_json() reads JSON into a Document.
#pragma once

#include "frontend/node.h"

namespace mkc {

// Returns the document of a JSON text. Errors, each at its place: syntax, duplicate keys, nesting beyond
// kMaxDepth, more than kMaxNodes values.
Result<Document> parse_json(Source source);

}  // namespace mkc
