// Builds level 1 from a resolved request.
#pragma once

#include <span>

#include "frontend/checkpoint.h"
#include "frontend/request.h"
#include "ir/ops.h"

namespace mkc {

// The ops of one step, in the family's order with the layers unrolled.
// Symbols: T in [1, max_tokens], kv_len in [1, context]. Inputs: tokens[T], positions[T]. Tensors of layer n
// are named "ln.NAME". Every checkpoint tensor is used, or declared as ignored by the family. `tensors`: of
// the whole checkpoint; empty: compile from config.json alone. Errors: those of Checkpoint, and family files
// whose ops do not fit together.
Result<OpGraph> build_op_graph(const CompileRequest& request, std::span<const CheckpointTensor> tensors);

}  // namespace mkc
