// A scope holds the values of its names while a template is rendered.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

#include "runtime/text/jinja/symbols.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Scope lives in the arena, because macros keep the scope that they were made in.
struct Scope : Object {
  Scope(const Symbols& which, Scope* around) : symbols(which), parent(around) {}

  const Symbols& symbols;
  Scope* const parent;
  std::unordered_map<std::string_view, Value> values;  // of the names of the symbols; missing: undefined
};

}  // namespace mkrt::jinja
