// Values have attributes, items and slices.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// A Method is a function of a type. Without code it exists in Python and is not supported.
struct Method {
  std::string_view name;
  Function::Code code;
};

// The functions return a value that is undefined where there is none. Faults: the value itself is undefined;
// the attribute exists in Python and is not supported.

// Returns `value.name`: the attribute, and else the item of a dict. Methods that change a list or a dict are
// undefined, as the sandbox forbids them.
Value get_attribute(Arena& arena, const Value& value, const std::string& name);

// Returns `value[key]`: the item, and else the attribute.
Value get_item(Arena& arena, const Value& value, const Value& key);

// Returns `value[start:stop:step]`. Bounds are none where they are left out. Faults: the value has no order;
// a step of 0.
Value get_slice(Arena& arena, const Value& value, const Value& start, const Value& stop, const Value& step);

// Slice is the elements start, start + step, … of a sequence.
struct Slice {
  int64_t start, step, count;
};
Slice resolve_slice(int64_t length, const Value& start, const Value& stop, const Value& step);

}  // namespace mkrt::jinja
