// A finding is what makes a schedule unsafe.
#pragma once

#include <string>

namespace mkc::attack {

// The judge's parts throw a finding and judge() catches it. The first one ends the search.
struct Finding {
  std::string kind;  // deadlock, count, cell, race, stale, footprint, …
  std::string text;  // text for people: where, and at which values
};

}  // namespace mkc::attack
