// Clients of mkc serve and batch files give messages of a chat in one form.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/json_node.h"

namespace mkc {

// Checks a list of messages. Each has a role, and content that is text, null, or a list of parts of text.
// Faults name the message: another role, a part that is no text, an unknown key with a value.
void check_messages(const mkrt::JsonNode& node);

// Checks further variables of the chat template: an object without the names that mkc sets. Variables that
// many templates read have their types.
void check_template_variables(const mkrt::JsonNode& node);

// Returns how much a model is to reason. Fault: no effort that clients of OpenAI's API name.
std::string read_reasoning_effort(const mkrt::JsonNode& node);

// Returns checked messages with each list of parts joined to one text, by line feeds. Keys without a value
// are left out, as transformers 5.24 does.
nlohmann::ordered_json plain_messages(nlohmann::ordered_json messages);

}  // namespace mkc
