// parse_yaml() reads YAML into a Document. Plain scalars become null, bool, int, float or string. Quoted
// scalars become strings.
#pragma once

#include "frontend/node.h"

namespace mkc {

// Returns the one document of a YAML text. Errors, each at its place: syntax, duplicate keys, keys that are
// not scalars, tags, more than one document, cyclic aliases.
//
// Nesting beyond kMaxDepth is an error, and so are more than kMaxNodes values once aliases are expanded.
Result<Document> parse_yaml(Source source);

}  // namespace mkc
