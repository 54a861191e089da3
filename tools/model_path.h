// What a MODEL on the command line is.
#pragma once

#include <string>

#include "tools/passes.h"

namespace mkc {

// The checkpoint directory or model.yaml that is meant: `path` itself, or the one snapshot of a folder of
// Hugging Face's cache (models--org--name). Errors: what is something else, by its name, with what is
// expected.
Result<std::string> find_model(const std::string& path);

// Refuses to write over a file that the model is read from: its model.yaml, or what checkpoints consist of in
// its directory, by whichever path or link. A model that cannot be read refuses nothing here.
Status check_output(const std::string& path, const ModelRequest& model);

}  // namespace mkc
