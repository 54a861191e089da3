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

// Returns why a step of this schedule cannot be expanded, without the values of symbols.
std::string error_of(const Schedule& schedule) {
  const Result<Step> step = expand_step(schedule, {1});
  if (step.ok()) return "";
  return step.error().message.substr(0, step.error().message.find(" ("));
}

TEST_CASE("a step of streams that leave out a task, or have one twice or too many, is an error") {
  const Schedule right =
      place(test::product_sequence(1, 4, 64), load_machine("emulator").value(), {1}).value();
  REQUIRE(right.streams[0].size() == 1);
  REQUIRE(right.placements[0].kind == PlacementKind::kTable);
  CHECK(error_of(right).empty());
  Schedule wrong = right;
  wrong.streams[0].push_back(wrong.streams[0][0]);
  CHECK(error_of(wrong) == "error: %g0[0] is in the streams twice, again on worker 0");
  wrong.streams[0].clear();
  CHECK(error_of(wrong) == "error: no stream runs %g0[0]");
  wrong = right;
  ++wrong.streams[0][0].count;
  CHECK(error_of(wrong) == "error: worker 0 runs tasks 0 to 4 of %g0, which has 4");
}

}  // namespace
}  // namespace mkc
