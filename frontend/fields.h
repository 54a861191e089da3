// Access to the fields of a map with errors that name them.
#pragma once

#include <string>
#include <vector>

#include "frontend/node.h"

namespace mkc {

// ", did you mean "x"?" with the entry of `known` nearest to `name`, or "".
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// Fails unless `node` is a map whose keys are all in `known`. `what` names the map in messages.
Status check_keys(const Document& document, const Node& node, std::string_view what,
                  const std::vector<std::string>& known);

// The value of `key`, of kind `kind` (an int also serves as a float). Errors: missing, of another kind.
Result<const Node*> required_field(const Document& document, const Node& map, std::string_view what,
                                   std::string_view key, Node::Kind kind);
// The same, but nullptr where the key is missing.
Result<const Node*> optional_field(const Document& document, const Node& map, std::string_view key,
                                   Node::Kind kind);
// A list of strings.
Result<std::vector<std::string>> string_list(const Document& document, const Node& list);

}  // namespace mkc
