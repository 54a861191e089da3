// Fields become requests of the engine: prompts become ids, defaults are filled in, sizes are checked.
#pragma once

#include "runtime/engine/engine.h"
#include "tools/serve/api_request.h"
#include "tools/serve/served_model.h"
#include "tools/token_text.h"

namespace mkc {

// PromptText is a prompt as the text of its answer needs it.
struct PromptText {
  TokenText after;        // the text of new tokens; the tokenizer is the model's
  std::string echo = {};  // the prompt's whole characters, where the answer repeats it
  int32_t first_id = 0;   // of the prompt's tokens
};

// PreparedRequest is a generating request that is ready for the engine. Choice i continues prompt i / n.
struct PreparedRequest {
  ApiRequest api;
  std::vector<mkrt::Request> choices;
  std::vector<uint32_t> prompt_tokens;  // of each prompt
  std::vector<PromptText> texts;        // of each prompt
};

// Fills `prepared` from its fields. `fresh_seed` seeds a request that gives no seed. Choice j of a prompt has
// the seed plus j.
//
// Errors: an unknown model (404); no chat template, or an error that it raises; a prompt without tokens, with
// ids outside the vocabulary, or too long; stop ids outside the vocabulary; settings out of their range.
std::optional<ApiError> prepare(const ServedModel& model, uint64_t fresh_seed, PreparedRequest& prepared);

// Returns the ids of one prompt or chat, perhaps none. Errors: those of prepare() but the length.
std::optional<ApiError> prompt_ids(const ServedModel& model, const ApiRequest& api, size_t prompt,
                                   std::vector<int32_t>& ids);

// Returns an error unless the request names the model, or no model.
std::optional<ApiError> check_model(const ServedModel& model, const ApiRequest& api);

}  // namespace mkc
