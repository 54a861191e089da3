// Small task programs for the scheduler's tests, with their events written by hand.
#pragma once

#include "ir/schedule.h"

namespace mkc::test {

// Shape of a Llama-like model, in strips' worth of rows.
struct ModelShape {
  int64_t layers = 2;
  int64_t hidden = 64;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t feed_forward = 96;
  int64_t vocab = 160;
  int64_t context = 64;
  int64_t kv_tile = 16;
  int64_t tokens = 4;
};

// embed, then per layer q, k, v, attend, combine, o, gate_up, down; then lm_head and draw. Attend waits by
// head, the rest for everything before it.
TaskProgram model_program(const ModelShape& shape = {});

// As it was before its events were derived.
TaskProgram without_events(TaskProgram program);

// Why the schedule is refused; "" where it is proved, or unproved and right at the values that are then
// tried.
std::string refusal(const Schedule& schedule);

GridId find_grid(const TaskProgram& program, std::string_view name);
TensorId find_tensor(const TaskProgram& program, std::string_view name);
EventId find_event(const TaskProgram& program, std::string_view name);

}  // namespace mkc::test
