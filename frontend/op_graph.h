// A resolved request becomes level 1, the op graph.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "frontend/checkpoint.h"
#include "frontend/request.h"
#include "ir/ops.h"

namespace mkc {

// Returns the ops of one step, in the family's order, with the layers unrolled. Tensors of layer n are named
// "ln.NAME". Errors: those of Checkpoint, and family files whose ops do not fit together.
//
// Symbols are T and R in [1, max_tokens] and B in [1, max_requests]. Inputs are tokens[T] and positions[T].
// List symbols have one value for each request: q_len in [1, min(max_tokens, context)] and kv_len in [1,
// context]. The list first_row sums q_len.
//
// `tensors` are those of the whole checkpoint. Each of them must be used, or declared as ignored by the
// family. Empty `tensors` mean that config.json alone is compiled.
Result<OpGraph> build_op_graph(const CompileRequest& request, std::span<const CheckpointTensor> tensors);

// DeclaredCopy is a tensor that the config calls a copy of another. A checkpoint may lack it.
struct DeclaredCopy {
  std::string name, of;
  std::string reason;  // what the config says: "tie_word_embeddings is true"
};

// Returns the copies that the family declares of the request's model. Errors: those of request_scope(), and
// of the family's conditions.
Result<std::vector<DeclaredCopy>> declared_copies(const CompileRequest& request);

}  // namespace mkc
