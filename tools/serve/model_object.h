// /v1/models lists the one model, and /v1/models/ID has it alone.
#pragma once

#include <string>
#include <string_view>

#include "tools/serve/answer_json.h"
#include "tools/serve/served_model.h"

namespace mkc {

inline constexpr std::string_view kModelPath = "/v1/models/";

// Returns {"id", "object", "created", "owned_by", "max_model_len"}.
Json model_object(const ServedModel& model);

// Returns {"object": "list", "data"} with the object of the model.
Json models_json(const ServedModel& model);

// Returns the ID of a path that begins with kModelPath. Clients write a slash within the ID as it is or as
// "%2F". A "%" without two hexadecimal digits stays.
std::string model_id_of(std::string_view path);

}  // namespace mkc
