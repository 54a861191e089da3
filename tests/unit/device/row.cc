// The tests of row_cases.cc run on the emulator by this function.
#include "tests/unit/device/row_problem.h"

namespace mk {

void run_row(RowProblem& p, bool best) {
  const RowArgs a = row_args(p, best);
  Sides s;
  s.consume = [&](Worker& w) {
    for (u32 row = 0; row < kProblemRows; ++row)
      for (u32 block = 0; block < p.blocks(); ++block) {
        mkb_row(&w, &a, row, block);
        mkd_barrier();
      }
  };
  launch(s);
}

}  // namespace mk
