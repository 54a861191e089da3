// The JSON of /debug/state is what the web page shows of the server.
#pragma once

#include "tools/serve/answer_json.h"
#include "tools/serve/metrics.h"
#include "tools/serve/served_model.h"

namespace mkc {

// Returns {"name", "device", "chat", "traced", "positions", "max_requests", "sampling"}. `chat` tells whether
// there is a chat template. `sampling` has the values of fields that a request leaves out.
Json model_json(const ServedModel& model);

// Returns {"running", "waiting", "pages", "pages_used", "steps", "prompt_tokens", "generation_tokens"}.
Json figures_json(const Metrics& metrics);

}  // namespace mkc
