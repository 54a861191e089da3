// The value tree that YAML and JSON files are read into, with the place of every value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/source.h"

namespace mkc {

// One value. Equality compares the values, not their places.
struct Node {
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kMap };

  Kind kind = Kind::kNull;
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;
  std::string string;
  std::vector<Node> items;  // elements of a list, or values of a map by the position of their key
  std::vector<std::string> keys;
  std::vector<Place> key_places;
  Place place;          // of the value in YAML; of its key in JSON
  bool quoted = false;  // a YAML scalar in quotes
  std::string path;     // dotted key of config.json that a formula read this value from

  bool is(Kind k) const { return kind == k; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat; }
  double number() const { return kind == Kind::kInt ? static_cast<double>(integer) : real; }
  bool operator==(const Node& other) const;
};

constexpr uint32_t kMaxDepth = 32;       // of nested lists and maps
constexpr uint32_t kMaxNodes = 1 << 15;  // of a document, aliases expanded

Node null_node();
Node bool_node(bool value);
Node int_node(int64_t value);
Node float_node(double value);
Node string_node(std::string value);

// The value of `key` in a map; nullptr where there is none or `node` is no map.
const Node* find(const Node& node, std::string_view key);
const char* kind_name(Node::Kind kind);    // "null", "bool", "int", "float", "string", "list", "map"
std::string kind_phrase(Node::Kind kind);  // with its article: "an int"
// A value as an error message shows it: null, true, 12, 0.5, "silu", a list, a map.
std::string describe(const Node& node);

// A file and the tree read from it.
struct Document {
  Source source;
  Node root;
  bool operator==(const Document&) const = default;

  Loc loc(Place place) const { return {source.path, place.line, place.col}; }
  Error error(Place place, std::string_view message) const {
    return error_in(source, place.line, place.col, message);
  }
};

}  // namespace mkc
