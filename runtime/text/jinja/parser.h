// A template's source is parsed into its syntax tree.
#pragma once

#include <memory>
#include <string_view>

#include "runtime/text/jinja/ast.h"

namespace mkrt::jinja {

// The language is that of Jinja2 3.1 with loop controls and transformers' `generation` block.
//
// Faults: a syntax error; a construct that is not supported, such as `include`; an unknown filter or test
// outside of conditions; more levels than kMaxSyntaxDepth. Requires valid UTF-8.
std::unique_ptr<Template> parse_template(std::string_view source);

}  // namespace mkrt::jinja
