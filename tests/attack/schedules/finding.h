// What makes a schedule unsafe.
#pragma once

#include <string>

namespace mkc::attack {

// Thrown by the judge's parts and caught by judge(): the first finding ends the search.
struct Finding {
  std::string kind;  // deadlock, count, cell, race, stale, footprint, …
  std::string text;  // for people: where, and at which values
};

}  // namespace mkc::attack
