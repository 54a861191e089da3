// Reads YAML into a Document. Plain scalars become null, bool, int, float or string; quoted ones strings.
#pragma once

#include "frontend/node.h"

namespace mkc {

// One document. Errors, each at its place: syntax, duplicate keys, keys that are no scalars, tags, more than
// one document, nesting beyond kMaxDepth, cyclic aliases, more than kMaxNodes values once aliases are
// expanded.
Result<Document> parse_yaml(Source source);

}  // namespace mkc
