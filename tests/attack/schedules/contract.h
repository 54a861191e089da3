// These rules hold for a schedule whatever the step: memory, counters, ring, placements, symbols.
#pragma once

#include "ir/schedule.h"

namespace mkc::attack {

// Throws a Finding for the first rule that does not hold. codegen/ and the runtime take each rule for
// granted.
void check_contract(const Schedule& s);

}  // namespace mkc::attack
