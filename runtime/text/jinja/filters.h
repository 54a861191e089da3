// Filters stand behind a bar, such as `value | join(", ")`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/text/jinja/attributes.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the code of a filter. Faults, at the line: there is no such filter, or it is not supported.
Function::Code find_filter(std::string_view name, uint32_t line);

// Returns whether Jinja2 has a filter of the name.
bool is_filter_name(std::string_view name);

// Filters by what they work on.
std::span<const Method> text_filters();
std::span<const Method> number_filters();
std::span<const Method> sequence_filters();
std::span<const Method> selection_filters();
std::span<const Method> sorting_filters();

}  // namespace mkrt::jinja
