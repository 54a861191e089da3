// Bases are the schedules that mutants are made of: fixture models and large configurations, compiled with
// many settings.
#pragma once

#include <string>

#include "ir/schedule.h"
#include "tests/attack/schedules/rng.h"

namespace mkc::attack {

enum class Models { kFixtures, kLarge };

struct Base {
  std::string what;  // model and settings, for people
  Schedule schedule;
};

// Returns a schedule of a random model and random settings, up to placement. Errors: settings that mkc
// refuses.
Result<Base> draw_base(Models models, Rng& rng);

}  // namespace mkc::attack
