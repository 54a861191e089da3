// JSON documents become values of templates.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// Returns the document as dicts, lists, text and numbers. Faults: more than kMaxCallDepth levels; text that
// is not UTF-8; an integer of more than 63 bits; those of the arena.
Value from_json(Arena& arena, const nlohmann::ordered_json& document);

}  // namespace mkrt::jinja
