// An artefact can be tampered with in several ways, each a numbered list of mutants.
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
  virtual bool sealed_anew() const = 0;  // false: the seal stays as it was
  virtual size_t count() const = 0;
  // make() returns the mutant. describe() says for people what it changes.
  virtual Parts make(size_t number) const = 0;
  virtual std::string describe(size_t number) const = 0;
};

// Returns the edits. Bits of every byte of plan and manifest change, under the old seal and sealed anew.
// Words of the plan and values of the manifest become others. Elements of lists are left out, doubled and
// swapped. Segments are swapped and moved between streams.
std::vector<std::unique_ptr<Edit>> edits_of(const Target& target);

}  // namespace mkc::attack
