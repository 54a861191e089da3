// MODEL on the command line is interpreted here.
#pragma once

#include <string>
#include <vector>

#include "tools/passes.h"

namespace mkc {

// Returns the checkpoint directory or model.yaml that `path` means. The result is `path`, or a snapshot of a
// model's folder in Hugging Face's cache (models--org--name). `path` may be that folder, or the model's name
// (org/name) where no file has this path.
//
// Errors: other files and directories; the message names the kind found and the kind expected. A name that is
// not in the cache is an error that names the folder of the cache.
Result<std::string> find_model(const std::string& path);

// Refuses an output path that cannot be written, and one that is a file of the model: its model.yaml, a
// checkpoint file in its directory, a family file or the machine's. Further `inputs` of the command, and
// links to any of these files, are refused, too. A model that cannot be read is no error here.
Status check_output(const std::string& path, const ModelRequest& model,
                    const std::vector<std::string>& inputs = {});

}  // namespace mkc
