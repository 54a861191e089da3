// Variants of products spend their time in different ways. This header is internal to scheduler/work.
#pragma once

#include "ir/tasks.h"
#include "runtime/abi/packing.h"
#include "scheduler/machine/machine.h"

namespace mkc {

// Variant says how a product is multiplied. `group` is the tokens of a pass. `bytes_per_ns` is the rate at
// which weights are multiplied. `x_rows` is the rows of activations that a pass of a block loads.
// `activations_ns` is the additional time of these loads. One load serves `strips` strips with x_bytes of
// each.
struct Variant {
  int64_t group;
  double bytes_per_ns, x_rows, activations_ns;
  uint32_t strips, x_bytes = mkrt::kStageBytes;
  double min_ns = 0;                // least time of a tile of all strips: the time of its loads
  double barrier_ns = 0;            // barriers of a tile of all strips
  uint32_t epilogues = 1;           // epilogues of a pass, one after the other
  bool counts_activations = false;  // the rate includes the loads of activations of bf16
};

// Returns the variant that multiplies `strips` strips of a weight with `tokens` rows. Its rates include the
// time of unpacking.
Variant variant_of(const Machine& m, const TaskProgram& program, const TaskGrid& grid, int64_t tokens,
                   mkrt::WeightType type, uint32_t strips);

// Warps take turns at as many strips as there are parts, where a part of a split product has few tokens. Each
// warp loads its K slice's activations. Warps without a strip rest.
void share_k_slices(Variant& variant, uint32_t parts, uint32_t strips);

// Rates and sizes of a variant are those of operands. Less is stored of a format that is unpacked.
void to_stored_bytes(Variant& variant, const mkrt::WeightFormat& format);

}  // namespace mkc
