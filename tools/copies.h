// Some checkpoints have tensors that the config calls copies of others.
#pragma once

#include <string>
#include <vector>

#include "frontend/op_graph.h"
#include "runtime/artefact/safetensors.h"

namespace mkc {

// Returns the copies that the request's config declares. A request whose conditions fail has none, and its
// compilation says why.
std::vector<DeclaredCopy> copies_of(const CompileRequest& request);

// Returns the stamps of files that hold a copy, or what the copy is of, as text. Returns "" where the
// checkpoint has no copy that the family declares of such a model.
std::string stamps_of_copies(const CompileRequest& request, const mkrt::Checkpoint& checkpoint);

}  // namespace mkc
