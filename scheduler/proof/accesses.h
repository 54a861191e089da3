// The rule says that a task reads only what is written before, and overwrites nothing that is still read.
// This header is internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Checks activations, outputs, inputs, weights and tables. One grid writes each activation and output, no
// element twice. The writing grid writes elements before they are read, and outputs whole. No task writes
// inputs, weights and tables.
Status check_accesses(Context& c, const Sources& sources, const Order& order);

// Checks caches. One append grid and one attend grid use each cache, both as their bodies do (V33 of the
// verifier). Every step therefore writes all its positions once. The attend grid comes after the append grid
// where their regions overlap.
Status check_caches(Context& c, const Sources& sources, const Order& order);

}  // namespace mkc::proof
