// What mkc says of a schedule.
#pragma once

#include <string>

#include "ir/schedule.h"

namespace mkc::attack {

// Whether verify and prove accept the schedule; `why`: their first error.
bool is_accepted(const Schedule& schedule, std::string* why = nullptr);

enum class Verdict { kRefused, kAccepted, kCrashed };

// The same in a process of its own, which may crash.
Verdict verdict_apart(const Schedule& schedule);

}  // namespace mkc::attack
