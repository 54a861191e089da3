#include "ir/waits.h"

#include <algorithm>

namespace mkc {

bool waits_once(const TaskGrid& grid, const Wait& wait) {
  return !grid.notifies.empty() && std::none_of(wait.cell.begin(), wait.cell.end(), uses_coord);
}

}  // namespace mkc
