// JSON documents become values of templates.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/text/jinja/arena.h"
#include "runtime/text/jinja/fault.h"
#include "runtime/text/jinja/value.h"

namespace mkrt::jinja {

// ValueFault is the fault of a document, not of a template.
struct ValueFault : Fault {};

// Returns the document as dicts, lists, text and numbers. Faults: more than kMaxCallDepth levels; ValueFaults
// for text that is not UTF-8, and for an integer of more than 63 bits.
Value from_json(Arena& arena, const nlohmann::ordered_json& document);

}  // namespace mkrt::jinja
