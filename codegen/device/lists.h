// Ragged grids have tables of the first tasks of their rows, in shared memory.
#pragma once

#include "codegen/device/worker.h"

namespace mk {

// row_of_task() is the row of a task. begin[i] is the first task of row i, and begin[count] the number of all
// tasks.
MK_INLINE u32 row_of_task(AS3 const u32* begin, u32 count, u32 task) {
  u32 row = 0;
  for (u32 left = count; left > 1;) {  // the row is one of the `left` rows from `row` on
    const u32 half = left / 2;
    if (begin[row + half] <= task) row += half;
    left -= half;
  }
  return row;
}

}  // namespace mk
