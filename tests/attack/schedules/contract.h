// What must hold of a schedule whatever the step: memory, counters, ring, placements, symbols.
#pragma once

#include "ir/schedule.h"

namespace mkc::attack {

// Throws a Finding for the first rule that does not hold. Each is what codegen/ and the runtime take for
// granted.
void check_contract(const Schedule& s);

}  // namespace mkc::attack
