// A checkpoint's chat template makes a prompt of messages, as token ids.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"

namespace mkc {

// RenderChat returns the prompt of a chat. Errors: those that the template raises; arguments of calls of
// tools with an integer of more than 64 bits.
using RenderChat = std::function<mkrt::Result<std::string>(const nlohmann::ordered_json& messages,
                                                           const nlohmann::ordered_json& variables)>;

// Returns the rendering of the chat template of a checkpoint's directory, with the special tokens of the
// checkpoint as variables. The result is null where the checkpoint has no chat template. Errors: a template,
// or its variables, that cannot be read.
//
// Arguments of calls of tools that are text holding a JSON object become that object, as in vLLM. They stay
// text where the template fails otherwise.
mkrt::Result<RenderChat> read_render_chat(const std::string& directory);

// Returns the variable whose value an error of RenderChat refuses, which the message begins with, or "".
// "messages" stands for each message, and `variables` has the others.
std::string refused_variable(const std::string& message, const nlohmann::ordered_json& variables);

// Returns the ids of a text that a chat template wrote. The tokenizer adds no special tokens, because chat
// templates write them. Errors: those of encode().
mkrt::Result<std::vector<int32_t>> encode_chat(const mkrt::Tokenizer& tokenizer, const std::string& text);

// Returns the ids of the prompt that asks for the assistant's next message. Errors: those of the template and
// of encode_chat().
mkrt::Result<std::vector<int32_t>> chat_ids(const RenderChat& render, const mkrt::Tokenizer& tokenizer,
                                            const nlohmann::ordered_json& messages);

}  // namespace mkc
