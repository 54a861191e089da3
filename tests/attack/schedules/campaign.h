// A campaign runs many mutants and compares what the checker and the judge say of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "tests/attack/schedules/bases.h"
#include "tests/attack/schedules/judge.h"
#include "tests/attack/schedules/mutate.h"

namespace mkc::attack {

enum class Outcome : uint8_t {
  kNone,  // the class has nothing to edit in the schedule
  kRefusedUnsafe,
  kRefusedSafe,  // conservative, or unsafe in a way that no step showed
  kAcceptedSafe,
  kAcceptedUnsafe,  // the failure that a campaign looks for
  kCrashed,         // verify or prove ended the process
  kBaseRefused,     // a schedule that mkc made is refused unedited
  kBaseUnsafe,      // the judge finds a schedule that mkc made unsafe
  kBaseFine,
  kBaseNone,  // mkc refuses the settings
};

struct Record {
  uint64_t number = 0;
  uint32_t mutant_class = 0;  // index in all_classes()
  Outcome outcome = Outcome::kNone;
  uint8_t begins = 0;  // 1: sent before the checker runs
};

struct Counts {
  uint64_t mutants = 0, accepted = 0, equivalent = 0, unsafe = 0, unsafe_accepted = 0, conservative = 0,
           crashed = 0;
};

struct Plan {
  uint64_t seed = 1, first = 0, count = 1000;
  double seconds = 0;  // time limit; 0: none
  Models models = Models::kFixtures;
  std::set<std::string> classes;   // names of classes; empty: all
  std::string save;                // folder for failures; empty: none
  bool save_conservative = false;  // saves safe schedules that are refused, too
  uint64_t of_base = 400;          // mutants of each base
};

struct Totals {
  uint64_t next = 0;  // number of the first mutant that has not been made
  uint64_t bases = 0, bases_refused = 0, bases_unsafe = 0, bases_crashed = 0;
  double seconds = 0;
  std::map<std::string, Counts> classes;
};

// Runs the plan's mutants. Mutant `number` of a seed is the same in every run. The checker runs in a process
// of its own, so that a crash is recorded and the run goes on. `each` is called for every record.
void run_campaign(const Plan& plan, Totals& totals, const std::function<void(const Totals&)>& each);

}  // namespace mkc::attack
