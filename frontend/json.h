// Texts and files of JSON become Documents.
#pragma once

#include <optional>

#include "frontend/node.h"

namespace mkc {

// Returns the document of a JSON text. Errors, each at its place: syntax, duplicate keys, nesting beyond
// kMaxDepth, more than kMaxNodes values.
Result<Document> parse_json(Source source);

// Returns the document of a file that a checkpoint may lack, or nothing where there is no such file. Errors:
// those of read_source() and parse_json(); a path that cannot be followed, as a link to itself.
Result<std::optional<Document>> read_optional_json(const std::string& path);

}  // namespace mkc
