// An attack draws random numbers from a seed. One seed gives the same mutants everywhere.
#pragma once

#include <cstdint>
#include <vector>

namespace mkc::attack {

// The generator is SplitMix64 (Steele, Lea, Flood 2014).
struct Rng {
  uint64_t state = 0;

  uint64_t next() {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class T>
  T& pick(std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(static_cast<int64_t>(items.size())))];
  }
};

}  // namespace mkc::attack
