#include <doctest/doctest.h>

#include "scheduler/place/place.h"
#include "scheduler/work/task.h"
#include "tests/unit/scheduler/programs.h"

namespace mkc {
namespace {

TEST_CASE("a task's activations are those before and behind its weight") {
  const Machine m = load_machine("emulator").value();
  const Schedule schedule = place(test::model_program(), m, {1}).value();
  constexpr int64_t kTokens = 3;
  const Step step = expand_step(schedule, {kTokens, 60}).value();
  const GridId o = test::find_grid(schedule.program, "l0.o");
  const TaskOn task(step, step_symbols(schedule.program.symbols), m, step.task_base[o.index]);
  const auto bytes_of = [&](const char* role) {
    return dtype_bytes(task.tensor(*find_operand(task.grid, role)).dtype);
  };
  CHECK(task.grid.reads.size() == 3);
  CHECK(task.grid.reads[1].role == "weight");
  const int64_t x_cols = 64, residual_cols = 16;  // all heads, and one strip
  CHECK(task.activation_bytes() ==
        static_cast<double>(kTokens * (x_cols * bytes_of("x") + residual_cols * bytes_of("residual"))));
}

}  // namespace
}  // namespace mkc
