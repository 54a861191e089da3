// A worker of a processor is one thread, which takes these times for products and attention. This header is
// internal to scheduler/work.
#pragma once

#include "scheduler/work/task.h"

namespace mkc {

// Groups says how tokens, or query rows, go through weights or keys. There are as many full groups as
// possible, and then halves of one, one after the other. The first group reads memory, at rates between those
// of `stream`. Others find the same in the core's cache, at `cached`. More tokens than a group find weights
// unpacked, at the rate of many, once these were read as by one token.
struct Groups {
  uint32_t count = 0;
  double first_ns = 0;   // time of the first group for an element of the weights, keys or values
  double others_ns = 0;  // time of all other groups together
  double cached_ns = 0;  // time of all groups where the first finds it in the cache, too
};
Groups groups_of(int64_t tokens, uint32_t group, const LoopRate& cached, const LoopRate& stream);

// Sets the times of a product of `tokens` rows that a block of `strips` strips multiplies. The first group of
// tokens takes weights as they come from memory. Further groups find them in the core's cache.
void time_on_processor(TaskWork& work, const TaskOn& task, int64_t tokens, uint32_t strips);

// Sets the times of attention of `rows` query rows to keys and values in `kv_tiles` KV tiles. `earlier` bytes
// of these are from before the step, and the step has written `stepped` bytes. Requires work.cold.
void attend_on_processor(TaskWork& work, const TaskOn& task, int64_t rows, int64_t kv_tiles, double earlier,
                         double stepped);

}  // namespace mkc
