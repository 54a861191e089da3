// Some checkpoints have tensors that the config calls copies of others.
#pragma once

#include <string>
#include <vector>

#include "codegen/cache.h"
#include "frontend/checkpoint.h"
#include "frontend/request.h"
#include "runtime/artefact/safetensors.h"

namespace mkc {

// Returns the stamps of files that hold a copy, or what the copy is of, as text. Returns "" where the
// checkpoint has no copy that the family declares of such a model.
std::string stamps_of_copies(const CompileRequest& request, const mkrt::Checkpoint& checkpoint);

// Fails for a copy that differs, as the frontend's check_copies() does. `cache` remembers the stamps of files
// without a fault, which are not read again.
Status check_copies_once(const CompileRequest& request, const mkrt::Checkpoint& checkpoint,
                         const Cache& cache);

}  // namespace mkc
