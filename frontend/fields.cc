#include "frontend/fields.h"

#include <fmt/format.h>

#include <algorithm>

namespace mkc {

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string near = nearest_name(name, known);
  return near.empty() ? "" : fmt::format(", did you mean \"{}\"?", near);
}

Status check_keys(const Document& document, const Node& node, std::string_view what,
                  const std::vector<std::string>& known) {
  if (!node.is(Node::Kind::kMap)) {
    return document.error(node.place, fmt::format("{} is {}, expected a map", what, describe(node)));
  }
  for (size_t i = 0; i < node.keys.size(); ++i) {
    if (std::find(known.begin(), known.end(), node.keys[i]) != known.end()) continue;
    return document.error(node.key_places[i], fmt::format("unknown key \"{}\" in {}{}", node.keys[i], what,
                                                          suggestion(node.keys[i], known)));
  }
  return {};
}

Result<const Node*> required_field(const Document& document, const Node& map, std::string_view what,
                                   std::string_view key, Node::Kind kind) {
  MKC_TRY(field, optional_field(document, map, key, kind));
  if (field) return field;
  return document.error(map.place, fmt::format("missing key \"{}\" in {}", key, what));
}

Result<const Node*> optional_field(const Document& document, const Node& map, std::string_view key,
                                   Node::Kind kind) {
  const Node* field = find(map, key);
  if (!field || field->is(kind) || (kind == Node::Kind::kFloat && field->is_number())) return field;
  std::string found = describe(*field);
  const bool whole = field->is(Node::Kind::kFloat) && found.find_first_of(".en") == found.npos;
  if (whole) found += ".0";  // 4.0 is described as 4
  return document.error(field->place, fmt::format("{} is {}, expected {}", key, found, kind_phrase(kind)));
}

Result<std::vector<std::string>> string_list(const Document& document, const Node& list) {
  std::vector<std::string> out;
  for (const Node& item : list.items) {
    if (!item.is(Node::Kind::kString)) {
      return document.error(item.place, fmt::format("found {}, expected a string", describe(item)));
    }
    out.push_back(item.string);
  }
  return out;
}

}  // namespace mkc
