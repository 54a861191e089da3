// mkc run and mkc serve read these inputs beside a model's code: directory, defaults, tokenizer, session.
#pragma once

#include <optional>
#include <string>

#include "frontend/generation.h"
#include "runtime/session/session.h"
#include "runtime/text/tokenizer.h"
#include "tools/run_arguments.h"
#include "tools/run_load.h"

namespace mkc {

// Replaces the model's and the checkpoint's path by what find_model() makes of them. Errors: its errors.
Status find_models(RunArguments& arguments);

// Returns the directory of the checkpoint. Errors: a model that cannot be read.
Result<std::string> checkpoint_directory(const RunArguments& arguments);

// Returns the defaults of generation. Prints a warning of keys that are not read. Errors: config.json or
// generation_config.json cannot be read.
Result<GenerationDefaults> read_defaults(const std::string& directory);

// Returns the tokenizer of a directory, or nothing if there is no file and no `text` needs it. Error: `text`
// needs a tokenizer that does not exist.
Result<std::optional<mkrt::Tokenizer>> find_tokenizer(const std::string& directory, const std::string& text);

// Opens a session, with weights that are kept for the next start unless the arguments say otherwise. Prints
// warnings of the weights, and to a terminal how they came.
//
// The session has a cache for `requests` requests at once; 0: for one prompt. Errors: a cache that does
// not fit in memory together with weights and workspace; those of Session::open.
Result<mkrt::Session> open_session(const RunArguments& arguments, const Loaded& loaded, uint64_t requests);

}  // namespace mkc
