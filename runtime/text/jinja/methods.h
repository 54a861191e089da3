// Text and collections have methods.
#pragma once

#include <span>

#include "runtime/text/jinja/attributes.h"

namespace mkrt::jinja {

std::span<const Method> text_methods();         // letter case, padding, kinds of characters, joins
std::span<const Method> text_search_methods();  // finding, splitting, stripping
std::span<const Method> list_methods();
std::span<const Method> tuple_methods();
std::span<const Method> dict_methods();
std::span<const Method> cycler_methods();

// Names of methods that change a list or a dict, which the sandbox forbids.
bool is_forbidden_method(Value::Kind kind, std::string_view name);

}  // namespace mkrt::jinja
