// YAML and JSON files are read into one tree of values, with the place of every value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/source.h"

namespace mkc {

// Node is one value. Equality compares the values, not their places. An int equals a float of the same value.
struct Node {
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kMap };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<Node> items;  // elements of a list, or values of a map in the order of their keys
  std::vector<std::string> keys;
  std::vector<Place> key_places;
  Place place;          // YAML: the value's; JSON: its key's, or the list's for an element
  bool quoted = false;  // a YAML scalar in quotes
  std::string path;     // dotted key of config.json that a formula read this value from

  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat; }
  double number() const { return kind == Kind::kInt ? static_cast<double>(integer) : real; }
  bool operator==(const Node& other) const;
};

constexpr uint32_t kMaxDepth = 32;       // levels of nested lists and maps
constexpr uint32_t kMaxNodes = 1 << 15;  // values of a document, aliases expanded

Node null_node();
Node bool_node(bool value);
Node int_node(int64_t value);
Node float_node(double value);
Node string_node(std::string value);

// Returns the value of `key` in a map, or nullptr if there is none or `node` is not a map.
const Node* find(const Node& node, std::string_view key);
const char* kind_name(Node::Kind kind);    // "null", "bool", "int", "float", "string", "list", "map"
std::string kind_phrase(Node::Kind kind);  // the name with its article: "an int"
// Returns a value as an error message shows it: null, true, 12, 0.5, "silu", a list, a map.
std::string describe(const Node& node);

// Document is a file and the tree read from it.
struct Document {
  Source source;
  Node root;
  Place wide_integer{};  // JSON: the first integer beyond 64 bits, which is a float in the tree; line 0: none
  bool operator==(const Document&) const = default;

  Loc loc(Place place) const { return {source.path, place.line, place.col}; }
  Error error(Place place, std::string_view message) const {
    return error_in(source, place.line, place.col, message);
  }
};

}  // namespace mkc
