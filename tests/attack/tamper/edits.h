// Ways to tamper with an artefact, each a numbered list of mutants.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/attack/tamper/target.h"

namespace mkc::attack {

struct Parts {
  std::string manifest;
  std::vector<std::byte> plan;
};

class Edit {
 public:
  virtual ~Edit() = default;
  virtual const char* name() const = 0;
  virtual bool sealed_anew() const = 0;  // else the seal is left as it was
  virtual size_t count() const = 0;
  // The mutant, and what it changes for people.
  virtual Parts make(size_t number) const = 0;
  virtual std::string describe(size_t number) const = 0;
};

// Bits of every byte of plan and manifest, as they are and sealed anew; words of the plan by others; every
// value of the manifest by others of its type, and elements of its lists left out, doubled and swapped;
// segments swapped and moved between streams.
std::vector<std::unique_ptr<Edit>> edits_of(const Target& target);

}  // namespace mkc::attack
