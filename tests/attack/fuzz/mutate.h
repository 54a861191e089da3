// Mutants are made of valid text: fields are replaced, lines and tokens moved, bytes changed.
#pragma once

#include <cstdint>
#include <string>

namespace mkc::attack {

// The generator xorshift64* gives the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u | 1) {}
  uint64_t next();
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }

 private:
  uint64_t state_;
};

// Makes one to four changes. Numbers become other numbers, and strings other strings, more often than bytes
// change.
std::string mutate(std::string text, Random& random);

}  // namespace mkc::attack
