// The verdict is what mkc says of a schedule.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc::attack {

// Returns whether verify and prove accept the schedule. `why` gets their first error.
bool is_accepted(const Schedule& schedule, std::string* why = nullptr);

enum class Verdict { kRefused, kAccepted, kCrashed };

// Returns the verdict of a process of its own, which may crash.
Verdict verdict_apart(const Schedule& schedule);

}  // namespace mkc::attack
