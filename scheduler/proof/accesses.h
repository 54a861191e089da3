// Rule: what tasks read has been written, and nothing is overwritten that is still read. Internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Of each activation and output: one grid writes it, no element twice; what is read has been written before,
// by that grid, and an output is written whole. Of inputs, weights and tables: nothing writes them.
Status check_accesses(Context& c, const Sources& sources, const Order& order);

// Of each cache: one append grid and one attend grid use it, both as their bodies do (V33 of the verifier),
// so that every step writes all its positions, once; the second comes after the first where they meet.
Status check_caches(Context& c, const Sources& sources, const Order& order);

}  // namespace mkc::proof
