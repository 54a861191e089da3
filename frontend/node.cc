#include "frontend/node.h"

#include <fmt/format.h>

namespace mkc {

bool Node::operator==(const Node& other) const {
  if (is_number() && other.is_number()) {
    return is(Kind::kInt) && other.is(Kind::kInt) ? integer == other.integer : number() == other.number();
  }
  if (kind != other.kind) return false;
  switch (kind) {
    case Kind::kNull:
    case Kind::kInt:
    case Kind::kFloat:
      return true;
    case Kind::kBool:
      return boolean == other.boolean;
    case Kind::kString:
      return string == other.string;
    case Kind::kList:
      return items == other.items;
    case Kind::kMap:
      return keys == other.keys && items == other.items;
  }
  return false;
}

Node null_node() {
  return {};
}

Node bool_node(bool value) {
  Node node;
  node.kind = Node::Kind::kBool;
  node.boolean = value;
  return node;
}

Node int_node(int64_t value) {
  Node node;
  node.kind = Node::Kind::kInt;
  node.integer = value;
  return node;
}

Node float_node(double value) {
  Node node;
  node.kind = Node::Kind::kFloat;
  node.real = value;
  return node;
}

Node string_node(std::string value) {
  Node node;
  node.kind = Node::Kind::kString;
  node.string = std::move(value);
  return node;
}

const Node* find(const Node& node, std::string_view key) {
  for (size_t i = 0; i < node.keys.size(); ++i) {
    if (node.keys[i] == key) return &node.items[i];
  }
  return nullptr;
}

const char* kind_name(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return "bool";
    case Node::Kind::kInt:
      return "int";
    case Node::Kind::kFloat:
      return "float";
    case Node::Kind::kString:
      return "string";
    case Node::Kind::kList:
      return "list";
    case Node::Kind::kMap:
      return "map";
  }
  return "";
}

std::string kind_phrase(Node::Kind kind) {
  return fmt::format("{} {}", kind == Node::Kind::kInt ? "an" : "a", kind_name(kind));
}

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "null";
    case Node::Kind::kBool:
      return node.boolean ? "true" : "false";
    case Node::Kind::kInt:
      return std::to_string(node.integer);
    case Node::Kind::kFloat:
      return fmt::format("{}", node.real);
    case Node::Kind::kString:
      return fmt::format("\"{}\"", node.string);
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "";
}

}  // namespace mkc
