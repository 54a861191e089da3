#include "ir/tasks.h"

namespace mkc {

const char* body_name(BodyKind kind) {
  switch (kind) {
    case BodyKind::kEmbed:
      return "embed";
    case BodyKind::kProduct:
      return "product";
    case BodyKind::kAppend:
      return "append";
    case BodyKind::kAttend:
      return "attend";
    case BodyKind::kCombine:
      return "combine";
    case BodyKind::kDraw:
      return "draw";
    case BodyKind::kRoute:
      return "route";
    case BodyKind::kExpert:
      return "expert";
    case BodyKind::kExpertSum:
      return "expert_sum";
  }
  MKC_BUG("unknown body");
}

const Access* find_operand(const TaskGrid& grid, std::string_view role, bool written) {
  for (const Access& access : written ? grid.writes : grid.reads)
    if (access.role == role) return &access;
  return nullptr;
}

bool multiplies(const TaskGrid& grid) {
  return grid.body == BodyKind::kProduct || grid.body == BodyKind::kExpert;
}

const Access* multiplied_rows(const TaskGrid& grid) {
  if (!multiplies(grid)) return nullptr;
  const Access* x = find_operand(grid, "x");
  return x ? x : find_operand(grid, "rows");
}

}  // namespace mkc
