// The filter tojson writes a value as JSON.
#pragma once

#include "runtime/text/jinja/call.h"

namespace mkrt::jinja {

// Returns the value as JSON text, as Python's json.dumps writes it. transformers gives the filter these
// arguments: ensure_ascii, indent, separators, sort_keys. Faults: a value that JSON cannot hold, such as an
// undefined one.
Value to_json(Call& call);

}  // namespace mkrt::jinja
