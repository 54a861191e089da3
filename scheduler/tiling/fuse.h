// Fusion turns the operator graph into task grids with region maps.
#pragma once

#include <map>
#include <string>

#include "ir/tasks.h"

namespace mkc {

struct FuseOptions {
  uint32_t workers = 132;  // workers that share the tasks of experts
  // Warpgroups may multiply from this number of tokens on; 0: never. Warpgroups add up in another order.
  uint32_t wgmma_from = kDefaultWgmmaFrom;
};

// Requires an op graph with the frontend's symbols. Ensures that every op is part of at least one grid.
// Ensures that an earlier grid writes every activation that a grid reads. The result has no events. Fusion is
// the first pass of the scheduler.
//
// Patterns are shapes of the graph, never names:
//   embed                                          -> embed
//   rms_norm? + linear (+ add | + gated op)        -> product; a gated op joins two linears of the same input
//   rms_norm? + linear + sample                    -> product with the best of each strip, and sample
//   rms_norm? + expert_linear (+ gated op)         -> expert; tasks of as many strips as workers can share
//   head_norm? + rope? + kv_write + attention      -> append, attend and combine
//   ops on rows that none of these holds           -> row; chains of norm?, rope? and elementwise steps
//
// Each product computes the norm of its input again. A row grid computes the norm for other readers.
//
// `unfused` gets the row grids by name, each with the reason why no pattern holds its last op.
//
// Errors: an op that fits no task, by its place.
Result<TaskProgram> fuse(const OpGraph& graph, const FuseOptions& options = {},
                         std::map<std::string, std::string>* unfused = nullptr);

// Sets the attribute of FuseOptions::wgmma_from in all products that are not split yet. Requires a number
// other than 0.
void set_wgmma_from(TaskProgram& program, uint32_t wgmma_from);

// Sets the number of tokens from which activations are 8-bit floats in all products whose weights are E4M3
// and that are not split yet. Requires at least kMinFp8From.
void set_fp8_from(TaskProgram& program, uint32_t fp8_from);

}  // namespace mkc
