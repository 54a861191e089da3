// Rules of where everything lies, for all values. Internal to prove.
#pragma once

#include "scheduler/proof/order.h"

namespace mkc::proof {

// Slots hold their tensors at all values, lie in the arena of their kind, and share nothing, activations
// apart. Counters of events, logs and tickets lie apart. Sizes are computed here, and not by who placed them.
Status check_memory(const Context& c);

// Of two activations that share memory, every access of the first happens before every write of the second.
// What workers look up shares with nothing later: a worker without tasks may read it until the step ends.
Status check_sharing(Context& c, const Order& order);

}  // namespace mkc::proof
