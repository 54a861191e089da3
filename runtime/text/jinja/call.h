// Arguments of a call are bound to parameters as Python binds them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Call is one call of a function, a filter or a test. A filter's input is its first positional argument.
//
// A function takes its parameters in their order and calls finish() before it uses them.
struct Call {
  Call(Arena& memory, std::string_view title) : arena(memory), name(title) {}

  Arena& arena;
  std::string_view name;
  Value receiver;
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  // The functions return the next parameter: the next positional argument, or the keyword argument of that
  // name. An empty name stands for a parameter that has no keyword. Faults: nothing was given and there is no
  // default.
  Value take(std::string_view parameter);
  Value take(std::string_view parameter, Value if_absent);
  bool take_bool(std::string_view parameter, bool if_absent);
  int64_t take_integer(std::string_view parameter, std::optional<int64_t> if_absent = std::nullopt);
  std::string_view take_text(std::string_view parameter);
  // Returns nothing for an absent argument and for none.
  std::optional<int64_t> take_optional_integer(std::string_view parameter);
  std::optional<std::string_view> take_optional_text(std::string_view parameter);

  Value take_keyword(std::string_view parameter, Value if_absent);
  std::vector<Value> take_rest();  // all further positional arguments

  // Faults: there are more arguments than parameters.
  void finish() const;

 private:
  size_t taken_ = 0;
};

// Returns an integer as Python's index does. Faults: another type.
int64_t to_index(const Value& value, std::string_view what);

}  // namespace mkrt::jinja
