// A box holds elements of a tensor at given symbol values. This header is internal to prove.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mkc {

constexpr size_t kMaxRank = 6;

struct Box {
  size_t rank = 0;
  std::array<int64_t, kMaxRank> lo{}, hi{};  // half open
  bool operator==(const Box&) const = default;
};

// Returns the number of elements that two boxes of one rank share.
int64_t shared_elements(const Box& a, const Box& b);
// Returns the elements that two boxes share.
Box intersection(const Box& a, const Box& b);
// Returns the parts of `box` outside of `taken`, which share no elements. Requires that `box` and `taken`
// share some.
std::vector<Box> parts_outside(Box box, const Box& taken);

}  // namespace mkc
