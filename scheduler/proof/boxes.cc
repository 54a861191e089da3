#include "scheduler/proof/boxes.h"

#include <algorithm>

namespace mkc {

int64_t shared_elements(const Box& a, const Box& b) {
  int64_t elements = 1;
  for (size_t d = 0; d < a.rank; ++d)
    elements *= std::max<int64_t>(0, std::min(a.hi[d], b.hi[d]) - std::max(a.lo[d], b.lo[d]));
  return elements;
}

std::vector<Box> parts_outside(Box box, const Box& taken) {
  std::vector<Box> parts;
  for (size_t d = 0; d < box.rank; ++d) {
    for (const bool before : {true, false}) {
      Box part = box;
      if (before)
        part.hi[d] = taken.lo[d];
      else
        part.lo[d] = taken.hi[d];
      if (part.lo[d] < part.hi[d]) parts.push_back(part);
    }
    box.lo[d] = std::max(box.lo[d], taken.lo[d]);
    box.hi[d] = std::min(box.hi[d], taken.hi[d]);
  }
  return parts;
}

Box intersection(const Box& a, const Box& b) {
  Box both = a;
  for (size_t d = 0; d < a.rank; ++d) {
    both.lo[d] = std::max(a.lo[d], b.lo[d]);
    both.hi[d] = std::min(a.hi[d], b.hi[d]);
  }
  return both;
}

}  // namespace mkc
