// Names of filters and tests are checked before a template is rendered.
#pragma once

#include "runtime/text/jinja/ast.h"

namespace mkrt::jinja {

// Faults: a filter or a test that does not exist or is not supported. Names inside of `if` and of inline
// conditions are left to the rendering, which may never reach them. Jinja2 does the same.
void check_names(const Template& tree);

}  // namespace mkrt::jinja
