// Every template sees these functions: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#pragma once

#include <string_view>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the global of the name, or a missing value.
Value find_global(Arena& arena, std::string_view name);

}  // namespace mkrt::jinja
