// These rules say where tensors and counters lie, for all values. This header is internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Checks that slots hold their tensors at all values and lie in the arena of their kind. Slots overlap only
// where both hold activations. Counters of events, logs and tickets lie apart. Sizes are computed here,
// independently of the pass that placed the tensors.
Status check_memory(const Context& c);

// Checks activations that share memory: every access of the first happens before every write of the second. A
// tensor that workers look up shares memory with nothing later. A worker without tasks may read it until the
// step ends.
Status check_sharing(Context& c, const Order& order);

}  // namespace mkc::proof
