// This header has small task programs for the scheduler's tests, with events written by hand.
#pragma once

#include "ir/schedule.h"

namespace mkc::test {

// ModelShape is the shape of a Llama-like model. head_dim must be a multiple of 16, the rows of a strip.
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

// Returns embed, then q, k, v, attend, combine, o, gate_up and down for each layer, then lm_head and sample.
// Attend waits by head. All other grids wait for all of the grid before them.
TaskProgram model_program(const ModelShape& shape = {});

// Returns the program without its events, waits and notifications.
TaskProgram without_events(TaskProgram program);

// Returns why the schedule is refused. The result is "" for a proved schedule, and for an unproved one that
// is right at the values tried.
std::string refusal(const Schedule& schedule);

GridId find_grid(const TaskProgram& program, std::string_view name);
TensorId find_tensor(const TaskProgram& program, std::string_view name);
EventId find_event(const TaskProgram& program, std::string_view name);

// Returns products in a row. Each has `strips` strips of 16 rows and `cols` columns. Each waits for all
// strips of the product before it.
TaskProgram product_sequence(uint32_t grids, int64_t strips, int64_t cols);

}  // namespace mkc::test
