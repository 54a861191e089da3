// Fields of a map are read one by one, with errors that name them.
#pragma once

#include <string>
#include <vector>

#include "frontend/node.h"

namespace mkc {

// Returns ", did you mean "x"?" with the entry x of `known` that is nearest to `name`. Returns "" if none is
// near.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

// Fails unless `node` is a map whose keys are all in `known`. `what` names the map in messages.
Status check_keys(const Document& document, const Node& node, std::string_view what,
                  const std::vector<std::string>& known);

// Returns the value of `key`, which must have kind `kind`. An int also serves as a float. Errors: a missing
// key, a value of another kind.
Result<const Node*> required_field(const Document& document, const Node& map, std::string_view what,
                                   std::string_view key, Node::Kind kind);
// Returns the value of `key` as required_field() does, or nullptr if the key is missing.
Result<const Node*> optional_field(const Document& document, const Node& map, std::string_view key,
                                   Node::Kind kind);
// Returns the elements of a list. Errors: an element that is not a string.
Result<std::vector<std::string>> string_list(const Document& document, const Node& list);

}  // namespace mkc
